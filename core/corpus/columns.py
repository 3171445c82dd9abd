"""What each file of a finished run has: its columns, their types, what their values can be, which numbers of a row fit.

A file may have been cut off, changed, or written by something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..heads.metrics import NAMES
from .passages import CLASSES
from .relations import DIRECTIONS
from .storing import About
from .tally import BINS, Settings

MAP = "map"  # of a run that has one
SLACK = 0.05  # by how much of its range a number may lie outside, as it does where weights are rounded to bfloat16


class Unfit(ValueError):
    """A file does not hold what a run has in it: why, in words that go on after "cannot be read: "."""


@dataclass(frozen=True)
class Column:
    """What a column holds. Of lists: what is in them.

    low, high  what its numbers lie between, or how that follows from what was run
    among      of texts: which there are; None: any
    lacks      whether a number may be NaN
    with_rows  whether it is read with the rows that are asked for alone, and not when a run is opened
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
        numbers = flat.to_numpy(zero_copy_only=False)
        high = self.high if isinstance(self.high, int | float) else self.high(about)
        fitting = (numbers >= self.low) & (numbers <= high) & np.isfinite(numbers)
        return bool((fitting | np.isnan(numbers) if self.lacks else fitting).all())


_NUMBER, _COUNT = Column(pa.int64()), Column(pa.int64(), 0)
_TEXT, _ANY = Column(pa.string()), Column(pa.string(), with_rows=True)
HEAD = {
    "layer": Column(pa.int64(), 0, lambda about: about.layers - 1),
    "head": Column(pa.int64(), 0, lambda about: about.heads - 1),
}
_SHARE, _PERHAPS = (Column(pa.float64(), -SLACK, 1 + SLACK, lacks=lacks) for lacks in (False, True))
_KIND = Column(pa.string(), among=CLASSES)
_QUERY = {
    "passage": Column(pa.uint64()),
    "query": Column(pa.int32(), 0, lambda about: about.passage_tokens - 1),
    "weights": Column(pa.list_(pa.float32()), -SLACK, 1 + SLACK, with_rows=True),
}

# Of each file what it has to have.
COLUMNS: dict[str, dict[str, Column]] = {
    "metrics": HEAD
    | {
        "metric": _TEXT,
        "count": _COUNT,
        "mean": Column(pa.float64(), lacks=True),
        "spread": Column(pa.float64(), lacks=True),
        "high": Column(pa.float64(), 0),
        "histogram": Column(pa.list_(pa.int64()), 0, with_rows=True),
    },
    "classes": HEAD
    | {"query_class": _KIND, "key_class": _KIND, "queries": _COUNT, "attention": _PERHAPS, "chance": _PERHAPS},
    "distances": HEAD | {"first": _NUMBER, "last": _NUMBER, "attention": _PERHAPS, "chance": _PERHAPS},
    "relations": HEAD,
    "strongest": HEAD | {"metric": _TEXT, "score": Column(pa.float32())} | _QUERY,
    "sample": HEAD | _QUERY,
    "passages": {
        "passage": Column(pa.uint64()),
        "file": _ANY,
        "row": _COUNT,
        "start": _COUNT,
        "text": _ANY,
        "tokens": Column(pa.list_(pa.string()), with_rows=True),
    },
    "problems": {"file": _ANY, "row": _COUNT, "why": _ANY},
}
RELATIONS = {
    "relation": _TEXT,
    "direction": Column(pa.string(), among=DIRECTIONS),
    "count": Column(pa.int64(), 1),
    "attention": _SHARE,
    "baseline": _SHARE,
}  # of a run with annotated texts
MAP_COLUMNS = HEAD | {
    "x": Column(pa.float64()),
    "y": Column(pa.float64()),
    "cluster": _COUNT,
    "alike": Column(pa.list_(pa.int64()), 0, lambda about: about.wanted - 1),
}


