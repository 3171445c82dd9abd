"""Checking a finished run: that its files hold what a run has in them, and which rows belong to which head.

`TableFile` reads everything that is read of a run, and checks each value. Opening a run checks all small columns and which rows
there are. Weights, texts, tokens and histograms are checked when somebody asks for their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..heads.metrics import NAMES
from ..models.passages import CLASSES
from .settings import distance_ranges
from .tables import HEAD, KEYS, METADATA, NOT_JSON, SLACK, About, Unfit, belongs, columns_of, file_of
from .tally import LISTED

Head = tuple[int, int]  # layer, head
RowsOfHeads = dict[Head, dict[int, int]]  # of each head in a file: the groups of rows that have any -> how many


class TableFile:
    """A file of a run. Reading raises Unfit, OSError or ArrowException for what `core.corpus.tables` does not allow."""

    def __init__(self, folder: Path, name: str, about: About) -> None:
        self._name, self._about = name, about
        self._file = pq.ParquetFile(folder / file_of(name), page_checksum_verification=True)
        self._columns = columns_of(name, self._file.schema_arrow, about)
        self.metadata: dict[bytes, bytes] = self._file.schema_arrow.metadata or {}
        # The columns that are read when a run is opened.
        self.light = [column for column, known in self._columns.items() if not known.with_rows]
        with suppress(*NOT_JSON):
            if About.read(self.metadata.get(METADATA, b"")) == about:
                return
        raise Unfit(f"{name}.parquet is of another run")

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close(force=True)

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
        about = self._about
        for column in wanted:
            if not self._columns[column].fits(table[column], about):
                if column in HEAD:
                    model = f"{about.layers} layers with {about.heads} heads each"
                    raise Unfit(f"{self._name}.parquet does not fit a model of {model}")
                raise Unfit(f"the column {column} of {self._name}.parquet has a value that it cannot have")
        if not belongs(self._name, table, about):
            raise Unfit(f"the numbers in a row of {self._name}.parquet do not belong together")
        return table


def index_of(folder: Path, about: About) -> tuple[pd.DataFrame, dict[str, RowsOfHeads], NDArray, NDArray]:
    """Check all files. Return the metrics, the rows of each head by table, the ids of the passages sorted, and their rows.

    Raises Unfit, OSError or ArrowException for files that do not hold what a run has in them.
    """
    tables, rows = {}, {}
    for name in (*KEYS, "strongest", "sample"):
        tables[name], rows[name] = _light_columns(folder, name, about)
    metrics = tables["metrics"]
    heads = set(rows["metrics"])
    for name, keys in KEYS.items():
        if name != "relations" or len(tables[name]):  # which is empty where no text is annotated
            same_for_all(name, tables[name], keys, heads)
    if len(heads) != about.wanted:
        raise Unfit(f"metrics.parquet has {len(heads):,} heads of the {about.wanted:,} that were measured")
    _check_shares(tables["classes"], tables["distances"], about)
    with TableFile(folder, "passages", about) as file:
        ids = file.read(file.light)["passage"].to_numpy()
    if len(np.unique(ids)) != len(ids):
        raise Unfit("passages.parquet has a passage twice")
    for name in ("strongest", "sample"):
        if not np.isin(tables[name]["passage"], ids).all():
            raise Unfit(f"{name}.parquet has a query in a passage that is not there")
    _check_queries(tables, rows, about, heads)
    with TableFile(folder, "problems", about) as file:
        if len(file.read(file.light)) != min(about.unread, LISTED):
            raise Unfit(f"problems.parquet lists others than the {about.unread:,} that there were")
    places = np.argsort(ids)
    return metrics, rows, ids[places], places


def _light_columns(folder: Path, name: str, about: About) -> tuple[pd.DataFrame, RowsOfHeads]:
    with TableFile(folder, name, about) as file:
        table, lengths = file.read(file.light).to_pandas(), file.group_lengths
    groups = np.repeat(np.arange(len(lengths)), lengths)
    rows: RowsOfHeads = {}
    counts = table.groupby(["layer", "head", groups]).size()
    for (layer, head, group), count in zip(counts.index.tolist(), counts.tolist(), strict=True):
        rows.setdefault((layer, head), {})[group] = count
    return table, rows


def same_for_all(name: str, table: pd.DataFrame, keys: Sequence[str], heads: set[Head]) -> None:
    """Raise Unfit unless each head has one row for each combination of keys that any head has (without keys: one row), and no
    other head has any."""
    if lacking := set(keys).difference(table.columns):
        raise Unfit(f"{name}.parquet has no column {', '.join(sorted(lacking))}")
    there = set(zip(table["layer"].tolist(), table["head"].tolist(), strict=True))
    combinations = len(table[[*keys]].drop_duplicates()) if keys else 1
    is_repeated = table.duplicated(["layer", "head", *keys]).any()
    if len(table) != len(heads) * combinations or is_repeated or not there <= heads:
        raise Unfit(f"{name}.parquet does not have the same rows for every head")


def _check_shares(classes: pd.DataFrame, distances: pd.DataFrame, about: About) -> None:
    """Raise Unfit unless all classes of tokens and ranges of distance are there, and the shares of a query sum to at most 1."""
    if len(classes) != about.wanted * len(CLASSES) ** 2:
        raise Unfit("classes.parquet lacks a class of tokens")
    if not np.array_equal(np.unique(distances[["first", "last"]], axis=0), distance_ranges(about.passage_tokens)):
        raise Unfit("distances.parquet has other ranges than a run has")
    for table, keys in ((classes, ["layer", "head", "query_class"]), (distances, ["layer", "head"])):
        if np.asarray(table.groupby(keys)[["attention", "chance"]].sum()).max() > 1 + SLACK:
            raise Unfit("the attention of a query in it sums to more than 1")


def _check_queries(
    tables: dict[str, pd.DataFrame], rows: dict[str, RowsOfHeads], about: About, heads: set[Head]
) -> None:
    """Raise Unfit unless the kept queries are of measured heads, and the sample has as many of each, with every metric."""
    if not set(tables["strongest"]["metric"].unique()) <= set(about.examples_of):
        raise Unfit("strongest.parquet has queries by metrics of which none are kept")
    if not rows["strongest"].keys() <= heads:
        raise Unfit("strongest.parquet has heads that were not measured")
    drawn = min(about.sample, about.tokens)
    counts = {head: sum(groups.values()) for head, groups in rows["sample"].items()}
    if counts != (dict.fromkeys(heads, drawn) if drawn else {}):
        raise Unfit(f"sample.parquet does not have {drawn:,} queries of every head")
    if lacking := set(tables["metrics"]["metric"]).intersection(NAMES).difference(tables["sample"].columns):
        raise Unfit(f"sample.parquet has no column {', '.join(sorted(lacking))}")


def require_once(name: str, rows: pd.DataFrame) -> None:
    """Raise Unfit where a query is among the rows of a head twice."""
    if rows.duplicated(["passage", "query"]).any():
        raise Unfit(f"{name}.parquet has a query twice")
