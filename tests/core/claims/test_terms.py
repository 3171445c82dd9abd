"""Every word of claims against a loop over tokens, from its definition."""

import numpy as np
import pytest

from core.claims import terms
from core.claims.facts import Facts
from core.claims.terms import read_joined
from tests.core.claims.plain import ANNOTATED, CONDITIONS, KEYS, Told, told_of
from tests.core.corpus.plain import passages, reader
from tests.core.models.vocabularies import VOCABULARIES

TEXT = "<|im_start|>The cat's unbelievable,\n\n  the 1,999 cats saw McCats. 42 the"
BYTE_LEVEL = """
<|im_start|> special <|im_start|> 0   The word The 1          cat word cat's 2         's word-part cat's 2
unbelie word unbelievable 4           vable word-part unbelievable 4                   , punctuation , 6
_ blank _ 7                           the word the 8          _ blank 1 9              1 number 1 9
, punctuation , 11                    9 number 999 12         9 number 999 12          9 number 999 12
cats word cats 15                     saw word saw 16         McC word McCats 17       ats word-part McCats 17
. punctuation . 19                    _ blank 42 20           4 number 42 20           2 number 42 20
the word the 23
"""


@pytest.fixture(scope="module")
def read(smollm):
    """Passages as the code reads them, and what is told of their tokens."""
    found = []
    for passage in (*passages(3), *ANNOTATED):
        told = told_of(passage, reader())
        found.append((Facts.of(reader(), told.ids, passage), told))
    ids = smollm.tokenizer(TEXT)["input_ids"]
    texts, kinds, words, begins = np.array(BYTE_LEVEL.split()).reshape(-1, 4).T.tolist()
    texts, words = (["" if text == "_" else text for text in column] for column in (texts, words))
    kinds = [kind.replace("-", " ") for kind in kinds]
    told = Told(ids, texts, kinds, words, [*map(int, begins)], [None] * len(ids))
    found.append((Facts.of(smollm.tokenizer, ids), told))
    return found


@pytest.mark.parametrize("term", terms.CONDITIONS, ids=lambda term: term.name)
def test_a_condition(term, read):
    seen = set()
    for written, rule in CONDITIONS[term.name].items():
        joined = read_joined(written, terms.CONDITIONS)
        assert joined.terms == (term,)
        for facts, told in read:
            expected = [rule(told, q) for q in range(len(told.ids))]
            assert joined(facts).tolist() == expected, written
            seen.update(expected)
    assert seen == ({True} if term.name == "always" else {True, False})


@pytest.mark.parametrize("term", terms.KEYS[:-1], ids=lambda term: term.name)  # the last is no key of a passage
def test_a_set_of_keys(term, read):
    seen = set()
    for written, rule in KEYS[term.name].items():
        joined = read_joined(written, terms.KEYS)
        assert joined.terms == (term,)
        for facts, told in read:
            places = range(len(told.ids))
            expected = [[rule(told, q, k) for k in places] for q in places]
            assert joined(facts).tolist() == expected, written
            seen.update(*expected)
    assert seen == {True, False}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_the_kind_of_a_token_is_that_of_what_it_writes(name):
    tokenizer = VOCABULARIES[name].make()
    facts = Facts.of(tokenizer, tokenizer(VOCABULARIES[name].text)["input_ids"])
    assert ",".join(facts.kinds) == VOCABULARIES[name].kinds
    for written, kind in {"word starts": "word", "subwords": "word part", "punctuation": "punctuation"}.items():
        assert read_joined(written, terms.KEYS)(facts)[0].tolist() == [one == kind for one in facts.kinds], written


def test_what_annotation_cannot_say_is_said_of_nothing():
    """A passage without it, and one without such a relation."""
    bare = Facts.of(reader(), told_of(passages(1)[0], reader()).ids, passages(1)[0])
    dog = Facts.of(reader(), told_of(ANNOTATED[1], reader()).ids, ANNOTATED[1])
    for facts, written in ((bare, "its head or its nsubj"), (dog, "its amod")):
        assert not read_joined(written, terms.KEYS)(facts).any()
    for facts, written in ((bare, "its part of speech is NOUN or its relation is nsubj"), (dog, "its relation is det")):
        assert not read_joined(written, terms.CONDITIONS)(facts).any()