def columns_of(name: str, schema: pa.Schema, about: About) -> dict[str, Column]:
    """What a file has of what is known of it. Raises Unfit where it lacks some of that, or has it in another type."""
    known = MAP_COLUMNS if name == MAP else COLUMNS[name]
    if name == "relations" and "relation" in schema.names:  # as in runs with annotated texts
        known = known | RELATIONS
    if name == "sample":
        known = known | {
            metric: Column(pa.float32(), -SLACK * high, high * (1 + SLACK), lacks=True)
            for metric, high in highs(about).items()
            if metric in schema.names
        }
    if lacking := sorted(set(known).difference(schema.names)):
        raise Unfit(f"{name}.parquet has no column {', '.join(lacking)}")
    for column, expected in known.items():
        places = schema.get_all_field_indices(column)
        if len(places) > 1 or schema.field(places[0]).type != expected.type:
            raise Unfit(f"the column {column} of {name}.parquet is not what a run writes ({expected.type})")
    return known


def highs(about: About) -> dict[str, float]:
    """The upper end of the range of each metric by its name."""
    return dict(zip(NAMES, _settings(about).highs.tolist(), strict=True))


def ranges(about: About) -> NDArray[np.int64]:
    """[ranges, 2] of distance that a run counts apart."""
    return _settings(about).distances


def _settings(about: About) -> Settings:
    return Settings("self", (), about.passage_tokens)


# --- numbers of a row that have to fit each other


def belongs(name: str, table: pa.Table, about: About) -> bool:
    """Whether the numbers of each row fit each other, as far as they have been read."""
    return all(
        fit({column: table[column].to_numpy() for column in columns}, about)
        for columns, fit in _FITTING.get(name, ())
        if columns <= set(table.column_names)
    )


def _metrics_fit(of: dict[str, NDArray], about: About) -> bool:
    """A metric lies in its range where there was anything to measure, and is NaN elsewhere."""
    numbers, high = np.stack([of["mean"], of["spread"]]), of["high"]
    inside = (numbers >= -SLACK * high) & (numbers <= high * (1 + SLACK))
    ends = highs(about)
    expected = np.array([ends.get(metric, end) for metric, end in zip(of["metric"], high, strict=True)])
    return bool(np.where(of["count"] > 0, inside, np.isnan(numbers)).all() and np.allclose(high, expected))


def _histograms_fit(of: dict[str, NDArray], _about: About) -> bool:
    """Each query lies in one of the parts, and their mean is where they lie."""
    rows = zip(of["histogram"], of["count"], of["mean"], of["high"], strict=True)
    return all(_histogram_fits(*row) for row in rows)


def _histogram_fits(histogram: NDArray[np.int64], count: int, mean: float, high: float) -> bool:
    if len(histogram) != BINS or histogram.sum() != count:
        return False
    middles = (np.arange(BINS) + 0.5) / BINS * high
    return not count or bool(abs(histogram @ middles / count - mean) <= SLACK * high)


def _classes_fit(of: dict[str, NDArray], about: About) -> bool:
    """Shares are known where there is any query, and those of even attention where a model says what is masked."""
    nothing = of["queries"] == 0
    shares = [of["attention"], *([of["chance"]] if about.captures else [])]
    return all(bool((np.isnan(one) == nothing).all()) for one in shares)


def _distances_fit(of: dict[str, NDArray], about: About) -> bool:
    return not about.captures or bool((np.isnan(of["attention"]) == np.isnan(of["chance"])).all())


def _scores_fit(of: dict[str, NDArray], about: About) -> bool:
    ends = highs(about)
    most = np.array([ends.get(metric, inf) for metric in of["metric"]])
    return bool(((of["score"] > 0) & (of["score"] <= most * (1 + SLACK))).all())


# Of each file the columns that are needed, and what has to be so.
_FITTING: dict[str, tuple[tuple[set[str], Callable[[dict[str, NDArray], About], bool]], ...]] = {
    "metrics": (
        ({"metric", "count", "mean", "spread", "high"}, _metrics_fit),
        ({"histogram", "count", "mean", "high"}, _histograms_fit),
    ),
    "classes": (({"queries", "attention", "chance"}, _classes_fit),),
    "distances": (({"attention", "chance"}, _distances_fit),),
    "strongest": (({"metric", "score"}, _scores_fit),),
}
