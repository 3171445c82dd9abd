"""What changed in a copy of a model: every head of a base beside the same head of the copy, over many passages.

A copy is the same architecture with other numbers: fine-tuned, rounded to fewer bits, with an adapter, another checkpoint. Both
read the same passages. What is added up over them is exact (`core.averages`), so that neither the order of the passages nor
who reads them changes a digit. Every other passage belongs to the other half of the corpus: how far the halves differ says how
much of a change is the choice of passages. Where the two split a passage into different tokens, they are compared at the tokens
that they have in common.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..averages import ExactSum
from ..capturing.answers import pass_with_losses, require_losses
from ..capturing.calls.rows import Rows, row_blocks
from ..capturing.capture import Capture, capture, not_captured
from ..capturing.edits.edits import Edits
from ..capturing.recorder import by_kind
from ..errors import InputError
from ..heads.comparing import Alignment, HeadPair, align, divergence
from ..heads.likeness import as_wide, refuse_unlike, rows_of_both
from ..heads.metrics import NAMES, measure_block
from ..heads.quantities import HeadRows, KeyText, text_of
from ..models.calls import Call, wide
from ..models.inputs import all_inputs
from ..models.model import Model
from ..models.modules import Kind
from ..models.passages import PassageByPassage, passages_of
from ..progress import OnProgress, step_counter
from ..threads import side_by_side

MAX_TOKENS = 512  # of a passage, if the models read as many
HALVES = 2
LEAST_TOKENS = 2  # of a passage of which a token is predicted
COUNTS = ("predicted", "tokens", "passages", "unlike", "unread", "aligned", "apart", "swapped")
ARRAYS = ("heads", "swaps", "ids", "queries", "counts")


def what_changed(
    base: Model,
    copy: Model,
    texts: Iterable[str],
    kind: Kind | None = None,
    *,
    max_tokens: int = MAX_TOKENS,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Compare every head of a model with the same head of a copy of it: a row a head.

    texts        are cut into passages of at most `max_tokens` tokens
    on_progress  called after each passage with the number of passages so far

    Columns:

    layer, head
    divergence     how far the weights moved: the mean over all queries of the Jensen-Shannon divergence of both rows, in nats,
                   from 0 (the same) to ln 2
    noise          half the difference of its means over the two halves of the passages, every other passage in each; NaN for a
                   single passage
    output_change  how far the output of the head moved: the root of Σ|copy - base|² / Σ|base|² over all queries
    <metric>, <metric>_change  each metric of `head_metrics`, for the base, and how much more it is for the copy

    Where the tokens of a passage differ in the two models, they are aligned (`core.heads.comparing.align`), and all of this is
    measured over the queries that are the same token in both. The same model twice gives 0 everywhere. Raises InputError (field
    "model") for models of different shapes or without attention to compare, and (field "text") where no passage has a token in
    common in both.
    """
    return Comparing(base, copy, texts, kind, max_tokens=max_tokens).finished(on_progress).changes.table()


