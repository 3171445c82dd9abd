"""Write the annotated sentences that come along with Headlight (core/claims/texts): `python -m tools.annotated_sentences`.

sentences.conllu  sentences of a small grammar, with their parts of speech and relations
names.conllu      sentences in which one of two names comes at the end (Wang et al. 2023); the relation `io` leads from the word
                  before it to where that name stood first
"""

import random
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "core/claims/texts"
WORDS: str = """\
NOUNS teacher doctor farmer artist driver singer baker judge pilot nurse child student guard sailor writer tailor
THINGS letter basket lamp garden window ladder hammer picture bottle blanket carpet engine wheel guitar candle mirror
VERBS found carried painted sold cleaned watched moved hid broke repaired lifted opened washed noticed kept dropped
ADJECTIVES old young quiet tired heavy broken yellow wooden small famous strange careful narrow silver empty dusty
ADVERBS slowly quickly quietly carefully yesterday later soon often
PREPOSITIONS near behind beside under with
DETERMINERS the a this that every
NAMES Mary John Anna Peter Laura David Emma Paul Sarah Mark Julia Simon Kate Frank Alice Robert
PLACES store park school station library office beach market
OBJECTS drink book ring key ball ticket letter flower
"""
LISTS: dict[str, list[str]] = {str(line.split()[0]): [*map(str, line.split()[1:])] for line in WORDS.splitlines()}
COUNT = {"sentences": 240, "names": 80}
Word = tuple[str, str, int, str]  # form, part of speech, position of the head from 1 or 0, relation


def phrase(chance: random.Random, nouns: list[str], start: int, head: int, relation: str) -> list[Word]:
    """A determiner, up to two adjectives and a noun, from position `start` on; the noun depends on `head`."""
    adjectives = chance.sample(LISTS["ADJECTIVES"], chance.choice([0, 0, 1, 2]))
    noun = start + 1 + len(adjectives)
    described = [(adjective, "ADJ", noun, "amod") for adjective in adjectives]
    return [
        (chance.choice(LISTS["DETERMINERS"]), "DET", noun, "det"),
        *described,
        (chance.choice(nouns), "NOUN", head, relation),
    ]


def sentence(chance: random.Random) -> list[Word]:
    """Subject, perhaps with a phrase of its own, verb, object, and perhaps an adverb or another phrase."""
    words = phrase(chance, LISTS["NOUNS"], 1, 0, "nsubj")
    subject = len(words)
    if chance.random() < 0.4:
        words += _with_preposition(chance, len(words) + 1, subject, "nmod")
    if chance.random() < 0.3:
        words.append((chance.choice(LISTS["ADVERBS"]), "ADV", 0, "advmod"))
    verb = len(words) + 1
    words = [(form, tag, verb if head == 0 else head, relation) for form, tag, head, relation in words]
    words.append((chance.choice(LISTS["VERBS"]), "VERB", 0, "root"))
    words += phrase(chance, LISTS["THINGS"], len(words) + 1, verb, "obj")
    if chance.random() < 0.5:
        words += _with_preposition(chance, len(words) + 1, verb, "obl")
    return [*words, (".", "PUNCT", verb, "punct")]


def _with_preposition(chance: random.Random, start: int, head: int, relation: str) -> list[Word]:
    words = phrase(chance, [*LISTS["NOUNS"], *LISTS["THINGS"]], start + 1, head, relation)
    return [(chance.choice(LISTS["PREPOSITIONS"]), "ADP", start + len(words), "case"), *words]


def with_names(chance: random.Random) -> list[Word]:
    """Two names, one of them again, "to", and the other one."""
    first, second = chance.sample(LISTS["NAMES"], 2)
    giver = chance.choice([first, second])
    place, thing = (chance.choice(LISTS[name]) for name in ("PLACES", "OBJECTS"))
    text = f"When {first} and {second} went to the {place} , {giver} gave a {thing} to"
    receiver = second if giver == first else first
    forms = [*text.split(), receiver]
    asks, named = len(forms) - 1, forms.index(receiver)  # the position of the last "to" from 1, and of the name from 0
    return [(form, "_", asks if at == named else 0, "io" if at == named else "_") for at, form in enumerate(forms)]


def conllu(words: list[Word]) -> str:
    rows = []
    for number, (form, tag, head, relation) in enumerate(words, start=1):
        word = form.capitalize() if number == 1 else form
        joined = "SpaceAfter=No" if number < len(words) and words[number][0] in ".," else "_"
        rows.append("\t".join([str(number), word, "_", tag, "_", "_", str(head), relation, "_", joined]))
    return "\n".join(rows) + "\n\n"


def main() -> None:
    for name, made in (("sentences", sentence), ("names", with_names)):
        chance = random.Random(0)
        text = "".join(conllu(made(chance)) for _ in range(COUNT[name]))
        (FOLDER / f"{name}.conllu").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
