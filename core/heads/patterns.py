"""Matching heads with a pattern: the cells of queries and keys that should hold the attention.

A pattern is a predicate as in `core.attention.masks`: query and key positions in, True for the cells that belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from ..attention.masks import Predicate, block
from ..capturing.calls.rows import row_blocks
from ..capturing.capture import Capture
from ..errors import InputError
from ..models.calls import Call
from ..models.modules import Kind
from ..progress import OnProgress
from ..threads import side_by_side

MAX_PAIRS = 200


def diagonal(back: int) -> Predicate:
    """The key `back` positions before the query: 0 itself, 1 the previous token, -1 the next."""
    return lambda query, key: key == query - back


def columns(keys: Iterable[int]) -> Predicate:
    """Stripes: these keys, whatever the query."""
    chosen = np.array(sorted(set(keys)), dtype=np.int64)
    return lambda query, key: np.isin(key, chosen) & (query >= 0)


def pairs(cells: Iterable[tuple[int, int]]) -> Predicate:
    """Single cells: from this query to that key."""
    chosen = set(cells)

    def belongs(query: NDArray, key: NDArray) -> NDArray[np.bool_]:
        grid = np.zeros(np.broadcast_shapes(query.shape, key.shape), dtype=np.bool_)
        for at, to in chosen:
            grid |= (query == at) & (key == to)
        return grid

    return belongs


blocks = block  # keys of one's own block: as a mask, so as a pattern


def read_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """ "7-2, 9-2" -> ((7, 2), (9, 2)): from query 7 to key 2, from query 9 to key 2. Raises InputError."""
    cells = []
    for part in _parts(text):
        match = re.fullmatch(r"(\d{1,9})\s*(?:-|>|->|→)\s*(\d{1,9})", part)
        if match is None:
            message = f"“{part[:40]}” is not a pair. Write a query and a key with a hyphen between, such as 7-2."
            raise InputError(message, field="pairs")
        cells.append((int(match[1]), int(match[2])))
    if len(cells) > MAX_PAIRS:
        raise InputError(f"These are {len(cells)} pairs; at most {MAX_PAIRS} can be searched for.", field="pairs")
    return tuple(cells)


def write_pairs(cells: Iterable[tuple[int, int]]) -> str:
    """Write pairs so that `read_pairs` reads them."""
    return ", ".join(f"{query}-{key}" for query, key in cells)


def read_keys(text: str) -> tuple[int, ...]:
    """ "0, 5" -> (0, 5). Raises InputError."""
    for part in _parts(text):
        if re.fullmatch(r"\d{1,9}", part) is None:
            raise InputError(f"“{part[:40]}” is not a position. Write numbers with commas between.", field="keys")
    return tuple(map(int, _parts(text)))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def match_heads(
    capture: Capture, pattern: Predicate, kind: Kind | None = None, *, on_progress: OnProgress | None = None
) -> NDArray[np.float64]:
    """Measure the match of each head with a pattern: [layers, heads], at most 1.

    For every query the share of its attention in the pattern, corrected for chance:

        (share - chance) / (1 - chance),   chance = pattern cells of the row / allowed cells of the row

    so that 1 means all of the attention, 0 as much as even attention would put there, and less than 0 less than that
    (the correction of Cohen 1960). A head has the mean over the queries that have a choice: at least one allowed cell in the
    pattern and one outside. Raises InputError if no query has.
    """
    scores = np.stack(side_by_side(lambda call: _match(call, pattern), capture.each_layer(kind), on_progress))
    if np.isnan(scores).all():
        raise InputError("No query of this text has a choice between this pattern and anything else.", field="pattern")
    return scores


def _match(call: Call, pattern: Predicate) -> NDArray[np.float64]:
    """[heads], NaN if no query of the layer has a choice."""
    total = torch.zeros(call.query.shape[1], dtype=torch.float64)
    counted = torch.zeros_like(total)
    for rows in row_blocks(call):
        belongs = pattern(np.arange(rows.start, rows.stop)[:, None], np.arange(rows.allowed.shape[2])[None, :])
        inside = rows.allowed & torch.from_numpy(np.broadcast_to(belongs, rows.allowed.shape[1:]).copy())
        if not inside.any():
            continue
        chance = inside.sum(-1, dtype=torch.float64) / rows.allowed.sum(-1).clamp_min(1)
        share = (rows.weights * inside).sum(-1, dtype=torch.float64)
        chosen = (chance > 0) & (chance < 1)
        corrected = torch.where(chosen, (share - chance) / (1 - chance).clamp_min(1e-12), 0)
        total += corrected.sum(-1)
        counted += chosen.sum(-1)
    return torch.where(counted > 0, total / counted, torch.nan).numpy(force=True)
