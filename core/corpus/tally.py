"""The tally of the heads of a model over a corpus: bounded in size, and the same in whatever order passages are added.

Counts are whole numbers and sums are exact: merged tallies of parts are the tally of the whole to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from ..averages import ExactSum
from ..capturing.calls.rows import Rows
from ..capturing.capture import Capture
from ..capturing.weights_only import WeightRows
from ..claims.claim import Claim
from ..claims.facts import Facts
from ..claims.shares import GROUPS, HALVES, ClaimSums, PassageShares
from ..heads.metrics import NAMES, measure_block
from ..heads.quantities import HeadRows, Pass, text_of
from ..models.modules import Kind
from ..models.passages import CLASSES, Passage, Problem, classes_of, tokens_of_words
from .settings import RunSettings, distance_ranges
from .sums import SampleSoFar, StrongestSoFar, draws, rows_of, sample_dtype

Some = slice | list[int]  # places along an axis

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
    claims      the sums of claims; None without any
    strongest, sample  the queries that are kept
    passages    those that have been added, by their ids: at least those in which a kept query stands
    ids         of all passages that have been counted, also of those that could not be read
    problems, problem_count  the first LISTED of what could not be read, and how much that is in all
    """

    def __init__(self, settings: RunSettings, heads: ModelHeads) -> None:
        self.settings, self.heads = settings, heads
        metrics, count, classes = len(settings.metrics), len(heads.measured), len(CLASSES)
        ranges, tokens = len(distance_ranges(settings.passage_tokens)), settings.passage_tokens
        self.counts = np.zeros((metrics, count), np.int64)
        self.totals, self.squares = ExactSum.zeros(metrics, count), ExactSum.zeros(metrics, count)
        self.histogram = np.zeros((metrics, count, BINS), np.int64)
        self.attention, self.chance = (ExactSum.zeros(count, classes, classes) for _ in range(2))
        self.queries = np.zeros((count, classes), np.int64)
        self.by_distance, self.distance_chance = (ExactSum.zeros(count, ranges) for _ in range(2))
        self.relations = Relations(count)
        lines = tuple(map(Claim.read, settings.claims))
        self.claims = ClaimSums(lines, np.array(heads.measured, np.int64).reshape(-1, 2)) if lines else None
        self.strongest = StrongestSoFar(count, len(settings.examples_of), settings.strongest, tokens)
        self.sample = SampleSoFar(sample_dtype(metrics, count, tokens), settings.sample)
        self.passages: dict[int, Passage] = {}
        self.ids: set[int] = set()
        self.problems: list[Problem] = []
        self.tokens_read = self.problem_count = 0
        self._metrics = [NAMES.index(name) for name in settings.metrics]  # places among all that there are
        self._examples_of = [settings.metrics.index(name) for name in settings.examples_of]

    # --- adding

    def add(self, passage: Passage, taken: Pass) -> None:
        """Add what heads do in a passage that has been read."""
        sums = _PassageSums(self, passage, taken)
        with torch.inference_mode():
            for layer, blocks in enumerate(taken.in_rows(self.heads.kind)):
                wanted = [(place, head) for place, (at, head) in enumerate(self.heads.measured) if at == layer]
                held = list(blocks) if sums.claims else blocks
                if wanted:
                    places, heads = map(_some, zip(*wanted, strict=True))
                    for rows in held:
                        self._add_block(sums, places, heads, HeadRows(rows, sums.text, sums.queries))
                if sums.claims is not None:
                    sums.claims.add(rows for rows in held if isinstance(rows, Rows))
        # From here on nothing stops: a passage is in the tally as a whole or not at all.
        for rows in sums.strongest:
            self.strongest.add(**rows)
        self._add_numbers(sums.values)
        for name, numbers in sums.attention.items():
            getattr(self, name).add(numbers)
        self.queries += sums.attending
        if sums.words is not None:
            self.relations.add(passage, sums.words.numpy() > 0, sums.between_words)
        self.sample.extend(
            rows_of(
                self.sample.dtype,
                draw=sums.draw[sums.sampled],
                passage=passage.id,
                query=sums.sampled,
                values=np.moveaxis(sums.values[:, :, sums.sampled], 2, 0),
                weights=sums.sampled_weights,
            )
        )
        if self.claims is not None and sums.claims is not None:
            places = [layer * self.heads.per_layer + head for layer, head in self.heads.measured]
            self.claims.add(passage, sums.claims, places)
        self.passages[passage.id] = passage
        self.ids.add(passage.id)
        self.tokens_read += sums.queries

    def _add_block(self, sums: _PassageSums, places: Some, heads: Some, block: HeadRows) -> None:
        rows = slice(block.rows.start, block.rows.stop)
        weights = block.weights[heads]
        measured = measure_block(block).float().numpy(force=True)
        for into, metric in zip(sums.values, self._metrics, strict=True):
            into[places, rows] = measured[metric, heads]
        values = sums.values[:, places, rows]
        self._add_attention(sums, places, heads, block, weights)
        sampled = slice(*np.searchsorted(sums.sampled, (rows.start, rows.stop)).tolist())
        if sampled.start < sampled.stop:
            chosen = weights[:, sums.sampled[sampled] - rows.start]
            sums.sampled_weights[sampled, places] = sums.whole_rows(chosen).swapaxes(0, 1)
        scores, draw = values[self._examples_of], sums.draw[rows]
        metric, head, query = self.strongest.candidates(places, scores, draw)
        if len(query):
            sums.strongest.append(
                {
                    "head": np.arange(len(self.heads.measured))[places][head],
                    "metric": metric,
                    "score": scores[metric, head, query],
                    "draw": draw[query],
                    "passage": sums.passage,
                    "query": query + rows.start,
                    "weights": sums.whole_rows(weights[head, query]),
                }
            )

    def _add_attention(self, sums: _PassageSums, places: Some, heads: Some, block: HeadRows, weights: Tensor) -> None:
        rows, keys = slice(block.rows.start, block.rows.stop), weights.shape[2]
        of_query, of_key = sums.classes[rows], sums.classes[:keys]
        ranges = _ranges(self.settings.passage_tokens, rows.start, rows.stop, keys)
        sums.attention["attention"][places] += _between(weights, of_query, of_key)
        sums.attention["by_distance"][places] += _along(weights, ranges)
        attending = (block.choices > 0)[heads]
        sums.attending[places] += (attending.to(of_query.dtype) @ of_query).long().numpy(force=True)
        if sums.text.mask:
            chance, distance_chance = sums.even(block.rows, ranges)
            of_heads = heads if len(chance) > 1 else slice(None)
            sums.attention["chance"][places] += chance[of_heads]
            sums.attention["distance_chance"][places] += distance_chance[of_heads]
        if sums.words is not None:
            onto = weights @ sums.words[:keys].to(weights.dtype)
            mean = (sums.words / sums.words.sum(dim=0).clamp_min(1))[rows].T.to(weights.dtype)
            sums.between_words[places] += (mean @ onto).double().numpy(force=True)

    def _add_numbers(self, values: NDArray[np.float32]) -> None:
        """values: [M, H, queries]"""
        there = np.isfinite(values)
        numbers = np.where(there, values, 0).astype(np.float64)
        self.counts += there.sum(axis=-1)
        self.totals.add(numbers.sum(axis=-1))
        self.squares.add(np.einsum("mhq,mhq->mh", numbers, numbers))
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
        """Add a tally of other passages. Raises ValueError if the settings differ, or a passage is in both."""
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
        if self.claims is not None and other.claims is not None:
            self.claims.merge(other.claims)
        self.strongest.extend(other.strongest.rows)
        self.sample.extend(other.sample.rows)
        self.passages |= other.passages
        self.passages = self.shown_passages
        self.ids |= other.ids
        self.tokens_read += other.tokens_read
        self.note(other.problems, other.problem_count)

    @property
    def shown_passages(self) -> dict[int, Passage]:
        """The passages that contain a kept query, by their ids."""
        wanted = {*self.strongest.rows["passage"].tolist(), *self.sample.rows["passage"].tolist()}
        return {number: passage for number, passage in sorted(self.passages.items()) if number in wanted}


