"""Query, key, value: one query and four keys that can be drawn, because each of them has two numbers.

The score of a query q and a key k is their dot product, |q| · |k| · cos of the angle between them.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..attention.trace import Array, AttentionTrace, attend, frozen
from ..errors import InputError

QUERY = "it"
TOKENS = ("animal", "street", "it", "tired")
LENGTH, ANGLE = 2.0, 75  # the query's length, and the angle with which the lesson opens, in degrees
KEYS = ((0.75, 1.4), (1.25, 0.25), (-1.25, 0.5), (-0.5, -1.25))
VALUES = ((-2.5, 1.5), (2.5, 2.0), (-1.5, -2.5), (2.5, -1.5))  # each is a corner of the area that they enclose
FARTHEST = 3  # how far from 0 a value can be moved, in each direction
MOST_KEYS = 24  # of a real head that have room in one picture


def example(angle: float = ANGLE) -> AttentionTrace:
    """The query of "it" at this angle, with the keys and values of four tokens: queries [1, 2], keys and values [4, 2].

    angle  in degrees, from the right and against the clock; keys and values do not depend on it
    """
    return attend([query_at(angle)], KEYS, VALUES)


def query_at(angle: float) -> tuple[float, float]:
    """The query at this angle, in degrees."""
    turned = np.radians(angle)
    return float(LENGTH * np.cos(turned)), float(LENGTH * np.sin(turned))


@dataclass(frozen=True, eq=False)
class HeadChange:
    """A head before and after one of its inputs was changed."""

    before: AttentionTrace
    after: AttentionTrace

    @property
    def of_weights(self) -> float:
        """The largest change of any weight, in [0, 1]."""
        return float(np.abs(self.after.weights - self.before.weights).max())

    @property
    def of_output(self) -> float:
        """How far the output moves: the length of its change, the largest of all queries."""
        return float(np.linalg.norm(self.after.output - self.before.output, axis=1).max())


def longer_key(trace: AttentionTrace, key: int, factor: float) -> HeadChange:
    """Make one key `factor` times as long. Its direction stays."""
    factors = np.ones((trace.shape[1], 1), trace.key.dtype)
    factors[key] = factor
    return HeadChange(trace, replace(trace, key=frozen(trace.key * factors)))


def swapped_values(trace: AttentionTrace, first: int, second: int) -> HeadChange:
    """Let two keys swap their values."""
    order = np.arange(trace.shape[1])
    order[[first, second]] = second, first
    return HeadChange(trace, replace(trace, value=frozen(trace.value[order])))


Moves = dict[int, tuple[float, float]]  # the position of a token -> where its value is


def read_moves(text: str) -> Moves:
    """Read where values are: "street 1 -2, it 0 0.5". Raises InputError (field "moved")."""
    moves: Moves = {}
    for part in filter(None, map(str.strip, text.split(","))):
        token, _, place = part.partition(" ")
        try:
            across, up = map(float, place.split())
        except ValueError:
            across = up = np.inf
        if token not in TOKENS or not max(abs(across), abs(up)) <= FARTHEST:
            raise InputError(
                f"“{part[:40]}” does not move a value. Write a token of {', '.join(TOKENS)}, and two numbers from "
                f"-{FARTHEST} to {FARTHEST}: street 1 -2.",
                field="moved",
            )
        moves[TOKENS.index(token)] = across, up
    return moves


def write_moves(moves: Moves) -> str:
    """Write where values are, as `read_moves` reads it."""
    return ", ".join(f"{TOKENS[token]} {across:g} {up:g}" for token, (across, up) in sorted(moves.items()))


def moved_values(trace: AttentionTrace, moves: Moves) -> HeadChange:
    """Put some values elsewhere."""
    values = np.array(trace.value)
    for token, place in moves.items():
        values[token] = place
    return HeadChange(trace, replace(trace, value=frozen(values)))


@dataclass(frozen=True, eq=False)
class KeyAngles:
    """One query and some of its keys: their lengths, and the angles between query and key."""

    places: NDArray[np.integer]  # [n] the positions of the keys, in ascending order
    length: float  # |q|
    lengths: Array  # [n] |k|
    cosines: Array  # [n] of the angles, in [-1, 1]; NaN where the query or the key is 0 and has no direction
    scores: Array  # [n] raw scores: length · lengths · cosines
    masked: Array  # [n] what enters the softmax: scaled scores, with a bias if the head has one
    weights: Array  # [n] in [0, 1]
    turned: Array  # [n, 2] the keys at their lengths and angles, in a plane in which the query points to the right

    @property
    def angles(self) -> Array:
        """[n] in degrees, from 0 to 180."""
        return np.degrees(np.arccos(self.cosines))

    def strongest(self, count: int) -> list[int]:
        """The keys with the largest weights, the largest first: their indices in these arrays."""
        return np.argsort(-self.weights, kind="stable")[:count].tolist()


def alignment(trace: AttentionTrace, query: int = 0, most: int = MOST_KEYS) -> KeyAngles:
    """How a query of any head lies to its keys: to those that it may attend to, or to the `most` with the largest weights."""
    weights = trace.weights[query]
    allowed = np.flatnonzero(trace.mask[query])
    places = np.sort(allowed[np.argsort(-weights[allowed], kind="stable")[:most]])
    length = float(np.linalg.norm(trace.query[query].astype(np.float64)))
    lengths = np.linalg.norm(trace.key[places].astype(np.float64), axis=1)
    scores = trace.raw[query, places]
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = np.clip(scores / (length * lengths), -1, 1)
    turned = lengths[:, None] * np.column_stack([cosines, np.sqrt(1 - cosines**2)])
    return KeyAngles(places, length, lengths, cosines, scores, trace.masked[query, places], weights[places], turned)
