"""The numbers that a figure draws, with the names of what each of them stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
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
