"""A tally of part of a corpus as one file, so that a long run can be stopped, gone on with and put together.

A file appears whole or not at all. Its name follows from the passages in it, so that the same part done twice is one file.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pyarrow import fs

from .kept import Sample, Strongest
from .passages import Passage
from .relations import Relations
from .sums import ExactSum
from .tally import Settings, Tally
from .texts import Place, Problem, Relation

ENDING = ".npz"
_SUMS = ("totals", "squares", "attention", "chance", "by_distance", "distance_chance")
_COUNTS = ("counts", "histogram", "queries")


def save(tally: Tally, system: fs.FileSystem, folder: str) -> str:
    """Write a tally into a folder; gives the file's name. Raises OSError where there is no room."""
    ids = np.array(sorted(tally.ids), np.uint64)
    name = hashlib.blake2b(ids.tobytes(), digest_size=12).hexdigest() + ENDING
    held = io.BytesIO()
    arrays: dict[str, Any] = _arrays(tally)
    np.savez(held, ids=ids, **arrays)
    put(held.getbuffer(), system, f"{folder}/{name}")
    return name


def put(data: bytes | memoryview, system: fs.FileSystem, path: str) -> None:
    """Write a file under another name first, so that it is never there in half."""
    unfinished = f"{path}.{uuid4().hex}.unfinished"
    with system.open_output_stream(unfinished) as stream:
        stream.write(data)
    system.move(unfinished, path)


def load(system: fs.FileSystem, folder: str, name: str) -> Tally:
    """Read a tally again. Raises OSError, and ValueError for a file that is none."""
    with _opened(system, folder, name) as arrays:
        return _tally(dict(arrays))


def passages_in(system: fs.FileSystem, folder: str, name: str) -> NDArray[np.uint64]:
    """The ids of the passages in a file, without reading the rest of it. Raises as `load` does."""
    with _opened(system, folder, name) as arrays:
        return arrays["ids"]


@contextmanager
def _opened(system: fs.FileSystem, folder: str, name: str) -> Iterator[Mapping[str, NDArray]]:
    try:
        with system.open_input_file(f"{folder}/{name}") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except (EOFError, KeyError, ValueError, BadZipFile) as error:  # a machine whose power fails may leave half a file
        raise ValueError(f"{name} is no tally: {error}") from error


def names_in(system: fs.FileSystem, folder: str) -> list[str]:
    """The files of tallies in a folder, sorted."""
    found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(info.base_name for info in found if info.base_name.endswith(ENDING))


def merged(system: fs.FileSystem, folder: str, names: Sequence[str]) -> str:
    """Put files together to one; gives its name. Those that went into it are deleted afterwards."""
    whole = load(system, folder, names[0])
    for name in names[1:]:
        whole.merge(load(system, folder, name))
    made = save(whole, system, folder)
    for name in names:
        if name != made:
            system.delete_file(f"{folder}/{name}")
    return made


# --- from and to arrays


def _arrays(tally: Tally) -> dict[str, NDArray]:
    found = {name: getattr(tally, name) for name in _COUNTS}
    for name in _SUMS:
        found |= _of_sum(name, getattr(tally, name))
    for table in ("strongest", "sample"):
        rows = tally.strongest.rows if table == "strongest" else tally.sample
        found |= {f"{table}.{one.name}": getattr(rows, one.name) for one in fields(rows)}
    relations = tally.relations
    found |= _of_sum("relations.by_offset", relations.by_offset) | {"relations.pairs": relations.pairs}
    for place, name in enumerate(sorted(relations.attention)):
        found |= _of_sum(f"relations.{place}", relations.attention[name])
    said = {
        "settings": asdict(tally.settings),
        "passages": [asdict(passage) for passage in tally.shown_passages.values()],
        "problems": [asdict(problem) for problem in tally.problems],
        "problem_count": tally.problem_count,
        "tokens_read": tally.tokens_read,
        "relations": sorted(relations.attention),
        "offsets": [[*key, number] for key, number in sorted(relations.offsets.items())],
    }
    return found | {"said": np.frombuffer(json.dumps(said).encode(), np.uint8)}


def _tally(arrays: dict[str, NDArray]) -> Tally:
    said: dict[str, Any] = json.loads(arrays["said"].tobytes())
    settings = _settings(said["settings"])
    tally = Tally.empty(settings)
    for name in _COUNTS:
        setattr(tally, name, arrays[name])
    for name in _SUMS:
        setattr(tally, name, _sum(name, arrays))
    tally.strongest.add(Strongest(*(arrays[f"strongest.{one.name}"] for one in fields(Strongest))))
    tally.sample = Sample(*(arrays[f"sample.{one.name}"] for one in fields(Sample)))
    tally.relations = Relations(
        len(settings.heads),
        _sum("relations.by_offset", arrays),
        arrays["relations.pairs"],
        {name: _sum(f"relations.{place}", arrays) for place, name in enumerate(said["relations"])},
        Counter({(name, offset): number for name, offset, number in said["offsets"]}),
    )
    passages = [read_passage(given) for given in said["passages"]]
    tally.passages = {passage.id: passage for passage in passages}
    tally.ids = set(arrays["ids"].tolist())
    tally.tokens_read, tally.problem_count = said["tokens_read"], said["problem_count"]
    tally.problems = [Problem(Place(**given["place"]), given["why"]) for given in said["problems"]]
    return tally


def _settings(given: dict[str, Any]) -> Settings:
    heads = tuple((layer, head) for layer, head in given["heads"])
    layers, a_layer = given["shape"]
    return Settings(**given | {"heads": heads, "shape": (layers, a_layer), "examples_of": tuple(given["examples_of"])})


def read_passage(given: dict[str, Any]) -> Passage:
    """A passage from what JSON keeps of `dataclasses.asdict`."""
    words = tuple((start, end) for start, end in given["words"])
    relations = tuple(Relation(**relation) for relation in given["relations"])
    return Passage(Place(**given["place"]), given["start"], given["text"], words, relations)


def _of_sum(name: str, one: ExactSum) -> dict[str, NDArray]:
    return {f"{name}.whole": one.whole, f"{name}.part": one.part}


def _sum(name: str, arrays: dict[str, NDArray]) -> ExactSum:
    return ExactSum(arrays[f"{name}.whole"], arrays[f"{name}.part"])