def tally_bytes(settings: RunSettings, heads: int) -> int:
    """About how much memory a tally of this many heads takes, and how large it is as a file."""
    ranges = len(distance_ranges(settings.passage_tokens))
    of_claims = 24 * HALVES * (GROUPS + 4) * len(settings.claims)
    counted = of_claims + 8 * (BINS + 6) * len(settings.metrics) + 32 * len(CLASSES) ** 2 + 32 * ranges
    kept = settings.strongest * len(settings.examples_of) + settings.sample
    return heads * (counted + (4 * settings.passage_tokens + 40) * kept)


def first_of(problems: Iterable[Problem]) -> list[Problem]:
    """As many as are kept, by where they stand."""
    return sorted(problems, key=lambda problem: (problem.place.file, problem.place.row, problem.why))[:LISTED]


# --- one passage


class _PassageSums:
    """The sums over one passage, filled layer by layer, before they are added to the tally. Shapes as in `Tally`.

    classes    [tokens, C] 1 for the class of each token
    draw       [queries] as `draws` gives it
    sampled    [sampled] queries that may become part of the sample, rising
    values     [M, H, queries] NaN where a metric has nothing to measure
    attention  the sums of attention, by their names in the tally
    strongest  the queries that may be among the strongest, by the fields of `StrongestSoFar.add`, in several parts
    claims     of the passage; None without any
    words      [tokens, words] as `tokens_of_words` gives it; None for a passage that is not annotated
    """

    def __init__(self, tally: Tally, passage: Passage, taken: Pass) -> None:
        settings, kind, tokenizer = tally.settings, tally.heads.kind, taken.model.tokenizer
        heads, count = len(tally.heads.measured), len(CLASSES)
        self.passage, self.text = passage.id, text_of(taken, kind)
        self.queries, self.keys = taken.shape(kind)
        self.classes = one_hot(torch.from_numpy(classes_of(tokenizer, taken.input_ids)), count).float()
        self.draw = draws(passage.id, self.queries)
        self.sampled = tally.sample.candidates(self.draw)
        self.sampled_weights = np.full((len(self.sampled), heads, settings.passage_tokens), np.nan, np.float32)
        self.values = np.full((len(settings.metrics), heads, self.queries), np.nan, np.float32)
        names = ("attention", "chance", "by_distance", "distance_chance")
        self.attention = {name: np.zeros(getattr(tally, name).whole.shape) for name in names}
        self.attending = np.zeros((heads, count), np.int64)
        self.strongest: list[dict[str, ArrayLike]] = []
        self.words = tokens_of_words(tokenizer, passage, self.keys) if passage.relations else None
        self.claims = None
        if tally.claims is not None and isinstance(taken, Capture):
            facts = Facts.of(tokenizer, taken.input_ids, passage)
            self.claims = PassageShares(tally.claims.claims, taken, facts, kind)
        self.between_words = np.zeros((heads, len(passage.words), len(passage.words)))
        self._even: dict[int, tuple[Tensor, NDArray[np.float64], NDArray[np.float64]]] = {}

    def even(self, rows: Rows | WeightRows, ranges: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What even attention gives in these rows, by the classes and by distance: [1 or heads, C, C], [1 or heads, D].

        Layers mostly have the same mask, and then the same sums.
        """
        allowed = rows.allowed
        if rows.start not in self._even or not torch.equal(self._even[rows.start][0], allowed):
            even = allowed / rows.choices[..., None].clamp_min(1)
            of_query, of_key = self.classes[rows.start : rows.stop], self.classes[: allowed.shape[2]]
            self._even[rows.start] = (allowed, _between(even, of_query, of_key), _along(even, ranges))
        return self._even[rows.start][1:]

    def whole_rows(self, weights: Tensor) -> NDArray[np.float32]:
        """Rows of weights [..., keys of a block] as they are kept: [..., tokens].

        A block ends with the last key that any of its queries may attend to; the passage may be longer, and other passages
        longer still.
        """
        rows = np.full((*weights.shape[:-1], self.sampled_weights.shape[-1]), np.nan, np.float32)
        rows[..., : self.keys] = 0
        rows[..., : weights.shape[-1]] = weights.float().numpy(force=True)
        return rows


def _some(places: Sequence[int]) -> Some:
    """These places, as a slice if they follow each other: that copies nothing."""
    first, last = places[0], places[-1] + 1
    return slice(first, last) if places == (*range(first, last),) else list(places)


def _between(weights: Tensor, of_query: Tensor, of_key: Tensor) -> NDArray[np.float64]:
    """[heads, C, C]: sums of weights [heads, queries, keys] by the classes [queries, C] and [keys, C]."""
    dtype, (heads, queries, keys) = weights.dtype, weights.shape
    # Four times as fast as `weights @ of_key`, which is the transpose.
    onto = of_key.to(dtype).T @ weights.reshape(-1, keys).T
    sums = onto.reshape(-1, heads, queries) @ of_query.to(dtype)
    return sums.permute(1, 2, 0).double().numpy(force=True)


def _along(weights: Tensor, ranges: Tensor) -> NDArray[np.float64]:
    """[heads, D]: sums of weights [heads, queries, keys] by distance; ranges as `_ranges` gives them."""
    return (weights.flatten(1) @ ranges.to(weights.dtype)).double().numpy(force=True)


@lru_cache(maxsize=16)
def _ranges(tokens: int, start: int, stop: int, keys: int) -> Tensor:
    """[queries × keys, D] 1 for the range that key - query lies in, of the queries from `start` to `stop`."""
    offset = torch.arange(keys) - torch.arange(start, stop)[:, None]
    return _range_of_offset(tokens)[(offset + tokens).flatten()]


@lru_cache(maxsize=4)
def _range_of_offset(tokens: int) -> Tensor:
    """[2 tokens + 1, D] 1 for the range that an offset lies in, of the offsets from -tokens to tokens."""
    last = distance_ranges(tokens)[:, 1]
    return one_hot(torch.from_numpy(np.searchsorted(last, np.arange(-tokens, tokens + 1))), len(last)).float()


# --- grammatical relations: the share of attention along them, beside what the distances alone would put there.
#
# Words attend as in Clark et al. 2019 (https://arxiv.org/abs/1906.04341, section 4.1): to a word the sum over its tokens,
# from a word their mean. A head that always looks at the previous word also looks at many subjects: its baseline for a
# relation is what it gives, on average over all pairs of words, at the distances at which that relation stands.

FARTHEST = 64  # words to either side that are told apart; those beyond count as if they stood there
DIRECTIONS = ("to the head", "to the dependent")


class Relations:
    """Attention between the words of annotated passages, added up, of H heads.

    attention  relation -> sums of the attention along it: [H, 2]
    offsets    (relation, key word - query word in the direction of the head) -> how many there are
    by_offset  sums of the attention between any two words by key word - query word, from -FARTHEST on: [H, 2 FARTHEST + 1]
    pairs      how many pairs these are: [2 FARTHEST + 1]
    """

    def __init__(self, heads: int) -> None:
        self.attention: dict[str, ExactSum] = {}
        self.offsets: Counter[tuple[str, int]] = Counter()
        self.by_offset = ExactSum.zeros(heads, 2 * FARTHEST + 1)
        self.pairs = np.zeros(2 * FARTHEST + 1, np.int64)

    def add(self, passage: Passage, belongs: NDArray[np.bool_], attention: NDArray[np.float64]) -> None:
        """Add an annotated passage: attention [H, words, words]. belongs: [tokens, words], as `tokens_of_words` gives it. Words
        without tokens are left out, and so are pairs of words that share a token, which are written as one."""
        there: NDArray[np.bool_] = np.logical_or.reduce(belongs)
        offset = _near(np.subtract.outer(np.arange(len(there)), np.arange(len(there))).T) + FARTHEST
        both = np.logical_and.outer(there, there) & ~(belongs.T @ belongs)
        heads = len(attention)
        sums = np.zeros((len(self.pairs), heads))
        np.add.at(sums, offset[both], attention[:, both].T)
        self.by_offset.add(sums.T)
        np.add.at(self.pairs, offset[both], 1)
        sums_of: dict[str, NDArray] = {}
        for relation in passage.relations:
            word, head = relation.dependent, relation.head
            if both[word, head]:
                along = sums_of.setdefault(relation.name, np.zeros((heads, 2)))
                along += np.stack([attention[:, word, head], attention[:, head, word]], axis=1)
                self.offsets[relation.name, int(_near(head - word))] += 1
        for name, along in sums_of.items():
            self.attention.setdefault(name, ExactSum.zeros(heads, 2)).add(along)

    def merge(self, other: Relations) -> None:
        self.by_offset.merge(other.by_offset)
        self.pairs += other.pairs
        self.offsets += other.offsets
        for name, along in other.attention.items():
            self.attention.setdefault(name, ExactSum.zeros(*along.whole.shape)).merge(along)

    def table(self) -> pd.DataFrame:
        """A row for each relation, direction and head: place (of the head), relation, direction, count, attention, baseline.

        Without relations there is only the column place.
        """
        with np.errstate(invalid="ignore"):
            usual = self.by_offset.values / self.pairs  # NaN where no two words have that distance
        tables = []
        for name, along in sorted(self.attention.items()):
            of = {offset: number for (relation, offset), number in self.offsets.items() if relation == name}
            count = sum(of.values())
            for way, sign in enumerate((1, -1)):
                baseline = usual[:, [sign * offset + FARTHEST for offset in of]] @ np.array([*of.values()]) / count
                columns: dict[str, Any] = {"place": np.arange(len(usual)), "relation": name}
                columns |= {"direction": DIRECTIONS[way], "count": count}
                columns |= {"attention": along.values[:, way] / count, "baseline": baseline}
                tables.append(pd.DataFrame(columns))
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"place": np.empty(0, np.int64)})


def _near(offset: Any) -> Any:
    return np.clip(offset, -FARTHEST, FARTHEST)
