"""Other ways of looking at heads: weighted by what is passed on, without some tokens, word by word, several heads at once.

weights  w_qk                        who is looked at
values   w_qk · |v_k|                how much arrives of what was found there
outputs  w_qk · |v_k W_O|            and of what leaves the head (Kobayashi et al. 2020, equation 5)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..attention.rowwise import Band, Entries, Overview, Pooled, RowwiseMatrix, largest_in, sweep
from ..attention.trace import Array
from ..capturing.calls.rows import Rows, row_blocks
from ..capturing.capture import Capture
from ..capturing.weights_only import WeightRows
from ..errors import InputError
from ..models.calls import Call
from ..models.modules import Kind
from ..models.projections import HeadWeights, head_weights
from ..models.words import merge_keys, merge_queries, word_starts, word_texts
from ..progress import OnProgress
from ..threads import side_by_side
from .quantities import Pass, text_of

# --- sinks on an image

TIMES = 10


def image_sinks(capture: Capture, heads: Iterable[tuple[int, int]], kind: Kind | None = None) -> NDArray[np.integer]:
    """The positions of the image tokens that get more than `TIMES` the weight of the median image token.

    The weight of a token is its mean over the queries that may attend to all of them, and over these heads (layer, head): the
    first tokens of a causal text get most of the short rows, whatever they show. Empty where no query may attend to all.

    Large vision transformers keep results of their own in patches that show little ("registers": Darcet et al. 2024, "Vision
    Transformers Need Registers"). Laid over the image, such a patch hides what the head looks at.
    """
    on_image = np.flatnonzero(~np.isnan(capture.image_boxes(kind)[:, 0]))
    if not len(on_image):
        return on_image
    received = sum(_received(capture.layer_call(layer, kind), head, on_image) for layer, head in heads)
    return on_image[received > TIMES * np.median(received)]


def _received(call: Call, head: int, keys: NDArray[np.integer]) -> NDArray[np.floating]:
    """The sum of the weights of these keys over the queries that may attend to all of them: [keys]."""
    sums = np.zeros(len(keys))
    for rows in row_blocks(call, head):
        if rows.allowed.shape[2] > keys.max():
            attends = rows.allowed[0][:, keys].all(dim=1)
            sums += rows.weights[0][attends][:, keys].sum(dim=0).numpy(force=True)
    return sums


# --- two texts in one self-attention


def pair_sides(capture: Capture) -> NDArray[np.int_]:
    """[tokens] the text that each belongs to: 0 (first text), 1 (second text), -1 (special token). Raises InputError if no
    second text was read (field "pair"), or the tokenizer does not tell the two apart (field "model")."""
    sides = np.array(capture.sides, dtype=np.int_)
    if not (sides == 1).any():
        tokenizer = capture.model.tokenizer
        if tokenizer is not None and tokenizer.is_fast:
            raise InputError("The second text is blank. Type at least one word.", field="pair")
        raise InputError(f"{capture.model.name} does not tell two texts apart. Choose another model.", field="model")
    return sides


def pair_ranges(capture: Capture) -> tuple[range, range] | None:
    """The positions of the first and of the second text; None unless both are there, each in one stretch."""
    positions = [np.flatnonzero(np.array(capture.sides) == side) for side in (0, 1)]
    if not all(len(places) and places[-1] - places[0] == len(places) - 1 for places in positions):
        return None
    first, second = (range(int(places[0]), int(places[-1]) + 1) for places in positions)
    return first, second


@dataclass(frozen=True)
class Shares:
    """The weight of one text's words on that text, on the other, and on special tokens. The three add up to 1."""

    own: float
    other: float
    special: float


def pair_shares(weights: Array, sides: NDArray[np.int_]) -> tuple[Shares, Shares]:
    """The shares of each text, averaged over its words, from a head's weights [n, n] and the `pair_sides` [n]."""
    given = _given(weights, sides)
    by_side = (given[sides == side][:, [side, 1 - side, -1]].mean(axis=0).tolist() for side in (0, 1))
    first, second = (Shares(*shares) for shares in by_side)
    return first, second


def _given(weights: Array, sides: NDArray[np.int_]) -> Array:
    """[..., queries, 3] what each query gives to the first text, to the second and to special tokens."""
    belongs = sides[: weights.shape[-1], None] == np.array([0, 1, -1])
    return weights.astype(np.float64) @ belongs


def crossing_shares(capture: Capture, sides: NDArray[np.int_]) -> Array:
    """The part of every head's weight that crosses from text to text, the mean of both directions: [layers, heads]."""
    crossing = []
    for call in capture.each_layer():
        given = np.concatenate([_given(rows.weights.numpy(force=True), sides) for rows in row_blocks(call)], axis=1)
        there, back = (given[:, sides == side, 1 - side].mean(axis=1) for side in (0, 1))
        crossing.append((there + back) / 2)
    return np.array(crossing)


# --- views

Quantity = Literal["weights", "values", "outputs", "raw", "scaled", "masked"]
LeftOut = Literal["first", "special", "sinks"]
PairPart = Literal["all", "first to second", "second to first"]

SCORES = ("raw", "scaled", "masked")


@dataclass(frozen=True, kw_only=True)
class HeadView:
    """A choice of what to show of which heads.

    heads        (layer, head) pairs; of several, the mean is shown
    quantity     see the module; "raw", "scaled" and "masked" are the scores before the softmax
    left_out     which tokens are left out as keys: the first one, special tokens, the sinks of these heads on an image
    renormalise  divide what remains of a row by its sum, so that it is again a share, where a token is left out
    by_word      words for tokens: keys are summed, queries averaged (Clark et al. 2019, section 4.1)
    part         of a pair of texts, only what goes from one to the other: its numbers stay what they are in the whole
    """

    heads: tuple[tuple[int, int], ...]
    quantity: Quantity = "weights"
    left_out: frozenset[LeftOut] = frozenset()
    renormalise: bool = False
    by_word: bool = False
    part: PairPart = "all"


@dataclass(frozen=True, eq=False)
class ViewLabels:
    """Names of the rows and columns of a view."""

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    unit: Literal["token", "word"]


class _ViewRows(NamedTuple):
    """Some rows of a view with all its columns: `known` is neither forbidden nor left out, `removed` of every query."""

    values: Array
    known: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    removed: Array


@dataclass(frozen=True, eq=False)
class ViewMatrix(RowwiseMatrix):
    """The numbers of a view of one kind of attention in a capture, computed from the exact stages a few rows at a time.

    Its matrix is "view", NaN where a pair is forbidden or left out. Its row numbers are "removed", the share of each query's
    attention that went to what is left out, before any renormalising.

    Raises InputError where there is no such head, for scores of words, for a part where no two texts are known (field
    "pair"), and as in `head_weights` for "outputs".
    """

    cells = 2**19  # of a band: that of one head in torch, see core.capturing.calls.rows
    capture: Capture
    kind: Kind
    view: HeadView

    def __post_init__(self) -> None:
        if not self.view.heads:
            raise InputError("No head is chosen. Choose at least one.", field="heads")
        for layer, head in self.view.heads:
            self.capture.key_head(layer, head, self.kind)  # raises where there is none
        if self.view.by_word and self.view.quantity in SCORES:
            message = "Scores of several tokens have no common score; choose weights to see words."
            raise InputError(message, field="quantity")
        if self.view.part != "all" and self.texts is None:
            raise InputError("It is not known which tokens belong to which of two texts.", field="pair")

    @cached_property
    def hidden(self) -> NDArray[np.bool_]:
        """[keys] True for tokens that are left out as keys."""
        hidden = np.zeros(self.capture.shape(self.kind)[1], dtype=np.bool_)
        hidden[0] = "first" in self.view.left_out
        if "special" in self.view.left_out:
            hidden |= text_of(self.capture, self.kind).special
        if "sinks" in self.view.left_out:
            hidden[image_sinks(self.capture, self.view.heads, self.kind)] = True
        return hidden

    @cached_property
    def labels(self) -> ViewLabels:
        queries, keys = self.capture.tokens(self.kind)
        if self._starts is None:
            return ViewLabels(queries, keys, "token")
        ids, starts = self.capture.ids(self.kind), self._starts
        return ViewLabels(self._words(queries, ids[0], starts[0]), self._words(keys, ids[1], starts[1]), "word")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns): queries and keys, tokens or words, also where an overview covers only a part of them."""
        return len(self.labels.queries), len(self.labels.keys)

    @cached_property
    def texts(self) -> tuple[range, range] | None:
        """Positions of the first and the second of two texts among the rows and columns; None if they are not known."""
        texts = pair_ranges(self.capture) if self.kind == "self" else None
        if texts is None or self._starts is None:
            return texts
        ends = np.searchsorted(self._starts[0], [(text.start, text.stop) for text in texts])
        first, second = (range(*pair) for pair in ends.tolist())
        return first, second

    @property
    def rows(self) -> range:
        return self._part_of(0)

    @property
    def columns(self) -> range:
        return self._part_of(1)

    def _part_of(self, axis: int) -> range:
        if self.view.part == "all" or self.texts is None:
            return range(self.shape[axis])
        return self.texts[axis if self.view.part == "first to second" else 1 - axis]

    def inside(self) -> Array:
        """[rows] the share of each row's attention that lies in the chosen part, with nothing left out."""
        plain = HeadView(heads=self.view.heads, by_word=self.view.by_word)
        values = ViewMatrix(self.capture, self.kind, plain).exact(self.rows, self.columns)
        return np.nan_to_num(values).sum(axis=1, dtype=np.float64)

    def band(self, rows: range) -> Band:
        part = self._in_units(rows)
        entries = Entries(np.where(part.known, part.values, 0), part.allowed, part.known)
        return Band(rows.start, {"view": entries}, {"removed": part.removed})

    def strongest(self, overview: Overview) -> tuple[int, int]:
        """The (query, key) worth looking at first; of a part, which has no special tokens, the largest."""
        if self.view.part != "all":
            return largest_in(self.rows, self.columns, self.exact)
        return super().strongest(overview)

    def _words(self, tokens: Sequence[str], ids: Sequence[int], starts: NDArray[np.integer]) -> tuple[str, ...]:
        """The texts of words; a token by itself is named as it is elsewhere, such as a patch of an image."""
        texts, lengths = word_texts(self.capture.model.tokenizer, ids, starts), np.diff(starts, append=len(tokens))
        words = zip(starts, lengths, texts, strict=True)
        return tuple(tokens[int(at)] if length == 1 else text for at, length, text in words)

    @cached_property
    def _starts(self) -> tuple[NDArray[np.integer], NDArray[np.integer]] | None:
        """Token positions at which the words of queries and of keys begin; None where tokens are shown."""
        if not self.view.by_word:
            return None
        tokenizer = self.capture.model.tokenizer
        queries, keys = self.capture.ids(self.kind)
        return word_starts(tokenizer, queries), word_starts(tokenizer, keys)

    def _in_units(self, rows: range) -> _ViewRows:
        """These rows with all columns: tokens, or words made of their tokens."""
        if self._starts is None:
            return self._mean(rows)
        of_queries, of_keys = self._starts
        last = int(of_queries[rows.stop]) if rows.stop < len(of_queries) else self.capture.shape(self.kind)[0]
        tokens = range(int(of_queries[rows.start]), last)
        return _by_word(self._mean(tokens), of_queries[rows.start : rows.stop] - tokens.start, of_keys)

    def _mean(self, tokens: range) -> _ViewRows:
        """The mean over all heads, added up head by head, so that no more than two of them are held at once."""
        total = reduce(_sum, (self._of_head(layer, head, tokens) for layer, head in self.view.heads))
        heads = len(self.view.heads)
        return total._replace(values=total.values / heads, removed=total.removed / heads)

    def _of_head(self, layer: int, head: int, tokens: range) -> _ViewRows:
        hidden, are_scores = self.hidden, self.view.quantity in SCORES
        blocks = list(row_blocks(self.capture.layer_call(layer, self.kind), head, rows=tokens))

        def joined(read: Callable[[Rows], Tensor]) -> NDArray:
            """[rows, keys], with the keys that blocks leave off because none of their rows may attend to them."""
            parts = [read(rows)[0] for rows in blocks]
            return np.concatenate([pad(part, (0, len(hidden) - part.shape[1])).numpy(force=True) for part in parts])

        allowed = joined(lambda rows: rows.allowed)
        if are_scores:  # 0 where forbidden: -inf could not be averaged over heads
            values = joined(lambda rows: getattr(rows, self.view.quantity).masked_fill(~rows.allowed, 0))
        else:
            values = joined(lambda rows: rows.weights)
        removed = np.zeros(len(values))
        if hidden.any():
            weights = joined(lambda rows: rows.weights) if are_scores else values
            removed = weights[:, hidden].sum(axis=1, dtype=np.float64)
        if (layer, head) in self._sizes:
            values = values * self._sizes[layer, head]
        if hidden.any() and not are_scores:
            values = np.where(hidden, 0, values)
            if self.view.renormalise:
                total = values.sum(axis=1, keepdims=True)
                values = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
        return _ViewRows(values, allowed & ~hidden, allowed, removed)

    @cached_property
    def _sizes(self) -> dict[tuple[int, int], Array]:
        """[keys] the length of the vector that each key passes on, by head; empty where weights are not multiplied."""
        sizes = {}
        for layer, head in self.view.heads if self.view.quantity in ("values", "outputs") else ():
            key_head, _ = self.capture.key_head(layer, head, self.kind)
            value = self.capture.layer_call(layer, self.kind).value[0, key_head].double().numpy(force=True)
            if self.view.quantity == "outputs":
                value = value @ head_weights(self.capture.model, layer, head, self.kind).W_O.astype(np.float64)
            sizes[layer, head] = np.linalg.norm(value, axis=1)
        return sizes


