"""A block of rows of some heads, and what the metrics read off it: each quantity is worked out once, when first asked for."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.calls.rows import Rows, weights_at
from ..capturing.capture import Capture
from ..capturing.weights_only import WeightRows, WeightsOnly
from ..models.modules import Kind
from ..models.words import token_classes

LOCAL = 5  # tokens to either side that count as near

Need = Literal["one text", "token numbers", "special tokens", "punctuation", "mask"]
Pass = Capture | WeightsOnly  # one pass over a text, whatever the model exposes


class Occurrences:
    """Earlier copies of each token in a text, found without comparing all pairs."""

    def __init__(self, ids: NDArray[np.integer]) -> None:
        # The positions of each token from the left, one token after another; and where those of each query's token begin.
        order = np.argsort(ids, kind="stable")
        first = np.searchsorted(ids[order], ids)
        self._order, self._first = order, first
        self._count = np.argsort(order) - first  # [queries] how many copies came before

    def shares(self, weights: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """The weight [heads, rows] on earlier copies of each query's token, and on what followed them before the query; NaN
        for queries that have none of these."""
        on_copies, on_followers = (weights.new_full(weights.shape[:2], torch.nan) for _ in range(2))
        count = self._count[start : start + weights.shape[1]]
        with_copies = np.flatnonzero(count)
        if len(with_copies):
            row, first = np.repeat(np.arange(len(count)), count), count.cumsum() - count
            copy = self._order[self._first[start : start + len(count)][row] + np.arange(len(row)) - first[row]]
            begins, is_other = first[with_copies], copy + 1 < start + row  # what follows may be the query itself
            on_copies[:, with_copies] = _summed(_weights_on(weights, row, copy), begins)
            sums = _summed(_weights_on(weights, row, copy + 1) * torch.from_numpy(is_other), begins)
            any_other = torch.from_numpy(np.logical_or.reduceat(is_other, begins))
            on_followers[:, with_copies] = torch.where(any_other, sums, torch.nan)
        return on_copies, on_followers


@dataclass(frozen=True, eq=False)
class KeyText:
    """What metrics need to know of the key tokens. On an image special are those that lie nowhere on it: [CLS], registers.

    ids   [keys] token numbers, or None where there are none (images)
    same  whether queries and keys are the tokens of one text: between two, positions and occurrences mean nothing
    mask  whether it is known which keys a query may attend to
    """

    ids: NDArray[np.integer] | None
    special: NDArray[np.bool_]
    punctuation: NDArray[np.bool_]
    same: bool
    mask: bool = True

    @cached_property
    def offers(self) -> frozenset[Need]:
        """The needs of metrics that this text meets."""
        is_met: dict[Need, bool] = {
            "one text": self.same,
            "token numbers": self.ids is not None,
            "special tokens": bool(self.special.any()),
            "punctuation": bool(self.punctuation.any()),
            "mask": self.mask,
        }
        return frozenset(need for need in is_met if is_met[need])

    @cached_property
    def features(self) -> Tensor:
        """[4, keys] float64, in the order of `Sums`: 1 and 0 for every key, special ones and punctuation; and positions."""
        every, positions = np.ones_like(self.special), np.arange(len(self.special))
        return torch.from_numpy(np.stack([every, self.special, self.punctuation, positions]).astype(np.float64))

    @cached_property
    def others(self) -> Tensor:
        """[keys] bool: the keys where attention does not rest, which are neither the first one nor special."""
        return torch.from_numpy(~self.special & (np.arange(len(self.special)) > 0))

    @cached_property
    def occurrences(self) -> Occurrences:
        if self.ids is None:
            raise ValueError("An image has no token numbers; a metric that asks for them has to name that need.")
        return Occurrences(self.ids)


# A page asks for the same ones again and again.
_TEXTS: WeakKeyDictionary[Pass, dict[Kind, KeyText]] = WeakKeyDictionary()


def text_of(passed: Pass, kind: Kind) -> KeyText:
    """The key tokens of one kind of attention."""
    known = _TEXTS.setdefault(passed, {})
    if kind not in known:
        known[kind] = _read(passed, kind)
    return known[kind]


def _read(passed: Pass, kind: Kind) -> KeyText:
    ids = passed.target_ids if kind == "decoder" else passed.input_ids
    _, keys = passed.shape(kind)
    nothing = np.zeros(keys, dtype=np.bool_)
    on_image = ~np.isnan(passed.image_boxes(kind)[:, 0]) if isinstance(passed, Capture) else nothing
    if len(ids) != keys or kind == "vision":  # patches of an image have no token numbers
        return KeyText(None, ~on_image if on_image.any() else nothing, nothing, same=True)
    special, punctuation = token_classes(passed.model.tokenizer, ids)
    mask = passed.model.captures  # weights alone do not say it: a pair with a weight of 0 may or may not be forbidden
    # The tokenizer declares the token special that stands for parts of an image.
    return KeyText(np.asarray(ids), special & ~on_image, punctuation, same=kind != "cross", mask=mask)


class Sums(NamedTuple):
    """Σ w over all keys (1, or less where a sink takes its share), special ones and punctuation; and Σ w k."""

    total: Tensor
    special: Tensor
    punctuation: Tensor
    positions: Tensor


@dataclass(frozen=True, eq=False)
class HeadRows:
    """Some query rows of some heads, of a text with `queries` in all. A quantity is [heads, rows] unless it says otherwise."""

    rows: Rows | WeightRows
    text: KeyText
    queries: int

    @property
    def weights(self) -> Tensor:
        """[heads, rows, keys]"""
        return self.rows.weights

    @cached_property
    def choices(self) -> Tensor:
        """Number of keys that each query may attend to."""
        return self.rows.choices.expand(self.weights.shape[:2])

    @cached_property
    def sums(self) -> Sums:
        """All sums in one product of matrices."""
        weights = self.weights
        heads, rows, keys = weights.shape
        features = self.text.features[:, :keys].to(weights.dtype, copy=True)
        features[-1] -= self.rows.start  # small numbers where the weights of local heads are
        return Sums(*(features @ weights.reshape(-1, keys).T).reshape(-1, heads, rows))

    @cached_property
    def largest(self) -> Tensor:
        return self.weights.amax(-1)

    @property
    def elsewhere(self) -> Tensor:
        """The largest weight on a key other than the first, the query itself and special tokens; NaN for queries that may
        attend to no such key."""
        weights, others = self.weights, self.text.others[: self.weights.shape[2]]
        resting, diagonal = (~others).nonzero()[:, 0], weights.diagonal(self.rows.start, 1, 2)
        # Resting keys are few: they are emptied and filled again, which is much faster than a copy of all weights without them.
        on_resting, on_themselves = weights[..., resting], diagonal.clone()
        weights.index_fill_(2, resting, 0)
        diagonal.zero_()
        largest = weights.amax(-1)
        diagonal.copy_(on_themselves)
        weights.index_copy_(2, resting, on_resting)
        allowed = self.rows.allowed & others
        allowed.diagonal(self.rows.start, 1, 2).zero_()
        return torch.where(allowed.sum(-1) > 0, largest, torch.nan)  # a sum is three times as fast as `any`

    @cached_property
    def entropy(self) -> Tensor:
        """-Σ w ln w, in nats."""
        # ln w = score - ln Σ e^score; the logarithm of a sum per row is cheaper than that of every weight.
        weights, scores, shared = self.weights, self.rows.masked, self.rows.shared_keys
        limits = torch.finfo(weights.dtype)
        normaliser = scores.amax(-1) - self.largest.clamp_min(limits.tiny).log()
        # -inf is made finite, since 0 × -inf is NaN.
        weighted = (weights[..., :shared] * scores[..., :shared]).sum(-1)
        weighted += (weights[..., shared:] * scores[..., shared:].clamp_min(limits.min)).sum(-1)
        entropy = (normaliser * self.sums.total - weighted).clamp_min(0)  # which rounding may miss by 1e-6
        for head in self.rows.instead:  # weights that an edit has placed do not follow from the scores
            entropy[head] = -torch.xlogy(weights[head], weights[head]).sum(-1)
        return entropy

    @cached_property
    def _near_keys(self) -> Tensor:
        """[rows, 2 LOCAL + 1] positions, also outside of the text."""
        return torch.arange(self.rows.start, self.rows.stop)[:, None] + torch.arange(-LOCAL, LOCAL + 1)

    @cached_property
    def near(self) -> Tensor:
        """The weights from LOCAL positions before each query to LOCAL after it: [heads, rows, 2 LOCAL + 1], 0 outside."""
        return weights_at(self.weights, self._near_keys)

    @cached_property
    def _near_in_text(self) -> Tensor:
        """`near` with NaN outside of the text."""
        keys = self._near_keys
        return torch.where((keys >= 0) & (keys < self.queries), self.near, torch.nan)

    def beside(self, step: int) -> Tensor:
        """The weight on the key `step` (at most LOCAL) after the query, NaN where the text has none."""
        return self._near_in_text[..., LOCAL + step]

    @property
    def distance(self) -> Tensor:
        """Σ w |q - k|."""
        weights = self.weights[..., self.rows.start :]
        query, later = (torch.arange(length, dtype=weights.dtype) for length in weights.shape[1:])
        # Σ w |q - k| = Σ w (q - k) + 2 Σ over k > q of w (k - q), which are few keys where looking ahead is masked.
        ahead = (weights * (later - query[:, None]).clamp_min(0)).sum(-1)
        return query * self.sums.total - self.sums.positions + 2 * ahead

    @cached_property
    def on_earlier(self) -> tuple[Tensor, Tensor]:
        """The weight on earlier copies of each query's token, and on what followed them; NaN for queries without any."""
        return self.text.occurrences.shares(self.weights, self.rows.start)


def _weights_on(weights: Tensor, row: NDArray[np.integer], key: NDArray[np.integer]) -> Tensor:
    """The weights on pairs: [heads, pairs]; 0 behind the last key that a row may attend to."""
    last = weights.shape[2] - 1
    return weights[:, torch.from_numpy(row), torch.from_numpy(key.clip(max=last))] * torch.from_numpy(key <= last)


def _summed(values: Tensor, begins: NDArray[np.integer]) -> Tensor:
    """[heads, values] summed from each of `begins` to the next: [heads, begins]."""
    return torch.from_numpy(np.add.reduceat(values.numpy(force=True), begins, axis=1))
