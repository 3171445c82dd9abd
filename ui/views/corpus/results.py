"""Corpus runs: finished ones, each opened once for all sessions for as long as its files stay the same, and those over a text
of one's own, each as far as it has come."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import finalize

from core import InputError
from core.corpus.in_process import InProcessRun
from core.corpus.opened import ListedRun, Run, open_run, runs_in
from ui import settings
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import made_by
from ui.requests import RunRequest
from ui.views.corpus.folders import folder_of_texts
from ui.views.sources import models

INCLUDED = Path(__file__).parent / "documentation"  # docs/corpus.md says how it was made
MOST_TOKENS = 200_000  # of a text of one's own: a few minutes for a small model

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


def corpus_run(folder: Path) -> Run:
    """The run in a folder, as its files are now. Raises InputError as `open_run` does."""
    facts = _facts(folder)
    return open_run(folder) if facts is None else _opened(folder, facts)


@cached(Store(4))  # each holds a few numbers per head, and the places of its passages
def _opened(folder: Path, _facts: Facts) -> Run:
    run = open_run(folder)
    if folder == INCLUDED and folder.is_relative_to(settings.ROOT):
        return made_by(run, open_run, folder.relative_to(settings.ROOT).as_posix())
    return made_by(run, open_run, f"corpora/{folder.name}") if folder.parent == corpora() else run


@cached(MEMORY)
def own_run(request: RunRequest, *, on_progress: OnProgress | None = None) -> InProcessRun:
    """The run over a text of one's own, as far as it has come. Whoever gives the same text finds it there, and nobody else.

    Its folder is a temporary one of this host, and goes with it. Raises InputError as `InProcessRun` does.
    """
    with ExitStack() as stack:
        try:
            place = Path(stack.enter_context(TemporaryDirectory(dir=folder_of_texts())))
            file = place / request.name
            file.write_bytes(request.contents)
        except OSError as error:
            raise InputError(f"The text cannot be kept on this host: {error.strerror}.", field="data") from error
        most = models.longest_text(MOST_TOKENS) or MOST_TOKENS
        run = InProcessRun(models.load(request.model), file, place / "run", most, on_progress)
        finalize(run, stack.pop_all().close)
    return run