def _sum(one: _ViewRows, other: _ViewRows) -> _ViewRows:
    marks = one.known | other.known, one.allowed | other.allowed
    return _ViewRows(one.values + other.values, *marks, one.removed + other.removed)


def _by_word(part: _ViewRows, of_queries: NDArray[np.integer], of_keys: NDArray[np.integer]) -> _ViewRows:
    """Merge tokens to words. What is true of any token of a word is true of the word."""
    known, allowed = (
        np.logical_or.reduceat(np.logical_or.reduceat(marks, of_keys, axis=1), of_queries, axis=0)
        for marks in (part.known, part.allowed)
    )
    values = merge_queries(merge_keys(part.values, of_keys), of_queries)
    return _ViewRows(values, known, allowed, merge_queries(part.removed[:, None], of_queries)[:, 0])


# --- a small picture of every head

SIDE = 24  # cells of a small picture, per side


def thumbnails(
    passed: Pass, kind: Kind | None = None, *, side: int = SIDE, on_progress: OnProgress | None = None
) -> Pooled:
    """The weights of every head of a pass in at most `side` by `side` cells: values [layers, heads, rows, columns] float32."""
    shape = passed.shape(kind)

    def small(blocks: Iterable[Rows | WeightRows]) -> Pooled:
        each = (
            (rows.start, Entries(rows.weights.numpy(force=True), rows.allowed.numpy(force=True))) for rows in blocks
        )
        return sweep((Band(start, {"weights": of}) for start, of in each), shape, side)[0]["weights"].pooled()

    layers = side_by_side(small, passed.in_rows(kind), on_progress)
    return replace(
        layers[0],
        values=np.stack([layer.values for layer in layers]).astype(np.float32),
        allowed=np.stack([layer.allowed for layer in layers]),
    )


