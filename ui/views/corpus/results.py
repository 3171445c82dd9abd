"""Finished corpus runs, each opened once for all sessions for as long as its files stay the same."""

from __future__ import annotations

import os
from pathlib import Path

from core.corpus.opened import ListedRun, Run, open_run, runs_in
from ui import settings
from ui.cache import Store, cached
from ui.calls import made_by

Files = tuple[tuple[str | int, ...], ...]  # for each file of a folder, the facts that change with its contents


def corpora() -> Path | None:
    """The folder of finished runs; None where this host has none."""
    named = settings.current().corpora
    return settings.ROOT / named if named else None  # a whole path stays as it is


def listed_runs(folder: Path) -> list[ListedRun]:
    """The runs in a folder, as its files are now. Raises InputError for a folder that cannot be read."""
    try:
        files = tuple(sorted((file.name, file.stat().st_mtime_ns) for file in os.scandir(folder)))
    except OSError:  # no folder, or no permission: `runs_in` says which
        return runs_in(folder)
    return _listed(str(folder), files)


@cached(Store(2))
def _listed(folder: str, _files: Files) -> list[ListedRun]:
    return runs_in(Path(folder))


def corpus_run(name: str) -> Run:
    """The run of this name, as its files are now. Raises InputError as `open_run` does."""
    folder = (corpora() or Path()) / name
    try:
        files = tuple(sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in os.scandir(folder)))
    except OSError:  # gone, or a link that leads nowhere: `open_run` says so
        return open_run(folder)
    return _opened(str(folder), files)


@cached(Store(4))  # each holds a few numbers per head, and the places of its passages
def _opened(folder: str, _files: Files) -> Run:
    return made_by(open_run(Path(folder)), open_run, f"corpora/{Path(folder).name}")
