"""A finished tally as a folder of Parquet files, which any tool that knows Parquet reads.

    metrics.parquet     a row for each head and metric: count, mean, spread, and its distribution in BINS equal parts
    classes.parquet     a row for each head, class of query and class of key: the attention that such a query gives to such keys
    distances.parquet   a row for each head and range of key - query: the attention of a query
    relations.parquet   a row for each head, relation and direction (of annotated texts)
    strongest.parquet   a row for each query that is among the strongest of a head and metric, with all of its weights
    sample.parquet      a row for each head and query of those drawn at random, with all metrics and all of its weights
    passages.parquet    the passages in which these queries stand, with their tokens
    problems.parquet    what could not be read
    map.parquet         a row for each head: where it lies on the map of all heads, its cluster, the heads like it
                        (`profiles.HeadMap`)

Their columns are declared in `core.corpus.columns`. The metadata of every file says under "headlight" what was run (`About`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from .about import METADATA, About
from .columns import LAST, schema_of
from .passages import CLASSES
from .sums import mean_and_spread
from .tally import BINS, Tally

GROUP = 2**20  # bytes of a group of rows, about, which is read at once
ROWS = (50, 2_000)  # rows of such a group, at least and at most


def tables(tally: Tally, tokens_of: dict[int, tuple[str, ...]]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the name of each table and the table, `LAST` last. The map of the heads is not among them.

    tokens_of  the tokens of `tally.shown_passages` as texts, by their ids
    """
    for name, columns in _columns(tally, tokens_of):
        schema = schema_of(name, tally.settings.metrics, is_annotated=bool(tally.relations.attention))
        yield name, pa.table(columns, schema=schema)


def _columns(tally: Tally, tokens_of: dict[int, tuple[str, ...]]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "classes", _classes(tally)
    yield "distances", _distances(tally)
    yield "relations", _relations(tally)
    yield "strongest", _strongest(tally)
    yield "sample", _sample(tally)
    yield "passages", _passages(tally, tokens_of)
    yield "problems", _problems(tally)
    yield LAST, _metrics(tally)


def write(table: pa.Table, system: fs.FileSystem, path: str, about: About) -> None:
    """Write a table in small groups of rows, so that one head can be read without the others.

    The table's own metadata is kept.
    """
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


def _places(tally: Tally) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The layer and the number within it of each measured head: two of [heads]."""
    layer, head = np.array(tally.heads.measured).reshape(-1, 2).T
    return layer, head


def _each_head(tally: Tally, rows: int) -> dict[str, NDArray[np.int64]]:
    """The columns layer and head of a table with this many rows for each head."""
    return {name: np.repeat(numbers, rows) for name, numbers in zip(("layer", "head"), _places(tally), strict=True)}


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


def _lists(rows: NDArray) -> pa.Array:
    """[rows, length] as a column of lists."""
    length = rows.shape[1]
    offsets = np.arange(0, rows.size + 1, length, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, rows.ravel())


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


def _known(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums, or NaN where the model does not expose its mask: what even attention would give is never 0 in all places."""
    return chance if chance.any() else np.full_like(chance, np.nan)


def _distances(tally: Tally) -> dict[str, Any]:
    ranges, heads = tally.settings.distances, len(tally.heads.measured)
    queries = tally.queries.sum(axis=1)[:, None]
    with np.errstate(invalid="ignore"):
        attention, chance = tally.by_distance.values / queries, _known(tally.distance_chance.values) / queries
    return _each_head(tally, len(ranges)) | {
        "first": np.tile(ranges[:, 0], heads),
        "last": np.tile(ranges[:, 1], heads),
        "attention": attention.ravel(),
        "chance": chance.ravel(),
    }


def _relations(tally: Tally) -> dict[str, Any]:
    layer, head = _places(tally)
    table = tally.relations.table().sort_values("place", kind="stable")
    place = table.pop("place").to_numpy()
    return {"layer": layer[place], "head": head[place]} | {name: table[name].to_numpy() for name in table}


def _strongest(tally: Tally) -> dict[str, Any]:
    (layer, head), rows = _places(tally), tally.strongest.rows
    return {
        "layer": layer[rows.head],
        "head": head[rows.head],
        "metric": [tally.settings.examples_of[number] for number in rows.metric],
        "score": rows.score,
        "passage": rows.passage,
        "query": rows.query,
        "weights": _weights(rows.weights),
    }


def _sample(tally: Tally) -> dict[str, Any]:
    rows = tally.sample
    queries, metrics, heads = rows.values.shape
    by_head = np.moveaxis(rows.values, 2, 0).reshape(heads * queries, metrics)
    return _each_head(tally, queries) | {
        "passage": np.tile(rows.passage, heads),
        "query": np.tile(rows.query, heads),
        **dict(zip(tally.settings.metrics, by_head.T, strict=True)),
        "weights": _weights(np.moveaxis(rows.weights, 1, 0).reshape(heads * queries, rows.weights.shape[-1])),
    }


def _weights(rows: NDArray[np.float32]) -> pa.Array:
    """[rows, tokens], NaN after the last key, as a column of lists that end with that key."""
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
