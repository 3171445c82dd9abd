"""A figure together with what it shows: its values, from which its description and its table are made.

Whoever draws a figure knows what its numbers stand for, and says so once, here. Nothing is read back from a finished figure.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from .descriptions import described, with_aside
from .values import Values, farthest, farthest_of_all

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
        are_matrices = first.kind == "matrix"
        chosen = (
            [(group, index) for group in alike for index in farthest(group.comparable, 1)]
            if are_matrices
            else farthest_of_all(alike, count)
        )
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
