"""Masks as small named predicates: may this query look at that key?

A predicate takes positions `query` and `key` (integer arrays that broadcast against each other) and answers True where the
pair may attend. `grid` draws it for given lengths:

    causal          sliding_window(2)    prefix(2) or causal
    ■ ⬚ ⬚ ⬚         ■ ■ ⬚ ⬚              ■ ■ ⬚ ⬚
    ■ ■ ⬚ ⬚         ■ ■ ■ ⬚              ■ ■ ⬚ ⬚
    ■ ■ ■ ⬚         ⬚ ■ ■ ■              ■ ■ ■ ⬚
    ■ ■ ■ ■         ⬚ ⬚ ■ ■              ■ ■ ■ ■
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

Predicate = Callable[[NDArray[np.integer], NDArray[np.integer]], NDArray[np.bool_]]


def everything(query: NDArray, key: NDArray) -> NDArray[np.bool_]:
    """No mask: every pair may attend."""
    return np.ones(np.broadcast_shapes(query.shape, key.shape), dtype=np.bool_)


def causal(query: NDArray, key: NDArray) -> NDArray[np.bool_]:
    """No looking ahead (Vaswani et al. 2017, section 3.2.3)."""
    return key <= query


def sliding_window(window: int) -> Predicate:
    """Keys fewer than `window` positions away, on either side (Beltagy et al. 2020). window 1: only oneself."""
    _at_least(window, 1, "window")
    return lambda query, key: np.abs(query - key) < window


def prefix(length: int) -> Predicate:
    """The first `length` keys, open to everyone (prefix LM, Raffel et al. 2020). Usually joined to `causal` by `either`."""
    _at_least(length, 0, "prefix")
    return lambda query, key: (key < length) & (query >= 0)


def padding(real: ArrayLike) -> Predicate:
    """Only keys that are real tokens: real [keys] of True, and False for padding."""
    is_real = np.asarray(real, dtype=np.bool_)
    return lambda query, key: is_real[key] & (query >= 0)


def block(size: int) -> Predicate:
    """Keys of one's own block of `size` positions: texts packed one after another do not see each other."""
    _at_least(size, 1, "block")
    return lambda query, key: query // size == key // size


def both(*predicates: Predicate) -> Predicate:
    """Allowed where every predicate allows."""
    return lambda query, key: np.logical_and.reduce([allow(query, key) for allow in predicates])


def either(*predicates: Predicate) -> Predicate:
    """Allowed where any predicate allows."""
    return lambda query, key: np.logical_or.reduce([allow(query, key) for allow in predicates])


@dataclass(frozen=True)
class NamedMask:
    """A mask as menus offer it.

    predicate  from the mask's number, which some masks ignore, and the number of keys
    number     what the number is called: "window"; None where there is none
    words      what `describe` says of such a mask, {} for its number; empty where `describe` tells it apart by itself
    """

    name: str
    predicate: Callable[[int, int], Predicate]
    number: str | None = None
    words: str = ""

    def grid(self, number: int, queries: int, keys: int) -> NDArray[np.bool_]:
        """[queries, keys], True where a query may attend to a key."""
        return grid(self.predicate(number, keys), queries, keys)


# Every menu of masks offers these. The words before them stand in addresses: add, but do not change them.
MASKS = {
    "none": NamedMask("None", lambda _n, _: everything),
    "causal": NamedMask("Causal", lambda _n, _: causal),
    "causal-window": NamedMask(
        "Causal window", lambda n, _: both(causal, sliding_window(n)), "window", "causal, sliding window of {}"
    ),
    "window": NamedMask(
        "Sliding window", lambda n, _: sliding_window(n), "window", "sliding window of {} to each side"
    ),
    "prefix": NamedMask(
        "Prefix", lambda n, _: either(causal, prefix(n)), "open keys", "causal with an open prefix of {}"
    ),
    "blocks": NamedMask("Packed blocks", lambda n, _: block(n), "block size", "blocks of {}"),
    "padding": NamedMask("Padding", lambda n, keys: padding(np.arange(keys) < keys - n), "padded keys"),
}


def grid(predicate: Predicate, queries: int, keys: int) -> NDArray[np.bool_]:
    """The predicate as an array [queries, keys], True where a query may attend to a key."""
    return predicate(np.arange(queries)[:, None], np.arange(keys)[None, :])


def additive(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The M of softmax(QKᵀ/√d_k + M): 0 where a query may attend to a key, -inf where not."""
    return np.where(mask, 0.0, -np.inf)


def to_rows(mask: NDArray[np.bool_]) -> str:
    """A mask as one short line, for addresses: a row of 0 and 1 for each query, "/" between rows: "100/110/111"."""
    return "/".join("".join(map(str, row)) for row in mask.astype(int))


def from_rows(text: str, queries: int, keys: int) -> NDArray[np.bool_]:
    """The mask [queries, keys] that `to_rows` wrote. Raises InputError for other characters or another size."""
    rows = [row.strip() for row in text.split("/")]
    if set("".join(rows)) - {"0", "1"}:
        raise InputError("The mask may hold only 0 and 1, with a / between rows, such as 100/110/111.", field="mask")
    if len(rows) != queries or any(len(row) != keys for row in rows):
        size = f"{len(rows)} rows of {', '.join(sorted({str(len(row)) for row in rows}))}"
        needed = f"{queries} of {keys}: a row for each query, a digit for each key."
        raise InputError(f"The mask has {size}; it needs {needed}", field="mask")
    return np.array([[digit == "1" for digit in row] for row in rows])


def describe(mask: NDArray[np.bool_]) -> str:
    """Name the kind of mask that an array [queries, keys] is: "none", "causal", "padding", ... or "custom". Padding stands
    before the text, after it, or around it, so that the keys that remain are one block."""
    queries, keys = mask.shape
    if mask.all():
        return "none"
    if np.array_equal(mask, grid(causal, queries, keys)):
        return "causal"
    if not mask.any():
        return "nothing allowed"
    if (mask == mask[0]).all():
        return "padding" if np.ptp(np.flatnonzero(mask[0])) < mask[0].sum() else "custom"
    # A prefix or a block shows its length in the first row, a window in the last: a causal one ends there, a two-sided one
    # is cut off by the end of the text.
    lengths = {int(mask[-1].sum()), int(mask[0].sum())} - {0}
    for named in MASKS.values():
        for length in lengths if named.words else ():
            if np.array_equal(mask, named.grid(length, queries, keys)):
                return named.words.format(length)
    return "custom"


def _at_least(number: int, least: int, name: str) -> None:
    if number < least:
        raise InputError(f"The {name} is {number}; it has to be at least {least}.", field="mask")
