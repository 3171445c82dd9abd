"""A finished tally as a folder of Parquet files, which any tool that knows Parquet reads.

    metrics.parquet     a row a head and metric: count, mean, spread, and its distribution in BINS equal parts from 0 to high
    classes.parquet     a row a head, class of query and class of key: the attention that a query of the one gives to the other
    distances.parquet   a row a head and range of key - query: the attention of a query
    relations.parquet   a row a head, relation and direction (of annotated texts)
    strongest.parquet   a row a query that is among the strongest of a head and metric, with all of its weights
    sample.parquet      a row a head and query of those drawn at random, with all metrics and all of its weights
    passages.parquet    the passages in which these stand, with their tokens
    problems.parquet    what could not be read
    map.parquet         a row a head: where it lies on the map of all heads, its cluster, the heads like it (`profiles.HeadMap`)

Every file says in its metadata, under "headlight", what was run: see `About`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from ..heads.metrics import METRICS, NAMES
from .passages import CLASSES, Passage
from .sums import mean_and_spread
from .tally import BINS, Tally
from .texts import half_of_a_pair

FORMAT = 1  # raised when a file means something else than before
METADATA = b"headlight"
LAST = "metrics"  # is written when all others are there: a folder with it is a finished run
GROUP = 2**20  # bytes of a file that are read at once, about; rows at least and at most:
ROWS = (50, 2_000)


@dataclass(frozen=True)
class About:
    """What a run was.

    model, revision, dtype, device   what read, as in `core.models.model.Model`
    captures    whether the model exposes which pairs are masked; where not, every `chance` is missing
    kind        of attention; layers, heads of the model, wanted: how many heads were looked at
    data, column, by   what was read; files, texts, passages, tokens: how much of it
    corpus      a hash of all passages that follows from where they stand and what they say
    unread      how many texts, or parts of them, could not be read
    limit       of tokens that was asked for; None: all
    passage_tokens, strongest, sample, examples_of   as in `Settings`
    versions    of headlight, Python, torch, transformers, ray
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
    def read(cls, metadata: bytes) -> About:
        """Raises ValueError or TypeError for what is none, KeyError where something is missing."""
        given = json.loads(metadata)
        found: dict[str, Any] = {one.name: given[one.name] for one in fields(cls)}
        for name, kind in get_type_hints(cls).items():
            if not _is(found[name], kind):
                raise TypeError(f"{name} is {found[name]!r}")
        found["examples_of"] = tuple(found["examples_of"])
        return cls(**found)


def _is(value: Any, kind: Any) -> bool:
    """Whether JSON has given what a field of `About` is. Numbers are finite and not below 0; texts can be written."""
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_is(one, str) for one in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_is(one, str) for pair in value.items() for one in pair)
    if get_args(kind):
        return any(_is(value, one) for one in get_args(kind))
    if kind is str:
        return isinstance(value, str) and half_of_a_pair(value) is None
    if kind in (int, float) and isinstance(value, kind | int) and not isinstance(value, bool):
        return 0 <= value < 2**63
    return isinstance(value, kind) and kind not in (int, float)


def tables(tally: Tally, tokens_of: dict[int, tuple[str, ...]]) -> Iterator[tuple[str, pa.Table]]:
    """(name of the file, its table), one after the other.

    tokens_of  the tokens of `tally.shown_passages` as texts, by their ids
    """
    layer, head = np.array(tally.settings.heads).reshape(-1, 2).T
    yield "classes", _classes(tally, layer, head)
    yield "distances", _distances(tally, layer, head)
    yield "relations", _relations(tally, layer, head)
    yield "strongest", _strongest(tally, layer, head)
    yield "sample", _sample(tally, layer, head)
    yield "passages", _passages(tally.shown_passages, tokens_of)
    yield (
        "problems",
        _table(
            file=pa.array([one.place.file for one in tally.problems], pa.string()),
            row=pa.array([one.place.row for one in tally.problems], pa.int64()),
            why=pa.array([one.why for one in tally.problems], pa.string()),
        ),
    )
    yield LAST, _metrics(tally, layer, head)


def file_of(table: str) -> str:
    return f"{table}.parquet"


