"""What claims ask about tokens, by loops over them from the definitions. Nothing here comes from core.claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from core.models.passages import Passage, Relation
from tests.core.corpus.plain import class_of, reader
from tests.core.corpus.test_tally import SENTENCES


@dataclass(frozen=True)
class Told:
    """What is known of each token of a passage.

    words, begins    the text of its word, and where this begins
    noted            its word in the annotation, by place; None for none, and where the passage has none
    """

    ids: Sequence[int]
    texts: Sequence[str]
    kinds: Sequence[str]
    words: Sequence[str]
    begins: Sequence[int]
    noted: Sequence[int | None]
    relations: tuple[Relation, ...] = ()
    tags: tuple[str, ...] = ()


def bare_reader() -> PreTrainedTokenizerFast:
    """The WordPiece of the corpus' tests without special tokens around a text."""
    tokenizer = reader()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    return tokenizer


def told_of(passage: Passage, tokenizer: PreTrainedTokenizerFast) -> Told:
    """A passage as a tokenizer of words and "##" parts of words reads it."""
    ids = tokenizer(passage.text)["input_ids"]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    begins = [max(place for place in range(q + 1) if not tokens[place].startswith("##")) for q in range(len(ids))]
    words = [
        "".join(token.removeprefix("##") for token, begin in zip(tokens, begins, strict=True) if begin == mine)
        for mine in begins
    ]
    places = tokenizer(passage.text, return_offsets_mapping=True)["offset_mapping"]
    noted = [
        next((word for word, (a, b) in enumerate(passage.words) if a <= start < end <= b), None)
        for start, end in places
    ]
    kinds = [*map(class_of, tokens)]
    return Told(ids, tokens, kinds, words, begins, noted, passage.relations, passage.tags)


TAGS = (
    ("DET", "ADJ", "NOUN", "VERB", "NOUN", "PUNCT"),
    ("NOUN", "VERB"),
    ("VERB", "DET", "NOUN", "CCONJ", "DET", "NOUN"),
)
ANNOTATED = [replace(passage, tags=tags) for passage, tags in zip(SENTENCES, TAGS, strict=True)]

Condition = Callable[[Told, int], bool]
Keys = Callable[[Told, int, int], bool]


def _is(kind: str) -> Condition:
    return lambda told, q: told.kinds[q] == kind


def _capital(told: Told, place: int) -> bool:
    return told.kinds[place] != "special" and told.texts[place][:1] != told.texts[place][:1].lower()


def _among(*words: str) -> Condition:
    return lambda told, place: told.words[place] in words


def _copies(told: Told, q: int) -> list[int]:
    return [k for k in range(q) if told.ids[k] == told.ids[q]]


def _depends(told: Told, dependent: int, head: int | None, name: str | None) -> bool:
    """Whether the word of one token depends on that of the other. head None: on any; name None: by any relation"""
    return any(
        relation.dependent == told.noted[dependent]
        and (head is None or relation.head == told.noted[head])
        and name in (None, relation.name)
        for relation in told.relations
    )


# Each term by its name: what may be written, and what it means there.
CONDITIONS: dict[str, dict[str, Condition]] = {
    "always": {"always": lambda _told, _q: True},
    "the token is the first": {"the token is the first": lambda _told, q: q == 0},
    "the token occurred before": {"the token occurred before": lambda told, q: told.ids[q] in told.ids[:q]},
    "the token is special": {"the token is special": _is("special")},
    "the token is punctuation": {"the token is punctuation": _is("punctuation")},
    "the token is whitespace": {"the token is whitespace": _is("blank")},
    "the token is a number": {"the token is a number": _is("number")},
    "the token is a word start": {"the token is a word start": _is("word")},
    "the token is a subword": {"the token is a subword": _is("word part")},
    "the token is capitalised": {"the token is capitalised": _capital},
    'the token is one of "a", "b"': {
        'the token is one of "cats"': _among("cats"),
        'the token is one of "the","cats", " saw "': _among("the", "cats", "saw"),
    },
    "its part of speech is NOUN": {
        f"its part of speech is {tag}": lambda told, q, tag=tag: (
            told.noted[q] is not None and told.tags[told.noted[q]] == tag
        )
        for tag in ("NOUN", "DET")
    },
    "its relation is nsubj": {
        f"its relation is {name}": lambda told, q, name=name: _depends(told, q, None, name) for name in ("nsubj", "det")
    },
}

KEYS: dict[str, dict[str, Keys]] = {
    "the first token": {"the first token": lambda _told, _q, k: k == 0},
    "itself": {"itself": lambda _told, q, k: k == q},
    "the previous token": {"the previous token": lambda _told, q, k: k == q - 1},
    "the next token": {"the next token": lambda _told, q, k: k == q + 1},
    "a token at distance 2 to 5": {
        "a token at distance 2 to 5": lambda _told, q, k: q - 5 <= k <= q - 2,
        "a token at distance 5 to 2": lambda _told, q, k: q - 5 <= k <= q - 2,
        "a token at distance 3": lambda _told, q, k: k == q - 3,
        "a token at distance -2 to 1": lambda _told, q, k: q - 1 <= k <= q + 2,
    },
    "its occurrences": {"its occurrences": lambda told, q, k: k in _copies(told, q)},
    "its last occurrence": {"its last occurrence": lambda told, q, k: k in _copies(told, q)[-1:]},
    "the tokens after its occurrences": {
        "the tokens after its occurrences": lambda told, q, k: k < q and k - 1 in _copies(told, q)
    },
    "the token after its last occurrence": {
        "the token after its last occurrence": lambda told, q, k: k < q and k - 1 in _copies(told, q)[-1:]
    },
    "special tokens": {"special tokens": lambda told, _q, k: told.kinds[k] == "special"},
    "punctuation": {"punctuation": lambda told, _q, k: told.kinds[k] == "punctuation"},
    "whitespace": {"whitespace": lambda told, _q, k: told.kinds[k] == "blank"},
    "numbers": {"numbers": lambda told, _q, k: told.kinds[k] == "number"},
    "word starts": {"word starts": lambda told, _q, k: told.kinds[k] == "word"},
    "subwords": {"subwords": lambda told, _q, k: told.kinds[k] == "word part"},
    "capitalised tokens": {"capitalised tokens": lambda told, _q, k: _capital(told, k)},
    'words among "a", "b"': {'words among "cats", "the"': lambda told, _q, k: told.words[k] in ("cats", "the")},
    "its word's first token": {"its word's first token": lambda told, q, k: k == told.begins[q] < q},
    "its head": {"its head": lambda told, q, k: _depends(told, q, k, None)},
    "its nsubj": {f"its {name}": lambda told, q, k, name=name: _depends(told, k, q, name) for name in ("nsubj", "det")},
}
