"""The fields of the form of an edit, as plain data. A page chooses the widgets for them.

Each field gives words, from which the kind of edit makes its line: by default they stand between its verb and its place, joined
by blanks. The edit is complete when every field has words.

name   identifies a field: fields of the same name in several forms share their value
label  its name on a page
opens  its value before anyone chooses another
width  of the widget, in pixels
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class _Named:
    name: str
    label: str


@dataclass(frozen=True)
class NumberField(_Named):
    """A number with a fraction; step: the change by one press of + or -."""

    opens: float
    step: float
    width: int


@dataclass(frozen=True)
class WholeNumberField(_Named):
    """A whole number from `low` to `high`."""

    opens: int
    low: int
    high: int
    width: int


class TextField(_Named):
    """A text for the model to read."""


@dataclass(frozen=True)
class ChoiceField(_Named):
    """One of several words, each with its name on a page; then: a further field for some of the words."""

    choices: Mapping[str, str]
    width: int
    then: Mapping[str, WholeNumberField | TextField] = field(default_factory=dict)


class ComponentField(_Named):
    """A component that the chosen head reads, by its name."""


@dataclass(frozen=True)
class CellsField(_Named):
    """Cells and their shares, typed as in a line that paints; example: has {query} and {key} for the chosen cell."""

    example: str


class ChosenKey:
    """The key that is chosen on the page, without a widget: "3"."""


class ChosenPair:
    """The query and key that are chosen on the page, without a widget: "10>3"."""


Field = NumberField | WholeNumberField | ChoiceField | TextField | ComponentField | CellsField | ChosenKey | ChosenPair
