"""The tally of the heads of a model over a corpus: bounded in size, and the same in whatever order passages are added.

Counts are whole numbers and sums are exact (`core.corpus.sums`), so that tallies of parts of a corpus, merged in any order, are
the tally of the whole to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, log2

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from ..heads.metrics import NAMES, measure_block
from ..heads.quantities import Block, Taken, text_of
from ..models.modules import Kind
from .kept import Sample, Strongest, StrongestSoFar, draws
from .passages import CLASSES, Passage, classes_of
from .relations import Relations, WordTokens
from .settings import RunSettings
from .sums import ExactSum
from .texts import Problem

BINS = 512  # of the distribution of a metric over its range
LISTED = 1000  # problems that are kept; all are counted

# The arrays of a tally that are added, by name: whole numbers, and exact sums.
COUNTS = ("counts", "histogram", "queries")
SUMS = ("totals", "squares", "attention", "chance", "by_distance", "distance_chance")


@dataclass(frozen=True)
class ModelHeads:
    """The heads that a run measures, and the model that has them.

    kind      of attention
    measured  (layer, head) of each, in the order of all arrays
    layers, per_layer   how many layers the model has, and how many heads each layer has
    revision  of the model, as in `core.models.model.Model`
    """

    kind: Kind
    measured: tuple[tuple[int, int], ...]
    layers: int
    per_layer: int
    revision: str


class Tally:
    """Counts and sums over passages, at first none. H heads, M metrics, C classes of tokens, D ranges of distance.

    counts      [M, H] int64: over how many queries each metric was measured
    totals, squares  sums of the metric and of its square: [M, H]
    histogram   [M, H, BINS] int64: how many queries lie in each of the equal parts of the metric's range
    attention   sums of weights from queries to keys, by their classes: [H, C, C]
    chance      the same, had each query attended evenly to all that it may attend to
    queries     [H, C] int64: queries of each class that may attend to anything
    by_distance, distance_chance  as attention and chance, by distance: [H, D]
    strongest, sample  the queries that are kept
    passages    those that have been added, by their ids: at least those in which a kept query stands
    ids         of all passages that have been counted, also of those that could not be read
    problems, problem_count  the first LISTED of what could not be read, and how much that is in all
    """

    def __init__(self, settings: RunSettings, heads: ModelHeads) -> None:
        self.settings, self.heads = settings, heads
        shape = len(settings.metrics), len(heads.measured)
        pairs = shape[1], len(CLASSES), len(CLASSES)
        ranges = shape[1], len(settings.distances)
        self.counts = np.zeros(shape, np.int64)
        self.totals, self.squares = ExactSum.zeros(*shape), ExactSum.zeros(*shape)
        self.histogram = np.zeros((*shape, BINS), np.int64)
        self.attention, self.chance = ExactSum.zeros(*pairs), ExactSum.zeros(*pairs)
        self.queries = np.zeros(pairs[:2], np.int64)
        self.by_distance, self.distance_chance = ExactSum.zeros(*ranges), ExactSum.zeros(*ranges)
        self.relations = Relations.empty(shape[1])
        kept = shape[1], len(settings.examples_of), settings.strongest
        self.strongest = StrongestSoFar(*kept, settings.passage_tokens)
        self.sample = Sample.empty(*shape, settings.passage_tokens)
        self.passages: dict[int, Passage] = {}
        self.ids: set[int] = set()
        self.problems: list[Problem] = []
        self.tokens_read = self.problem_count = 0

    # --- adding

    def add(self, passage: Passage, taken: Taken) -> None:
        """Add what heads do in a passage that has been read."""
        sums = _PassageSums(self, passage, taken)
        with torch.inference_mode():
            for layer, blocks in enumerate(taken.in_rows(self.heads.kind)):
                places, heads = self._of_layer(layer)
                if len(places):
                    for rows in blocks:
                        self._add_block(sums, places, heads, Block(rows, sums.text, sums.queries))
        self._add_numbers(sums.values)
        self.attention.add(sums.attention)
        self.chance.add(sums.chance)
        self.by_distance.add(sums.by_distance)
        self.distance_chance.add(sums.distance_chance)
        self.queries += sums.attending
        if sums.words is not None:
            self.relations.add(passage, sums.words, sums.between_words)
        number = np.full(len(sums.sampled), passage.id, np.uint64)
        drawn = Sample(
            sums.draw[sums.sampled],
            number,
            sums.sampled.astype(np.int32),
            np.moveaxis(sums.values[:, :, sums.sampled], 2, 0),
            sums.sampled_weights,
        )
        self.sample = Sample.joined([self.sample, drawn]).first(self.settings.sample) if len(number) else self.sample
        self.passages[passage.id] = passage
        self.ids.add(passage.id)
        self.tokens_read += sums.queries

    def _of_layer(self, layer: int) -> tuple[NDArray[np.int64], list[int]]:
        """(places in our arrays, numbers within the layer) of those of its heads that are wanted."""
        found = [(place, head) for place, (at, head) in enumerate(self.heads.measured) if at == layer]
        return np.array([place for place, _ in found], np.int64), [head for _, head in found]

    def _add_block(self, sums: _PassageSums, places: NDArray[np.int64], heads: list[int], block: Block) -> None:
        rows = slice(block.rows.start, block.rows.stop)
        keys = block.weights.shape[2]
        weights = block.weights[heads]
        attending = (block.choices > 0)[heads]
        values = measure_block(block)[self._metrics][:, heads].float().numpy(force=True)
        sums.values[:, places, rows] = values
        of_query, of_key = sums.classes[rows], sums.classes[:keys]
        ranges = _ranges(self.settings.passage_tokens, rows.start, rows.stop, keys)
        sums.attention[places] += _between(weights, of_query, of_key)
        sums.by_distance[places] += _along(weights, ranges)
        sums.attending[places] += (attending.to(of_query.dtype) @ of_query).long().numpy(force=True)
        if sums.text.mask:
            even = block.rows.allowed / block.choices[:1, :, None].clamp_min(1)
            even = even[heads] if len(even) > 1 else even
            sums.chance[places] += _between(even, of_query, of_key)
            sums.distance_chance[places] += _along(even, ranges)
        if sums.words is not None:
            onto = weights @ sums.words.sums[:keys].to(weights.dtype)
            sums.between_words[places] += (
                (sums.words.means[:, rows].to(weights.dtype) @ onto).double().numpy(force=True)
            )
        sampled = (sums.sampled >= rows.start) & (sums.sampled < rows.stop)
        if sampled.any():
            chosen = weights[:, sums.sampled[sampled] - rows.start]
            sums.sampled_weights[np.ix_(np.flatnonzero(sampled), places)] = sums.whole_rows(chosen).swapaxes(0, 1)
        self._add_strongest(sums, places, weights, values, rows)

    def _add_strongest(
        self, sums: _PassageSums, places: NDArray[np.int64], weights: Tensor, values: NDArray[np.float32], rows: slice
    ) -> None:
        scores, draw = values[self._examples_of], sums.draw[rows]
        metric, head, query = self.strongest.candidates(places, scores, draw)
        self.strongest.add(
            Strongest(
                places[head].astype(np.int32),
                metric.astype(np.int16),
                scores[metric, head, query],
                draw[query],
                np.full(len(query), sums.passage, np.uint64),
                (query + rows.start).astype(np.int32),
                sums.whole_rows(weights[head, query]),
            )
        )

    @cached_property
    def _metrics(self) -> list[int]:
        """Places of the measured metrics among all that there are."""
        return [NAMES.index(name) for name in self.settings.metrics]

    @cached_property
    def _examples_of(self) -> list[int]:
        return [self.settings.metrics.index(name) for name in self.settings.examples_of]

    def _add_numbers(self, values: NDArray[np.float32]) -> None:
        """values: [M, H, queries]"""
        there = np.isfinite(values)
        numbers = np.where(there, values, 0).astype(np.float64)
        self.counts += there.sum(axis=-1)
        self.totals.add(numbers.sum(axis=-1))
        self.squares.add(np.square(numbers).sum(axis=-1))
        part = np.clip(numbers / self.settings.highs[:, None, None] * BINS, 0, BINS - 1).astype(np.int64)
        first = np.arange(part[..., 0].size).reshape(part.shape[:2])[..., None] * BINS
        np.add.at(self.histogram.reshape(-1), (first + part)[there], 1)

    def fail(self, passage: Passage, why: str) -> None:
        """Count a passage that could not be read, and list it."""
        self.ids.add(passage.id)
        self.note([Problem(passage.place, why)])

    def note(self, problems: Sequence[Problem], count: int | None = None) -> None:
        """Count and list what could not be read. count: how many problems there are in all, where these are the first"""
        self.problem_count += len(problems) if count is None else count
        self.problems = first_of([*self.problems, *problems])

    # --- putting together

    def merge(self, other: Tally) -> None:
        """Add a tally of other passages. Raises ValueError for one of other settings, and where passages are in both."""
        if (self.settings, self.heads) != (other.settings, other.heads):
            raise ValueError("Tallies of other settings cannot be added.")
        if self.ids & other.ids:
            raise ValueError("These tallies have passages in common.")
        for name in SUMS:
            getattr(self, name).merge(getattr(other, name))
        for name in COUNTS:
            numbers = getattr(self, name)
            numbers += getattr(other, name)
        self.relations.merge(other.relations)
        self.strongest.add(other.strongest.rows)
        self.sample = Sample.joined([self.sample, other.sample]).first(self.settings.sample)
        self.passages |= other.passages
        self.passages = self.shown_passages
        self.ids |= other.ids
        self.tokens_read += other.tokens_read
        self.problem_count += other.problem_count
        self.problems = first_of([*self.problems, *other.problems])

    @property
    def shown_passages(self) -> dict[int, Passage]:
        """The passages that contain a kept query, by their ids."""
        wanted = {*self.strongest.rows.passage.tolist(), *self.sample.passage.tolist()}
        return {number: passage for number, passage in sorted(self.passages.items()) if number in wanted}


def tally_bytes(settings: RunSettings, heads: int) -> int:
    """About how much memory a tally of this many heads takes, and how large it is as a file."""
    counted = 8 * (BINS + 6) * len(settings.metrics) + 32 * len(CLASSES) ** 2 + 32 * len(settings.distances)
    kept = settings.strongest * len(settings.examples_of) + settings.sample
    return heads * (counted + (4 * settings.passage_tokens + 40) * kept)


def first_of(problems: Iterable[Problem]) -> list[Problem]:
    """As many as are kept, by where they stand."""
    return sorted(problems, key=lambda one: (one.place.file, one.place.row, one.why))[:LISTED]


# --- one passage


class _PassageSums:
    """The sums over one passage, filled layer by layer, before they are added to the tally. Shapes as in `Tally`.

    classes   [tokens, C] 1 for the class of each token
    draw      [queries] as `draws` gives it
    sampled   [sampled] queries that may become part of the sample
    values    [M, H, queries] NaN where a metric has nothing to measure
    """

    def __init__(self, tally: Tally, passage: Passage, taken: Taken) -> None:
        settings, kind, tokenizer = tally.settings, tally.heads.kind, taken.model.tokenizer
        heads, count, ranges = len(tally.heads.measured), len(CLASSES), len(settings.distances)
        self.passage, self.text = passage.id, text_of(taken, kind)
        self.queries, self.keys = taken.shape(kind)
        self.classes = one_hot(torch.from_numpy(classes_of(tokenizer, taken.input_ids)), count).float()
        self.draw = draws(passage.id, self.queries)
        self.sampled = np.sort(self._may_be_sampled(tally))
        self.sampled_weights = np.full((len(self.sampled), heads, settings.passage_tokens), np.nan, np.float32)
        self.values = np.full((len(settings.metrics), heads, self.queries), np.nan, np.float32)
        self.attention, self.chance = np.zeros((2, heads, count, count))
        self.attending = np.zeros((heads, count), np.int64)
        self.by_distance, self.distance_chance = np.zeros((2, heads, ranges))
        self.words = WordTokens.of(tokenizer, passage, self.keys) if passage.relations else None
        self.between_words = np.zeros((heads, len(passage.words), len(passage.words)))

    def _may_be_sampled(self, tally: Tally) -> NDArray[np.int64]:
        drawn, most = tally.sample.draw, tally.settings.sample
        is_full = 0 < len(drawn) == most
        return np.flatnonzero(self.draw < drawn[-1]) if is_full else np.argsort(self.draw)[:most]

    def whole_rows(self, weights: Tensor) -> NDArray[np.float32]:
        """Rows of weights [..., keys of a block] as they are kept: [..., tokens].

        A block ends with the last key that any of its queries may attend to; the passage may be longer, and other passages
        longer still.
        """
        rows = np.full((*weights.shape[:-1], self.sampled_weights.shape[-1]), np.nan, np.float32)
        rows[..., : self.keys] = 0
        rows[..., : weights.shape[-1]] = weights.float().numpy(force=True)
        return rows


def _between(weights: Tensor, of_query: Tensor, of_key: Tensor) -> NDArray[np.float64]:
    """[heads, C, C]: sums of weights [heads, queries, keys] by the classes [queries, C] and [keys, C]."""
    dtype = weights.dtype
    return (of_query.to(dtype).T @ (weights @ of_key.to(dtype))).double().numpy(force=True)


def _along(weights: Tensor, ranges: Tensor) -> NDArray[np.float64]:
    """[heads, D]: sums of weights [heads, queries, keys] by distance; ranges as `_ranges` gives them."""
    return (weights.flatten(1) @ ranges.to(weights.dtype)).double().numpy(force=True)


@lru_cache(maxsize=16)
def _ranges(tokens: int, start: int, stop: int, keys: int) -> Tensor:
    """[queries × keys, D] 1 for the range that key - query lies in, of the queries from `start` to `stop`."""
    steps = ceil(log2(max(tokens, 2)))
    offset = torch.arange(keys) - torch.arange(start, stop)[:, None]
    step = offset.abs().clamp_min(1).float().log2().ceil().long() + 1
    return one_hot((torch.where(offset == 0, 0, step) * offset.sign() + steps + 1).flatten(), 2 * steps + 3).float()
