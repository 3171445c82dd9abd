"""Numbers about a head: what its attention is like, over all the queries of a text.

Each metric is first a number for every query; a head has the mean over its queries, and their standard deviation as the
spread. They are measured on the exact weights, all heads of a layer together and a few rows at a time
(`core.capturing.rows`), so that memory grows linearly with the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.capturing.capture import Capture
from core.capturing.rows import Rows, row_blocks
from core.models.modules import Kind
from core.models.words import token_classes

LOCAL = 5  # tokens to either side that count as near


@dataclass(frozen=True)
class Metric:
    """What a number about a head means.

    name     the column of `head_metrics`; its spread over the queries is in `<name>_spread`
    label    what a page calls it
    formula  in LaTeX; w_qk is the weight that query q gives to key k
    low, high  its range; n is the number of keys
    unit     "nats", "tokens", or "" for a share
    words    one sentence
    source   where it comes from
    likeness what a head is called that has much of it, as the end of "mostly ..."; None for those that describe no habit
    """

    name: str
    label: str
    formula: str
    low: str
    high: str
    unit: str
    words: str
    source: str
    likeness: str | None = None


METRICS = (
    Metric(
        "entropy",
        "Entropy",
        r"-\sum_k w_{qk} \ln w_{qk}",
        "0",
        "ln n",
        "nats",
        "How spread out the attention is: 0 on a single token, ln n evenly on n.",
        "Shannon 1948; for attention heads Clark et al. 2019, section 3.3",
    ),
    Metric(
        "entropy_share",
        "Entropy, share",
        r"-\sum_k w_{qk} \ln w_{qk} \,/\, \ln n_q",
        "0",
        "1",
        "",
        "Entropy divided by the largest that is possible for the keys a query may attend to (n_q).",
        "Pielou 1966 (evenness), the same as normalised entropy",
    ),
    Metric(
        "sink",
        "First token",
        r"w_{q0}",
        "0",
        "1",
        "",
        "Share on the first token, where many heads put attention they have no use for.",
        "Xiao et al. 2024 (attention sinks); Gu et al. 2025",
        "the first token",
    ),
    Metric(
        "self",
        "Itself",
        r"w_{qq}",
        "0",
        "1",
        "",
        "Share on the token itself: the diagonal.",
        "Clark et al. 2019, section 3.1",
        "the token itself",
    ),
    Metric(
        "previous",
        "Previous token",
        r"w_{q,q-1}",
        "0",
        "1",
        "",
        "Share on the token just before.",
        "Voita et al. 2019, section 5.1 (positional heads); Elhage et al. 2021",
        "the previous token",
    ),
    Metric(
        "next",
        "Next token",
        r"w_{q,q+1}",
        "0",
        "1",
        "",
        "Share on the token just after; always 0 where looking ahead is masked.",
        "Voita et al. 2019, section 5.1",
        "the next token",
    ),
    Metric(
        "special",
        "Special tokens",
        r"\sum_{k \in \text{special}} w_{qk}",
        "0",
        "1",
        "",
        "Share on tokens that stand for no text, such as [CLS] and [SEP].",
        "Clark et al. 2019, section 3.2",
        "special tokens",
    ),
    Metric(
        "punctuation",
        "Punctuation",
        r"\sum_{k \in \text{punctuation}} w_{qk}",
        "0",
        "1",
        "",
        "Share on commas, full stops and other punctuation.",
        "Clark et al. 2019, section 3.2",
        "punctuation",
    ),
    Metric(
        "duplicate",
        "Duplicate token",
        r"\sum_{k < q,\; t_k = t_q} w_{qk}",
        "0",
        "1",
        "",
        "Share on earlier occurrences of the same token, over the queries that have one.",
        "Wang et al. 2023 (duplicate token heads)",
    ),
    Metric(
        "induction",
        "Induction",
        r"\sum_{k < q,\; t_{k-1} = t_q} w_{qk}",
        "0",
        "1",
        "",
        "Share on tokens that followed an earlier occurrence of the same token, over the queries that have one.",
        "Olsson et al. 2022 (prefix matching); Elhage et al. 2021",
    ),
    Metric(
        "distance",
        "Mean distance",
        r"\sum_k w_{qk} \, |q - k| \,/\, \sum_k w_{qk}",
        "0",
        "n - 1",
        "tokens",
        "How far away the tokens are that it attends to, on average.",
        "Vig and Belinkov 2019",
    ),
    Metric(
        "largest",
        "Largest weight",
        r"\max_k w_{qk}",
        "0",
        "1",
        "",
        "The weight of the token that gets most.",
        "Voita et al. 2019, section 4 (confidence)",
    ),
    Metric(
        "locality",
        "Near tokens",
        rf"\sum_{{|q - k| \le {LOCAL}}} w_{{qk}}",
        "0",
        "1",
        "",
        f"Share on tokens at most {LOCAL} positions away, itself included.",
        "defined here; windows of this kind in Beltagy et al. 2020",
        "tokens close by",
    ),
)
NAMES = tuple(metric.name for metric in METRICS)

# Between two different texts, positions and occurrences mean nothing.
_WITHIN_ONE_TEXT = {"self", "previous", "next", "duplicate", "induction", "distance", "locality"}


@dataclass(frozen=True, eq=False)
class Text:
    """What the metrics need to know of the tokens.

    ids          [keys] token numbers, or None where there are none (pictures)
    special      [keys] bool
    punctuation  [keys] bool
    same         whether queries and keys are the tokens of one text
    """

    ids: NDArray[np.integer] | None
    special: NDArray[np.bool_]
    punctuation: NDArray[np.bool_]
    same: bool


def head_metrics(
    capture: Capture, kind: Kind | None = None, *, on_progress: Callable[[int], None] | None = None
) -> pd.DataFrame:
    """Every metric of every head on the captured text: a row a head.

    Columns: layer, head, then for each of `METRICS` its mean over the queries and `<name>_spread`, their standard deviation.
    NaN where a metric has nothing to measure: no punctuation in the text, no repeated token, two different texts. Queries
    that may attend to nothing are left out.

    kind   as in `Capture.trace`
    on_progress  called after every layer with how many are done; what it raises stops the measuring
    """
    kind = capture.kinds[0] if kind is None else kind
    text = text_of(capture, kind)
    columns: dict[str, list[NDArray]] = {}
    for layer, call in enumerate(capture.calls[kind]):
        with torch.inference_mode():
            measured = measure(row_blocks(call), text, call.query.shape[2])
            for name, values in _columns(layer, measured).items():
                columns.setdefault(name, []).append(values)
        if on_progress is not None:
            on_progress(layer + 1)
    return pd.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})


def text_of(capture: Capture, kind: Kind) -> Text:
    """The key tokens of one kind of attention."""
    ids = capture.target_ids if kind == "decoder" else capture.input_ids
    count = capture.calls[kind][0].key.shape[2]
    if len(ids) != count:  # patches of a picture have no token numbers
        nothing = np.zeros(count, dtype=np.bool_)
        return Text(None, nothing, nothing, same=True)
    classes = token_classes(capture.model.tokenizer, ids)
    return Text(np.asarray(ids), classes.special, classes.punctuation, same=kind != "cross")


def measure(blocks: Iterable[Rows], text: Text, queries: int) -> Tensor:
    """Each metric of some heads for every query: [metrics, heads, queries] in the order of `METRICS`, NaN where there is
    nothing to measure."""
    kinds = torch.from_numpy(np.stack([np.ones_like(text.special), text.special, text.punctuation], axis=1))
    earlier = Occurrences(text.ids) if text.ids is not None and text.same else None
    joined: dict[str, Tensor] = {}
    for rows in blocks:
        found = _of_every_text(rows, kinds)
        if text.same:
            found |= _of_positions(rows, found["total"], found.pop("place"))
        if earlier is not None:
            found["duplicate"], found["induction"] = earlier.shares(rows.weights, rows.start)
        for name, values in found.items():
            # Into one array each: kept as they are, views would keep the weights of their blocks, and all of them in the end.
            if name not in joined:
                joined[name] = values.new_empty(values.shape[0], queries)
            joined[name][:, rows.start : rows.stop] = values
    return _where_known(joined, text, queries)


def _of_every_text(rows: Rows, kinds: Tensor) -> dict[str, Tensor]:
    """What can be told of any block of rows, and what is needed to tell more: [heads, rows] each."""
    weights = rows.weights
    keys = weights.shape[2]
    # Positions are counted from the block's first row: small numbers where the weights of local heads are.
    place = torch.arange(-rows.start, keys - rows.start, dtype=weights.dtype)
    features = torch.cat([kinds[:keys].to(weights.dtype), place[:, None]], dim=1)
    total, special, punctuation, mean_place = (weights @ features).unbind(-1)
    largest = weights.amax(-1)
    # -Σ w ln w with ln w = score - ln Σ e^score; the logarithm of a sum per row is cheaper than that of every weight.
    tiny = torch.finfo(weights.dtype).tiny
    normaliser = rows.masked.amax(-1) - largest.clamp_min(tiny).log()
    weighted_scores = (weights * rows.scores).sum(-1)
    return {
        "entropy": normaliser * total - weighted_scores,
        "sink": weights[..., 0],
        "special": special,
        "punctuation": punctuation,
        "largest": largest,
        "total": total,
        "place": mean_place,
        "choices": rows.allowed.sum(dim=-1).expand(weights.shape[:2]),
    }


def _of_positions(rows: Rows, total: Tensor, place: Tensor) -> dict[str, Tensor]:
    """What depends on where queries and keys stand; total is Σ w, place Σ w k counted from the first row."""
    weights, start = rows.weights, rows.start
    near = _near(weights, start)
    query = torch.arange(weights.shape[1], dtype=weights.dtype)
    later = torch.arange(weights.shape[2] - start, dtype=weights.dtype)
    # Σ w |q - k| = Σ w (q - k) + 2 Σ over k > q of w (k - q), which are few keys where looking ahead is masked.
    ahead = (weights[..., start:] * (later - query[:, None]).clamp_min(0)).sum(-1)
    return {
        "self": near[..., LOCAL],
        "previous": near[..., LOCAL - 1],
        "next": near[..., LOCAL + 1],
        "locality": near.sum(-1),
        "distance": query * total - place + 2 * ahead,
    }


def _where_known(joined: dict[str, Tensor], text: Text, queries: int) -> Tensor:
    """What `measure` gives, from what its blocks gave."""
    total, choices = joined["total"], joined["choices"]
    nothing = torch.full_like(total, torch.nan)
    place = torch.arange(queries)
    entropy = joined["entropy"].clamp_min(0)  # which rounding may miss by 1e-6
    found = joined | {
        "entropy": entropy,
        "entropy_share": torch.where(choices > 1, entropy / choices.clamp_min(2).log(), torch.nan),
        "special": joined["special"] if text.special.any() else nothing,
        "punctuation": joined["punctuation"] if text.punctuation.any() else nothing,
    }
    if text.same:
        found |= {
            "previous": torch.where(place > 0, joined["previous"], torch.nan),
            "next": torch.where(place < queries - 1, joined["next"], torch.nan),
            "distance": joined["distance"] / total,
        }
    return torch.stack([found.get(name, nothing) for name in NAMES]).masked_fill(choices == 0, torch.nan)


def _near(weights: Tensor, start: int) -> Tensor:
    """The weights from LOCAL positions before each query to LOCAL after it: [heads, rows, 2 LOCAL + 1], 0 outside the text."""
    rows, keys = weights.shape[1:]
    places = torch.arange(start, start + rows)[:, None] + torch.arange(-LOCAL, LOCAL + 1)
    inside = (places >= 0) & (places < keys)
    return weights[:, torch.arange(rows)[:, None], places.clamp(0, keys - 1)] * inside


class Occurrences:
    """Where in a text each token has been before: for each query its earlier copies, found without comparing all pairs."""

    def __init__(self, ids: NDArray[np.integer]) -> None:
        tokens = np.unique(ids, return_inverse=True)[1]
        order = np.argsort(
            tokens, kind="stable"
        )  # the places of every token, one token after another, each from the left
        starts = np.searchsorted(tokens[order], tokens)
        self._order = torch.from_numpy(order)
        self._first = torch.from_numpy(starts)  # [queries] where in `order` the places of the query's token begin
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        self._count = torch.from_numpy(places - starts)  # [queries] how many copies came before

    def shares(self, weights: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """The weight [heads, rows] on earlier copies of each query's token, and on what followed them before the query.

        NaN for queries that have none of these.
        """
        count = self._count[start : start + weights.shape[1]]
        row = torch.repeat_interleave(torch.arange(len(count)), count)
        within = torch.arange(len(row)) - (count.cumsum(0) - count)[row]
        copy = self._order[self._first[start : start + len(count)][row] + within]
        followed = copy + 1 < start + row  # by another token than the query itself
        return _summed(weights, row, copy), _summed(weights, row[followed], copy[followed] + 1)


def _summed(weights: Tensor, row: Tensor, key: Tensor) -> Tensor:
    """The weights at these places summed by row: [heads, rows], NaN for rows without any."""
    found = weights.new_full(weights.shape[:2], torch.nan)
    if not len(row):
        return found
    found[:, row] = 0
    return found.index_add_(1, row, weights[:, row, key])


def _columns(layer: int, measured: Tensor) -> dict[str, NDArray]:
    """The part of the table that one layer's heads fill, from [metrics, heads, queries]."""
    heads = measured.shape[1]
    columns: dict[str, NDArray] = {"layer": np.full(heads, layer), "head": np.arange(heads)}
    for name, mean, spread in zip(NAMES, *_mean_and_spread(measured.double()), strict=True):
        columns[name], columns[f"{name}_spread"] = mean.numpy(force=True), spread.numpy(force=True)
    return columns


