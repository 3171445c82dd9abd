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
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from .about import METADATA, About
from .columns import LAST, schema_of
from .passages import CLASSES
from .settings import distance_ranges
from .sums import mean_and_spread
from .tally import BINS, Tally

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
