"""A finished run, read again: only what is asked for, whatever the size of its files.

Its files are those of `core.corpus.storing`. Opening checks them once (`core.corpus.checking`) and keeps one number for each
head and metric, and which rows belong to which head; everything else is read on demand, from the groups of rows that have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import InputError
from ..heads.metrics import NAMES
from ..models.texts import half_of_a_pair
from .about import FORMAT, METADATA, About
from .checking import File, RunIndex, check_about, index_of, require_once, require_order, same_for_all, words_of_map
from .columns import MAP, MAP_METADATA, NEEDED, Unfit, columns_of, file_of
from .passages import CLASSES
from .texts import first_line, shown

QUANTILES = 50  # the parts of a sample, of each of which one query is shown


@dataclass(frozen=True, eq=False)
class Distribution:
    """A metric of a head over all queries of a corpus.

    count, mean, spread  the number of queries, their mean and standard deviation, all exact
    high       the upper end of the metric's range, whose lower end is 0
    histogram  [parts] queries in each of the equal parts of the range
    """

    count: int
    mean: float
    spread: float
    high: float
    histogram: NDArray[np.int64]

    @property
    def edges(self) -> NDArray[np.float64]:
        """[parts + 1] where the parts begin and end."""
        return np.linspace(0, self.high, len(self.histogram) + 1)

    def quantile(self, share: float) -> float:
        """The value that this share of the queries, from 0 to 1, does not exceed; NaN where there are no queries.

        It is exact to within one part of the range: in each part, queries are taken to lie evenly.
        """
        if not self.count:
            return float("nan")
        reached = np.concatenate([[0], self.histogram.cumsum()])
        wanted = share * reached[-1]
        part = int(np.clip(np.searchsorted(reached, wanted) - 1, 0, len(self.histogram) - 1))
        inside = (wanted - reached[part]) / max(int(self.histogram[part]), 1)
        return float(self.edges[part] + min(max(inside, 0.0), 1.0) * (self.high / len(self.histogram)))


@dataclass(frozen=True, eq=False)
class Example:
    """A query of the corpus and where a head looks from it.

    score    the value there of the metric by which the example was chosen
    values   name of a metric -> its value there, as far as known
    query    position of the query among the tokens of its passage
    weights  [tokens] all weights of the query
    tokens, text, file, row, start   of the passage: what the model read, and where it stands
    """

    score: float
    values: dict[str, float]
    query: int
    weights: NDArray[np.float32]
    tokens: tuple[str, ...]
    text: str
    file: str
    row: int
    start: int


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """All heads of a run on a plane, near each other where they behave alike, in the order of `Run.heads`.

    x, y     [heads]
    cluster  [heads] the number of each head's cluster
    words    the name of each cluster, by its number: what its heads have in common
    alike    for each head the places of the heads that behave most alike, the nearest first
    trustworthiness  how far neighbours on the map are neighbours by their profiles, from 0 to 1; None where not known
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    cluster: NDArray[np.int64]
    words: tuple[str, ...]
    alike: tuple[tuple[int, ...], ...]
    trustworthiness: float | None


@dataclass(frozen=True, eq=False)
class HeadSample:
    """The queries that were drawn at random, with one head's metrics and weights.

    values   [queries] a column for each metric, NaN where there is nothing to measure
    """

    run: Run
    values: pd.DataFrame
    passages: NDArray[np.uint64]
    queries: NDArray[np.int32]
    weights: tuple[NDArray[np.float32], ...]

    def ordered(self, metric: str, low: float = 0.0, high: float = 1.0) -> NDArray[np.intp]:
        """The places of the queries, those with the largest value of a metric first; only those between two quantiles."""
        values = self.values[metric].to_numpy()
        known = np.flatnonzero(np.isfinite(values))
        rising = known[np.argsort(values[known], kind="stable")]
        middle = (np.arange(len(rising)) + 0.5) / max(len(rising), 1)
        return rising[(middle >= low) & (middle <= high)][::-1]

    def examples(self, places: Iterable[int], metric: str) -> list[Example]:
        """The queries at these places, with the metric as their score. Raises InputError where the passages cannot be read."""
        places = [int(place) for place in places]
        passages = self.run.passages(self.passages[place] for place in places)
        found = []
        for place in places:
            values = {str(name): float(value) for name, value in self.values.iloc[place].items() if np.isfinite(value)}
            passage = passages[int(self.passages[place])]
            query, weights = int(self.queries[place]), self.weights[place]
            found.append(self.run._example(values[metric], values, query, weights, passage))
        return found


