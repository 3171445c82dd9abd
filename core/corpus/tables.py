"""The tables of a finished run: a folder of Parquet files, which any tool that knows Parquet reads.

    metrics.parquet     a row for each head and metric: count, mean, spread, and its distribution in BINS equal parts
    classes.parquet     a row for each head, class of query and class of key: the attention that such a query gives to such keys
    distances.parquet   a row for each head and range of key - query: the attention of a query
    relations.parquet   a row for each head, relation and direction (of annotated texts)
    strongest.parquet   a row for each query that is among the strongest of a head and metric, with all of its weights
    sample.parquet      a row for each head and query of those drawn at random, with all metrics and all of its weights
    passages.parquet    the passages in which these queries stand, with their tokens
    problems.parquet    what could not be read
    claims.parquet      a row for each head, claim and half of the passages (of a run with claims): the sums of `ClaimSums`
    map.parquet         a row for each head: where it lies on the map of all heads, its cluster, the heads like it
                        (`HeadMap`)

COLUMNS declares the columns of each, their types and the values that they can have: runs are written by it, and
`core.corpus.checking` checks them against it, since a file may have been cut off, changed, or written by something else. The
metadata of every file says under "headlight" what was run (`About`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from math import inf
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from ..averages import mean_and_spread
from ..claims.claim import Claim
from ..claims.shares import GROUPS, HALVES, ClaimSums
from ..errors import InputError
from ..models.fields import half_of_a_pair
from ..models.model import Model
from ..models.passages import CLASSES
from .settings import distance_ranges, metric_highs
from .tally import BINS, DIRECTIONS, Tally

FORMAT = 1  # raised when a file means something else than before
METADATA = b"headlight"
# What reading JSON raises that somebody else has written.
NOT_JSON = (ValueError, LookupError, TypeError, RecursionError)


@dataclass(frozen=True)
class About:
    """The record of a finished run. Its JSON form is the metadata of every file. Settings are those of `RunSettings`.

    captures  whether the model exposes which pairs are masked; where not, every `chance` is missing
    kind      of attention
    layers, heads, wanted   how many layers the model has, heads in each of them, and heads that were measured
    corpus    a hash of all passages: of where they stand and of their texts
    unread    how many texts, or parts of them, could not be read
    limit     `RunSettings.tokens`
    seconds   from start to end, of the last start
    """

    model: str
    revision: str
    dtype: str
    device: str
    captures: bool
    kind: str
    layers: int
    heads: int
    wanted: int
    data: str
    column: str
    by: str
    files: int
    passages: int
    tokens: int
    corpus: str
    unread: int
    limit: int | None
    passage_tokens: int
    strongest: int
    sample: int
    examples_of: tuple[str, ...]
    versions: dict[str, str]
    seconds: float
    format: int = FORMAT

    @classmethod
    def of(cls, tally: Tally, model: Model, **others: Any) -> About:
        """The record of a run. model: may come without its weights; others: data, files, corpus, versions and seconds"""
        settings, heads = tally.settings, tally.heads
        same = ("column", "by", "dtype", "device", "passage_tokens", "strongest", "sample", "examples_of")
        return cls(
            model=model.name,
            revision=heads.revision,
            captures=model.captures,
            kind=heads.kind,
            layers=heads.layers,
            heads=heads.per_layer,
            wanted=len(heads.measured),
            passages=len(tally.ids),
            tokens=tally.tokens_read,
            unread=tally.problem_count,
            limit=settings.tokens,
            **{name: getattr(settings, name) for name in same},
            **others,
        )

    @classmethod
    def read(cls, metadata: bytes) -> About:
        """Read the JSON form. Raises ValueError or TypeError for anything else, KeyError where a field is missing."""
        written = json.loads(metadata)
        values: dict[str, Any] = {field.name: written[field.name] for field in fields(cls)}
        for name, kind in get_type_hints(cls).items():
            if not has_type(values[name], kind):
                raise TypeError(f"{name} is {values[name]!r}")
        values["examples_of"] = tuple(values["examples_of"])
        return cls(**values)


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value from JSON is of a type: numbers finite and not negative, texts without half characters."""
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(has_type(item, str) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(has_type(word, str) for item in value.items() for word in item)
    if get_args(kind):
        return any(has_type(value, each) for each in get_args(kind))
    if kind is str:
        return isinstance(value, str) and half_of_a_pair(value) is None
    if kind in (int, float) and isinstance(value, kind | int) and not isinstance(value, bool):
        return 0 <= value < 2**63
    return isinstance(value, kind) and kind not in (int, float)


MAP, CLAIMS = "map", "claims"  # tables that a run may lack
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
    CLAIMS: HEAD
    | {"claim": _WORD, "half": Column(pa.int64(), 0, HALVES - 1), "queries": Column(pa.list_(pa.int64()), 0)}
    | {
        "shares": Column(pa.list_(pa.float64()), 0),
        "recalled": _COUNT,
        "hits": _COUNT,
        "strong": _COUNT,
        "passages": _COUNT,
    }
    | {"chance": Column(pa.float64(), 0), "usual": Column(pa.float64(), 0)},
}
NEEDED = tuple(name for name in COLUMNS if name not in (MAP, CLAIMS))  # the tables that every run has

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


