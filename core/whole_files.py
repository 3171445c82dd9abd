"""Files that are read as a whole: only regular ones, no further than allowed, and with what is wrong said in words."""

import os
from stat import S_ISREG

from .errors import InputError, shown

Version = tuple[int, int, int]


def version_of(path: str | os.PathLike[str]) -> Version | None:
    """What changes when a file does; None where nothing can be looked at."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_whole(path: str | os.PathLike[str], most: int, *, field: str = "file") -> bytes:
    """The bytes of a file, at most so many. Raises InputError for a larger one, of which nothing is kept; for a folder, a pipe
    or a device, for which nobody waits; and for what cannot be read."""
    name = shown(os.path.basename(path), 60)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not S_ISREG(status.st_mode):
                raise InputError(f"{name} is a pipe or a device. Give a regular file.", field=field)
            content = b"" if status.st_size > most else file.read(most + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read: {why}. Give a file that is there.", field=field) from error
    if (size := max(status.st_size, len(content))) > most:
        much = f"{size / 1e6:,.1f} MB; at most {most / 1e6:,.0f} MB are read"
        raise InputError(f"{name} has {much}. Give a smaller file.", field=field)
    return content


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no pipes with names of files
