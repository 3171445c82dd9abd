"""What a figure shows, in a sentence or two for those who cannot see it: its main finding, said from its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np

from .values import Kind, Values, farthest, farthest_of_all, written

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
KINDS = tuple(_SENTENCES)
