"""Numbers about a head: what its attention is like, over all the queries of a text.

Each metric is first a number for every query; a head has the mean over its queries, and their standard deviation as the
spread. They are measured on the exact weights, all heads of a layer together and a few rows at a time
(`core.capturing.calls.rows`), so that memory grows linearly with the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..attention.trace import part_of
from ..capturing.calls.rows import Rows, row_blocks
from ..capturing.capture import Capture
from ..capturing.weights_only import WeightRows
from ..errors import check_index
from ..models.modules import Kind
from ..progress import OnProgress
from ..threads import side_by_side
from .quantities import LOCAL, HeadRows, KeyText, Need, Pass, text_of

Group = Literal["Position", "Repetition", "Kind of token", "Spread"]
High = Literal["1", "ln n", "n - 1"]
GROUPS: tuple[Group, ...] = get_args(Group)  # in the order of menus


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number about a head, at least 0: what it means, and how it is measured.

    name      the column of `head_metrics`; its spread over the queries is in `<name>_spread`
    group     what it is about, one of `GROUPS`
    label     what a page calls it
    formula   in LaTeX; w_qk is the weight that query q gives to key k
    high      the upper end of its range: a key of `HIGHEST`, where n is the number of keys
    unit      "nats", "tokens", or "" for a share
    measure   its number for every query of a block: [heads, rows], NaN for a query that has nothing to measure
    needs     what a text must have for the metric to mean anything; else it is NaN and not measured
    keys      of a share, the keys that get it, as claims call them (`core.claims.terms`)
    """

    name: str
    group: Group
    label: str
    formula: str
    high: High = "1"
    unit: str = ""
    words: str
    source: str
    measure: Callable[[HeadRows], Tensor]
    needs: tuple[Need, ...] = ()
    keys: str | None = None

    def highest(self, keys: int) -> float:
        """The upper end of its range as a number, for so many keys."""
        return float(HIGHEST[self.high](keys))


HIGHEST: dict[High, Callable[[int], float]] = {"1": lambda _: 1, "ln n": math.log, "n - 1": lambda keys: keys - 1}

