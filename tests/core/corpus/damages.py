"""Finished runs that are damaged, or that lie: every way in which a file, a column, or what a file says of itself can be wrong.

What becomes of a damaged run is either that it is refused, or that it is read as if nothing had happened.
"""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core import InputError
from core.corpus.opened import open_run, spread_over_quantiles
from core.corpus.tables import MAP, MAP_METADATA, METADATA

Damage = Callable[[Path], object]
ENDS = {"at its start": 0, "after its mark": 4, "in its quarter": 0.25, "in half": 0.5, "before its end": -1}
ODD = {
    "null": None,
    "text": "x",
    "half a character": "\ud800",
    "a number below 0": -1,
    "a number beyond 64 bits": 10**30,
    "a float beyond all": 1e999,
    "true": True,
    "a list": [],
    "an object": {},
    "a nest": [[[[1]]]],
}
# What nobody can know to be wrong: it could have been so.
POSSIBLE = re.compile(
    r"(passages\.(file|row|start|text)|problems\.\w+|relations\.\w+|map\.[xy]|metrics\.spread): .*"
    r"|(relations|strongest): (no rows|rows missing|one row missing)"
    r"|sample\.\w+: (NaN|below 0)|(map|claims): (deleted|a folder|a link to itself)|map: bits turned .*"
    r"|claims\.(chance|usual): numbers"
    r"|metadata, \w+: (text|an object)|metadata of the map, trustworthiness: null"
)
UNREADABLE = {
    "nothing": b"",
    "half of it": b'{"format": 1',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "no UTF-8": b"\xff\xfe{}",
    "brackets without an end": b"[" * 100_000,
    "deep brackets": b'{"format": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}


def damages(folder: Path, other: Path) -> dict[str, Damage]:
    """By name: what spoils a copy of the run in `folder`. other: the folder of another finished run"""
    names = sorted(file.stem for file in folder.glob("*.parquet"))
    found: dict[str, Damage] = {}
    for name in names:
        found |= {f"{name}: {what}": damage for what, damage in _of_file(name, names, other)}
        table = pq.read_table(folder / f"{name}.parquet")
        found |= {f"{name}: {what}": damage for what, damage in _of_rows(name)}
        for column in table.column_names:
            ways = _of_column(name, column, table[column].type)
            found |= {f"{name}.{column}: {what}": damage for what, damage in ways}
    about = json.loads(pq.read_schema(folder / "metrics.parquet").metadata[METADATA])
    for field in about:
        for what, value in ODD.items():
            found[f"metadata, {field}: {what}"] = partial(_say, names, METADATA, {field: value})
        found[f"metadata, {field}: missing"] = partial(_say, names, METADATA, {field: ...})
    wrong = {"heads": 10**9, "wanted": 1, "format": 99, "kind": "none", "unread": 0}
    for field, value in (*wrong.items(), ("layers", 1), ("layers", 10**9)):
        found[f"metadata, {field}: {value}"] = partial(_say, names, METADATA, {field: value})
    for field in ("clusters", "trustworthiness"):
        for what, value in ODD.items():
            found[f"metadata of the map, {field}: {what}"] = partial(_say, [MAP], MAP_METADATA, {field: value})
        found[f"metadata of the map, {field}: missing"] = partial(_say, [MAP], MAP_METADATA, {field: ...})
    for what, said in UNREADABLE.items():
        found[f"metadata: {what}"] = partial(_say_bytes, names, METADATA, said)
        found[f"metadata of the map: {what}"] = partial(_say_bytes, [MAP], MAP_METADATA, said)
        found[f"metadata of one file: {what}"] = partial(_say_bytes, ["sample"], METADATA, said)
    return found


# --- whole files


def _of_file(name: str, names: list[str], other: Path) -> Iterator[tuple[str, Damage]]:
    file = f"{name}.parquet"
    for what, end in ENDS.items():
        yield f"cut off {what}", lambda folder, end=end: _cut(folder / file, end)
    for seed in range(4):
        yield f"bits turned {seed}", lambda folder, seed=seed: _turn_bits(folder / file, seed)
    yield "deleted", lambda folder: (folder / file).unlink()
    yield "a folder", lambda folder: ((folder / file).unlink(), (folder / file).mkdir())
    yield "no Parquet", lambda folder: (folder / file).write_bytes(b"no Parquet at all" * 50)
    yield "a link to itself", lambda folder: ((folder / file).unlink(), (folder / file).symlink_to(folder / file))
    another = names[(names.index(name) + 1) % len(names)]
    yield f"{another} instead", lambda folder: shutil.copyfile(folder / f"{another}.parquet", folder / file)
    yield "of another run", lambda folder: shutil.copyfile(other / file, folder / file)


def _cut(file: Path, end: float) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: end if isinstance(end, int) else int(len(whole) * end)])


def _turn_bits(file: Path, seed: int) -> None:
    whole, chance = bytearray(file.read_bytes()), random.Random(f"{file.name}{seed}")
    for _ in range(1 + 8 * (seed % 2)):
        whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
    file.write_bytes(whole)


# --- tables


def _rewrite(name: str, change: Callable[[pa.Table], pa.Table], folder: Path) -> None:
    file = folder / f"{name}.parquet"
    table = pq.read_table(file)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), file, write_page_checksum=True)