ALIKE = 10  # nearest heads that are kept for each head, and neighbours that the trustworthiness is computed with


@dataclass(frozen=True, eq=False)
class HeadMap:
    """All heads of a run on a plane, near each other where they behave alike.

    heads            a row a head, by layer and head: layer, head, x, y, cluster (a place in `clusters`), alike (the rows of
                     the heads with the nearest profiles, nearest first, at most ALIKE)
    clusters         words for each, the largest first; no two are the same
    trustworthiness  whether neighbours on the map are neighbours by profile, in [0, 1] (Venna and Kaski 2001); None for
                     fewer than three heads, and for heads that are all the same
    silhouette       how clearly the heads fall into these clusters, in [-1, 1] (Rousseeuw 1987); None for a single cluster

    x and y are in units of the distance between profiles, rounded to 4 digits; how the map is turned means nothing.
    """

    heads: pd.DataFrame
    clusters: tuple[str, ...]
    trustworthiness: float | None
    silhouette: float | None

    def table(self) -> pa.Table:
        """The heads as a table; everything else is JSON in the metadata of its schema, under "map"."""
        about = {
            "clusters": self.clusters,
            "trustworthiness": self.trustworthiness,
            "silhouette": self.silhouette,
            "neighbours": ALIKE,
        }
        schema = schema_of(MAP).with_metadata({MAP_METADATA: json.dumps(about)})
        return pa.table({name: self.heads[name].tolist() for name in schema.names}, schema=schema)

    @classmethod
    def read(cls, table: pa.Table, metadata: dict[bytes, bytes]) -> HeadMap:
        """The map in a table with a row for each head. Raises Unfit for what the table or its metadata cannot be."""
        heads = table.to_pandas().sort_values(["layer", "head"], ignore_index=True)
        heads["alike"] = [row.tolist() for row in heads["alike"]]
        if heads["alike"].map(len).nunique() > 1 or any(row in others for row, others in heads["alike"].items()):
            raise Unfit(f"{MAP}.parquet does not list as many similar heads for every head")
        try:
            written = json.loads(metadata.get(MAP_METADATA, b""))
            clusters, numbers = written["clusters"], (written["trustworthiness"], written.get("silhouette"))
            fits = has_type(clusters, tuple[str, ...]) and heads["cluster"].max() < len(clusters)
            fits = fits and all(has_type(number, float | None) and (number or 0) <= 1 for number in numbers)
        except NOT_JSON:
            fits, clusters, numbers = False, [], (None, None)
        if not fits:
            raise Unfit(f"{MAP}.parquet does not say what its clusters are called")
        return cls(heads, tuple(clusters), *numbers)


GROUP = 2**20  # bytes of a group of rows, about, which is read at once
ROWS = (50, 2_000)  # rows of such a group, at least and at most


