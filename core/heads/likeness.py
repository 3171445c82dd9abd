"""Likeness of heads: the same head in two passes, one head and all others, two at random.

All by the Jensen-Shannon divergence of rows of weights (`core.heads.comparing`), a head's being the mean over its rows: 0 for
the same weights, ln 2 for heads that never look at the same key. Rows come all heads of a layer at once and a few at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..capturing.capture import Capture
from ..capturing.rows import Rows, row_blocks
from ..errors import InputError
from ..models.calls import Call
from ..models.modules import Kind
from .comparing import divergence

PAIRS = 64
QUERIES = 256  # of a long text that random pairs are compared on,
STRETCHES = 16  # in so many stretches: every one of them is a piece of work of its own


@dataclass(frozen=True)
class RandomPairs:
    """The divergence of two random heads of a model on a text: the mean over their rows, for several pairs.

    mean       over the pairs, in nats
    low, high  between them lie 90% of the pairs
    pairs      how many pairs there were
    queries    how many rows each pair was compared on
    """

    mean: float
    low: float
    high: float
    pairs: int
    queries: int


def head_changes(
    before: Capture, after: Capture, kind: Kind | None = None, *, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.float64]:
    """Measure the change of every head between two passes: [layers, heads], mean divergence of its rows in [0, ln 2].

    before, after  over equally many tokens, such as without and with an edit
    on_progress    called after every layer with how many are done; what it raises stops the work

    Exactly 0 for a head whose weights are the same. Raises InputError where the passes do not belong together.
    """
    return np.stack([_mean(blocks) for blocks in _side_by_side(before, after, kind, on_progress)])


def weight_differences(
    before: Capture, after: Capture, kind: Kind | None = None, *, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.float64]:
    """The largest absolute difference of a weight in every head between two passes: [layers, heads] in [0, 1].

    Arguments and errors as in `head_changes`.
    """
    found = []
    with torch.inference_mode():
        for blocks in _side_by_side(before, after, kind, on_progress):
            pairs = (_as_wide(one.weights, other.weights) for one, other in blocks)
            largest = [(one - other).abs().amax(dim=(1, 2)) for one, other in pairs]
            found.append(torch.stack(largest).amax(dim=0).numpy(force=True))
    return np.stack(found).astype(np.float64)


def _side_by_side(
    before: Capture, after: Capture, kind: Kind | None, on_progress: Callable[[int], None] | None
) -> Iterator[Iterable[tuple[Rows, Rows]]]:
    """Blocks of rows in both passes, layer by layer."""
    _refuse_unlike(before, after, kind)
    if before.shape(kind) != after.shape(kind):
        raise InputError(
            f"The first pass is over {before.shape(kind)} and the second over {after.shape(kind)} (queries, keys): to say how "
            f"each row changed, both need as many tokens. Compare two heads of them with their tokens aligned instead.",
            field="text",
        )
    for layer in zip(before.in_rows(kind, on_progress), after.in_rows(kind), strict=True):
        yield zip(*layer, strict=True)


def heads_like(
    captures: Sequence[Capture],
    layer: int,
    head: int,
    kind: Kind | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """All other heads of a model, those first whose weights are most like this one's on the texts at hand.

    captures     one or more passes of one model; each counts as much as another
    on_progress  called after every layer of every pass with how many are done; what it raises stops the work

    Columns: layer, head, divergence: the mean over a text's rows, then over the texts. Raises InputError for no captures,
    captures of different models, and a head that is not there.
    """
    if not captures:
        raise InputError("There is no text to compare heads on. Give at least one capture.", field="text")
    for other in captures[1:]:
        _refuse_unlike(captures[0], other, kind)
    captures[0].key_head(layer, head, kind)  # raises where there is none
    steps, found = count(1), []
    for taken in captures:
        this = taken.layer_call(layer, kind)
        layers = []
        for blocks in taken.in_rows(kind):
            layers.append(_mean((_of_head(this, head, range(rows.start, rows.stop)), rows) for rows in blocks))
            if on_progress is not None:
                on_progress(next(steps))
        found.append(np.stack(layers))
    values = np.mean(found, axis=0)
    places = np.column_stack(np.unravel_index(np.argsort(values, axis=None, kind="stable"), values.shape))
    others = places[(places != (layer, head)).any(axis=1)]
    return pd.DataFrame({"layer": others[:, 0], "head": others[:, 1], "divergence": values[tuple(others.T)]})


def random_pairs_divergence(
    capture: Capture,
    kind: Kind | None = None,
    *,
    pairs: int = PAIRS,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> RandomPairs:
    """Measure the divergence of two heads drawn at random on this text, beside which another divergence can be judged.

    pairs        how many are drawn; of a small model with fewer, all
    on_progress  called after every pair with how many are done; what it raises stops the work

    On a text of more than 256 queries, 256 of them in 16 stretches spread evenly over it. Raises InputError for a model with a
    single head.
    """
    heads = capture.heads(kind)
    every = capture.layers(kind) * heads
    if every < 2:
        raise InputError(f"{capture.model.name} has a single head: there are no two to compare.", field="model")
    drawn = random.Random(seed).sample(range(every * (every - 1)), min(pairs, every * (every - 1)))
    stretches = _stretches(capture.shape(kind)[0])
    found = []
    for done, number in enumerate(drawn, start=1):
        first, second = divmod(number, every - 1)
        second += second >= first  # never with itself
        calls = [(capture.layer_call(place // heads, kind), place % heads) for place in (first, second)]
        found.append(_mean([_of_head(*call, rows) for call in calls] for rows in stretches).item())
        if on_progress is not None:
            on_progress(done)
    low, high = np.quantile(found, (0.05, 0.95)).tolist()
    return RandomPairs(float(np.mean(found)), low, high, len(found), sum(map(len, stretches)))


def _mean(blocks: Iterable[Sequence[Rows] | tuple[Rows, Rows]]) -> NDArray[np.float64]:
    """[heads] mean divergence over all rows of two blocks after the other; one head may be compared with several."""
    total, rows = torch.zeros(()), 0
    with torch.inference_mode():
        for one, other in blocks:
            of_rows = divergence(*_as_wide(one.weights, other.weights))
            total = total + of_rows.sum(dim=-1, dtype=torch.float64)
            rows += of_rows.shape[-1]
    return (total / rows).numpy(force=True)


def _as_wide(one: Tensor, other: Tensor) -> Iterator[Tensor]:
    """Both with all keys of either: a block leaves off those at the end that no row of it may attend to."""
    keys = max(one.shape[-1], other.shape[-1])
    return (pad(weights, (0, keys - weights.shape[-1])) for weights in (one, other))


def _of_head(call: Call, head: int, rows: range) -> Rows:
    """These rows of one head, which are a single block where they are one of all heads."""
    (block,) = row_blocks(call, head, rows=rows)
    return block


def _stretches(queries: int) -> list[range]:
    if queries <= QUERIES:
        return [range(queries)]
    length = QUERIES // STRETCHES
    return [range(start, start + length) for start in np.linspace(0, queries - length, STRETCHES).astype(int).tolist()]


def _refuse_unlike(one: Capture, other: Capture, kind: Kind | None) -> None:
    sizes = [(taken.layers(kind), taken.heads(kind)) for taken in (one, other)]
    if sizes[0] != sizes[1]:
        (layers, heads), (other_layers, other_heads) = sizes
        raise InputError(
            f"{one.model.name} has {layers} layers of {heads} heads and {other.model.name} {other_layers} of {other_heads}: "
            f"heads of different models have no common places. Use two passes of one model.",
            field="model",
        )
