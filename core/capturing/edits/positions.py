"""Positions in the words of a line: ranges of keys, "3 5-8", and painted cells, "10>2=0.7 10>3=0.3"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite

from ...errors import InputError

MAX_CELLS = 500  # that one line may paint: more than the address of a link holds
MAX_KEYS = 20_000  # that one line may block


def read_ranges(words: str) -> set[int]:
    """The positions in words such as "3 5-8". Raises InputError for too many, ValueError for other words."""
    ends = [(word, word[1:].partition("-")) for word in words.split()]  # the first letter may be a sign
    ranges = [range(int(word[:1] + rest), int(last if dash else word) + 1) for word, (rest, dash, last) in ends]
    if not all(ranges):
        raise ValueError(words)
    if (count := sum(part.stop - part.start for part in ranges)) > MAX_KEYS:
        raise InputError(
            f"One change blocks at most {MAX_KEYS:,} keys, and this one {count:,}. Block further ones in another change.",
            field="edits",
        )
    return {position for part in ranges for position in part}


def in_ranges(positions: Sequence[int]) -> str:
    """Positions in ascending order in words, as `read_ranges` reads them."""
    gaps = [(before, after) for before, after in pairwise(positions) if after > before + 1]
    starts, ends = [positions[0], *(after for _, after in gaps)], [*(before for before, _ in gaps), positions[-1]]
    return " ".join(str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))


def read_cells(words: str) -> dict[int, dict[int, float | None]]:
    """The cells in the words of a line that paints: query -> key -> share, None in a row that is shared evenly.

    The shares need not sum to 1. Raises InputError for too many cells, ValueError for other words.
    """
    if (count := words.count(">")) > MAX_CELLS:
        raise InputError(
            f"One change paints at most {MAX_CELLS} cells, and this one {count:,}. Paint further ones in another change.",
            field="edits",
        )
    rows: dict[int, dict[int, float | None]] = {}
    for word in words.split():
        query, _, rest = word.partition(">")
        key, equals, share = rest.partition("=")
        if not (query.isdecimal() and key.isdecimal()):
            raise ValueError(word)
        rows.setdefault(int(query), {})[int(key)] = _share(share) if equals else None
    if not rows:
        raise ValueError(words)
    return rows


def cells_in_words(rows: Mapping[int, Mapping[int, float | None]]) -> str:
    """The cells in words, as `read_cells` reads them."""
    return " ".join(
        f"{query}>{key}" + ("" if share is None else f"={share:.10g}")
        for query, row in sorted(rows.items())
        for key, share in sorted(row.items())
    )


def even_shares(row: Mapping[int, float | None]) -> dict[int, float]:
    """The row, with equal shares in place of None."""
    return {key: 1 / len(row) if share is None else share for key, share in row.items()}


def _share(text: str) -> float:
    share = float(text)
    if not isfinite(share) or "_" in text:  # which float() takes
        raise ValueError(text)
    return share