def tables(tally: Tally, tokens_of: dict[int, tuple[str, ...]]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the name of each table and the table, `LAST` last. The map of the heads is not among them.

    tokens_of  the tokens of `tally.shown_passages` as texts, by their ids
    """
    made = {
        "classes": _classes,
        "distances": _distances,
        "relations": _relations,
        "strongest": _strongest,
        "sample": _sample,
        "passages": partial(_passages, tokens_of=tokens_of),
        "problems": _problems,
        **({} if tally.claims is None else {CLAIMS: _claims}),
        LAST: _metrics,
    }
    for name, columns_of in made.items():
        columns = columns_of(tally)
        # Without annotated texts, `relations` has no rows and no columns but those of the heads.
        fields = [field for field in schema_of(name, tally.settings.metrics) if field.name in columns]
        yield name, pa.table(columns, schema=pa.schema(fields))


def write(table: pa.Table, system: fs.FileSystem, path: str, about: About) -> None:
    """Write a table, and its metadata, in small groups of rows, so that one head can be read without the others."""
    metadata = {**(table.schema.metadata or {}), METADATA: json.dumps(asdict(about)).encode()}
    pq.write_table(
        table.replace_schema_metadata(metadata),
        path,
        filesystem=system,
        compression="zstd",
        write_page_checksum=True,
        row_group_size=max(ROWS[0], min(GROUP * max(table.num_rows, 1) // max(table.nbytes, 1), ROWS[1])),
    )


# --- the columns of each table


def _heads(tally: Tally, places: NDArray[np.integer]) -> dict[str, NDArray[np.int64]]:
    """The columns layer and head, from the places of heads in the arrays of the tally."""
    measured = np.array(tally.heads.measured).reshape(-1, 2)[places]
    return {"layer": measured[:, 0], "head": measured[:, 1]}


def _each_head(tally: Tally, rows: int) -> dict[str, NDArray[np.int64]]:
    """The columns layer and head of a table with this many rows for each head."""
    return _heads(tally, np.repeat(np.arange(len(tally.heads.measured)), rows))


def _metrics(tally: Tally) -> dict[str, Any]:
    mean, spread = mean_and_spread(tally.counts, tally.totals, tally.squares)
    metrics, heads = tally.counts.shape
    return _each_head(tally, metrics) | {
        "metric": np.tile(tally.settings.metrics, heads),
        "count": tally.counts.T.ravel(),
        "mean": mean.T.ravel(),
        "spread": spread.T.ravel(),
        "high": np.tile(tally.settings.highs, heads),
        "histogram": _lists(np.moveaxis(tally.histogram, 1, 0).reshape(-1, BINS)),
    }


def _classes(tally: Tally) -> dict[str, Any]:
    heads, count = len(tally.heads.measured), len(CLASSES)
    queries = tally.queries[:, :, None]
    with np.errstate(invalid="ignore"):
        attention, chance = tally.attention.values / queries, _known(tally.chance.values) / queries
    return _each_head(tally, count**2) | {
        "query_class": np.tile(np.repeat(CLASSES, count), heads),
        "key_class": np.tile(CLASSES, heads * count),
        "queries": np.broadcast_to(queries, attention.shape).ravel(),
        "attention": attention.ravel(),
        "chance": chance.ravel(),
    }


def _distances(tally: Tally) -> dict[str, Any]:
    ranges, heads = distance_ranges(tally.settings.passage_tokens), len(tally.heads.measured)
    queries = tally.queries.sum(axis=1)[:, None]
    with np.errstate(invalid="ignore"):
        attention, chance = tally.by_distance.values / queries, _known(tally.distance_chance.values) / queries
    return _each_head(tally, len(ranges)) | {
        "first": np.tile(ranges[:, 0], heads),
        "last": np.tile(ranges[:, 1], heads),
        "attention": attention.ravel(),
        "chance": chance.ravel(),
    }


def _known(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums, or NaN where the model does not expose its mask: what even attention would give is never 0 in all places."""
    return chance if chance.any() else np.full_like(chance, np.nan)


def _relations(tally: Tally) -> dict[str, Any]:
    table = tally.relations.table().sort_values("place", kind="stable")
    return _heads(tally, table.pop("place").to_numpy()) | {name: table[name].to_numpy() for name in table}


def _strongest(tally: Tally) -> dict[str, Any]:
    rows = tally.strongest.rows
    return _heads(tally, rows["head"]) | {
        "metric": [tally.settings.examples_of[number] for number in rows["metric"]],
        "score": rows["score"],
        "passage": rows["passage"],
        "query": rows["query"],
        "weights": _lists(rows["weights"]),
    }


def _sample(tally: Tally) -> dict[str, Any]:
    rows, heads = tally.sample.rows, len(tally.heads.measured)
    values = rows["values"].transpose(1, 2, 0).reshape(len(tally.settings.metrics), -1)
    return _each_head(tally, len(rows)) | {
        "passage": np.tile(rows["passage"], heads),
        "query": np.tile(rows["query"], heads),
        **dict(zip(tally.settings.metrics, values, strict=True)),
        "weights": _lists(np.moveaxis(rows["weights"], 1, 0).reshape(-1, tally.settings.passage_tokens)),
    }


def _claims(tally: Tally) -> dict[str, Any]:
    sums, heads = tally.claims, len(tally.heads.measured)
    assert sums is not None
    count = len(sums.claims)

    def by_head(values: NDArray) -> NDArray:
        """[HALVES, C, H] or [HALVES, GROUPS, C, H] by head, claim and half: [rows] or [rows, GROUPS]."""
        return np.moveaxis(values, (-1, -2), (0, 1)).reshape(heads * count * HALVES, *values.shape[1:-2])

    wide = {name: np.broadcast_to(sums.passages[..., None], (HALVES, count, heads)) for name in ("passages",)}
    wide |= {name: getattr(sums, name) for name in ("recalled", "hits", "strong", "queries")}
    wide |= {name: getattr(sums, name).values.clip(0) for name in ("shares", "chance", "usual")}
    columns = {name: by_head(values) for name, values in wide.items()}
    lists = {name: [*columns.pop(name)] for name in ("queries", "shares")}
    lines = np.repeat([str(claim) for claim in sums.claims], HALVES)
    named = {"claim": np.tile(lines, heads), "half": np.tile(np.arange(HALVES), heads * count)}
    return _each_head(tally, count * HALVES) | named | lists | columns


def claim_sums(rows: pd.DataFrame) -> ClaimSums:
    """The sums of a run's claims, from the rows of `CLAIMS`, of which every head has the same. Raises Unfit for others."""
    rows = rows.sort_values(["layer", "head"], kind="stable")
    lines = rows["claim"].drop_duplicates().tolist()
    heads = rows[["layer", "head"]].drop_duplicates().to_numpy()
    rows = rows.set_index(["layer", "head", "claim", "half"])
    order = pd.MultiIndex.from_tuples(
        [(*head, line, half) for head in heads.tolist() for line in lines for half in range(HALVES)],
        names=rows.index.names,
    )
    if not lines or len(rows) != len(order) or not (rows[["queries", "shares"]].map(len) == GROUPS).to_numpy().all():
        raise Unfit(f"{CLAIMS}.parquet does not have as many groups of passages for every claim")
    rows, shape = rows.reindex(order), (len(heads), len(lines), HALVES)
    try:
        sums = ClaimSums(tuple(map(Claim.read, lines)), heads)
    except InputError as error:
        raise Unfit(f"{CLAIMS}.parquet has a claim that cannot be read: {error}") from error

    def by_half(name: str) -> NDArray:
        return np.moveaxis(np.stack(rows[name].tolist()).reshape(*shape, -1), (2, 3, 1, 0), (0, 1, 2, 3))

    sums.queries, sums.passages = by_half("queries"), by_half("passages")[:, 0, :, 0]
    sums.recalled, sums.hits, sums.strong = (by_half(name)[:, 0] for name in ("recalled", "hits", "strong"))
    sums.shares.add(by_half("shares"))
    sums.chance.add(by_half("chance")[:, 0])
    sums.usual.add(by_half("usual")[:, 0])
    return sums


def _lists(rows: NDArray) -> pa.Array:
    """[rows, length], NaN after the end of a row, as a column of lists that end there."""
    there = np.isfinite(rows)
    offsets = np.concatenate([[0], there.sum(axis=1).cumsum()]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, rows[there])


def _passages(tally: Tally, tokens_of: dict[int, tuple[str, ...]]) -> dict[str, Any]:
    passages = tally.shown_passages
    return {
        "passage": np.array([*passages], np.uint64),
        "file": [passage.place.file for passage in passages.values()],
        "row": [passage.place.row for passage in passages.values()],
        "start": [passage.start for passage in passages.values()],
        "text": [passage.text for passage in passages.values()],
        "tokens": [list(tokens_of[number]) for number in passages],
    }


def _problems(tally: Tally) -> dict[str, Any]:
    return {
        "file": [problem.place.file for problem in tally.problems],
        "row": [problem.place.row for problem in tally.problems],
        "why": [problem.why for problem in tally.problems],
    }
