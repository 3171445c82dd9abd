"""What is kept of the heads of a model over a corpus: bounded in size, and the same in whatever order passages are added.

Counts are whole numbers and sums are exact (`core.corpus.sums`), so that tallies of parts of a corpus, merged in any order, are
the tally of the whole to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, log, log2

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from ..heads.metrics import METRICS, NAMES, measure_block
from ..heads.quantities import Block, Taken, Text, text_of
from ..models.modules import Kind
from .kept import Sample, Strongest, StrongestSoFar, draws
from .passages import CLASSES, Passage, classes_of
from .relations import Relations, WordTokens
from .sums import ExactSum
from .texts import Problem

BINS = 512  # of the distribution of a metric over its range
LISTED = 1000  # problems that are kept; all are counted

# Of which metrics the strongest queries are kept, unless others are asked for: those that speak of something in the text.
EXAMPLES_OF = ("elsewhere", "previous", "next", "duplicate", "induction", "punctuation", "distance", "entropy")


@dataclass(frozen=True)
class Settings:
    """What is kept. Tallies can be merged only where these are the same.

    kind        of attention
    heads       (layer, head) of each, in the order of all arrays
    tokens      the most that a passage has
    strongest   how many queries are kept of each head and metric of `examples_of`, those where it is largest
    sample      how many queries drawn at random are kept, of every head
    examples_of names of metrics
    revision, shape   of the model: as in `core.models.model.Model`; (layers, heads) that it has
    """

    kind: Kind
    heads: tuple[tuple[int, int], ...]
    tokens: int
    strongest: int = 50
    sample: int = 200
    examples_of: tuple[str, ...] = EXAMPLES_OF
    revision: str = ""
    shape: tuple[int, int] = (0, 0)

    @property
    def distances(self) -> NDArray[np.int64]:
        """The ranges of key - query that are counted apart, [ranges, 2], both ends included: ..., (-4, -3), (-2, -2),
        (-1, -1), (0, 0), (1, 1), (2, 2), (3, 4), (5, 8), ..."""
        steps = ceil(log2(max(self.tokens, 2)))
        after = [(1, 1), *((2**step // 2 + 1, 2**step) for step in range(1, steps + 1))]
        return np.array([*((-high, -low) for low, high in reversed(after)), (0, 0), *after])

    @property
    def highs(self) -> NDArray[np.float64]:
        """The upper end of the range of each metric, whose lower end is 0: [metrics]."""
        ends = {"nats": log(self.tokens), "tokens": float(self.tokens - 1), "": 1.0}
        return np.array([max(ends[metric.unit], 1e-9) for metric in METRICS])

    @property
    def nbytes(self) -> int:
        """About how much memory a tally of these takes."""
        heads, row = len(self.heads), 4 * self.tokens + 40
        counted = heads * (8 * (BINS + 6) * len(METRICS) + 32 * len(CLASSES) ** 2 + 32 * len(self.distances))
        return counted + heads * row * (self.strongest * len(self.examples_of) + self.sample)


@dataclass(eq=False)
class Tally:
    """See the module. H heads, M metrics (`core.heads.metrics.METRICS`), C classes of tokens, D ranges of distance.

    counts      [M, H] int64: over how many queries each metric was measured
    totals, squares  sums of the metric and of its square: [M, H]
    histogram   [M, H, BINS] int64: how many queries lie in each of the equal parts of the metric's range
    attention   sums of weights from queries to keys, by their classes: [H, C, C]
    chance      the same, had each query attended evenly to all that it may attend to
    queries     [H, C] int64: queries of each class that may attend to anything
    by_distance, distance_chance  the same by distance: [H, D]
    passages_read, tokens_read, texts_unread
    """

    settings: Settings
    counts: NDArray[np.int64]
    totals: ExactSum
    squares: ExactSum
    histogram: NDArray[np.int64]
    attention: ExactSum
    chance: ExactSum
    queries: NDArray[np.int64]
    by_distance: ExactSum
    distance_chance: ExactSum
    relations: Relations
    strongest: StrongestSoFar
    sample: Sample
    passages: dict[int, Passage] = field(default_factory=dict)
    ids: set[int] = field(default_factory=set)
    tokens_read: int = 0
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0

    @classmethod
    def empty(cls, settings: Settings) -> Tally:
        heads, metrics, classes = len(settings.heads), len(METRICS), len(CLASSES)
        ranges = len(settings.distances)
        return cls(
            settings,
            np.zeros((metrics, heads), np.int64),
            ExactSum.zeros(metrics, heads),
            ExactSum.zeros(metrics, heads),
            np.zeros((metrics, heads, BINS), np.int64),
            ExactSum.zeros(heads, classes, classes),
            ExactSum.zeros(heads, classes, classes),
            np.zeros((heads, classes), np.int64),
            ExactSum.zeros(heads, ranges),
            ExactSum.zeros(heads, ranges),
            Relations.empty(heads),
            StrongestSoFar(heads, len(settings.examples_of), settings.strongest, settings.tokens),
            Sample.empty(metrics, heads, settings.tokens),
        )

    # --- adding

    def add(self, passage: Passage, taken: Taken) -> None:
        """Add what heads do in a passage that has been read."""
        seen = _Seen.of(self, passage, taken)
        with torch.inference_mode():
            for layer, blocks in enumerate(taken.in_rows(self.settings.kind)):
                places, heads = self._of_layer(layer)
                if len(places):
                    for rows in blocks:
                        self._add_block(seen, places, heads, Block(rows, seen.text, seen.queries))
        self._add_numbers(seen.values)
        self.attention.add(seen.attention)
        self.chance.add(seen.chance)
        self.by_distance.add(seen.by_distance)
        self.distance_chance.add(seen.distance_chance)
        self.queries += seen.attending
        if seen.words is not None:
            self.relations.add(passage, seen.words, seen.between_words)
        number = np.full(len(seen.sampled), passage.id, np.uint64)
        drawn = Sample(
            seen.draw[seen.sampled],
            number,
            seen.sampled.astype(np.int32),
            np.moveaxis(seen.values[:, :, seen.sampled], 2, 0),
            seen.sampled_weights,
        )
        self.sample = Sample.joined([self.sample, drawn]).first(self.settings.sample) if len(number) else self.sample
        self.passages[passage.id] = passage
        self.ids.add(passage.id)
        self.tokens_read += seen.queries

    def _of_layer(self, layer: int) -> tuple[NDArray[np.int64], list[int]]:
        """(places in our arrays, numbers within the layer) of those of its heads that are wanted."""
        found = [(place, head) for place, (at, head) in enumerate(self.settings.heads) if at == layer]
        return np.array([place for place, _ in found], np.int64), [head for _, head in found]

    def _add_block(self, seen: _Seen, places: NDArray[np.int64], heads: list[int], block: Block) -> None:
        rows = slice(block.rows.start, block.rows.stop)
        keys = block.weights.shape[2]
        weights = block.weights[heads]
        attending = (block.choices > 0)[heads]
        values = measure_block(block)[:, heads].float().numpy(force=True)
        seen.values[:, places, rows] = values
        of_query, of_key = seen.classes[rows], seen.classes[:keys]
        ranges = _ranges(self.settings.tokens, rows.start, rows.stop, keys)
        seen.attention[places] += _between(weights, of_query, of_key)
        seen.by_distance[places] += _along(weights, ranges)
        seen.attending[places] += (attending.to(of_query.dtype) @ of_query).long().numpy(force=True)
        if seen.text.mask:
            even = block.rows.allowed / block.choices[:1, :, None].clamp_min(1)
            even = even[heads] if len(even) > 1 else even
            seen.chance[places] += _between(even, of_query, of_key)
            seen.distance_chance[places] += _along(even, ranges)
        if seen.words is not None:
            onto = weights @ seen.words.sums[:keys].to(weights.dtype)
            seen.between_words[places] += (
                (seen.words.means[:, rows].to(weights.dtype) @ onto).double().numpy(force=True)
            )
        sampled = (seen.sampled >= rows.start) & (seen.sampled < rows.stop)
        if sampled.any():
            chosen = weights[:, seen.sampled[sampled] - rows.start]
            seen.sampled_weights[np.ix_(np.flatnonzero(sampled), places)] = seen.whole_rows(chosen).swapaxes(0, 1)
        self._add_strongest(seen, places, weights, values, rows)

    def _add_strongest(
        self, seen: _Seen, places: NDArray[np.int64], weights: Tensor, values: NDArray[np.float32], rows: slice
    ) -> None:
        scores, draw = values[self._examples_of], seen.draw[rows]
        metric, head, query = self.strongest.candidates(places, scores, draw)
        self.strongest.add(
            Strongest(
                places[head].astype(np.int32),
                metric.astype(np.int16),
                scores[metric, head, query],
                draw[query],
                np.full(len(query), seen.passage, np.uint64),
                (query + rows.start).astype(np.int32),
                seen.whole_rows(weights[head, query]),
            )
        )

    @property
    def _examples_of(self) -> list[int]:
        return [NAMES.index(name) for name in self.settings.examples_of]

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
        """Count what could not be read, and list it. count: how much it is where these are the first of it"""
        self.problem_count += len(problems) if count is None else count
        self.problems = first_of([*self.problems, *problems])

    # --- putting together

    def merge(self, other: Tally) -> None:
        """Add what another one has counted over other passages. Raises ValueError where the two do not belong together."""
        if self.settings != other.settings:
            raise ValueError("Tallies of other settings cannot be added.")
        if self.ids & other.ids:
            raise ValueError("These tallies have passages in common.")
        for mine, its in zip(self._sums, other._sums, strict=True):
            mine.merge(its)
        self.counts += other.counts
        self.histogram += other.histogram
        self.queries += other.queries
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
    def _sums(self) -> tuple[ExactSum, ...]:
        return (
            self.totals,
            self.squares,
            self.attention,
            self.chance,
            self.by_distance,
            self.distance_chance,
        )

    @property
    def shown_passages(self) -> dict[int, Passage]:
        """Those in which any kept query stands, by their ids."""
        wanted = {*self.strongest.rows.passage.tolist(), *self.sample.passage.tolist()}
        return {number: passage for number, passage in sorted(self.passages.items()) if number in wanted}


def first_of(problems: Iterable[Problem]) -> list[Problem]:
    """As many as are kept, by where they stand."""
    return sorted(problems, key=lambda one: (one.place.file, one.place.row, one.why))[:LISTED]


# --- one passage


@dataclass(eq=False)
class _Seen:
    """What is put together of one passage, layer by layer, before it is added to the sums."""

    passage: int
    text: Text
    queries: int
    keys: int
    classes: Tensor  # [tokens, C] 1 for the class of each
    draw: NDArray[np.uint64]
    sampled: NDArray[np.int64]  # queries that may become part of the sample
    sampled_weights: NDArray[np.float32]
    values: NDArray[np.float32]
    attention: NDArray[np.float64]
    chance: NDArray[np.float64]
    attending: NDArray[np.int64]
    by_distance: NDArray[np.float64]
    distance_chance: NDArray[np.float64]
    words: WordTokens | None
    between_words: NDArray[np.float64]

    def whole_rows(self, weights: Tensor) -> NDArray[np.float32]:
        """Rows of weights [..., keys of a block] as they are kept: [..., tokens].

        A block ends with the last key that any of its queries may attend to; the passage may be longer, and other passages
        longer still.
        """
        rows = np.full((*weights.shape[:-1], self.sampled_weights.shape[-1]), np.nan, np.float32)
        rows[..., : self.keys] = 0
        rows[..., : weights.shape[-1]] = weights.float().numpy(force=True)
        return rows

    @classmethod
    def of(cls, tally: Tally, passage: Passage, taken: Taken) -> _Seen:
        settings = tally.settings
        queries, keys = taken.shape(settings.kind)
        tokenizer = taken.model.tokenizer
        heads, count, ranges = len(settings.heads), len(CLASSES), len(settings.distances)
        draw = draws(passage.id, queries)
        drawn = tally.sample.draw
        is_full = 0 < len(drawn) == settings.sample
        sampled = np.flatnonzero(draw < drawn[-1]) if is_full else np.argsort(draw)[: settings.sample]
        words = WordTokens.of(tokenizer, passage, keys) if passage.relations else None
        return cls(
            passage.id,
            text_of(taken, settings.kind),
            queries,
            keys,
            one_hot(torch.from_numpy(classes_of(tokenizer, taken.input_ids)), count).float(),
            draw,
            np.sort(sampled),
            np.full((len(sampled), heads, settings.tokens), np.nan, np.float32),
            np.full((len(METRICS), heads, queries), np.nan, np.float32),
            np.zeros((heads, count, count)),
            np.zeros((heads, count, count)),
            np.zeros((heads, count), np.int64),
            np.zeros((heads, ranges)),
            np.zeros((heads, ranges)),
            words,
            np.zeros((heads, len(passage.words), len(passage.words))),
        )


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