@dataclass(eq=False)
class Changes:
    """What is added up over passages, for a base and a copy of it (the axis [2] of both). H heads, M metrics.

    heads      [H, 2] the layer and the head of each
    swaps      [S, 2] those of the heads that are swapped back, one after another
    ids        [passages] uint64: `Passage.id` of those that whoever adds them wants to tell apart
    queries    [HALVES] int64: how many queries the passages of each half have
    divergence of each half, the sum over its queries: [HALVES, H]
    moved, lengths  the sums of |copy - base|² and |base|² over the outputs: [H]
    counts     [2, M, H] int64: over how many queries each metric was measured
    totals     the sums of each metric: [2, M, H]
    losses     the sums of -ln p of each token that both predict: [2]
    swapped_losses  of the copy as it is, and with each of the heads that are swapped back: [1 + S]
    predicted, tokens, passages  how many tokens were predicted, and how many were read, in how many passages
    unlike, unread  how many passages were left out, because no token is the same in both and because they could not be read
    aligned, apart  how many passages are compared where their tokens agree, and how many tokens of the base in them do not
    swapped    how many tokens were predicted while heads were swapped back
    """

    heads: NDArray[np.int64]
    swaps: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    ids: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    queries: NDArray[np.int64] = field(default_factory=lambda: np.zeros(HALVES, np.int64))
    predicted: int = 0
    tokens: int = 0
    passages: int = 0
    unlike: int = 0
    unread: int = 0
    aligned: int = 0
    apart: int = 0
    swapped: int = 0

    def __post_init__(self) -> None:
        count, metrics = len(self.heads), len(NAMES)
        self.counts = np.zeros((2, metrics, count), np.int64)
        self.sums = {
            "divergence": ExactSum.zeros(HALVES, count),
            "moved": ExactSum.zeros(count),
            "lengths": ExactSum.zeros(count),
            "totals": ExactSum.zeros(2, metrics, count),
            "losses": ExactSum.zeros(2),
            "swapped_losses": ExactSum.zeros(1 + len(self.swaps)),
        }

    def merge(self, other: Changes) -> None:
        """Add the sums over other passages. Raises ValueError for those of other heads."""
        if not (np.array_equal(self.heads, other.heads) and np.array_equal(self.swaps, other.swaps)):
            raise ValueError("Changes of other heads cannot be added.")
        self.ids = np.concatenate([self.ids, other.ids])
        for name, total in self.sums.items():
            total.merge(other.sums[name])
        self.counts += other.counts
        self.queries += other.queries
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def table(self) -> pd.DataFrame:
        """The columns of `what_changed`. Raises InputError (field "text") where nothing was compared."""
        if not self.passages:
            why = "The two models have no token in common in any passage: no row of one belongs to one of the other."
            raise InputError(f"{why} Choose a copy with the same tokenizer.", field="text")
        halves = self.sums["divergence"].values
        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = halves / self.queries[:, None]
            output = np.sqrt(self.sums["moved"].values / self.sums["lengths"].values)
            before, after = self.sums["totals"].values / self.counts
        columns: dict[str, Any] = {
            "layer": self.heads[:, 0],
            "head": self.heads[:, 1],
            "divergence": halves.sum(axis=0) / self.queries.sum(),
            "noise": np.abs(first - second) / 2,
            "output_change": output,
        }
        for name, one, other in zip(NAMES, before, after, strict=True):
            columns |= {name: one, f"{name}_change": other - one}
        return pd.DataFrame(columns)

    @property
    def loss(self) -> tuple[float, float] | None:
        """The mean of -ln p of each token for the base and for the copy, in nats; None for models that predict none."""
        if not self.predicted:
            return None
        base, copy = (self.sums["losses"].values / self.predicted).tolist()
        return base, copy

    def swaps_table(self) -> pd.DataFrame:
        """The columns of `swapped_back`. Raises InputError (field "text") where nothing was predicted."""
        if not self.swapped:
            why = "No passage has the same tokens in both models, so no head of one fits into the other."
            raise InputError(f"{why} Choose a copy with the same tokenizer.", field="text")
        plain, *losses = (self.sums["swapped_losses"].values / self.swapped).tolist()
        rows = [(*head, loss, loss - plain) for head, loss in zip(self.swaps.tolist(), losses, strict=True)]
        return pd.DataFrame(rows, columns=pd.Index(["layer", "head", "loss", "change"]))

    def to_bytes(self) -> bytes:
        """As an NPZ file, which `from_bytes` reads."""
        numbers = np.array([getattr(self, name) for name in COUNTS])
        sums: dict[str, Any] = {name: np.stack([total.whole, total.part]) for name, total in self.sums.items()}
        buffer = io.BytesIO()
        np.savez(buffer, numbers=numbers, **{name: getattr(self, name) for name in ARRAYS}, **sums)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, written: bytes) -> Changes:
        with np.load(io.BytesIO(written), allow_pickle=False) as parts:
            *arrays, counts = (parts[name] for name in ARRAYS)
            changes = cls(*arrays, *parts["numbers"].tolist())
            changes.counts = counts
            changes.sums = {name: ExactSum(*parts[name]) for name in changes.sums}
        return changes


class Comparing(PassageByPassage):
    """A base and a copy of it, compared passage by passage.

    changes  over those so far
    nbytes   about how much memory the sums take
    """

    def __init__(
        self, base: Model, copy: Model, texts: Iterable[str], kind: Kind | None = None, *, max_tokens: int = MAX_TOKENS
    ) -> None:
        """Arguments and errors as those of `what_changed`."""
        pair = Pair(base, copy, kind)
        passages = passages_of([base, copy], texts, max_tokens, "compare")
        super().__init__(passages, lambda passage, place: pair.add(self.changes, passage.text, place % HALVES))
        self.changes = pair.changes()
        self.nbytes = 16 * len(self.changes.heads) * (3 * len(NAMES) + HALVES + 2)


