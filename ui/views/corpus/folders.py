"""The folder in which a server keeps texts that visitors run: it goes with the server, or else when the next one starts."""

import atexit
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

from filelock import FileLock

_NAME, _LOCK = "headlight-corpus-", ".lock"


def folder_of_texts() -> Path:
    """The folder of this process, made where it is not there: systems clear folders of temporary files. Raises OSError."""
    place = _place()
    place.mkdir(mode=0o700, exist_ok=True)
    return place


@cache
def _place() -> Path:
    place = Path(tempfile.gettempdir(), f"{_NAME}{uuid4().hex}")
    lock = _lock(place)
    lock.acquire()  # before the folder is there: otherwise another server could take it for one that was left
    atexit.register(_delete, place, lock)
    return place


def delete_left() -> None:
    """Delete the folders of servers that were killed. The system releases the lock of a process that ends."""
    for file in Path(tempfile.gettempdir()).glob(f"{_NAME}*{_LOCK}"):
        lock = _lock(file.with_suffix(""))
        with suppress(OSError):  # of another user, or of a server that runs
            lock.acquire(timeout=0)
            _delete(file.with_suffix(""), lock)


def _lock(place: Path) -> FileLock:
    return FileLock(f"{place}{_LOCK}", thread_local=False)


def _delete(place: Path, lock: FileLock) -> None:
    with suppress(OSError):  # Windows deletes no file that is open
        rmtree(place, ignore_errors=True)
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