# Every menu and table offers these. Their labels stand in addresses: add, but do not rename.
METRICS = (
    Metric(
        name="entropy",
        group="Spread",
        label="Entropy",
        formula=r"-\sum_k w_{qk} \ln w_{qk}",
        high="ln n",
        unit="nats",
        words="How spread out the attention is: 0 on a single token, ln n evenly on n.",
        source="Shannon 1948; for attention heads Clark et al. 2019, section 3.3",
        measure=lambda block: block.entropy,
    ),
    Metric(
        name="entropy_share",
        group="Spread",
        label="Entropy, share",
        formula=r"-\sum_k w_{qk} \ln w_{qk} \,/\, \ln n_q",
        words="Entropy divided by the largest that is possible for the keys a query may attend to (n_q).",
        source="Pielou 1966 (evenness), the same as normalised entropy",
        measure=lambda block: torch.where(
            block.rows.choices > 1, block.entropy / block.rows.choices.clamp_min(2).log(), torch.nan
        ),
        needs=("mask",),
    ),
    Metric(
        name="sink",
        group="Position",
        label="First token",
        formula=r"w_{q0}",
        words="Share on the first token, where many heads put attention they have no use for.",
        source="Xiao et al. 2024 (attention sinks); Gu et al. 2025",
        keys="the first token",
        measure=lambda block: block.weights[..., 0],
    ),
    Metric(
        name="self",
        group="Position",
        label="Itself",
        formula=r"w_{qq}",
        words="Share on the token itself: the diagonal.",
        source="Clark et al. 2019, section 3.1",
        keys="itself",
        measure=lambda block: block.beside(0),
        needs=("one text",),
    ),
    Metric(
        name="previous",
        group="Position",
        label="Previous token",
        formula=r"w_{q,q-1}",
        words="Share on the token just before.",
        source="Voita et al. 2019, section 5.1 (positional heads); Elhage et al. 2021",
        keys="the previous token",
        measure=lambda block: block.beside(-1),
        needs=("one text",),
    ),
    Metric(
        name="next",
        group="Position",
        label="Next token",
        formula=r"w_{q,q+1}",
        words="Share on the token just after; always 0 where looking ahead is masked.",
        source="Voita et al. 2019, section 5.1",
        keys="the next token",
        measure=lambda block: block.beside(1),
        needs=("one text",),
    ),
    Metric(
        name="special",
        group="Kind of token",
        label="Special tokens",
        formula=r"\sum_{k \in \text{special}} w_{qk}",
        words="Share on tokens that stand for no text, such as [CLS] and [SEP].",
        source="Clark et al. 2019, section 3.2",
        keys="special tokens",
        measure=lambda block: block.sums.special,
        needs=("special tokens",),
    ),
    Metric(
        name="punctuation",
        group="Kind of token",
        label="Punctuation",
        formula=r"\sum_{k \in \text{punctuation}} w_{qk}",
        words="Share on commas, full stops and other punctuation.",
        source="Clark et al. 2019, section 3.2",
        keys="punctuation",
        measure=lambda block: block.sums.punctuation,
        needs=("punctuation",),
    ),
    Metric(
        name="duplicate",
        group="Repetition",
        label="Duplicate token",
        formula=r"\sum_{k < q,\; t_k = t_q} w_{qk}",
        words="Share on earlier occurrences of the same token, over the queries that have one.",
        source="Wang et al. 2023 (duplicate token heads)",
        keys="its occurrences",
        measure=lambda block: block.on_earlier[0],
        needs=("one text", "token numbers"),
    ),
    Metric(
        name="induction",
        group="Repetition",
        label="Induction",
        formula=r"\sum_{k < q,\; t_{k-1} = t_q} w_{qk}",
        words="Share on tokens that followed an earlier occurrence of the same token, over the queries that have one.",
        source="Olsson et al. 2022 (prefix matching); Elhage et al. 2021",
        keys="the tokens after its occurrences",
        measure=lambda block: block.on_earlier[1],
        needs=("one text", "token numbers"),
    ),
    Metric(
        name="distance",
        group="Position",
        label="Mean distance",
        formula=r"\sum_k w_{qk} \, |q - k| \,/\, \sum_k w_{qk}",
        high="n - 1",
        unit="tokens",
        words="How far away the tokens are that it attends to, on average.",
        source="Vig and Belinkov 2019",
        measure=lambda block: block.distance / block.sums.total,
        needs=("one text",),
    ),
    Metric(
        name="largest",
        group="Spread",
        label="Largest weight",
        formula=r"\max_k w_{qk}",
        words="The weight of the token that gets most.",
        source="Voita et al. 2019, section 4 (confidence)",
        measure=lambda block: block.largest,
    ),
    Metric(
        name="elsewhere",
        group="Spread",
        label="Largest elsewhere",
        formula=r"\max_{k \ne 0,\, k \ne q,\, k \notin \text{special}} w_{qk}",
        words="The largest weight on a token that is neither the first, nor the query itself, nor special.",
        source="defined here: what is left of the largest weight without the places where attention rests",
        measure=lambda block: block.elsewhere,
        needs=("one text", "mask"),
    ),
    Metric(
        name="locality",
        group="Position",
        label="Near tokens",
        formula=rf"\sum_{{|q - k| \le {LOCAL}}} w_{{qk}}",
        words=f"Share on tokens at most {LOCAL} positions away, itself included.",
        source="defined here; windows of this kind in Beltagy et al. 2020",
        keys="a token at distance -5 to 5",
        measure=lambda block: block.near.sum(-1),
        needs=("one text",),
    ),
)
NAMES = tuple(metric.name for metric in METRICS)


