"""What every kind of edit owes to those who go through all of them: a line, a keyword, and a form whose words can be read."""

from __future__ import annotations

from inspect import signature
from itertools import product

import pytest

from core import Edits, Place
from core.capturing.edits import forms
from core.capturing.edits.kinds import EDIT_KINDS, Edit
from core.capturing.edits.lines import edits_of, lines_of

OFFERED = [kind for kind in EDIT_KINDS if kind.label]


def words_of(field) -> list[str]:
    """What somebody can choose in a field, or an example of it."""
    match field:
        case forms.Choice():
            further = {word: words_of(field.then[word]) if word in field.then else [""] for word in field.choices}
            return [f"{word} {more}".strip() for word, after in further.items() for more in after]
        case forms.Number():
            return [str(field.opens), str(field.opens + field.step)]
        case forms.WholeNumber():
            return [str(field.low), str(field.opens), str(field.high)]
        case forms.Text():
            return ["a text"]
        case forms.Component():
            return ["16.0", "cross mlp 9", "embedding"]
        case forms.Cells():
            return [field.example.format(query=10, key=2)]
        case forms.ChosenKey():
            return ["3"]
        case forms.ChosenPair():
            return ["10>2"]
    raise AssertionError(field)


@pytest.mark.parametrize("kind", EDIT_KINDS)
def test_a_kind_parses_what_it_prints(kind: type[Edit]) -> None:
    edits = edits_of(kind.example)
    (edit,) = edits.each
    assert type(edit) is kind
    assert kind.example.startswith(f"{kind.verb} ")
    assert lines_of(edits) == (kind.example,)
    assert edits


@pytest.mark.parametrize("kind", OFFERED)
def test_every_choice_of_a_form_is_a_line(kind: type[Edit]) -> None:
    places = (Place(5, 11), Place(5, 11, "cross"), *(() if kind.of_one_head else (Place(), Place(5))))
    for words in product(*map(words_of, kind.fields)):
        for place in places:
            line = kind.line_of_form(words, place)
            (edit,) = edits_of(line).each
            assert type(edit) is kind
            assert edit.place == place


def test_the_keywords_of_edits_are_those_of_the_kinds() -> None:
    assert {*signature(Edits).parameters} == {kind.keyword for kind in EDIT_KINDS} | {
        kind.other_text for kind in EDIT_KINDS if kind.other_text
    }


def test_no_two_kinds_look_the_same() -> None:
    for words in ([kind.verb for kind in EDIT_KINDS], [kind.label for kind in OFFERED]):
        assert len(set(words)) == len(words)
