"""What changed in a copy of a model: every head of a base beside the same head of the copy, over many passages.

A copy is the same architecture with other numbers: fine-tuned, rounded to fewer bits, with an adapter, another checkpoint. Both
read the same passages. What is added up over them is exact (`core.corpus.sums`), so that neither the order of the passages nor
who reads them changes a digit. Every other passage belongs to the other half of the corpus: how far the halves differ says how
much of a change is the choice of passages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from ..capturing.answers import pass_with_losses
from ..capturing.calls.rows import Rows
from ..capturing.capture import Capture, capture, not_captured
from ..capturing.edits.edits import Edits
from ..capturing.recorder import by_kind
from ..errors import InputError
from ..heads.comparing import divergence
from ..heads.likeness import as_wide, rows_of_both
from ..heads.metrics import NAMES, measure_block
from ..heads.quantities import HeadRows, KeyText, text_of
from ..models.calls import Call, wide
from ..models.inputs import all_inputs
from ..models.model import Model
from ..models.modules import Kind
from ..progress import OnProgress, held, step_counter
from ..threads import side_by_side
from .passages import Location, Passage, counter, cut
from .sums import ExactSum

MAX_TOKENS = 512  # of a passage, if the models read as many
HALVES = 2
LEAST_TOKENS = 2  # of a passage of which a token is predicted
COUNTS = ("predicted", "tokens", "passages", "unlike", "unread")


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

    Passages whose tokens differ in the two models are left out. The same model twice gives 0 everywhere. Raises InputError
    (field "model") for models of different shapes or without attention to compare, and (field "text") where no passage has the
    same tokens in both.
    """
    comparing = Comparing(base, copy, texts, kind, max_tokens=max_tokens)
    step = step_counter(on_progress)
    while comparing.go_on():
        step()
    return comparing.changes.table()


@dataclass(eq=False)
class Changes:
    """What is added up over passages, for a base and a copy of it (the axis [2] of both). H heads, M metrics.

    heads      [H, 2] the layer and the head of each
    queries    [HALVES] int64: how many queries the passages of each half have
    divergence of each half, the sum over its queries: [HALVES, H]
    moved, lengths  the sums of |copy - base|² and |base|² over the outputs: [H]
    counts     [2, M, H] int64: over how many queries each metric was measured
    totals     the sums of each metric: [2, M, H]
    losses     the sums of -ln p of each token that both predict: [2]
    predicted, tokens, passages  how many tokens were predicted, and how many were read, in how many passages
    unlike, unread  how many passages were left out, because their tokens differ and because they could not be read
    """

    heads: NDArray[np.int64]
    queries: NDArray[np.int64] = field(default_factory=lambda: np.zeros(HALVES, np.int64))
    predicted: int = 0
    tokens: int = 0
    passages: int = 0
    unlike: int = 0
    unread: int = 0

    def __post_init__(self) -> None:
        count, metrics = len(self.heads), len(NAMES)
        self.counts = np.zeros((2, metrics, count), np.int64)
        self.sums = {
            "divergence": ExactSum.zeros(HALVES, count),
            "moved": ExactSum.zeros(count),
            "lengths": ExactSum.zeros(count),
            "totals": ExactSum.zeros(2, metrics, count),
            "losses": ExactSum.zeros(2),
        }

    def merge(self, other: Changes) -> None:
        """Add the sums over other passages. Raises ValueError for those of other heads."""
        if not np.array_equal(self.heads, other.heads):
            raise ValueError("Changes of other heads cannot be added.")
        for name, total in self.sums.items():
            total.merge(other.sums[name])
        self.counts += other.counts
        self.queries += other.queries
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def table(self) -> pd.DataFrame:
        """The columns of `what_changed`. Raises InputError (field "text") where nothing was compared."""
        if not self.passages:
            why = "The two models split every passage into different tokens: no row of one belongs to one of the other."
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

    def to_bytes(self) -> bytes:
        """As a safetensors file, which `from_bytes` reads."""
        numbers = np.array([getattr(self, name) for name in COUNTS])
        parts = {name: np.stack([total.whole, total.part]) for name, total in self.sums.items()}
        given = {"heads": self.heads, "queries": self.queries, "counts": self.counts, "numbers": numbers}
        return save(given | parts)

    @classmethod
    def from_bytes(cls, written: bytes) -> Changes:
        parts = load(written)
        changes = cls(parts["heads"], parts["queries"], *parts["numbers"].tolist())
        changes.counts = parts["counts"]
        changes.sums = {name: ExactSum(*parts[name]) for name in changes.sums}
        return changes


