"""Checking a finished run: that its files hold what a run has in them, and which rows belong to which head.

Everything that is read of a run is read by `File`, which checks each value. Opening a run checks all small columns, and which
rows there are; weights, texts, tokens and histograms are checked with the rows that somebody asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..heads.metrics import NAMES
from ..models.modules import Kind
from ..models.texts import half_of_a_pair
from .about import METADATA, About
from .columns import HEAD, KEYS, MAP, SLACK, Unfit, belongs, columns_of, file_of
from .passages import CLASSES
from .settings import distance_ranges
from .tally import LISTED

MOST_HEADS = 100_000  # of a model
Head = tuple[int, int]  # layer, head


def check_about(about: About) -> None:
    """Raise Unfit for numbers that no run has."""
    known = about.kind in get_args(Kind) and about.passage_tokens > 0
    if not known or not 1 <= about.wanted <= MOST_HEADS or not 1 <= about.layers * about.heads <= MOST_HEADS:
        raise Unfit("its files say of it what is so of no run")


class File:
    """A file of a run. Reading raises Unfit, OSError or ArrowException for whatever is not as `core.corpus.columns` says."""

    def __init__(self, folder: Path, name: str, about: About) -> None:
        self._name, self._about = name, about
        self._file = pq.ParquetFile(folder / file_of(name), page_checksum_verification=True)
        self._columns = columns_of(name, self._file.schema_arrow, about)
        if _about_of(self.metadata) != about:
            raise Unfit(f"{name}.parquet is of another run")

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close(force=True)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        return self._file.schema_arrow.metadata or {}

    @property
    def light(self) -> list[str]:
        """The columns that are read when a run is opened."""
        return [name for name, column in self._columns.items() if not column.with_rows]

    @property
    def group_lengths(self) -> list[int]:
        """The number of rows of each group of rows."""
        return [self._file.metadata.row_group(group).num_rows for group in range(self._file.num_row_groups)]

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Read some columns (None: all that are known) of some groups of rows (None: all)."""
        wanted = [name for name in self._columns if columns is None or name in columns]
        if groups and max(groups) >= self._file.num_row_groups:
            raise Unfit(f"{self._name}.parquet has changed since the run was opened")
        table = self._file.read(wanted) if groups is None else self._file.read_row_groups(list(groups), wanted)
        table.validate(full=True)
        for name in wanted:
            if not self._columns[name].fits(table[name], self._about):
                raise Unfit(self._misfit(name))
        if not belongs(self._name, table, self._about):
            raise Unfit(f"the numbers in a row of {self._name}.parquet do not belong together")
        return table

    def _misfit(self, column: str) -> str:
        if column in HEAD:
            model = f"{self._about.layers} layers with {self._about.heads} heads each"
            return f"{self._name}.parquet does not fit a model of {model}"
        return f"the column {column} of {self._name}.parquet has a value that it cannot have"


def _about_of(metadata: dict[bytes, bytes]) -> About | None:
    try:
        return About.read(metadata.get(METADATA, b""))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


@dataclass(frozen=True, eq=False)
class HeadRows:
    """The rows of each head (layer, head) in a file: the groups of rows that have any, and how many rows there are."""

    groups: dict[Head, list[int]]
    counts: dict[Head, int]

    @classmethod
    def of(cls, file: File, check: Callable[[pa.Table], object]) -> HeadRows:
        """check: called with the light columns of each group of rows"""
        groups: dict[Head, list[int]] = {}
        counts: dict[Head, int] = {}
        for group in range(len(file.group_lengths)):
            table = file.read(file.light, [group])
            check(table)
            heads, rows = np.unique(np.stack([table["layer"], table["head"]]), axis=1, return_counts=True)
            for layer, head, count in zip(*heads.tolist(), rows.tolist(), strict=True):
                groups.setdefault((layer, head), []).append(group)
                counts[layer, head] = counts.get((layer, head), 0) + count
        return cls(groups, counts)


@dataclass(frozen=True, eq=False)
class RunIndex:
    """The small numbers of a run, and where all others are: read once, when the run is opened.

    metrics  a row for each head and metric, without its histogram
    rows     the rows of the heads in each table that has any
    ids      [passages] of the passages, sorted
    places   [passages] the row of `passages` in which each of these is
    """

    metrics: pd.DataFrame
    rows: dict[str, HeadRows]
    ids: NDArray[np.uint64]
    places: NDArray[np.int64]


def index_of(folder: Path, about: About) -> RunIndex:
    """Check all files. Raises Unfit, OSError or ArrowException for files that do not hold what a run has in them."""
    rows, tables = {}, {}
    for name in KEYS:
        rows[name], tables[name] = _by_head(folder, name, about)
    metrics = tables["metrics"]
    heads = set(zip(metrics["layer"].tolist(), metrics["head"].tolist(), strict=True))
    for name, keys in KEYS.items():
        if name != "relations" or len(tables[name]):  # which is empty where no text is annotated
            same_for_all(name, tables[name], keys, heads)
    if len(heads) != about.wanted:
        raise Unfit(f"metrics.parquet has {len(heads):,} heads of the {about.wanted:,} that were measured")
    _check_shares(tables["classes"], tables["distances"], about)
    ids, places = _passages(folder, about)
    for name in ("strongest", "sample"):
        rows[name] = _queries(folder, name, about, ids)
    _check_queries(folder, rows, about, heads, set(metrics["metric"]))
    _check_problems(folder, about)
    return RunIndex(metrics, rows, ids, places)