def head_metrics(passed: Pass, kind: Kind | None = None, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    """Every metric of every head on a text: a row a head.

    Columns: layer, head; for each of `METRICS` its mean over the queries and `<name>_spread`, their standard deviation;
    and strongest_key, the position of the key that gets most of all queries together, and strongest_share, what it gets of
    a query on average. NaN where a metric has nothing to measure: no punctuation in the text, no repeated token, two
    different texts, a mask that is not known. Queries that may attend to nothing are left out.
    """
    kind = passed.kinds[0] if kind is None else kind
    text, (queries, _) = text_of(passed, kind), passed.shape(kind)

    def summary(blocks: Iterable[Rows | WeightRows]) -> tuple[Tensor, ...]:
        with torch.inference_mode():
            values, received = measure(blocks, text, queries)
            values, (share, key) = values.double(), received.max(dim=1)
            mean = values.nanmean(dim=-1)  # over the queries that have something to measure
            return mean, values.sub_(mean[..., None]).square_().nanmean(dim=-1).sqrt(), share, key

    layers = side_by_side(summary, passed.in_rows(kind), on_progress)
    means, spreads, shares, keys = (torch.cat(parts, dim=-1).numpy(force=True) for parts in zip(*layers, strict=True))
    heads = [len(key) for *_, key in layers]
    columns = {"layer": np.repeat(np.arange(len(heads)), heads), "head": np.concatenate([*map(np.arange, heads)])}
    for name, mean, spread in zip(NAMES, means, spreads, strict=True):
        columns |= {name: mean, f"{name}_spread": spread}
    return pd.DataFrame(columns | {"strongest_key": keys, "strongest_share": shares})


def measure(blocks: Iterable[Rows | WeightRows], text: KeyText, queries: int) -> tuple[Tensor, Tensor]:
    """Measure all queries of some heads, from blocks of their rows in order. Returns

    values    [metrics, heads, queries] in the order of `METRICS`, NaN where there is nothing to measure
    received  [heads, keys] what each key gets of a query, on average over all that may attend to anything
    """
    values, received, attending = [], torch.zeros(1, len(text.special), dtype=torch.float64), torch.zeros(())
    for rows in blocks:
        block = HeadRows(rows, text, queries)
        values.append(measure_block(block))
        sums = block.weights.sum(dim=1)
        received = received.expand(len(sums), -1).contiguous()
        received[:, : sums.shape[1]] += sums
        attending = attending + (block.choices > 0).sum(dim=1)
    return torch.cat(values, dim=2), received / attending[:, None]


def measure_block(block: HeadRows) -> Tensor:
    """`values` of `measure` for the rows of one block."""
    unmeasured = torch.full_like(block.largest, torch.nan)
    offers = block.text.offers
    values = [metric.measure(block) if offers.issuperset(metric.needs) else unmeasured for metric in METRICS]
    return torch.stack(values).masked_fill_(block.choices == 0, torch.nan)


def largest(values: NDArray[np.floating]) -> tuple[int, ...] | None:
    """The index of the largest number, such as the (layer, head) of one of every head; None where none is known and above 0."""
    if not (values > 0).any():  # NaN is not
        return None
    return tuple(map(int, np.unravel_index(np.nanargmax(values), values.shape)))


def standing_out(measured: pd.DataFrame) -> dict[str, int]:
    """The heads to look at first: metric -> row of the head that stands out by it, the clearest first.

    For each share that keys get of any query, the head with the largest mean; first those shares in which it is farthest
    above the median head. Left out are shares in which all heads are equal, heads that are named already, and the first token
    and special tokens: most heads look there, and it says least about them.

    measured  from `head_metrics`
    """
    left_out = ("sink", "special", "duplicate", "induction")  # the last two are over a few of the queries
    of_keys = [metric.name for metric in METRICS if metric.keys and metric.name not in left_out]
    shares = {name: measured[name].to_numpy() for name in of_keys}
    lead = {name: np.nanmax(share) - np.nanmedian(share) for name, share in shares.items() if not np.isnan(share).all()}
    best: dict[str, int] = {}
    for name in sorted((name for name in lead if lead[name] > 0), key=lambda name: -lead[name]):
        row = int(np.nanargmax(shares[name]))
        if row not in best.values():
            best[name] = row
    return best


def most_telling(measured: pd.DataFrame) -> str:
    """The name of the metric to look at first: the one by which a head stands out most. measured: from `head_metrics`"""
    return next(iter(standing_out(measured)), "entropy")


# --- one query in every head


@torch.inference_mode()
def one_query(capture: Capture, query: int, kind: Kind | None = None) -> NDArray[np.float32]:
    """The weights of one query in every head: [layers, heads, keys]. Raises InputError where there is no such query."""
    _, keys = capture.shape(kind)
    weights = np.zeros((capture.layers(kind), capture.heads(kind), keys), dtype=np.float32)
    for of_layer, rows in zip(weights, _rows_of(capture, query, kind), strict=True):
        of_heads = rows.weights[:, 0].numpy(force=True)
        of_layer[: len(of_heads), : of_heads.shape[1]] = of_heads
    return weights


@torch.inference_mode()
def pair_weights(passed: Pass, query: int, key: int, kind: Kind | None = None) -> NDArray[np.float32]:
    """The weight of one pair of tokens in every head: [layers, heads], how much the query gives to the key.

    passed  from `capture` or `attention_weights`

    NaN where the query may not attend to the key; 0 there if the model exposes only its weights, because its mask is unknown.
    Only the row of this query is computed. Raises InputError (field "query" or "key") where there is no such token.
    """
    check_index(key, passed.shape(kind)[1], "key")
    weights = np.full((passed.layers(kind), passed.heads(kind)), np.nan, dtype=np.float32)
    for of_layer, rows in zip(weights, _rows_of(passed, query, kind), strict=True):
        if key < rows.allowed.shape[2]:  # a row ends with the last key that any head may attend to
            of_heads = torch.where(rows.allowed[:, 0, key], rows.weights[:, 0, key], torch.nan)
            of_layer[: len(of_heads)] = of_heads.numpy(force=True)
    return weights


def _rows_of(passed: Pass, query: int, kind: Kind | None) -> Iterator[Rows | WeightRows]:
    """The row of one query in all heads, layer by layer."""
    rows = range(query, query + 1)
    part_of(rows, passed.shape(kind)[0], "query")
    if isinstance(passed, Capture):
        for call in passed.each_layer(kind):
            yield from row_blocks(call, rows=rows)
        return
    for blocks in passed.in_rows(kind):
        block = next(block for block in blocks if query < block.stop)
        yield WeightRows(query, block.weights[:, query - block.start, None])
