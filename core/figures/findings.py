"""What a figure shows, in words for those who cannot see it: its main finding in a sentence, its strongest values as a table.

Both are read off the figure itself: its arrays, and the names that its axes and points carry. So no page can forget them, and
no page can say something else than it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import plotly.graph_objects as go

from .readings import Reading, farthest, readings, written

SAID = 3  # cells that are named in a sentence
LISTED = 10  # rows of a table


@dataclass(frozen=True, eq=False)
class Strongest:
    """The strongest values of a figure: rows of text under headings, and in a sentence what is left out."""

    headings: list[str]
    rows: list[list[str]]
    left_out: str


def finding(figure: go.Figure) -> str:
    """The main finding of a figure in a sentence or two; "" where it holds no numbers."""
    said = (_SENTENCES[kind](list(group)) for kind, group in groupby(readings(figure), key=lambda one: one.kind))
    return " ".join(said)


def strongest(figure: go.Figure, count: int = LISTED) -> Strongest | None:
    """The `count` numbers of a figure that are farthest from 0; of matrices that cannot be compared, one of each."""
    found = [one for one in readings(figure) if len(one.values)]
    if not found:
        return None
    first = found[0]
    found = [one for one in found if one.headings == first.headings]
    are_matrices = first.kind == "matrix"
    chosen = (
        [(one, place) for one in found for place in farthest(one.values, 1)] if are_matrices else _best(found, count)
    )
    part = ["part"] * (len(found) > 1)
    value = first.value if len({one.value for one in found}) == 1 else "value"
    headings = [heading or "name" for heading in first.headings]
    rows = [[one.part] * len(part) + [*one.names(place), one.said(place)] for one, place in chosen]
    known = sum(int(np.isfinite(one.values).sum()) for one in found)
    if are_matrices:
        left_out = "The number farthest from 0 in each matrix."
    elif len(rows) == known:
        left_out = _and("All numbers of the picture", first.closing)
    else:
        left_out = _and(f"The {len(rows)} of {known:,} numbers that are farthest from 0", first.closing)
    return Strongest([*part, *headings, value], rows, left_out)


def _best(found: Sequence[Reading], count: int) -> list[tuple[Reading, int]]:
    """The numbers of all of them that are farthest from 0."""
    starts = np.cumsum([0, *(len(one.values) for one in found)])
    places = farthest(np.concatenate([one.values for one in found]), count)
    which = np.searchsorted(starts, places, side="right") - 1
    return [(found[one], int(place - starts[one])) for one, place in zip(which, places, strict=True)]


def _and(sentence: str, aside: str) -> str:
    return f"{sentence}; {aside}." if aside else f"{sentence}."


# --- a sentence for each kind of numbers


def _of_cells(found: Sequence[Reading]) -> str:
    """Cells of a matrix, or of several that share one scale."""
    first, values = found[0], np.concatenate([one.values for one in found])
    best = [(f"{one.part}, " * (len(found) > 1)) + one.named(place) for one, place in _best(found, SAID)]
    if not best:
        said = "No numbers" if len(values) else ""
    else:
        top = values[farthest(values, 1)[0]]
        ties, known = int((values == top).sum()), int(np.isfinite(values).sum())
        if ties == known > 1:
            said = f"Every number is {written(top)}"
        elif ties > SAID:
            said = f"Strongest: {ties:,} cells with {written(top)}, the first {best[0].rpartition(':')[0]}"
        else:
            said = f"Strongest: {'; then '.join(best)}"
    closing = f"; {first.closing}" if said and first.closing else first.closing
    return f"{first.opening}. {said}{closing}.".replace(". .", ".")


def _of_heads(found: Sequence[Reading]) -> str:
    """The largest and the smallest number, of each group."""
    said = []
    for one in found:
        opening = f"{one.part}: " if len(found) > 1 else f"{one.opening}. " if one.opening else ""
        extremes = _extremes(one)
        extremes = extremes if opening.endswith(": ") else extremes[0].upper() + extremes[1:]
        said.append(opening + _and(extremes, one.closing))
    return " ".join(said)


def _extremes(one: Reading) -> str:
    known = np.flatnonzero(np.isfinite(one.values)).tolist()
    if not known:
        return "no numbers"
    largest, smallest = max(known, key=one.values.__getitem__), min(known, key=one.values.__getitem__)
    if one.values[largest] > one.values[smallest]:
        return f"largest: {one.named(largest)}; smallest: {one.named(smallest)}"
    return one.named(largest) if len(known) == 1 else f"every number is {one.said(largest)}"


def _of_changes(found: Sequence[Reading]) -> str:
    """Pairs of bars, before and after: those that moved most."""
    before, after = found
    change = after.values - before.values
    moved = [place for place in farthest(change, SAID) if change[place]]
    pairs = [f"{before.place(place)} from {before.said(place)} to {after.said(place)}" for place in moved]
    return f"Largest change: {'; then '.join(pairs)}." if pairs else "Nothing has changed."


def _of_steps(found: Sequence[Reading]) -> str:
    """A sum step by step: its largest part, and what has been reached on the way."""
    one, sums = found
    part = "".join(f"Largest part: {one.named(place)}. " for place in farthest(one.values, 1))
    reached = ", ".join(f"{sums.names(place)[0]} {sums.said(place)}" for place in range(len(sums.values)))
    return f"{part}{reached}."


def _of_lines(found: Sequence[Reading]) -> str:
    """Where each curve begins and ends, and where it is highest."""
    return " ".join(
        f"{one.part}: {_course(one)}." if len(found) > 1 else f"{_course(one).capitalize()}." for one in found
    )


def _course(one: Reading) -> str:
    known = np.flatnonzero(np.isfinite(one.values)).tolist()
    if not known:
        return "no numbers"
    first, last, highest = known[0], known[-1], max(known, key=one.values.__getitem__)
    if first == last:
        return f"{one.said(first)} at {one.place(first)}"
    if (one.values[known] == one.values[first]).all():
        return f"{one.said(first)} throughout"
    ends = f"from {one.said(first)} at {one.place(first)} to {one.said(last)} at {one.place(last)}"
    return ends if highest in (first, last) else f"{ends}, highest {one.said(highest)} at {one.place(highest)}"


def _of_matrices(found: Sequence[Reading]) -> str:
    """Matrices that cannot be compared: the strongest number of each."""
    said = [next((one.named(place) for place in farthest(one.values, 1)), one.closing) for one in found]
    return f"Strongest: {'; '.join(f'{one.part} {words}' for one, words in zip(found, said, strict=True))}."


_SENTENCES: dict[str, Callable[[Sequence[Reading]], str]] = {
    "cells": _of_cells,
    "heads": _of_heads,
    "bars": _of_heads,
    "changes": _of_changes,
    "steps": _of_steps,
    "line": _of_lines,
    "matrix": _of_matrices,
}