def _of_rows(name: str) -> Iterator[tuple[str, Damage]]:
    yield "no rows", partial(_rewrite, name, lambda table: table.slice(0, 0))
    yield "rows missing", partial(_rewrite, name, lambda table: table.slice(0, len(table) // 2))
    yield "one row missing", partial(_rewrite, name, lambda table: table.slice(1))
    yield "rows twice", partial(_rewrite, name, lambda table: pa.concat_tables([table, table]))
    yield "a row twice", partial(_rewrite, name, lambda table: pa.concat_tables([table, table.slice(0, 1)]))


def _of_column(name: str, column: str, kind: pa.DataType) -> Iterator[tuple[str, Damage]]:
    def put(values: Callable[[pa.ChunkedArray], pa.Array]) -> Damage:
        def change(table: pa.Table) -> pa.Table:
            place = table.column_names.index(column)
            return table.set_column(place, column, values(table[column]))

        return partial(_rewrite, name, change)

    yield "missing", partial(_rewrite, name, lambda table: table.drop_columns([column]))
    yield "there twice", partial(_rewrite, name, lambda table: table.append_column(column, table[column]))
    others = {"texts": "x", "numbers": 0.5, "yes and no": True, "lists": [0], "structs": {"a": 1}, "bytes": b"\xff"}
    for what, value in others.items():
        yield what, put(lambda held, value=value: pa.array([value] * len(held)))
    yield "nulls", put(lambda held: pa.nulls(len(held), held.type))
    yield "one null", put(lambda held: _with(held, None))
    for what, value in _odd(kind):
        yield what, put(lambda held, value=value: _with(held, value))
    if pa.types.is_string(kind):
        yield "no UTF-8", put(lambda held: _no_utf8(len(held)))


def _odd(kind: pa.DataType) -> Iterator[tuple[str, Any]]:
    """Values of a type that its column cannot have."""
    if pa.types.is_floating(kind):
        yield from {"NaN": float("nan"), "infinite": float("inf"), "below 0": -0.5, "huge": 1e30}.items()
    elif pa.types.is_unsigned_integer(kind):
        yield from {"0": 0, "the largest": 2**64 - 1}.items()
    elif pa.types.is_integer(kind):
        yield from {"below 0": -1, "the largest": 2 ** (kind.bit_width - 1) - 1, "somewhat large": 1_000}.items()
    elif pa.types.is_list(kind):
        inside = kind.value_type
        some = "x" if pa.types.is_string(inside) else 0
        yield from {"empty": [], "short": [some], "long": [some] * 1_000, "with a null": [None, some]}.items()
        if not pa.types.is_string(inside):
            yield from {f"with {what}": [value] for what, value in _odd(inside)}.items()


def _with(held: pa.ChunkedArray, value: Any) -> pa.Array:
    """The column with something else in the last row: it is of the head that is looked at."""
    values = held.to_pylist()
    values[-1] = value
    return pa.array(values, held.type)


def _no_utf8(rows: int) -> pa.Array:
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32).tobytes())
    return pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(b"\xff" * rows))


# --- what files say of themselves


def _say(names: list[str], under: bytes, said: dict[str, Any], folder: Path) -> None:
    for name in names:
        there = json.loads(pq.read_schema(folder / f"{name}.parquet").metadata[under]) | said
        kept = {field: value for field, value in there.items() if value is not ...}
        _say_bytes([name], under, json.dumps(kept).encode(), folder)


def _say_bytes(names: list[str], under: bytes, said: bytes, folder: Path) -> None:
    for name in names:
        file = folder / f"{name}.parquet"
        table = pq.read_table(file)
        metadata = {**(table.schema.metadata or {}), under: said}
        pq.write_table(table.replace_schema_metadata(metadata), file, write_page_checksum=True)


# --- what the page reads


def all_that_is_shown(folder: Path) -> str:
    """All that the page Corpus reads of a run and of one head, in one text. Raises InputError."""
    run = open_run(folder)
    layer, head = run.heads[-1]
    told: list[Any] = [run.about, run.heads, run.names, run.problems.values.tolist(), run.table.values.tolist()]
    if run.map is not None:
        told += [run.map.heads.to_dict("list"), run.map.clusters, run.map.trustworthiness]
    if run.claims is not None:
        told += [run.claims.values.tolist()]
    told += [table.values.tolist() for table in (run.classes(layer, head), run.distances(layer, head))]
    told += [run.relations(layer, head).values.tolist()]
    names = [name for name in ("previous", "entropy", "sink") if name in run.names]
    for name in names:
        found = run.distribution(layer, head, name)
        told += [found.count, found.mean, found.spread, found.high, found.histogram.tolist(), found.quantile(0.5)]
    sample = run.sample(layer, head)
    for name in names:
        told += [_told(one) for one in run.strongest(layer, head, name)]
        told += [run.count_strongest(layer, head, name)] if name in run.about.examples_of else []
        places = spread_over_quantiles(sample.ordered(name))
        told += [_told(one) for one in sample.examples(places, name)]
    return repr(told)


def _told(one: Any) -> list[Any]:
    values = sorted(one.values.items())
    return [one.score, values, one.query, one.weights.tolist(), one.tokens, one.text, one.file, one.row, one.start]


def outcome(folder: Path, right: str) -> str:
    """ "refused", "as before", or what else became of it."""
    try:
        return "as before" if all_that_is_shown(folder) == right else "other numbers"
    except InputError as error:
        return "refused" if error.field == "run" else f"refused for {error.field}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
