"""Masks as small named predicates: may this query look at that key?

A predicate takes positions `query` and `key` (integer arrays that broadcast against each other) and answers True where the
pair may attend. `grid` draws it for given lengths:

    causal          sliding_window(2)    prefix(2) or causal
    ■ ⬚ ⬚ ⬚         ■ ■ ⬚ ⬚              ■ ■ ⬚ ⬚
    ■ ■ ⬚ ⬚         ■ ■ ■ ⬚              ■ ■ ⬚ ⬚
    ■ ■ ■ ⬚         ⬚ ■ ■ ■              ■ ■ ■ ⬚
    ■ ■ ■ ■         ⬚ ⬚ ■ ■              ■ ■ ■ ■
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..progress import stop_point

CELLS = 2**20  # pairs of a mask that are looked at together

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
    return describe_rows(lambda rows: mask[rows.start : rows.stop], mask.shape[0])


def describe_rows(rows_of: Callable[[range], NDArray[np.bool_]], queries: int) -> str:
    """`describe` a mask that is never there as a whole. rows_of: gives some of its rows, [rows, keys]"""
    first, last = rows_of(range(1))[0], rows_of(range(queries - 1, queries))[0]
    kinds: dict[str, Predicate] = {
        "none": everything,
        "causal": causal,
        "nothing allowed": lambda query, key: ~everything(query, key),
        "padding": padding(first),
    }
    # A prefix or a block shows its length in the first row, a window in the last: a causal one ends there, a two-sided one
    # is cut off by the end of the text.
    for named in MASKS.values():
        for length in {int(last.sum()), int(first.sum())} - {0} if named.words else ():
            kinds[named.words.format(length)] = named.predicate(length, len(first))
    height, keys = max(1, CELLS // len(first)), np.arange(len(first))
    for start in range(0, queries, height):
        stop_point()
        rows = range(start, min(start + height, queries))
        part, at = rows_of(rows), np.array(rows)[:, None]
        kinds = {words: kind for words, kind in kinds.items() if np.array_equal(part, kind(at, keys))}
    words = next(iter(kinds), "custom")
    return "custom" if words == "padding" and np.ptp(np.flatnonzero(first)) >= first.sum() else words


def _at_least(number: int, least: int, name: str) -> None:
    if number < least:
        raise InputError(f"The {name} is {number}; it has to be at least {least}.", field="mask")