def write(table: pa.Table, system: fs.FileSystem, path: str, about: About) -> None:
    """Heads lie together in small groups of rows, so that one of them can be read without the others.

    What the table says in its own metadata is kept.
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


def _table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def _metrics(tally: Tally, layer: NDArray, head: NDArray) -> pa.Table:
    mean, spread = mean_and_spread(tally.counts, tally.totals, tally.squares)
    heads, metrics = len(layer), len(METRICS)
    return _table(
        layer=np.repeat(layer, metrics),
        head=np.repeat(head, metrics),
        metric=np.tile(NAMES, heads),
        count=tally.counts.T.ravel(),
        mean=mean.T.ravel(),
        spread=spread.T.ravel(),
        high=np.tile(tally.settings.highs, heads),
        histogram=_lists(np.moveaxis(tally.histogram, 1, 0).reshape(-1, BINS)),
    )


def _lists(rows: NDArray) -> pa.Array:
    """[rows, length] as a column of lists."""
    length = rows.shape[1]
    offsets = np.arange(0, rows.size + 1, length, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, rows.ravel())


def _classes(tally: Tally, layer: NDArray, head: NDArray) -> pa.Table:
    heads, count = len(layer), len(CLASSES)
    queries = tally.queries[:, :, None]
    with np.errstate(invalid="ignore"):
        attention, chance = tally.attention.values / queries, _known(tally.chance.values) / queries
    return _table(
        layer=np.repeat(layer, count**2),
        head=np.repeat(head, count**2),
        query_class=np.tile(np.repeat(CLASSES, count), heads),
        key_class=np.tile(CLASSES, heads * count),
        queries=np.broadcast_to(queries, attention.shape).ravel(),
        attention=attention.ravel(),
        chance=chance.ravel(),
    )


def _known(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN where a model says nothing of its mask: what even attention would give sums to as many as there are queries."""
    return chance if chance.any() else np.full_like(chance, np.nan)


def _distances(tally: Tally, layer: NDArray, head: NDArray) -> pa.Table:
    ranges = tally.settings.distances
    queries = tally.queries.sum(axis=1)[:, None]
    with np.errstate(invalid="ignore"):
        attention, chance = tally.by_distance.values / queries, _known(tally.distance_chance.values) / queries
    return _table(
        layer=np.repeat(layer, len(ranges)),
        head=np.repeat(head, len(ranges)),
        first=np.tile(ranges[:, 0], len(layer)),
        last=np.tile(ranges[:, 1], len(layer)),
        attention=attention.ravel(),
        chance=chance.ravel(),
    )


def _relations(tally: Tally, layer: NDArray, head: NDArray) -> pa.Table:
    found = tally.relations.table()
    if found.empty:
        found = pd.DataFrame({"place": np.empty(0, np.int64)})
    place = found.pop("place").to_numpy()
    order = np.argsort(place, kind="stable")
    columns = {name: found[name].to_numpy()[order] for name in found}
    return _table(layer=layer[place][order], head=head[place][order], **columns)


def _strongest(tally: Tally, layer: NDArray, head: NDArray) -> pa.Table:
    rows = tally.strongest.rows
    return _table(
        layer=layer[rows.head],
        head=head[rows.head],
        metric=pa.array([tally.settings.examples_of[number] for number in rows.metric], pa.string()),
        score=rows.score,
        passage=rows.passage,
        query=rows.query,
        weights=_weights(rows.weights),
    )


def _sample(tally: Tally, layer: NDArray, head: NDArray) -> pa.Table:
    rows = tally.sample
    queries, heads = len(rows), len(layer)
    by_head = np.moveaxis(rows.values, 2, 0).reshape(heads * queries, len(METRICS))
    return _table(
        layer=np.repeat(layer, queries),
        head=np.repeat(head, queries),
        passage=np.tile(rows.passage, heads),
        query=np.tile(rows.query, heads),
        **{name: by_head[:, place] for place, name in enumerate(NAMES)},
        weights=_weights(np.moveaxis(rows.weights, 1, 0).reshape(heads * queries, rows.weights.shape[-1])),
    )


def _weights(rows: NDArray[np.float32]) -> pa.Array:
    """[rows, tokens], NaN behind the last key, as a column of lists that end with it."""
    there = np.isfinite(rows)
    offsets = np.concatenate([[0], there.sum(axis=1).cumsum()]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, rows[there])


def _passages(passages: dict[int, Passage], tokens_of: dict[int, tuple[str, ...]]) -> pa.Table:
    return _table(
        passage=np.array([*passages], np.uint64),
        file=pa.array([one.place.file for one in passages.values()], pa.string()),
        row=pa.array([one.place.row for one in passages.values()], pa.int64()),
        start=pa.array([one.start for one in passages.values()], pa.int64()),
        text=pa.array([one.text for one in passages.values()], pa.string()),
        tokens=pa.array([list(tokens_of[number]) for number in passages], pa.list_(pa.string())),
    )