class Comparing:
    """A base and a copy of it, compared passage by passage: `go_on` reads the next one. Threads may share it.

    passages   all of them
    changes    over those so far
    total, done  number of passages, and of those that are compared
    may_pause  always: what is there is worth looking at
    nbytes     about how much memory the sums take
    """

    may_pause = True

    def __init__(
        self, base: Model, copy: Model, texts: Iterable[str], kind: Kind | None = None, *, max_tokens: int = MAX_TOKENS
    ) -> None:
        """Arguments and errors as those of `what_changed`."""
        pair = Pair(base, copy, kind)
        self.passages = passages_of(base, copy, texts, max_tokens)
        self._pair: Pair | None = pair
        self.total, self.done = len(self.passages), 0
        self.changes = pair.changes()
        self.nbytes = 16 * len(self.changes.heads) * (3 * len(NAMES) + HALVES + 2)
        self._lock = Lock()

    @property
    def share(self) -> float:
        return self.done / self.total

    def go_on(self) -> bool:
        """Compare one more passage; False if none is left."""
        with held(self._lock):
            if self._pair is None:
                return False
            self._pair.add(self.changes, self.passages[self.done], self.done % HALVES)
            self.done += 1
            if self.done == self.total:
                self._pair = None  # the models are not held any longer
            return True


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
    as it is: below 0 where the head of the base predicts better. Other arguments and the errors are those of `what_changed`;
    InputError (field "model") also for models that do not predict the next token.
    """
    pair, step, total, predicted = Pair(base, copy), step_counter(on_progress), np.zeros(1 + len(heads)), 0
    for passage in passages_of(base, copy, texts, max_tokens):
        ids = pair.tokens(passage)
        if ids is None or len(ids) < LEAST_TOKENS:
            continue
        before = capture(base, passage)
        swaps = [Edits(), *(Edits(patch_heads={head}, patch_from=passage) for head in heads)]
        for at, edits in enumerate(swaps):
            total[at] += pass_with_losses(copy, ids, edits=edits, known=[before])[1].sum()
            step()
        predicted += len(ids) - 1
    plain, *swapped = (total / max(predicted, 1)).tolist()
    rows = [(*head, loss, loss - plain) for head, loss in zip(heads, swapped, strict=True)]
    return pd.DataFrame(rows, columns=pd.Index(["layer", "head", "loss", "change"]))


def passages_of(base: Model, copy: Model, texts: Iterable[str], max_tokens: int) -> list[str]:
    """The passages of these texts, which both models can read at once. Raises InputError (field "text")."""
    longest = min(limit for limit in (max_tokens, base.max_tokens, copy.max_tokens) if limit is not None)
    texts_here = (Passage(Location("", row), 0, text) for row, text in enumerate(texts, start=1))
    passages = [passage for text in texts_here for passage in cut(text, counter(base), longest)]
    for passage in passages:
        if not isinstance(passage, Passage):
            raise InputError(passage.why, field="text")
    if not passages:
        raise InputError("There is no text to compare on. Write some.", field="text")
    return [passage.text for passage in passages if isinstance(passage, Passage)]


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
        next(rows_of_both(one, other, self.kind), None)  # raises for other layers or heads
        return np.array(
            [(layer, head) for layer, of in enumerate(one.each_layer(self.kind)) for head in range(of.heads)]
        )

    def changes(self) -> Changes:
        """Nothing added up yet. Errors as of `heads`."""
        return Changes(self.heads)

    def tokens(self, text: str) -> list[int] | None:
        """The tokens of a text; None where they differ in the two models."""
        one, other = (all_inputs(model, text)["input_ids"][0].tolist() for model in (self.base, self.copy))
        return one if one == other else None

    def add(self, changes: Changes, text: str, half: int) -> None:
        """Add what changed in one passage of a half."""
        if (ids := self.tokens(text)) is None:
            changes.unlike += 1
            return
        (before, losses), (after, other_losses) = (self._read(model, text, ids) for model in (self.base, self.copy))
        kind = before.kinds[0] if self.kind is None else self.kind
        key_text, (queries, _) = text_of(before, kind), before.shape(kind)

        def of_layer(layer: tuple[Call, Call, Iterable[tuple[Rows, Rows]]]) -> tuple[NDArray, ...]:
            one, other, blocks = layer
            return (*_outputs(one, other), *_weights(blocks, key_text, queries))

        layers = zip(before.each_layer(kind), after.each_layer(kind), rows_of_both(before, after, kind), strict=True)
        parts = zip(*side_by_side(of_layer, layers), strict=True)
        moved, lengths, apart, counts, totals = (np.concatenate(part, axis=-1) for part in parts)
        # From here on nothing stops: a passage is added as a whole or not at all.
        halves = np.zeros((HALVES, len(apart)))
        halves[half] = apart
        added = {"divergence": halves, "moved": moved, "lengths": lengths, "totals": totals}
        if losses is not None and other_losses is not None:
            added["losses"] = np.array([losses.sum(), other_losses.sum()])
            changes.predicted += len(losses)
        for name, numbers in added.items():
            changes.sums[name].add(numbers)
        changes.counts += counts
        changes.queries[half] += queries
        changes.tokens += len(ids)
        changes.passages += 1

    def _read(self, model: Model, text: str, ids: list[int]) -> tuple[Capture, NDArray[np.float64] | None]:
        """One pass, and the losses of its tokens where the model predicts them."""
        if not model.has_language_model_head or model.is_encoder_decoder or len(ids) < LEAST_TOKENS:
            return capture(model, text), None
        calls, losses = pass_with_losses(model, ids)
        return Capture(model, tuple(ids), (), by_kind(calls), None), losses


@torch.inference_mode()
def _outputs(one: Call, other: Call) -> tuple[NDArray[np.float64], ...]:
    """(Σ|other - one|², Σ|one|²) of the outputs of a layer: [heads] each."""
    before, after = (wide(call.output[0]).double() for call in (one, other))
    return tuple((part**2).sum(dim=(0, 2)).numpy(force=True) for part in (after - before, before))


@torch.inference_mode()
def _weights(blocks: Iterable[tuple[Rows, Rows]], text: KeyText, queries: int) -> tuple[NDArray, ...]:
    """The sums over the rows of a layer: their divergence [heads]; of both models the number of queries that each metric was
    measured over, and the sum of its values [2, M, heads]."""
    apart, counts, totals = [], [], []
    for pair in blocks:
        apart.append(divergence(*as_wide(*(rows.weights for rows in pair))).sum(dim=-1, dtype=torch.float64))
        values = torch.stack([measure_block(HeadRows(rows, text, queries)).double() for rows in pair])
        counts.append(values.isfinite().sum(dim=-1))
        totals.append(values.nansum(dim=-1))
    return tuple(torch.stack(part).sum(dim=0).numpy(force=True) for part in (apart, counts, totals))
