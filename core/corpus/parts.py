"""Parts: the tally of some passages as one file, so that a long run can be stopped, continued and merged.

A file appears whole or not at all. Its name follows from its passages, so that a part measured twice is one file.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pyarrow import fs

from .kept import rows_of
from .relations import Relations
from .settings import RunSettings
from .sums import ExactSum
from .tally import COUNTS, SUMS, ModelHeads, Tally
from .texts import Location, Passage, Problem, Relation

ENDING = ".npz"


def save(tally: Tally, system: fs.FileSystem, folder: str) -> str:
    """Write a tally into a folder; return the file's name. Raises OSError if there is no room."""
    ids = np.array(sorted(tally.ids), np.uint64)
    name = hashlib.blake2b(ids.tobytes(), digest_size=12).hexdigest() + ENDING
    buffer = io.BytesIO()
    arrays: dict[str, Any] = _arrays(tally)
    np.savez(buffer, ids=ids, **arrays)
    put(buffer.getbuffer(), system, f"{folder}/{name}")
    return name


def put(data: bytes | memoryview, system: fs.FileSystem, path: str) -> None:
    """Write a file, first under another name, so that no half of it is ever there."""
    unfinished = f"{path}.{uuid4().hex}.unfinished"
    with system.open_output_stream(unfinished) as stream:
        stream.write(data)
    system.move(unfinished, path)


def load(system: fs.FileSystem, folder: str, name: str, *others: str) -> Tally:
    """Read one tally, or several and add them up. Raises OSError, and ValueError for any other file."""
    with _opened(system, folder, name) as arrays:
        tally = _tally(dict(arrays))
    for other in others:
        tally.merge(load(system, folder, other))
    return tally


def merged(system: fs.FileSystem, folder: str, names: Sequence[str]) -> str:
    """Merge files into one, then delete them; return the name of the merged file."""
    made = save(load(system, folder, *names), system, folder)
    for name in names:
        if name != made:
            system.delete_file(f"{folder}/{name}")
    return made


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
        raise ValueError(f"{name} is not a tally: {error}") from error


def names_in(system: fs.FileSystem, folder: str) -> list[str]:
    """The files of the parts in a folder, sorted."""
    files = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(file.base_name for file in files if file.base_name.endswith(ENDING))


# --- from and to arrays


def _arrays(tally: Tally) -> dict[str, NDArray]:
    arrays = {name: getattr(tally, name) for name in COUNTS}
    relations = tally.relations
    sums = {name: getattr(tally, name) for name in SUMS} | {"relations.by_offset": relations.by_offset}
    sums |= {
        f"relations.{number}": relations.attention[name] for number, name in enumerate(sorted(relations.attention))
    }
    for name, total in sums.items():
        arrays |= {f"{name}.whole": total.whole, f"{name}.part": total.part}
    for table, rows in (("strongest", tally.strongest.rows), ("sample", tally.sample.rows)):
        arrays |= {f"{table}.{name}": rows[name] for name in rows.dtype.names or ()}
    rest = {
        "settings": asdict(tally.settings),
        "heads": asdict(tally.heads),
        "passages": [asdict(passage) for passage in tally.shown_passages.values()],
        "problems": [asdict(problem) for problem in tally.problems],
        "problem_count": tally.problem_count,
        "tokens_read": tally.tokens_read,
        "relations": sorted(relations.attention),
        "offsets": [[*key, number] for key, number in sorted(relations.offsets.items())],
    }
    return arrays | {"relations.pairs": relations.pairs, "rest": np.frombuffer(json.dumps(rest).encode(), np.uint8)}


def _tally(arrays: dict[str, NDArray]) -> Tally:
    rest: dict[str, Any] = json.loads(arrays["rest"].tobytes())
    measured = tuple((layer, head) for layer, head in rest["heads"]["measured"])
    tally = Tally(RunSettings.read(rest["settings"]), ModelHeads(**rest["heads"] | {"measured": measured}))
    for name in COUNTS:
        setattr(tally, name, arrays[name])
    for name in SUMS:
        setattr(tally, name, _sum(name, arrays))
    tally.strongest.extend(_rows("strongest", tally.strongest.rows.dtype, arrays))
    tally.sample.extend(_rows("sample", tally.sample.dtype, arrays))
    tally.relations = Relations(
        _sum("relations.by_offset", arrays),
        arrays["relations.pairs"],
        {name: _sum(f"relations.{number}", arrays) for number, name in enumerate(rest["relations"])},
        Counter({(name, offset): number for name, offset, number in rest["offsets"]}),
    )
    passages = [read_passage(written) for written in rest["passages"]]
    tally.passages = {passage.id: passage for passage in passages}
    tally.ids = set(arrays["ids"].tolist())
    tally.tokens_read, tally.problem_count = rest["tokens_read"], rest["problem_count"]
    tally.problems = [read_problem(written) for written in rest["problems"]]
    return tally


def _rows(table: str, dtype: np.dtype, arrays: dict[str, NDArray]) -> NDArray[np.void]:
    return rows_of(dtype, **{name: arrays[f"{table}.{name}"] for name in dtype.names or ()})


def _sum(name: str, arrays: dict[str, NDArray]) -> ExactSum:
    return ExactSum(arrays[f"{name}.whole"], arrays[f"{name}.part"])


def read_passage(written: dict[str, Any]) -> Passage:
    """A passage from the JSON form of `dataclasses.asdict`."""
    words = tuple((start, end) for start, end in written["words"])
    relations = tuple(Relation(**relation) for relation in written["relations"])
    return Passage(Location(**written["place"]), written["start"], written["text"], words, relations)


def read_problem(written: dict[str, Any]) -> Problem:
    """A problem from the JSON form of `dataclasses.asdict`."""
    return Problem(Location(**written["place"]), written["why"])
