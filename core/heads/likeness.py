"""Likeness of heads: the same head in two passes, one head and all others, two at random.

The measure is the Jensen-Shannon divergence of rows of weights (`core.heads.comparing`), for a head the mean over its rows:
0 for the same weights, ln 2 for heads that never look at the same key.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..capturing.calls.rows import Rows, row_blocks
from ..capturing.capture import Capture
from ..errors import model_error, text_error
from ..models.calls import Call
from ..models.modules import Kind
from ..progress import OnProgress, step_counter
from ..threads import side_by_side
from .comparing import divergence

PAIRS = 64
QUERIES = 256  # of a long text that random pairs are compared on,
STRETCHES = 16  # in so many stretches: every one of them is a piece of work of its own


@dataclass(frozen=True)
class RandomPairs:
    """The mean divergence of pairs of random heads over some queries of a text, in nats; 90% lie between low and high."""

    mean: float
    low: float
    high: float
    pairs: int
    queries: int


def head_changes(
    before: Capture, after: Capture, kind: Kind | None = None, *, on_progress: OnProgress | None = None
) -> NDArray[np.float64]:
    """Measure the change of every head between two passes: [layers, heads], mean divergence of its rows in [0, ln 2].

    Exactly 0 for a head whose weights are the same. Raises InputError unless both passes have equally many heads and tokens.
    """
    return np.stack(side_by_side(_mean, rows_of_both(before, after, kind), on_progress))


def weight_differences(before: Capture, after: Capture, kind: Kind | None = None) -> NDArray[np.float64]:
    """The largest absolute difference of a weight in every head: [layers, heads] in [0, 1]. Errors as in `head_changes`."""
    return np.stack(side_by_side(_largest_difference, rows_of_both(before, after, kind))).astype(np.float64)


def _largest_difference(blocks: Iterable[tuple[Rows, Rows]]) -> NDArray[np.floating]:
    """[heads]"""
    with torch.inference_mode():
        pairs = (as_wide(one.weights, other.weights) for one, other in blocks)
        largest = [(one - other).abs().amax(dim=(1, 2)) for one, other in pairs]
        return torch.stack(largest).amax(dim=0).numpy(force=True)


def rows_of_both(before: Capture, after: Capture, kind: Kind | None = None) -> Iterator[Iterable[tuple[Rows, Rows]]]:
    """Blocks of rows in both passes, layer by layer. Errors as in `head_changes`."""
    refuse_unlike(before, after, kind)
    if before.shape(kind) != after.shape(kind):
        raise text_error(
            f"The first pass is over {before.shape(kind)} and the second over {after.shape(kind)} (queries, keys): to say how "
            f"each row changed, both need as many tokens. Compare two heads of them with their tokens aligned instead."
        )
    return starmap(_same_rows, zip(before.each_layer(kind), after.each_layer(kind), strict=True))


def _same_rows(before: Call, after: Call) -> Iterator[tuple[Rows, Rows]]:
    """The blocks of two layers cut where either has an end: an edit of the mask changes how many rows fit into a block."""
    for block in row_blocks(before):
        for other in row_blocks(after, rows=range(block.start, block.stop)):
            [one] = row_blocks(before, rows=range(other.start, other.stop))
            yield one, other


def heads_like(
    captures: Sequence[Capture],
    layer: int,
    head: int,
    kind: Kind | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """All other heads of a model with their mean divergence from this one, the nearest first: layer, head, divergence.

    Each capture counts as much as another. Raises InputError for no captures, captures of different models, and a head that is
    not there.
    """
    if not captures:
        raise text_error("There is no text to compare heads on. Give at least one capture.")
    for other in captures[1:]:
        refuse_unlike(captures[0], other, kind)
    captures[0].key_head(layer, head, kind)  # raises where there is none
    step, by_capture = step_counter(on_progress), []
    for passed in captures:
        this = passed.layer_call(layer, kind)

        def from_this(blocks: Iterable[Rows], this: Call = this) -> NDArray[np.float64]:
            return _mean((_of_head(this, head, range(rows.start, rows.stop)), rows) for rows in blocks)

        by_capture.append(np.stack(side_by_side(from_this, passed.in_rows(kind), lambda _: step())))
    mean = np.mean(by_capture, axis=0)
    order = np.argsort(mean, axis=None, kind="stable")
    layers, heads = np.unravel_index(order[order != np.ravel_multi_index((layer, head), mean.shape)], mean.shape)
    return pd.DataFrame({"layer": layers, "head": heads, "divergence": mean[layers, heads]})


def random_pairs_divergence(
    capture: Capture,
    kind: Kind | None = None,
    *,
    pairs: int = PAIRS,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> RandomPairs:
    """Measure the divergence of pairs of heads drawn at random on this text, to judge other divergences by.

    On a text of more than 256 queries, 256 of them in 16 stretches spread evenly over it. Raises InputError for a model with a
    single head.
    """
    heads = capture.heads(kind)
    every = capture.layers(kind) * heads
    if every < 2:
        raise model_error(f"{capture.model.name} has a single head: there are no two to compare.")
    drawn = random.Random(seed).sample(range(every * (every - 1)), min(pairs, every * (every - 1)))
    stretches, step = _stretches(capture.shape(kind)[0]), step_counter(on_progress)
    means = []
    for number in drawn:
        first, second = divmod(number, every - 1)
        second += second >= first  # never with itself
        calls = [(capture.layer_call(place // heads, kind), place % heads) for place in (first, second)]
        means.append(_mean([_of_head(*call, rows) for call in calls] for rows in stretches).item())
        step()
    low, high = np.quantile(means, (0.05, 0.95)).tolist()
    return RandomPairs(float(np.mean(means)), low, high, len(means), sum(map(len, stretches)))


def _mean(blocks: Iterable[Sequence[Rows] | tuple[Rows, Rows]]) -> NDArray[np.float64]:
    """[heads] mean divergence over all rows of two blocks after the other; one head may be compared with several."""
    total, rows = torch.zeros(()), 0
    with torch.inference_mode():
        for one, other in blocks:
            of_rows = divergence(*as_wide(one.weights, other.weights))
            total = total + of_rows.sum(dim=-1, dtype=torch.float64)
            rows += of_rows.shape[-1]
    return (total / rows).numpy(force=True)


def as_wide(one: Tensor, other: Tensor) -> Iterator[Tensor]:
    """Both with all keys of either: a block leaves off those at the end that no row of it may attend to."""
    keys = max(one.shape[-1], other.shape[-1])
    return (pad(weights, (0, keys - weights.shape[-1])) for weights in (one, other))


def _of_head(call: Call, head: int, rows: range) -> Rows:
    """Rows of one head in a single block. They are those of a block of all heads, maybe of a layer with another mask."""
    (block,) = row_blocks(call, head, rows=rows, cells=len(rows) * call.key.shape[2])
    return block


def _stretches(queries: int) -> list[range]:
    if queries <= QUERIES:
        return [range(queries)]
    length = QUERIES // STRETCHES
    return [range(start, start + length) for start in np.linspace(0, queries - length, STRETCHES).astype(int).tolist()]


def refuse_unlike(one: Capture, other: Capture, kind: Kind | None) -> None:
    """Raise InputError (field "model") for passes of models of different shapes."""
    layers, heads = one.layers(kind), one.heads(kind)
    other_layers, other_heads = other.layers(kind), other.heads(kind)
    if (layers, heads) != (other_layers, other_heads):
        raise model_error(
            f"{one.model.name} has {layers} layers of {heads} heads and {other.model.name} {other_layers} of {other_heads}: "
            f"heads of models of different shapes have no common places. Use one model, or copies of it."
        )