def _by_head(folder: Path, name: str, about: About) -> tuple[HeadRows, pd.DataFrame]:
    tables: list[pa.Table] = []
    with File(folder, name, about) as file:
        rows = HeadRows.of(file, tables.append)
        whole = pa.concat_tables(tables) if tables else file.read(file.light)
    return rows, whole.to_pandas()


def same_for_all(name: str, table: pd.DataFrame, keys: Sequence[str], heads: set[Head]) -> None:
    """Raise Unfit unless each head has one row for each combination of keys that any head has (without keys: one row), and no
    other head has any."""
    if lacking := set(keys).difference(table.columns):
        raise Unfit(f"{name}.parquet has no column {', '.join(sorted(lacking))}")
    there = set(zip(table["layer"].tolist(), table["head"].tolist(), strict=True))
    combinations = len(table[[*keys]].drop_duplicates()) if keys else 1
    if (
        len(table) != len(heads) * combinations
        or table.duplicated(["layer", "head", *keys]).any()
        or not there <= heads
    ):
        raise Unfit(f"{name}.parquet has not the same rows for every head")


def _check_shares(classes: pd.DataFrame, distances: pd.DataFrame, about: About) -> None:
    """Raise Unfit unless all classes of tokens and ranges of distance are there, and the shares of a query sum to at most 1."""
    if len(classes) != about.wanted * len(CLASSES) ** 2:
        raise Unfit("classes.parquet has not every class of tokens")
    if not np.array_equal(np.unique(distances[["first", "last"]], axis=0), distance_ranges(about.passage_tokens)):
        raise Unfit("distances.parquet has other ranges than a run has")
    for table, keys in ((classes, ["layer", "head", "query_class"]), (distances, ["layer", "head"])):
        if np.asarray(table.groupby(keys)[["attention", "chance"]].sum()).max() > 1 + SLACK:
            raise Unfit("the attention of a query in it sums to more than 1")


def _passages(folder: Path, about: About) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    with File(folder, "passages", about) as file:
        ids = file.read(file.light)["passage"].to_numpy()
    if len(np.unique(ids)) != len(ids):
        raise Unfit("passages.parquet has a passage twice")
    places = np.argsort(ids)
    return ids[places], places


def _queries(folder: Path, name: str, about: About, ids: NDArray[np.uint64]) -> HeadRows:
    """The rows of the kept queries of each head. Raises Unfit for a query in a passage that is not there."""

    def check(table: pa.Table) -> None:
        if not np.isin(table["passage"].to_numpy(), ids).all():
            raise Unfit(f"{name}.parquet has a query in a passage that is not there")
        if name == "strongest" and not set(table["metric"].unique().to_pylist()) <= set(about.examples_of):
            raise Unfit("strongest.parquet has queries by metrics of which none are kept")

    with File(folder, name, about) as file:
        return HeadRows.of(file, check)


def _check_queries(folder: Path, rows: dict[str, HeadRows], about: About, heads: set[Head], metrics: set[str]) -> None:
    """Raise Unfit unless the kept queries are of measured heads, and the sample has as many of each, with every metric."""
    if not rows["strongest"].counts.keys() <= heads:
        raise Unfit("strongest.parquet has heads that were not measured")
    drawn = min(about.sample, about.tokens)
    if rows["sample"].counts != (dict.fromkeys(heads, drawn) if drawn else {}):
        raise Unfit(f"sample.parquet has not {drawn:,} queries of every head")
    with File(folder, "sample", about) as file:
        if lacking := metrics.intersection(NAMES).difference(file.light):
            raise Unfit(f"sample.parquet has no column {', '.join(sorted(lacking))}")


def _check_problems(folder: Path, about: About) -> None:
    with File(folder, "problems", about) as file:
        if len(file.read(file.light)) != min(about.unread, LISTED):
            raise Unfit(f"problems.parquet lists others than the {about.unread:,} that there were")


# --- rows that are read on demand


def require_once(name: str, rows: pa.Table) -> None:
    """Raise Unfit where a query is among the rows of a head twice."""
    queries = np.stack([rows["passage"].to_numpy(), rows["query"].to_numpy().astype(np.uint64)])
    if len(rows) > 1 and np.unique(queries, axis=1).shape[1] < len(rows):
        raise Unfit(f"{name}.parquet has a query twice")


def require_order(rows: pa.Table, about: About) -> None:
    """Raise Unfit unless these rows of `strongest` can be those of one metric of a head."""
    require_once("strongest", rows)
    if len(rows) > about.strongest or (np.diff(rows["score"].to_numpy()) > 0).any():
        raise Unfit("strongest.parquet has queries that are not the strongest, or not in their order")


def words_of_map(metadata: bytes | None, cluster: NDArray[np.int64]) -> tuple[tuple[str, ...], float | None]:
    """(the names of the clusters, the trustworthiness of the map) from the map's metadata. Raises Unfit."""
    try:
        written = json.loads(metadata or b"")
        words, trust = written["clusters"], written["trustworthiness"]
        fits = isinstance(words, list) and all(isinstance(one, str) and half_of_a_pair(one) is None for one in words)
        fits = fits and (trust is None or (type(trust) in (int, float) and 0 <= trust <= 1))
    except (ValueError, LookupError, TypeError, RecursionError):
        fits, words, trust = False, [], None
    if not fits or cluster.max(initial=-1) >= len(words):
        raise Unfit(f"{MAP}.parquet does not say what its clusters are called")
    return tuple(words), trust
