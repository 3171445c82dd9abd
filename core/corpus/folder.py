"""The folder of a run: job.json and the parts that are done while it is at work, and in the end the finished tables.

A part is the tally of some passages as one file, so that a long run can be stopped, continued and merged. A file appears whole
or not at all. Its name follows from its passages, so that a part measured twice is one file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from pyarrow import fs

from ..averages import ExactSum
from ..claims import shares as claims
from ..errors import InputError, shown
from ..models.passages import Location, Passage, Problem, Relation
from ..units import bytes_in_words
from .reading import is_uri, open_folder, require_address
from .settings import RunSettings
from .sums import rows_of
from .tables import LAST, About, file_of, write
from .tally import COUNTS, SUMS, ModelHeads, Tally

ENDING = ".npz"


def save_part(tally: Tally, system: fs.FileSystem, folder: str) -> str:
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


def load_parts(system: fs.FileSystem, folder: str, name: str, *others: str) -> Tally:
    """Read one tally, or several and add them up. Raises OSError, and ValueError for any other file."""
    with _opened(system, folder, name) as arrays:
        tally = _tally(dict(arrays))
    for other in others:
        tally.merge(load_parts(system, folder, other))
    return tally


def merge_parts(system: fs.FileSystem, folder: str, names: Sequence[str]) -> str:
    """Merge files into one, then delete them; return the name of the merged file."""
    made = save_part(load_parts(system, folder, *names), system, folder)
    for name in names:
        if name != made:
            system.delete_file(f"{folder}/{name}")
    return made


@contextmanager
def _opened(system: fs.FileSystem, folder: str, name: str) -> Iterator[Mapping[str, NDArray]]:
    try:
        with system.open_input_file(f"{folder}/{name}") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except (EOFError, KeyError, ValueError, BadZipFile) as error:  # a machine whose power fails may leave half a file
        raise ValueError(f"{name} is not a tally: {error}") from error


def parts_in(system: fs.FileSystem, folder: str) -> list[str]:
    """The files of the parts in a folder, sorted."""
    files = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(file.base_name for file in files if file.base_name.endswith(ENDING))


# --- from and to arrays


def _summed(tally: Tally) -> Iterator[tuple[Any, str, Sequence[str], Sequence[str]]]:
    """What has arrays and sums, how their names begin in a file, and their names."""
    yield tally, "", COUNTS, SUMS
    yield tally.relations, "relations.", ("pairs",), ("by_offset",)
    if tally.claims is not None:
        yield tally.claims, "claims.", claims.COUNTS, claims.SUMS


def _arrays(tally: Tally) -> dict[str, NDArray]:
    relations = tally.relations
    names = sorted(relations.attention)
    arrays, sums = {}, {f"relations.{number}": relations.attention[name] for number, name in enumerate(names)}
    for of, begin, counts, totals in _summed(tally):
        arrays |= {begin + name: getattr(of, name) for name in counts}
        sums |= {begin + name: getattr(of, name) for name in totals}
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
        "relations": names,
        "offsets": [[*key, number] for key, number in sorted(relations.offsets.items())],
    }
    return arrays | {"rest": np.frombuffer(json.dumps(rest).encode(), np.uint8)}


def _tally(arrays: dict[str, NDArray]) -> Tally:
    rest: dict[str, Any] = json.loads(arrays["rest"].tobytes())
    measured = tuple((layer, head) for layer, head in rest["heads"]["measured"])
    tally = Tally(RunSettings.read(rest["settings"]), ModelHeads(**rest["heads"] | {"measured": measured}))
    for of, begin, counts, totals in _summed(tally):
        for name in counts:
            setattr(of, name, arrays[begin + name])
        for name in totals:
            setattr(of, name, _sum(begin + name, arrays))
    tally.strongest.extend(_rows("strongest", tally.strongest.rows.dtype, arrays))
    tally.sample.extend(_rows("sample", tally.sample.dtype, arrays))
    relations = tally.relations
    relations.attention = {name: _sum(f"relations.{number}", arrays) for number, name in enumerate(rest["relations"])}
    relations.offsets = Counter({(name, offset): number for name, offset, number in rest["offsets"]})
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
    return Passage(
        Location(**written["place"]), written["start"], written["text"], words, relations, tuple(written["tags"])
    )


def read_problem(written: dict[str, Any]) -> Problem:
    """A problem from the JSON form of `dataclasses.asdict`."""
    return Problem(Location(**written["place"]), written["why"])


PARTS, JOB, RUNNING = "parts", "job.json", "running.lock"
_refusal = partial(InputError, field="out")


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run in progress. address: absolute where it is local"""

    address: str
    system: fs.FileSystem
    path: str

    @classmethod
    def of(cls, out: str) -> RunFolder:
        """Make the folder. Raises InputError (field "out") if that fails or the folder holds a finished run."""
        require_address(out, "out")
        address = out if is_uri(out) else str(Path(out).expanduser().absolute())
        try:
            system, path = open_folder(address)
            folder = cls(address, system, path)
            if folder._has(file_of(LAST)):
                raise _refusal(f"There is a finished run in {out!r}. Choose another folder, or delete it.")
            system.create_dir(f"{path}/{PARTS}", recursive=True)
            put(b"", system, f"{path}/{PARTS}/writable")
            system.delete_file(f"{path}/{PARTS}/writable")
        except (OSError, pa.ArrowException) as error:
            raise _refusal(f"{out!r} cannot be written to: {error}. Choose another folder.") from error
        return folder

    @property
    def parts(self) -> str:
        return f"{self.path}/{PARTS}"

    @property
    def parts_address(self) -> str:
        return f"{self.address}/{PARTS}"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder, so that no other run works in it. The system takes the lock from a holder that dies.

        Raises InputError (field "out"), which names the other run, if the folder is locked. On object storage, and on file
        systems without locks, nothing is locked.
        """
        file = Path(self.path, RUNNING)
        lock = FileLock(file, fallback_to_soft=False)
        try:
            if isinstance(self.system, fs.LocalFileSystem):
                lock.acquire(blocking=False)
        except Timeout:
            why = f"Another run is at work in {self.address!r}: {_holder(file)}."
            raise _refusal(f"{why} Wait until it has ended, or choose another folder.") from None
        except OSError:
            pass  # no locks there
        try:
            with suppress(OSError):
                now = datetime.now().astimezone().isoformat(" ", "seconds")
                if lock.is_locked:
                    file.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now}", "utf-8")
            yield
        finally:
            with suppress(OSError):
                if lock.is_locked:
                    file.unlink()  # before the lock is released: whoever opened the file meanwhile sees that it is gone
            lock.release()

    def begin(self, job: str, bytes_needed: int) -> None:
        """Write job.json. Raises InputError (field "out") where another run has begun, or there is no room."""
        with self.in_words():
            if not self._has(JOB):
                put(job.encode(), self.system, f"{self.path}/{JOB}")
            with self.system.open_input_stream(f"{self.path}/{JOB}") as stream:
                begun = stream.read().decode(errors="replace")
        if begun != job:
            raise _refusal(
                f"In {self.address!r} another run has been begun, with {_differences(begun, job)}. Continue that one, or "
                f"choose another folder."
            )
        if isinstance(self.system, fs.LocalFileSystem):
            free = shutil.disk_usage(self.path).free
            if free < bytes_needed:
                raise _refusal(
                    f"{self.address!r} needs about {bytes_in_words(bytes_needed)} of room, and {bytes_in_words(free)} are "
                    f"free. Make room, or keep fewer examples."
                )

    def left(self, wanted: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The wanted passages, given as sorted ids, that are in no part yet: ids, sorted.

        Deletes parts that an earlier start has left behind between two steps: of parts with passages in common all but the
        largest, and those of which only half is there. Raises InputError (field "out").
        """
        held, done = [], np.empty(0, np.uint64)
        with self.in_words():
            for name in parts_in(self.system, self.parts):
                try:
                    with _opened(self.system, self.parts, name) as arrays:  # of which only the ids are read
                        held.append((arrays["ids"], name))
                except FileNotFoundError:
                    continue  # a cluster may still be putting parts together for a driver that has died
                except ValueError:
                    self.system.delete_file(f"{self.parts}/{name}")
            for ids, name in sorted(held, key=lambda part: (-len(part[0]), part[1])):
                if np.isin(ids, done).any() or not np.isin(ids, wanted).all():
                    self.system.delete_file(f"{self.parts}/{name}")
                else:
                    done = np.union1d(done, ids)
        return np.setdiff1d(wanted, done)

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Raise InputError (field "out") for whatever keeps the folder from being read or written; what is done stays."""
        try:
            yield
        except (OSError, ValueError, pa.ArrowException) as error:
            why = str(error).strip().splitlines()[-1:] or [type(error).__name__]  # the last line, where a worker met it
            raise _refusal(
                f"{self.address!r} cannot be used: {why[0][:300].rstrip('. ')}. What has been measured stays: start again, it "
                f"continues. A file that is named here can be deleted; what it held is measured again."
            ) from error

    def finish(self, tables: Iterable[tuple[str, pa.Table]], about: About) -> None:
        """Write the tables, which come with `LAST` last, and delete what they were made from.

        Raises InputError (field "out") if that fails; what was measured stays.
        """
        try:
            for name, table in tables:
                unfinished = f"{self.path}/{name}.unfinished"
                write(table, self.system, unfinished, about)
                self.system.move(unfinished, f"{self.path}/{file_of(name)}")
        except (OSError, pa.ArrowException) as error:
            raise _refusal(
                f"The tables could not be written to {self.address!r}: {error}. Make room and start again: nothing has to be "
                f"measured again."
            ) from error
        self.system.delete_dir(self.parts)
        self.system.delete_file(f"{self.path}/{JOB}")

    def _has(self, name: str) -> bool:
        return self.system.get_file_info(f"{self.path}/{name}").type == fs.FileType.File


def _holder(file: Path) -> str:
    """The holder of a lock, as it has described itself in the file."""
    try:
        return shown(file.read_text("utf-8")) or "it has just begun"
    except (OSError, ValueError):
        return "which one cannot be read"


def _differences(begun: str, job: str) -> str:
    """What differs between the run that was begun and the one that is asked for, with both values."""
    try:
        there, here = json.loads(begun), json.loads(job)
        if there.keys() != here.keys():
            return f"a {JOB} that another version of Headlight has written"
        return "; ".join(f"{name} {there[name]} (here {here[name]})" for name in here if there[name] != here[name])
    except (ValueError, AttributeError):
        return f"a {JOB} that cannot be read"
