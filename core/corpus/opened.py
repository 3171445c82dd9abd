"""A finished run, read again: only what is asked for, whatever the size of its files (`core.corpus.tables`).

Opening checks them (`core.corpus.checking`), and keeps the means and which rows belong to which head. Everything else is read
when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..claims.known import by_head
from ..claims.shares import ClaimSums
from ..claims.verdicts import verdicts
from ..errors import InputError, first_line, shown
from ..heads.metrics import NAMES
from ..models.fields import half_of_a_pair
from ..models.modules import Kind
from ..models.passages import CLASSES
from .checking import Head, RowsOfHeads, TableFile, index_of, require_once, same_for_all
from .tables import (
    CLAIMS,
    COLUMNS,
    FORMAT,
    MAP,
    METADATA,
    NEEDED,
    NOT_JSON,
    About,
    HeadMap,
    Unfit,
    claim_sums,
    columns_of,
    file_of,
)

_refusal = partial(InputError, field="run")
MOST_HEADS = 100_000  # of a model
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
class HeadSample:
    """The queries that were drawn at random, a row each: passage, query, one head's weights, and its metrics or NaN."""

    run: Run
    rows: pd.DataFrame

    def ordered(self, metric: str, low: float = 0.0, high: float = 1.0) -> NDArray[np.intp]:
        """The rows of the queries between two quantiles of a metric, largest value first."""
        values = self.rows[metric].to_numpy()
        known = np.flatnonzero(np.isfinite(values))
        rising = known[np.argsort(values[known], kind="stable")]
        middle = (np.arange(len(rising)) + 0.5) / max(len(rising), 1)
        return rising[(middle >= low) & (middle <= high)][::-1]

    def examples(self, places: Iterable[int], metric: str) -> list[Example]:
        """The queries in these rows, with the metric as their score. Raises InputError if their passages cannot be read."""
        return self.run._examples(self.rows.iloc[[*places]], metric)


