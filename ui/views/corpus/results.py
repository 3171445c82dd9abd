"""Finished corpus runs, each opened once for all sessions for as long as its files stay the same."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from core.corpus.opened import ListedRun, Run, open_run, runs_in
from ui import settings
from ui.cache import Store, cached
from ui.calls import made_by

Facts = tuple[tuple[str, int, int], ...]


def corpora() -> Path | None:
    """The folder of finished runs; None where this host has none."""
    named = settings.current().corpora
    return settings.ROOT / named if named else None  # a whole path stays as it is


def _facts(folder: Path) -> Facts | None:
    """For each file in a folder what changes with its contents: name, time, size; None for a folder that cannot be read."""
    with suppress(OSError):
        return tuple(sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in os.scandir(folder)))
    return None


def listed_runs(folder: Path) -> list[ListedRun]:
    """The runs in a folder, as its files are now. Raises InputError for a folder that cannot be read."""
    facts = _facts(folder)
    return runs_in(folder) if facts is None else _listed(str(folder), facts)


@cached(Store(2))
def _listed(folder: str, _facts: Facts) -> list[ListedRun]:
    return runs_in(folder)


def corpus_run(name: str) -> Run:
    """The run of this name, as its files are now. Raises InputError as `open_run` does."""
    folder = (corpora() or Path()) / name
    facts = _facts(folder)
    return open_run(folder) if facts is None else _opened(str(folder), facts)


@cached(Store(4))  # each holds a few numbers per head, and the places of its passages
def _opened(folder: str, _facts: Facts) -> Run:
    return made_by(open_run(folder), open_run, f"corpora/{Path(folder).name}")
