"""A figure together with what it shows: its values, from which its description and its table are made.

Whoever draws a figure knows what its numbers stand for, and says so once, here. Nothing is read back from a finished figure.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

Kind = Literal["cells", "heads", "bars", "changes", "steps", "line", "matrix"]
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Values:
    """Numbers of one kind in a figure, and the names of what they stand for. All names are plain text, never markup."""

    kind: Kind  # decides how they are described, see `descriptions`
    numbers: NDArray[np.floating]  # [rows] or [rows, columns] floats, NaN where there is none
    headings: Names  # what rows are, and columns if there are any: ("query", "key")
    part: str = ""  # the name of this part of the figure; "" where there is only one
    value: str = "value"  # what the numbers are: "weight"
    rows: Sequence[str] = ()  # the name of each row; none where `x` names the rows
    columns: Sequence[str] = ()  # the name of each column
    x: NDArray[np.floating] | None = None  # [rows] the place of each number of a curve on the horizontal axis
    is_mask: bool = False  # whether they say which pairs are masked: then none is stronger than another
    opening: str = ""  # the words before the numbers: the size of a matrix
    closing: str = ""  # the words after them: how many cells are masked
    prefix: str = ""  # written before each number: "10^" where the numbers are exponents
    block: tuple[int, int] = (1, 1)  # how many rows and columns one number stands for, in a matrix that was pooled

    @property
    def comparable(self) -> NDArray[np.floating]:
        """[n] the numbers that can be compared, row by row; none of a mask."""
        return self.numbers[:0].ravel() if self.is_mask else self.numbers.ravel()

    def names(self, index: int) -> Names:
        """The names of the number at this index of `comparable`, one for each heading."""
        if self.x is not None:
            return (written(self.x[index]),)
        row, column = divmod(index, max(1, len(self.columns)))
        return (self.rows[row], *self.columns[column : column + 1])

    def number(self, index: int) -> str:
        """The number at this index of `comparable`, with three digits."""
        return self.prefix + written(self.comparable[index])

    def place(self, index: int) -> str:
        """What the number stands for: "query it (10), key animal (2)"."""
        pairs = zip(self.headings, self.names(index), strict=True)
        return ", ".join(f"{heading} {name}".strip() for heading, name in pairs)

    def named(self, index: int) -> str:
        """What the number stands for and the number: "query it (10), key animal (2): 0.67"."""
        return f"{self.place(index)}: {self.number(index)}"


def bar_values(
    names: Sequence[str], groups: Mapping[str, ArrayLike], *, heading: str = "", value: str = ""
) -> tuple[Values, ...]:
    """The values of a bar chart: a number for each name in each group. Two groups "before" and "after" are changes.

    value  what the numbers are; left out, the name of their group
    """
    kind = "changes" if list(groups) == ["before", "after"] else "bars"
    return tuple(
        Values(
            kind=kind,
            numbers=floats(numbers),
            headings=(heading,),
            part=group,
            value=value or group or "value",
            rows=names,
        )
        for group, numbers in groups.items()
    )


def numbered(count: int) -> list[str]:
    """The names of rows or columns that have only their numbers."""
    return [str(place) for place in range(count)]


def head_values(numbers: NDArray[np.floating], value: str, *, part: str = "", opening: str = "") -> Values:
    """The values of all heads of a model: numbers [layers, heads], NaN where there is none."""
    layers, heads = numbers.shape
    return Values(
        kind="heads",
        numbers=floats(numbers),
        headings=("layer", "head"),
        part=part,
        value=value,
        rows=numbered(layers),
        columns=numbered(heads),
        opening=opening,
    )


def floats(numbers: ArrayLike) -> NDArray[np.floating]:
    """The numbers as floats, in no more digits than they were given in; NaN for None."""
    given = np.asarray(numbers)
    dtype = np.float64 if given.dtype == object else np.result_type(given.dtype, np.float32)
    return given.astype(dtype, copy=False)


def farthest(numbers: NDArray[np.floating], count: int) -> list[int]:
    """The indices of the `count` finite numbers farthest from 0, the farthest first, of equal ones the first."""
    sizes = np.where(np.isfinite(numbers), np.abs(numbers), -1.0)
    count = min(count, int((sizes >= 0).sum()))
    if count == 0:
        return []
    least = np.partition(sizes, -count)[-count]
    above = np.flatnonzero(sizes > least)
    indices = np.concatenate([above, np.flatnonzero(sizes == least)[: count - len(above)]])
    return indices[np.lexsort((indices, -sizes[indices]))].tolist()


def farthest_of_all(values: Sequence[Values], count: int) -> list[tuple[Values, int]]:
    """The `count` numbers farthest from 0 among several values: each as its values and its index in them."""
    starts = np.cumsum([0, *(len(group.comparable) for group in values)])
    indices = farthest(np.concatenate([group.comparable for group in values]), count)
    which = np.searchsorted(starts, indices, side="right") - 1
    return [(values[group], int(index - starts[group])) for group, index in zip(which, indices, strict=True)]


def written(number: float) -> str:
    """Three significant digits and a real minus sign."""
    return f"{number:.3g}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "−")


NAMED = 3  # cells that are named in a sentence


def described(values: Sequence[Values]) -> str:
    """The main finding in a sentence or two; "" where there are no values."""
    return " ".join(_SENTENCES[kind](list(group)) for kind, group in groupby(values, key=attrgetter("kind")))


def with_aside(sentence: str, aside: str) -> str:
    """The sentence with its full stop, and before it the aside if there is one."""
    return f"{sentence}; {aside}." if aside else f"{sentence}."


def _cells(values: Sequence[Values]) -> str:
    """Cells of a matrix, or of several that share one scale: the strongest ones."""
    first = values[0]
    finding = _strongest_cells(values)
    closing = f"; {first.closing}" if finding and first.closing else first.closing
    return f"{first.opening}. {finding}{closing}.".replace(". .", ".")


def _strongest_cells(values: Sequence[Values]) -> str:
    numbers = np.concatenate([group.comparable for group in values])
    best = [
        (f"{group.part}, " if len(values) > 1 else "") + group.named(index)
        for group, index in farthest_of_all(values, NAMED)
    ]
    if not best:
        return "No numbers" if len(numbers) else ""
    top = numbers[farthest(numbers, 1)[0]]
    ties = int((numbers == top).sum())
    if ties == np.isfinite(numbers).sum() > 1:
        return f"Every number is {written(top)}"
    if ties > NAMED:
        return f"Strongest: {ties:,} cells with {written(top)}, the first {best[0].rpartition(':')[0]}"
    return f"Strongest: {'; then '.join(best)}"


def _extremes(values: Sequence[Values]) -> str:
    """The largest and the smallest number of each group."""
    sentences = [with_aside(_extremes_of(group), group.closing) for group in values]
    if len(values) > 1:
        return " ".join(f"{group.part}: {sentence}" for group, sentence in zip(values, sentences, strict=True))
    opening = f"{values[0].opening}. " if values[0].opening else ""
    return opening + sentences[0][0].upper() + sentences[0][1:]


def _extremes_of(values: Values) -> str:
    numbers = values.comparable
    known = np.flatnonzero(np.isfinite(numbers)).tolist()
    if not known:
        return "no numbers"
    largest, smallest = max(known, key=numbers.__getitem__), min(known, key=numbers.__getitem__)
    if numbers[largest] > numbers[smallest]:
        return f"largest: {values.named(largest)}; smallest: {values.named(smallest)}"
    return values.named(largest) if len(known) == 1 else f"every number is {values.number(largest)}"


def _changes(values: Sequence[Values]) -> str:
    """Pairs of bars, before and after: those that moved most."""
    before, after = values
    change = after.comparable - before.comparable
    moved = [index for index in farthest(change, NAMED) if change[index]]
    pairs = [f"{before.place(index)} from {before.number(index)} to {after.number(index)}" for index in moved]
    return f"Largest change: {'; then '.join(pairs)}." if pairs else "Nothing has changed."


def _steps(values: Sequence[Values]) -> str:
    """A sum step by step: its largest term, and the sums on the way."""
    terms, sums = values
    largest = "".join(f"Largest part: {terms.named(index)}. " for index in farthest(terms.comparable, 1))
    reached = ", ".join(f"{sums.names(index)[0]} {sums.number(index)}" for index in range(len(sums.comparable)))
    return f"{largest}{reached}."


def _lines(values: Sequence[Values]) -> str:
    """Where each curve begins and ends, and where it is highest."""
    if len(values) > 1:
        return " ".join(f"{curve.part}: {_course(curve)}." for curve in values)
    return f"{_course(values[0]).capitalize()}."


def _course(line: Values) -> str:
    numbers = line.comparable
    known = np.flatnonzero(np.isfinite(numbers)).tolist()
    if not known:
        return "no numbers"
    first, last, highest = known[0], known[-1], max(known, key=numbers.__getitem__)
    if first == last:
        return f"{line.number(first)} at {line.place(first)}"
    if (numbers[known] == numbers[first]).all():
        return f"{line.number(first)} throughout"
    ends = f"from {line.number(first)} at {line.place(first)} to {line.number(last)} at {line.place(last)}"
    return ends if highest in (first, last) else f"{ends}, highest {line.number(highest)} at {line.place(highest)}"


def _matrices(values: Sequence[Values]) -> str:
    """Matrices that cannot be compared: the strongest number of each."""
    best = [[group.named(index) for index in farthest(group.comparable, 1)] for group in values]
    strongest = (" ".join([group.part, *(named or [group.closing])]) for group, named in zip(values, best, strict=True))
    return f"Strongest: {'; '.join(strongest)}."


_SENTENCES: dict[Kind, Callable[[Sequence[Values]], str]] = {
    "cells": _cells,
    "heads": _extremes,
    "bars": _extremes,
    "changes": _changes,
    "steps": _steps,
    "line": _lines,
    "matrix": _matrices,
}
KINDS_OF_VALUES = tuple(_SENTENCES)


LISTED = 10  # rows of a table

Trace = dict[str, Any]  # of Plotly, with its type
Layout = dict[str, Any]


def scatter(x: Any, y: Any, mode: str, **look: Any) -> Trace:
    """Return dots, lines or texts (Plotly's `mode`) at these places."""
    return {"type": "scatter", "x": x, "y": y, "mode": mode, **look}


def bar(x: Any, y: Any, **look: Any) -> Trace:
    """Return bars: upright ones at `x`, or at `y` with `orientation="h"`."""
    return {"type": "bar", "x": x, "y": y, **look}


def axis_ending(index: int) -> str:
    """Return how Plotly's names of the axes of a figure's parts end: "" for the first part, then "2", "3" ..."""
    return str(index + 1) if index else ""


def packed(numbers: NDArray) -> dict[str, str]:
    """Return an array as plotly.js reads it: the bytes of its numbers, the lowest byte of each first."""
    little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode("ascii")
    return {"dtype": little.dtype.str[1:], "bdata": data, "shape": ", ".join(map(str, numbers.shape))}


class Strongest(NamedTuple):
    """The strongest values of a figure: rows of text under headings, and a sentence that says what is left out."""

    headings: list[str]
    rows: list[list[str]]
    left_out: str


def copied(part: Any) -> Any:
    """Copy a part of a figure, without what is None in it. Arrays and lists of numbers are not copied."""
    if isinstance(part, dict):
        return {name: copied(value) for name, value in part.items() if value is not None}
    if isinstance(part, list) and part and isinstance(part[0], dict):
        return [copied(entry) for entry in part]
    return part


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure and its values; a drawing without numbers has none.

    traces, layout  what Plotly draws, as its own names have it: dictionaries, in which None says nothing. Plotly's objects
                    check every name, which takes longer than all the rest of a page

    Pages may go on to change how the figure looks: titles, ticks, margins.
    """

    traces: list[Trace]
    layout: Layout
    values: tuple[Values, ...] = ()

    @property
    def figure(self) -> go.Figure:
        """The figure as Plotly's own object, for notebooks and files. Raises ValueError for what Plotly does not know."""
        return go.Figure(self.traces, self.layout)

    @property
    def description(self) -> str:
        """What the figure shows, in a sentence or two; "" where it has no values."""
        return described(self.values)

    @property
    def block(self) -> tuple[int, int]:
        """How many rows and columns a drawn cell stands for."""
        return self.values[0].block if self.values else (1, 1)

    def strongest(self, count: int = LISTED) -> Strongest | None:
        """The `count` numbers farthest from 0; of matrices that cannot be compared, one of each. None without numbers."""
        known = [group for group in self.values if len(group.comparable)]
        if not known:
            return None
        first = known[0]
        alike = [group for group in known if group.headings == first.headings]
        if are_matrices := first.kind == "matrix":
            chosen = [(group, index) for group in alike for index in farthest(group.comparable, 1)]
        else:
            chosen = farthest_of_all(alike, count)
        part = ["part"] * (len(alike) > 1)
        value = first.value if len({group.value for group in alike}) == 1 else "value"
        rows = [[group.part] * len(part) + [*group.names(index), group.number(index)] for group, index in chosen]
        all_numbers = sum(int(np.isfinite(group.comparable).sum()) for group in alike)
        if are_matrices:
            left_out = "The number farthest from 0 in each matrix."
        elif len(rows) == all_numbers:
            left_out = with_aside("All numbers of the picture", first.closing)
        else:
            left_out = with_aside(f"The {len(rows)} of {all_numbers:,} numbers that are farthest from 0", first.closing)
        return Strongest([*part, *(heading or "name" for heading in first.headings), value], rows, left_out)
