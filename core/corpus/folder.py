"""The folder of a run: job.json and the parts that are done while it is at work, and in the end the finished tables."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from pyarrow import fs

from ..errors import InputError, shown
from ..units import bytes_in_words
from . import parts
from .about import About
from .columns import LAST, file_of
from .reading import is_uri, open_folder, require_address
from .storing import write

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
            parts.put(b"", system, f"{path}/{PARTS}/writable")
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
                parts.put(job.encode(), self.system, f"{self.path}/{JOB}")
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
            for name in parts.names_in(self.system, self.parts):
                try:
                    held.append((parts.passages_in(self.system, self.parts, name), name))
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