def _mean_and_spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the queries that are not NaN: [..., queries] -> two of [...]; NaN if there are none."""
    mean = values.nanmean(dim=-1)
    return mean, (values - mean[..., None]).square().nanmean(dim=-1).sqrt()


def in_words(head: Mapping[str, float], probe: Mapping[str, float] | None = None) -> str:
    """What a head looks like, from its row of `head_metrics`: "Mostly the previous token (72%)".

    probe: its row of `probe_heads`, without which no head is called an induction or a duplicate-token head
    """
    names = {"is_induction": "Induction head", "is_duplicate": "Duplicate-token head"}
    called = [name for column, name in names.items() if probe is not None and probe[column]]
    return ". ".join([*called, _habit(head)])


def _habit(head: Mapping[str, float]) -> str:
    habits = {metric: head[metric.name] for metric in METRICS if metric.likeness is not None}
    known = {metric: share for metric, share in habits.items() if not math.isnan(share)}
    # Near tokens contain the token itself and its neighbours, special tokens often the first one: the narrower habit says more.
    exact = {metric: share for metric, share in known.items() if metric.name != "locality"}
    if head["sink"] > 0.8 * head["special"]:
        exact = {metric: share for metric, share in exact.items() if metric.name != "special"}
    strongest = sorted(exact, key=lambda metric: -exact[metric])[:2]
    strong = [f"{metric.likeness} ({exact[metric]:.0%})" for metric in strongest if exact[metric] >= 0.25]
    if strong and exact[strongest[0]] >= 0.5:
        return f"Mostly {strong[0]}"
    if strong:
        return f"Often {' or '.join(strong)}"
    if head["locality"] >= 0.5:
        return f"Mostly tokens close by ({head['locality']:.0%})"
    if head["entropy_share"] >= 0.9:
        return "Spread evenly"
    return "No single habit"