def spread_over_quantiles(places: NDArray[np.intp], bins: int = QUANTILES) -> NDArray[np.intp]:
    """One entry from the middle of each of `bins` equal parts of an ordered list; all entries if there are fewer."""
    if len(places) <= bins:
        return places
    return places[((np.arange(bins) + 0.5) * len(places) / bins).astype(np.intp)]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run. Layers and heads are those of the model; a head that was not measured has NaN.

    What was read when it was opened has been checked; what is read later is checked then. Whatever reads raises InputError
    (field "run") where a file cannot be read or does not hold what a run does, and KeyError for a head or metric that is not
    there.

    metrics  a row for each head and metric: layer, head, metric, count, mean, spread, high
    rows     the rows of each head, by table
    ids      [passages] of the passages, sorted
    places   [passages] the row of `passages` in which each of these is
    """

    folder: Path
    about: About
    metrics: pd.DataFrame
    rows: dict[str, RowsOfHeads]
    ids: NDArray[np.uint64]
    places: NDArray[np.int64]

    # --- all heads

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """(layer, head) of each head that was measured, in order."""
        return tuple(sorted(self.rows["metrics"]))

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
    def map(self) -> HeadMap | None:
        """The map of the heads; None for a run without one."""
        if not (self.folder / file_of(MAP)).is_file():
            return None
        with self._open(MAP) as file:
            rows = file.read()
            same_for_all(MAP, rows.to_pandas(), (), set(self.heads))
            return HeadMap.read(rows, file.metadata)

    @cached_property
    def claims(self) -> pd.DataFrame | None:
        """The verdicts on the claims of a run, a row a claim (`core.claims.verdicts`); None for a run without claims."""
        return None if self._sums is None else verdicts(self._sums)

    @cached_property
    def claims_by_head(self) -> pd.DataFrame | None:
        """Which of its claims hold for each head (`core.claims.known.by_head`); None for a run without claims."""
        return None if self._sums is None else by_head(self._sums)

    @cached_property
    def _sums(self) -> ClaimSums | None:
        if not (self.folder / file_of(CLAIMS)).is_file():
            return None
        with self._open(CLAIMS) as file:
            rows = file.read().to_pandas()
            same_for_all(CLAIMS, rows, ("claim", "half"), set(self.heads))
            return claim_sums(rows)

    @cached_property
    def problems(self) -> pd.DataFrame:
        """The texts that could not be read: file, row, why. At most a thousand; `about.unread` counts all."""
        with self._open("problems") as file:
            rows = file.read().to_pandas()
        return rows.assign(why=rows["why"].map(shown))  # earlier versions did not cut it

    # --- one head

    def distribution(self, layer: int, head: int, metric: str) -> Distribution:
        rows = self._of_head("metrics", layer, head, metric=metric).to_pylist()
        if not rows:
            raise KeyError((layer, head, metric))
        numbers = {name: rows[0][name] for name in ("count", "mean", "spread", "high")}
        return Distribution(**numbers, histogram=np.array(rows[0]["histogram"], np.int64))

    def classes(self, layer: int, head: int) -> pd.DataFrame:
        """A row for each class of query and class of key, in the order of CLASSES: queries, attention, chance."""
        rows = self._of_head("classes", layer, head).to_pandas()
        order = pd.MultiIndex.from_product([CLASSES, CLASSES], names=["query_class", "key_class"])
        return rows.set_index(["query_class", "key_class"])[["queries", "attention", "chance"]].reindex(order)

    def distances(self, layer: int, head: int) -> pd.DataFrame:
        """A row for each range of key - query: first, last (both included), attention, chance."""
        return self._of_head("distances", layer, head).to_pandas()[["first", "last", "attention", "chance"]]

    def relations(self, layer: int, head: int) -> pd.DataFrame:
        """A row for each relation and direction of annotated texts: relation, direction, count, attention, baseline.

        Those that the head follows most beyond its baseline come first. No rows where no text is annotated.
        """
        rows = self._of_head("relations", layer, head).to_pandas().drop(columns=["layer", "head"])
        if rows.empty:
            return rows
        return rows.iloc[np.argsort(rows["baseline"] - rows["attention"], kind="stable")].reset_index(drop=True)

    def strongest(self, layer: int, head: int, metric: str, first: int = 0, last: int | None = None) -> list[Example]:
        """The queries where a metric is largest, from rank `first` (the largest has rank 0) up to but not including `last`.

        Empty for a metric whose strongest queries were not kept: see `about.examples_of`.
        """
        rows = self._of_head("strongest", layer, head, metric=metric).to_pandas()
        with _readable(self.folder):
            require_once("strongest", rows)
            if len(rows) > self.about.strongest or (rows["score"].diff() > 0).any():
                raise Unfit("strongest.parquet has queries that are not the strongest, or not in their order")
        return self._examples(rows.iloc[first:last].rename(columns={"score": metric}).drop(columns="metric"), metric)

    def count_strongest(self, layer: int, head: int, metric: str) -> int:
        """The number of queries that `strongest` has."""
        return len(self._of_head("strongest", layer, head, ("layer", "head", "metric"), metric=metric))

    def sample(self, layer: int, head: int) -> HeadSample:
        """The queries that were drawn at random, with this head's metrics and weights."""
        rows = self._of_head("sample", layer, head).to_pandas()
        with _readable(self.folder):
            require_once("sample", rows)
        return HeadSample(self, rows)

    # --- reading

    def passages(self, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The passages with these ids: id -> tokens, text, file, row, start."""
        ids = np.unique(np.fromiter(map(int, wanted), np.uint64))
        passages: dict[int, dict[str, Any]] = {}
        with self._open("passages") as file:
            if not np.isin(ids, self.ids).all():
                raise Unfit("passages.parquet lacks one in which a query stands")
            places = self.places[np.searchsorted(self.ids, ids)]
            begins = np.cumsum([0, *file.group_lengths])
            places = places[places < begins[-1]]
            for group in np.unique(np.searchsorted(begins, places, "right") - 1).tolist():
                inside = places[(places >= begins[group]) & (places < begins[group + 1])] - begins[group]
                for row in file.read(groups=[group]).take(inside).to_pylist():
                    number = row.pop("passage")
                    passages[number] = row | {"tokens": tuple(row["tokens"])}
            if not passages.keys() >= set(ids.tolist()):
                raise Unfit("passages.parquet has changed since the run was opened")
        return passages

    def _examples(self, rows: pd.DataFrame, metric: str) -> list[Example]:
        """An example for each row: passage, query, weights, and metrics, of which one is the score."""
        passages = self.passages(rows["passage"])
        examples = []
        for row in rows.to_dict("records"):
            passage = passages[row["passage"]]
            with _readable(self.folder):
                if not row["query"] < len(passage["tokens"]) == len(row["weights"]):
                    raise Unfit("a query has other keys than its passage has tokens")
            metrics = {str(name): row[name] for name in row if name not in COLUMNS["sample"]}
            values = {name: value for name, value in metrics.items() if np.isfinite(value)}
            examples.append(Example(values[metric], values, row["query"], row["weights"], **passage))
        return examples

    def _of_head(self, name: str, layer: int, head: int, columns: Sequence[str] | None = None, **more: str) -> pa.Table:
        """The rows of a head; only the groups of rows that have any are read."""
        if (layer, head) not in self.heads:
            raise KeyError((layer, head))
        counts = self.rows[name].get((layer, head), {})
        with self._open(name) as file:
            rows = file.read(columns, [*counts])
            rows = rows.filter((pc.field("layer") == layer) & (pc.field("head") == head))
            if len(rows) != sum(counts.values()):
                raise Unfit(f"{name}.parquet has changed since the run was opened")
            for column, value in more.items():
                rows = rows.filter(pc.field(column) == value)
        return rows

    @contextmanager
    def _open(self, name: str) -> Iterator[TableFile]:
        with _readable(self.folder), TableFile(self.folder, name, self.about) as file:
            yield file


# --- opening


@dataclass(frozen=True)
class ListedRun:
    """A folder in a list of runs: the run in it, or the reason why it cannot be opened."""

    name: str
    about: About | None
    problem: str | None = None


def open_run(folder: str | Path) -> Run:
    """Open a finished run, after checking everything but the rows that are only read on demand.

    Raises InputError (field "run") where there is no finished run, or one in another format, or where files are damaged.
    """
    folder = Path(folder)
    about = _about(folder)
    with _readable(folder):
        run = Run(folder, about, *index_of(folder, about))
    _ = run.map  # which is small, and kept
    return run


def runs_in(folder: str | Path) -> list[ListedRun]:
    """The runs in a folder, by name; each is a folder in it. Empty if there is no such folder."""
    with _readable(Path(folder)):
        paths = [path for path in Path(folder).glob("[!.]*") if _is_folder(path)] if Path(folder).is_dir() else []
    return [_listed(path) for path in sorted(paths, key=lambda path: (path.name.casefold(), path.name))]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # no permission to look: opening it says so
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
            raise _refusal(f"There is no folder {str(folder)!r}. Give the folder of a finished run.")
        missing = [file_of(name) for name in NEEDED if not (folder / file_of(name)).is_file()]
        if len(missing) == len(NEEDED):
            raise _refusal(
                f"{folder.name!r} is not a finished run: it has no metrics.parquet. `python -m core.corpus run` makes one."
            )
        if missing:
            raise _refusal(
                f"{folder.name!r} is not complete: it has no {', '.join(missing)}. Start the run again; it continues where "
                "it stopped."
            )
        schemas = {name: pq.read_schema(folder / file_of(name)) for name in NEEDED}
        metadata = [(schema.metadata or {}).get(METADATA) for schema in schemas.values()]
        about = _read_about(folder, metadata[0] or b"")
        if any(other != metadata[0] for other in metadata):
            raise Unfit("it mixes files of several runs")
        is_known = about.kind in get_args(Kind) and about.passage_tokens > 0
        if not is_known or not 1 <= about.wanted <= MOST_HEADS or not 1 <= about.layers * about.heads <= MOST_HEADS:
            raise Unfit("its files say what cannot be true of a run")
        for name, schema in schemas.items():
            columns_of(name, schema, about)
    return about


def _read_about(folder: Path, metadata: bytes) -> About:
    try:
        version = json.loads(metadata)["format"]
        if version == FORMAT:
            return About.read(metadata)
    except NOT_JSON:
        raise Unfit("its files do not say what was run") from None
    raise _refusal(
        f"{folder.name!r} was written by another version of Headlight (format {shown(repr(version), 20)}; this one reads "
        f"{FORMAT}). Run it again, or open it with that version."
    )


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Raise InputError (field "run") for whatever keeps files from being read."""
    try:
        yield
    except (OSError, pa.ArrowException, Unfit) as error:
        why = f"{folder.name!r} cannot be read: {first_line(error)}. Run it again, into another folder."
        raise _refusal(why) from error
