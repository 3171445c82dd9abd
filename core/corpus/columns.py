"""The tables of a finished run: the columns of each, their types, the values that they can have, and which values fit together.

`core.corpus.storing` writes runs by it, and `core.corpus.checking` checks them against it: a file may have been cut off,
changed, or written by something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .about import About
from .passages import CLASSES
from .relations import DIRECTIONS
from .settings import metric_highs
from .tally import BINS

MAP = "map"  # a table that a run may lack
MAP_METADATA = b"map"  # of that table: what its clusters are called, how far it can be trusted
LAST = "metrics"  # is written when all others are there: a folder with it is a finished run
SLACK = 0.05  # by how much of its range a number may lie outside, as it does where weights are rounded to bfloat16


class Unfit(ValueError):
    """A file does not hold what a run does. The message follows after "cannot be read: "."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its type, and the values that it, or a list in it, can have.

    low, high  the range of its numbers; the upper end may follow from what was run
    among      the texts that it can have; None: any
    lacks      whether a number may be NaN
    with_rows  whether it is read on demand only, and not when a run is opened
    """

    type: pa.DataType
    low: float = -inf
    high: float | Callable[[About], float] = inf
    among: tuple[str, ...] | None = None
    lacks: bool = False
    with_rows: bool = False

    def fits(self, values: pa.ChunkedArray, about: About) -> bool:
        flat = values.combine_chunks()
        flat = flat.flatten() if pa.types.is_list(values.type) else flat
        if values.null_count or flat.null_count:
            return False
        if pa.types.is_string(flat.type):
            return self.among is None or set(flat.unique().to_pylist()) <= {*self.among}
        numbers, high = flat.to_numpy(zero_copy_only=False), self.high(about) if callable(self.high) else self.high
        fitting = (numbers >= self.low) & (numbers <= high) & np.isfinite(numbers)
        return bool((fitting | np.isnan(numbers) if self.lacks else fitting).all())


_ID, _NUMBER, _COUNT = Column(pa.uint64()), Column(pa.int64()), Column(pa.int64(), 0)
_REAL, _REAL_OR_NAN = Column(pa.float64()), Column(pa.float64(), lacks=True)
_SHARE, _SHARE_OR_NAN = (Column(pa.float64(), -SLACK, 1 + SLACK, lacks=lacks) for lacks in (False, True))
_WORD, _TEXT = Column(pa.string()), Column(pa.string(), with_rows=True)
_CLASS = Column(pa.string(), among=CLASSES)
HEAD = {
    "layer": Column(pa.int64(), 0, lambda about: about.layers - 1),
    "head": Column(pa.int64(), 0, lambda about: about.heads - 1),
}
_QUERY = {
    "passage": _ID,
    "query": Column(pa.int32(), 0, lambda about: about.passage_tokens - 1),
    "weights": Column(pa.list_(pa.float32()), -SLACK, 1 + SLACK, with_rows=True),
}

# The columns of each table, in their order.
COLUMNS: dict[str, dict[str, Column]] = {
    "metrics": HEAD
    | {"metric": _WORD, "count": _COUNT, "mean": _REAL_OR_NAN, "spread": _REAL_OR_NAN, "high": Column(pa.float64(), 0)}
    | {"histogram": Column(pa.list_(pa.int64()), 0, with_rows=True)},
    "classes": HEAD
    | {"query_class": _CLASS, "key_class": _CLASS, "queries": _COUNT}
    | {"attention": _SHARE_OR_NAN, "chance": _SHARE_OR_NAN},
    "distances": HEAD | {"first": _NUMBER, "last": _NUMBER, "attention": _SHARE_OR_NAN, "chance": _SHARE_OR_NAN},
    "relations": HEAD
    | {"relation": _WORD, "direction": Column(pa.string(), among=DIRECTIONS), "count": Column(pa.int64(), 1)}
    | {"attention": _SHARE, "baseline": _SHARE},
    "strongest": HEAD | {"metric": _WORD, "score": Column(pa.float32())} | _QUERY,
    "sample": HEAD | _QUERY,  # and the metrics, before the weights
    "passages": {"passage": _ID, "file": _TEXT, "row": _COUNT, "start": _COUNT, "text": _TEXT}
    | {"tokens": Column(pa.list_(pa.string()), with_rows=True)},
    "problems": {"file": _TEXT, "row": _COUNT, "why": _TEXT},
    MAP: HEAD
    | {"x": _REAL, "y": _REAL, "cluster": _COUNT}
    | {"alike": Column(pa.list_(pa.int64()), 0, lambda about: about.wanted - 1)},
}
NEEDED = tuple(name for name in COLUMNS if name != MAP)  # the tables that every run has

# The columns of which each head has every combination that there is, by table.
KEYS = {
    "metrics": ("metric",),
    "classes": ("query_class", "key_class"),
    "distances": ("first", "last"),
    "relations": ("relation", "direction"),
}


def file_of(table: str) -> str:
    return f"{table}.parquet"


def schema_of(name: str, metrics: Iterable[str] = ()) -> pa.Schema:
    """The schema by which a table is written. metrics: those that were measured, which are columns of `sample`"""
    types = {column: known.type for column, known in COLUMNS[name].items()}
    if name == "sample":
        weights = types.pop("weights")
        types |= dict.fromkeys(metrics, pa.float32()) | {"weights": weights}
    return pa.schema(types)


def columns_of(name: str, schema: pa.Schema, about: About) -> dict[str, Column]:
    """The known columns of a file. Raises Unfit where it lacks a column that is needed, or has one in another type."""
    known = COLUMNS[name]
    if name == "relations" and "relation" not in schema.names:  # as in runs without annotated texts
        known = HEAD
    if name == "sample":
        known = known | {
            metric: Column(pa.float32(), -SLACK * high, high * (1 + SLACK), lacks=True)
            for metric, high in metric_highs(about.passage_tokens).items()
            if metric in schema.names
        }
    if lacking := sorted(set(known).difference(schema.names)):
        raise Unfit(f"{name}.parquet has no column {', '.join(lacking)}")
    for column, expected in known.items():
        places = schema.get_all_field_indices(column)
        if len(places) > 1 or schema.field(places[0]).type != expected.type:
            raise Unfit(f"the column {column} of {name}.parquet is not what a run writes ({expected.type})")
    return known


# --- numbers of a row that have to fit each other


def belongs(name: str, table: pa.Table, about: About) -> bool:
    """Return whether the numbers of each row fit each other, as far as they have been read."""
    return all(
        fit({column: table[column].to_numpy() for column in columns}, about)
        for columns, fit in _FITTING.get(name, ())
        if columns <= set(table.column_names)
    )


def _metrics_fit(of: dict[str, NDArray], about: About) -> bool:
    """Return whether a metric lies in its range where there was anything to measure, and is NaN elsewhere."""
    numbers, high = np.stack([of["mean"], of["spread"]]), of["high"]
    inside = (numbers >= -SLACK * high) & (numbers <= high * (1 + SLACK))
    ends = metric_highs(about.passage_tokens)
    expected = np.array([ends.get(metric, end) for metric, end in zip(of["metric"], high, strict=True)])
    return bool(np.where(of["count"] > 0, inside, np.isnan(numbers)).all() and np.allclose(high, expected))


def _histograms_fit(of: dict[str, NDArray], _about: About) -> bool:
    """Return whether each query lies in one of the parts, and their mean is where they lie."""
    if any(len(row) != BINS for row in of["histogram"]):
        return False
    histogram = np.array([*of["histogram"]], np.int64).reshape(-1, BINS)
    middles = histogram @ (np.arange(BINS) + 0.5) / BINS * of["high"] / np.maximum(of["count"], 1)
    is_near = np.abs(middles - of["mean"]) <= SLACK * of["high"]
    return bool(((histogram.sum(axis=1) == of["count"]) & (is_near | (of["count"] == 0))).all())


def _classes_fit(of: dict[str, NDArray], about: About) -> bool:
    """Return whether shares are known where there is any query; those of even attention only where the mask is exposed."""
    known = ("attention", "chance") if about.captures else ("attention",)
    return all(bool((np.isnan(of[name]) == (of["queries"] == 0)).all()) for name in known)


def _distances_fit(of: dict[str, NDArray], about: About) -> bool:
    return not about.captures or bool((np.isnan(of["attention"]) == np.isnan(of["chance"])).all())


def _scores_fit(of: dict[str, NDArray], about: About) -> bool:
    ends = metric_highs(about.passage_tokens)
    most = np.array([ends.get(metric, inf) for metric in of["metric"]])
    return bool(((of["score"] > 0) & (of["score"] <= most * (1 + SLACK))).all())


# The checks of each table: the columns that a check needs, and the check.
_FITTING: dict[str, tuple[tuple[set[str], Callable[[dict[str, NDArray], About], bool]], ...]] = {
    "metrics": (
        ({"metric", "count", "mean", "spread", "high"}, _metrics_fit),
        ({"histogram", "count", "mean", "high"}, _histograms_fit),
    ),
    "classes": (({"queries", "attention", "chance"}, _classes_fit),),
    "distances": (({"attention", "chance"}, _distances_fit),),
    "strongest": (({"metric", "score"}, _scores_fit),),
}