def spread_over_quantiles(places: NDArray[np.intp], bins: int = QUANTILES) -> NDArray[np.intp]:
    """One place from the middle of each of `bins` equal parts of an ordered list; all places where there are fewer."""
    if len(places) <= bins:
        return places
    return places[((np.arange(bins) + 0.5) * len(places) / bins).astype(np.intp)]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run. Layers and heads are those of the model; a head that was not measured has NaN.

    What was read when it was opened has been checked; what is read later is checked then. Whatever reads raises InputError
    (field "run") where a file cannot be read or does not hold what a run does, and KeyError for a head or metric that is not
    there.

    index  what was read when it was opened
    """

    folder: Path
    about: About
    index: RunIndex

    @property
    def metrics(self) -> pd.DataFrame:
        """A row for each head and metric: layer, head, metric, count, mean, spread, high."""
        return self.index.metrics

    # --- all heads

    @cached_property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """(layer, head) of each head that was measured, in order."""
        pairs = set(zip(self.metrics["layer"].tolist(), self.metrics["head"].tolist(), strict=True))
        return tuple(sorted(pairs))

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that were measured and had anything to measure, in the order of `core.heads.metrics.METRICS`."""
        there = set(self.metrics.loc[self.metrics["count"] > 0, "metric"])
        return tuple(name for name in NAMES if name in there)

    def means(self, metric: str) -> NDArray[np.float64]:
        """[layers, heads] of a metric over the corpus."""
        rows = self.metrics[self.metrics["metric"] == metric]
        if rows.empty:
            raise KeyError(metric)
        grid = np.full((self.about.layers, self.about.heads), np.nan)
        grid[rows["layer"], rows["head"]] = rows["mean"]
        return grid

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each head, as `head_metrics` gives of one text: layer, head, and the mean of every metric or NaN."""
        wide = self.metrics.pivot(index=["layer", "head"], columns="metric", values="mean")
        return wide.reindex(columns=list(NAMES)).reset_index().rename_axis(columns=None)

    @cached_property
    def map(self) -> DrawnMap | None:
        """The map of the heads; None for a run without one."""
        if not (self.folder / file_of(MAP)).is_file():
            return None
        with _readable(self.folder), File(self.folder, MAP, self.about) as file:
            rows = file.read().to_pandas()
            same_for_all(MAP, rows, (), set(self.heads))
            rows = rows.set_index(["layer", "head"]).loc[list(self.heads)]
            numbers = [rows[name].to_numpy() for name in ("x", "y", "cluster")]
            words, trust = words_of_map(file.metadata.get(MAP_METADATA), numbers[-1])
            alike = tuple(tuple(one.tolist()) for one in rows["alike"])
            if len(set(map(len, alike))) > 1 or any(place in others for place, others in enumerate(alike)):
                raise Unfit(f"{MAP}.parquet has not as many heads like it for every head")
            return DrawnMap(*numbers, words=words, alike=alike, trustworthiness=trust)

    @cached_property
    def problems(self) -> pd.DataFrame:
        """The texts that could not be read: file, row, why. At most a thousand; `about.unread` counts all."""
        with _readable(self.folder), File(self.folder, "problems", self.about) as file:
            found = file.read().to_pandas()
        return found.assign(why=found["why"].map(shown))  # earlier versions did not cut it

    # --- one head

    def distribution(self, layer: int, head: int, metric: str) -> Distribution:
        rows = self._of_head("metrics", layer, head, metric=metric).to_pylist()
        if not rows:
            raise KeyError((layer, head, metric))
        one = rows[0]
        histogram = np.array(one["histogram"], np.int64)
        return Distribution(one["count"], one["mean"], one["spread"], one["high"], histogram)

    def classes(self, layer: int, head: int) -> pd.DataFrame:
        """A row for each class of query and class of key, in the order of CLASSES: queries, attention, chance."""
        found = self._of_head("classes", layer, head).to_pandas()
        order = pd.MultiIndex.from_product([CLASSES, CLASSES], names=["query_class", "key_class"])
        return found.set_index(["query_class", "key_class"])[["queries", "attention", "chance"]].reindex(order)

    def distances(self, layer: int, head: int) -> pd.DataFrame:
        """A row for each range of key - query: first, last (both included), attention, chance."""
        return self._of_head("distances", layer, head).to_pandas()[["first", "last", "attention", "chance"]]

    def relations(self, layer: int, head: int) -> pd.DataFrame:
        """A row for each relation and direction of annotated texts: relation, direction, count, attention, baseline.

        Those that the head follows most beyond its baseline come first. No rows where no text is annotated.
        """
        found = self._of_head("relations", layer, head).to_pandas().drop(columns=["layer", "head"])
        if found.empty:
            return found
        return found.iloc[np.argsort(found["baseline"] - found["attention"], kind="stable")].reset_index(drop=True)

    def strongest(self, layer: int, head: int, metric: str, first: int = 0, last: int | None = None) -> list[Example]:
        """The queries where a metric is largest, from rank `first` (the largest has rank 0) up to but not including `last`.

        Empty for a metric whose strongest queries were not kept: see `about.examples_of`.
        """
        rows = self._of_head("strongest", layer, head, metric=metric)
        with _readable(self.folder):
            require_order(rows, self.about)
        rows = rows.slice(first, None if last is None else max(last - first, 0)).to_pylist()
        passages = self.passages(row["passage"] for row in rows)
        return [
            self._example(
                row["score"],
                {metric: row["score"]},
                row["query"],
                np.array(row["weights"], np.float32),
                passages[row["passage"]],
            )
            for row in rows
        ]

    def count_strongest(self, layer: int, head: int, metric: str) -> int:
        """The number of queries that `strongest` has."""
        return len(self._of_head("strongest", layer, head, ("layer", "head", "metric"), metric=metric))

    def sample(self, layer: int, head: int) -> HeadSample:
        """The queries that were drawn at random, with this head's metrics and weights."""
        rows = self._of_head("sample", layer, head)
        with _readable(self.folder):
            require_once("sample", rows)
        values = rows.select([name for name in NAMES if name in rows.column_names]).to_pandas()
        weights = tuple(np.array(one, np.float32) for one in rows["weights"].to_pylist())
        return HeadSample(self, values, rows["passage"].to_numpy(), rows["query"].to_numpy(), weights)

    # --- reading

    def passages(self, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The passages with these ids: id -> tokens, text, file, row, start."""
        numbers = np.unique(np.fromiter(map(int, wanted), np.uint64))
        found: dict[int, dict[str, Any]] = {}
        with _readable(self.folder), File(self.folder, "passages", self.about) as file:
            if not np.isin(numbers, self.index.ids).all():
                raise Unfit("passages.parquet lacks one in which a query stands")
            places = self.index.places[np.searchsorted(self.index.ids, numbers)]
            begins = np.cumsum([0, *file.group_lengths])
            places = places[places < begins[-1]]
            for group in np.unique(np.searchsorted(begins, places, "right") - 1).tolist():
                inside = places[(places >= begins[group]) & (places < begins[group + 1])] - begins[group]
                for row in file.read(groups=[group]).take(inside).to_pylist():
                    number = row.pop("passage")
                    found[number] = row | {"tokens": tuple(row["tokens"])}
            if not found.keys() >= set(numbers.tolist()):
                raise Unfit("passages.parquet has changed since the run was opened")
        return found

    def _example(
        self, score: float, values: dict[str, float], query: int, weights: NDArray[np.float32], passage: dict[str, Any]
    ) -> Example:
        with _readable(self.folder):
            if not query < len(passage["tokens"]) == len(weights):
                raise Unfit("a query has other keys than its passage has tokens")
        return Example(score, values, query, weights, **passage)

    def _of_head(self, name: str, layer: int, head: int, columns: Sequence[str] | None = None, **more: str) -> pa.Table:
        """The rows of a head; only the groups of rows that have any are read."""
        if (layer, head) not in self.heads:
            raise KeyError((layer, head))
        there = self.index.rows[name]
        with _readable(self.folder), File(self.folder, name, self.about) as file:
            found = _only(file.read(columns, there.groups.get((layer, head), [])), layer=layer, head=head)
            if len(found) != there.counts.get((layer, head), 0):
                raise Unfit(f"{name}.parquet has changed since the run was opened")
            return _only(found, **more)


def _only(table: pa.Table, **wanted: int | str) -> pa.Table:
    """The rows in which columns have these values."""
    for name, value in wanted.items():
        table = table.filter(pc.field(name) == value)
    return table


# --- opening


@dataclass(frozen=True)
class ListedRun:
    """A folder in a list of runs: the run in it, or the reason why it cannot be opened."""

    name: str
    about: About | None
    problem: str | None = None


def open_run(folder: str | Path) -> Run:
    """Open a finished run, after checking everything but the rows that are only read on demand.

    Raises InputError (field "run") for a folder that is not there, is no run, is not finished, was written in another format,
    or whose files do not hold what a run does.
    """
    folder = Path(folder)
    about = _about(folder)
    with _readable(folder):
        run = Run(folder, about, index_of(folder, about))
    _ = run.map  # which is small, and kept
    return run


def runs_in(folder: str | Path) -> list[ListedRun]:
    """The runs in a folder, each in a folder of its own, by name; none where there is no such folder."""
    with _readable(Path(folder)):
        inside = [one for one in Path(folder).glob("[!.]*") if _is_folder(one)] if Path(folder).is_dir() else []
    return [_listed(one) for one in sorted(inside, key=lambda one: (one.name.casefold(), one.name))]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # without permission to look: opening it says so
        return True


def _listed(folder: Path) -> ListedRun:
    if half_of_a_pair(folder.name) is not None:
        return ListedRun(shown(folder.name), None, f"The name of the folder {folder.name!r} is not UTF-8. Rename it.")
    try:
        return ListedRun(folder.name, _about(folder))
    except InputError as error:
        return ListedRun(folder.name, None, str(error))


def _about(folder: Path) -> About:
    """The record of the run in a folder, which has all files with the columns that are needed. Raises InputError."""
    with _readable(folder):
        if not folder.is_dir():
            raise InputError(f"There is no folder {str(folder)!r}. Give the folder of a finished run.", field="run")
        there = {name for name in NEEDED if (folder / file_of(name)).is_file()}
        if not there:
            raise InputError(
                f"{folder.name!r} is no finished run: it has no metrics.parquet. `python -m core.corpus run` makes one.",
                field="run",
            )
        if missing := [file_of(name) for name in NEEDED if name not in there]:
            raise InputError(
                f"{folder.name!r} is not complete: it has no {', '.join(missing)}. Start the run again, it goes on where it "
                "stopped.",
                field="run",
            )
        schemas = {name: pq.read_schema(folder / file_of(name)) for name in NEEDED}
        metadata = [(schema.metadata or {}).get(METADATA) for schema in schemas.values()]
        about = _read_about(folder, metadata[0])
        if any(other != metadata[0] for other in metadata):
            raise Unfit("it mixes files of several runs")
        check_about(about)
        for name, schema in schemas.items():
            columns_of(name, schema, about)
    return about


def _read_about(folder: Path, metadata: bytes | None) -> About:
    try:
        format_ = json.loads(metadata or b"")["format"]
        if format_ == FORMAT:
            return About.read(metadata or b"")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unfit("its files do not say what was run") from None
    raise InputError(
        f"{folder.name!r} was written by another version of Headlight (format {shown(repr(format_), 20)}; this one reads "
        f"{FORMAT}). Run it again, or open it with that version.",
        field="run",
    )


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Raise InputError (field "run") for whatever keeps files from being read."""
    try:
        yield
    except (OSError, pa.ArrowException, Unfit) as error:
        raise InputError(
            f"{folder.name!r} cannot be read: {first_line(error)}. Run it again, into another folder.", field="run"
        ) from error