def swapped_back(
    base: Model,
    copy: Model,
    texts: Iterable[str],
    heads: Sequence[tuple[int, int]],
    *,
    max_tokens: int = MAX_TOKENS,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Give single heads of a copy the output back that they have in its base, token by token, and measure the loss.

    heads        (layer, head) of each; one after another, each alone
    on_progress  called after each pass of the copy: one as it is and one for each head, for each passage

    Columns: layer, head; loss, the mean of -ln p of each token of all passages, in nats; change, this less the loss of the copy
    as it is: below 0 where the head of the base predicts better. Passages whose tokens differ are left out. Other arguments and
    the errors are those of `what_changed`; InputError (field "model") also for models that do not predict the next token, and
    (field "heads") for heads that are not there.
    """
    pair, step = Pair(base, copy), step_counter(on_progress)
    changes = pair.changes(heads)
    for passage in passages_of([base, copy], texts, max_tokens, "compare"):
        ids, other = pair.ids(passage.text)
        if ids == other and len(ids) >= LEAST_TOKENS:
            losses = pass_with_losses(copy, ids)[1]
            step()
            pair.swap(changes, passage.text, losses, step)
    return changes.swaps_table()


@dataclass(frozen=True, eq=False)
class Pair:
    """A base and a copy of it, of one shape."""

    base: Model
    copy: Model
    kind: Kind | None = None

    def __post_init__(self) -> None:
        for model in (self.base, self.copy):
            if not model.captures:
                raise not_captured(model)

    @cached_property
    def heads(self) -> NDArray[np.int64]:
        """The layer and the head of each: [H, 2]. Raises InputError (field "model") for models of different shapes."""
        one, other = (capture(model, "a") for model in (self.base, self.copy))
        refuse_unlike(one, other, self.kind)
        return np.array(
            [(layer, head) for layer, of in enumerate(one.each_layer(self.kind)) for head in range(of.heads)]
        )

    def changes(self, swaps: Sequence[tuple[int, int]] = ()) -> Changes:
        """Nothing added up yet. swaps: the (layer, head) of those that are swapped back.

        Errors as of `heads`; InputError (field "heads") for heads that are not there, and (field "model") where heads are to be
        swapped back in a model that does not predict the next token.
        """
        if swaps:
            require_losses(self.copy)
        if lacking := [place for place in swaps if [*place] not in self.heads.tolist()]:
            ends = "layers run from 0 to {}, heads from 0 to {}".format(*self.heads.max(axis=0))
            raise InputError("There is no head {}.{}: {}.".format(*lacking[0], ends), field="heads")
        return Changes(self.heads, np.array(swaps, np.int64).reshape(-1, 2))

    def ids(self, text: str) -> list[list[int]]:
        """The tokens of a text in the base and in the copy."""
        return [all_inputs(model, text)["input_ids"][0].tolist() for model in (self.base, self.copy)]

    def add(self, changes: Changes, text: str, half: int) -> None:
        """Add what changed in one passage of a half, and what swapping heads back does there."""
        ids, other_ids = self.ids(text)
        before, losses = self._read(self.base, text, ids)
        after, other_losses = self._read(self.copy, text, other_ids)
        kind = before.kinds[0] if self.kind is None else self.kind
        if ids == other_ids:
            axes = [Alignment.same(length) for length in before.shape(kind)]
            both = rows_of_both(before, after, kind), before.each_layer(kind), after.each_layer(kind)
            found = side_by_side(
                partial(_same_tokens, text_of(before, kind), axes[0].positions[0]), zip(*both, strict=True)
            )
        else:
            try:
                axes = list(map(align, before.tokens(kind), after.tokens(kind)))
            except InputError:  # no token in common
                changes.unlike += 1
                return
            found = side_by_side(partial(_aligned, before, after, kind, axes), range(before.layers(kind)))
        moved, lengths, apart, counts, totals = (np.concatenate(part, axis=-1) for part in zip(*found, strict=True))
        if len(changes.swaps) and other_losses is not None and ids == other_ids:
            self.swap(changes, text, other_losses)
        # From here on nothing stops: a passage is added as a whole or not at all.
        rows, halves = _common(axes[0]), np.zeros((HALVES, len(apart)))
        halves[half] = apart
        added = {"divergence": halves, "moved": moved, "lengths": lengths, "totals": totals}
        if losses is not None and other_losses is not None:
            one, other = (places[(rows > 0).all(axis=0)] - 1 for places in rows)
            added["losses"] = np.array([losses[one].sum(), other_losses[other].sum()])
            changes.predicted += len(one)
        for name, numbers in added.items():
            changes.sums[name].add(numbers)
        changes.counts += counts.astype(np.int64)
        changes.queries[half] += rows.shape[1]
        changes.tokens += len(ids)
        changes.passages += 1
        changes.aligned += ids != other_ids
        changes.apart += axes[0].lengths[0] - rows.shape[1]

    def swap(
        self, changes: Changes, text: str, losses: NDArray[np.float64], step: Callable[[], None] = lambda: None
    ) -> None:
        """Add what swapping heads back does in a passage. losses: of the copy as it is; step: called after each pass of it"""
        before, sums = capture(self.base, text), [losses.sum()]
        for layer, head in changes.swaps.tolist():
            edits = Edits(patch_heads={(layer, head)}, patch_from=text)
            sums.append(pass_with_losses(self.copy, before.input_ids, edits=edits, known=[before])[1].sum())
            step()
        changes.sums["swapped_losses"].add(sums)
        changes.swapped += len(losses)

    def _read(self, model: Model, text: str, ids: list[int]) -> tuple[Capture, NDArray[np.float64] | None]:
        """One pass, and the losses of its tokens where the model predicts them."""
        if not model.has_language_model_head or model.is_encoder_decoder or len(ids) < LEAST_TOKENS:
            return capture(model, text), None
        calls, losses = pass_with_losses(model, ids)
        return Capture(model, tuple(ids), (), by_kind(calls), None), losses


def _common(axis: Alignment) -> NDArray[np.intp]:
    """The places of the tokens that two texts have in common, in each of them: [2, tokens]."""
    return np.stack(axis.positions)[:, np.array(axis.equal, np.bool_)]


def _same_tokens(
    text: KeyText, places: NDArray[np.intp], layer: tuple[Iterable[tuple[Rows, Rows]], Call, Call]
) -> tuple[NDArray, ...]:
    """What is added of a layer in two passes over the same tokens. places: of all queries

    Σ|other - one|² and Σ|one|² of the outputs, and the sum of the divergence of all rows: [heads] each; of both models the
    number of queries that each metric was measured over, and the sum of its values: [2, M, heads] each.
    """
    blocks, *calls = layer
    apart, measured = [], []
    with torch.inference_mode():
        for pair in blocks:
            apart.append(divergence(*as_wide(*(rows.weights for rows in pair))).sum(dim=-1, dtype=torch.float64))
            measured.append(torch.stack([_measured(rows, text, len(places), places) for rows in pair], dim=1))
        sums = [torch.stack(part).sum(dim=0).numpy(force=True) for part in (apart, measured)]
    return (*_outputs(calls, [places, places]), sums[0], *sums[1])


def _aligned(before: Capture, after: Capture, kind: Kind, axes: Sequence[Alignment], layer: int) -> tuple[NDArray, ...]:
    """The same of a layer in two passes over other tokens, at the queries that are the same token in both."""
    queries, keys = axes
    passes, equal = (before, after), np.array(queries.equal)
    calls, rows = [of.layer_call(layer, kind) for of in passes], _common(queries)
    apart, measured = [], []
    for head in range(calls[0].heads):
        pair = HeadPair.of(*(of.head(layer, head, kind) for of in passes), queries=queries, keys=keys)
        apart.append(pair.overview(1).row_numbers["divergence"][equal].sum())
    with torch.inference_mode():
        for of, call, places in zip(passes, calls, rows, strict=True):
            text, length = text_of(of, kind), of.shape(kind)[0]
            parts = [_measured(block, text, length, places) for block in row_blocks(call)]
            measured.append(torch.stack(parts).sum(dim=0).numpy(force=True))
    return (*_outputs(calls, rows), np.array(apart), *np.stack(measured, axis=1))


@torch.inference_mode()
def _outputs(calls: Sequence[Call], rows: Iterable[NDArray[np.intp]]) -> tuple[NDArray[np.float64], ...]:
    """(Σ|other - one|², Σ|one|²) of the outputs of two layers at these rows: [heads] each."""
    before, after = (wide(call.output[0]).double()[places] for call, places in zip(calls, rows, strict=True))
    return tuple((part**2).sum(dim=(0, 2)).numpy(force=True) for part in (after - before, before))


def _measured(rows: Rows, text: KeyText, queries: int, places: NDArray[np.intp]) -> Tensor:
    """Over how many of these queries in a block each metric is measured, and the sum of its values: [2, M, heads] float64."""
    values = measure_block(HeadRows(rows, text, queries)).double()
    values = values[..., torch.from_numpy(np.isin(np.arange(values.shape[-1]) + rows.start, places))]
    return torch.stack([values.isfinite().sum(dim=-1), values.nansum(dim=-1)])
