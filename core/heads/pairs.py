"""Two texts in one self-attention: which token belongs to which, and how much attention goes from one to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..attention.trace import Array
from ..capturing.calls.rows import row_blocks
from ..capturing.capture import Capture
from ..errors import InputError


def pair_sides(capture: Capture) -> NDArray[np.int_]:
    """[tokens] the text that each belongs to: 0 (first text), 1 (second text), -1 (special token). Raises InputError if no
    second text was read (field "pair"), or the tokenizer does not tell the two apart (field "model")."""
    sides = np.array(capture.sides, dtype=np.int_)
    if not (sides == 1).any():
        tokenizer = capture.model.tokenizer
        if tokenizer is not None and tokenizer.is_fast:
            raise InputError("The second text is blank. Type at least one word.", field="pair")
        raise InputError(f"{capture.model.name} does not tell two texts apart. Choose another model.", field="model")
    return sides


def pair_ranges(capture: Capture) -> tuple[range, range] | None:
    """The positions of the first and of the second text; None unless both are there, each in one stretch."""
    positions = [np.flatnonzero(np.array(capture.sides) == side) for side in (0, 1)]
    if not all(len(places) and places[-1] - places[0] == len(places) - 1 for places in positions):
        return None
    first, second = (range(int(places[0]), int(places[-1]) + 1) for places in positions)
    return first, second


@dataclass(frozen=True)
class Shares:
    """The weight of one text's words on that text, on the other, and on special tokens. The three add up to 1."""

    own: float
    other: float
    special: float


def pair_shares(weights: Array, sides: NDArray[np.int_]) -> tuple[Shares, Shares]:
    """The shares of each text, averaged over its words, from a head's weights [n, n] and the `pair_sides` [n]."""
    given = _given(weights, sides)
    by_side = (given[sides == side][:, [side, 1 - side, -1]].mean(axis=0).tolist() for side in (0, 1))
    first, second = (Shares(*shares) for shares in by_side)
    return first, second


def _given(weights: Array, sides: NDArray[np.int_]) -> Array:
    """[..., queries, 3] what each query gives to the first text, to the second and to special tokens."""
    belongs = sides[: weights.shape[-1], None] == np.array([0, 1, -1])
    return weights.astype(np.float64) @ belongs


def crossing_shares(capture: Capture, sides: NDArray[np.int_]) -> Array:
    """The part of every head's weight that crosses from text to text, the mean of both directions: [layers, heads]."""
    crossing = []
    for call in capture.each_layer():
        given = np.concatenate([_given(rows.weights.numpy(force=True), sides) for rows in row_blocks(call)], axis=1)
        there, back = (given[:, sides == side, 1 - side].mean(axis=1) for side in (0, 1))
        crossing.append((there + back) / 2)
    return np.array(crossing)
