"""A run in this process, without Ray: some passages at a time, whenever somebody asks for more.

A worker of `core.corpus.running` measures passages with the same function, and both put the tables together in the same way. So
the tables are those that the command makes of the same file, to the last bit.
"""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..models.model import Model
from ..models.passages import Passage, Problem, counter
from ..progress import OnProgress, held
from ..threads import one_thread
from ..versions import versions
from .folder import RunFolder
from .settings import Job, RunSettings, versions_that_count
from .tables import About
from .tally import Tally, first_of
from .workers import (
    CENSUS,
    bytes_kept,
    census_row,
    corpus_hash,
    finished_tables,
    fitted,
    heads_of,
    in_order,
    measure,
    passages_of,
)

AT_ONCE = 4  # passages that are measured at once: about a third of a second with all-MiniLM-L6-v2

TOLD = 64  # passages between two reports of how many characters are counted


class InProcessRun:
    """A run over a file of text, as far as it has come. Threads may share it.

    settings  those of the command without any flag; passages are no longer than the model reads
    tokens    how many there are in all passages
    total     how many passages there are
    folder    of the tables, once `about` is there
    may_pause  always: nothing is drawn before the end, and a visitor may ask for the rest at any time
    about     the record of the run; None until it has finished
    nbytes    about how much memory it takes while it is at work
    """

    may_pause = True

    def __init__(
        self, model: Model, file: Path, folder: Path, most_tokens: int, on_progress: OnProgress | None = None
    ) -> None:
        """Count the tokens of a file, at most so many, and begin a run over it. The folder is made.

        on_progress  called now and then with how many characters have been counted

        Raises InputError: field "model" for a model that reads no texts, "data" for a file without text or with more tokens,
        "out" for a folder that cannot be used.
        """
        self.settings = fitted(RunSettings(dtype=model.dtype), model)
        self._job = Job(model.name, model.revision, str(file.parent), versions_that_count(), self.settings)
        self._model, self._file = model, file
        self._passages, self._problems, census = self._read(most_tokens, on_progress)
        self._corpus = corpus_hash(in_order(census, self._problems, len(self._problems)))
        self._reached = np.concatenate([[0], census["tokens"].cumsum()])  # tokens before each passage
        self.tokens, self.total = int(self._reached[-1]), len(self._passages)
        kept = bytes_kept(self.settings, model)
        self.nbytes = 4 * kept  # it is held several times while it is put in order and written
        self._heads = heads_of(self.settings, model)
        self._place = RunFolder.of(str(folder))
        self._place.begin(self._job.json(self._corpus), kept)
        self.folder = folder
        self.about: About | None = None
        self._began, self._lock = time.monotonic(), Lock()
        self._begin()

    def _read(
        self, most_tokens: int, on_progress: OnProgress | None
    ) -> tuple[list[Passage], list[Problem], NDArray[np.void]]:
        passages, problems, rows, tokens = [], [], [], 0
        count = counter(self._model)
        for found in passages_of([self._file.name], self._job, self._model):
            if isinstance(found, Problem):
                problems.append(found)
                continue
            passages.append(found)
            rows.append(census_row(found, count))
            tokens += rows[-1][1]
            if tokens > most_tokens:  # the rest is not even read: a text may be far longer
                raise InputError(
                    f"The text has more than {most_tokens:,} tokens for {self._model.name}. Shorten it, or run it with the "
                    "command “python -m core.corpus run”, which reads any number.",
                    field="data",
                )
            if on_progress is not None and len(passages) % TOLD == 0:
                on_progress(found.start + len(found.text))
        return passages, problems, np.array(rows, CENSUS)

    def _begin(self) -> None:
        """Begin the tally, with nothing measured."""
        self._tally, self._measured = Tally(self.settings, self._heads), 0
        self._tally.note(first_of(self._problems), len(self._problems))

    @property
    def done(self) -> int:
        """The passages that are measured. The last one counts when the tables are there."""
        return self._measured - (self._measured == self.total and self.about is None)

    @property
    def share(self) -> float:
        """The share of all tokens that is measured."""
        return float(self._reached[self._measured] / self.tokens)

    def go_on(self) -> bool:
        """Measure some more passages; after the last one, write the tables. False if nothing is left to do.

        Raises InputError (field "out") where the tables cannot be written; the next call tries it again.
        """
        with held(self._lock):
            if self.about is not None:
                return False
            with one_thread():
                for passage in self._passages[self._measured : self._measured + AT_ONCE]:
                    try:
                        measure([passage], self._model, self._tally)
                    except Exception:
                        self._begin()  # the passage may be half counted
                        raise
                    self._measured += 1
            if self._measured == self.total:
                self._finish()
            return True

    def _finish(self) -> None:
        about = About.of(
            self._tally,
            self._model,
            data=self._file.name,
            files=1,
            corpus=self._corpus,
            versions=versions("torch", "transformers", "numpy"),
            seconds=time.monotonic() - self._began,
        )
        self._place.finish(finished_tables(self._tally, self._model), about)
        self.about = about
        del self._tally, self._passages, self._model  # all that is large