# --- what each head adds to what the attention of its layer returns


@dataclass(frozen=True, eq=False)
class HeadContributions:
    """One layer's heads, in float64. A head's contribution is weights @ value @ W_O, with its own rows of W_O.

    total           [queries, d_model] the sum of the contributions: what the attention block returns, less its bias
    bias            [d_model] b_O
    lengths, along  [heads, queries], see `lengths`
    difference      the largest |total - concatenation @ W_O|
    """

    total: Array
    bias: Array
    lengths: Array
    along: Array
    difference: float


def head_contributions(capture: Capture, layer: int, kind: Kind | None = None) -> HeadContributions:
    """The contributions of all heads of a layer, which are independent of each other and add up (Elhage et al. 2021, "A
    Mathematical Framework for Transformer Circuits", https://transformer-circuits.pub/2021/framework)."""
    heads = range(capture.heads(kind))
    outputs = [capture.trace(layer, head, kind).output for head in heads]
    return add_up(outputs, [head_weights(capture.model, layer, head, kind) for head in heads])


def add_up(outputs: Sequence[Array], weights: Sequence[HeadWeights]) -> HeadContributions:
    """Add up contributions from the outputs [queries, d_head] and the matrices of all heads."""
    outputs = [output.astype(np.float64) for output in outputs]
    pieces = [matrices.W_O.astype(np.float64) for matrices in weights]
    contributions = np.stack([output @ piece for output, piece in zip(outputs, pieces, strict=True)])
    total, bias = contributions.sum(axis=0), weights[0].b_O.astype(np.float64)
    joined = np.concatenate(outputs, axis=1) @ np.concatenate(pieces, axis=0)
    return HeadContributions(total, bias, *lengths(contributions), float(np.abs(total - joined).max()))


def lengths(contributions: Array) -> tuple[Array, Array]:
    """The length of each head's contribution [heads, queries, d_model], and its length in the direction of their sum, negative
    where it points away from it: two of [heads, queries]. Over the heads the second add up to the length of the sum."""
    total = contributions.sum(axis=0)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    direction = total / np.where(length == 0, 1, length)
    return np.linalg.norm(contributions, axis=2), (contributions * direction).sum(axis=2)
