"""The work of a cluster's workers: reading files, and measuring passages. Nothing here knows Ray.

Everything travels as numbers and JSON, since a row of Ray Data is a row of an Arrow table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pyarrow import fs

from ..capturing.capture import capture
from ..capturing.weights_only import attention_weights
from ..errors import InputError
from ..heads.quantities import Taken
from ..models.loading import load_model, load_outline
from ..models.model import Model
from . import parts
from .job import Job, passages_of, text_hash, versions_that_count
from .passages import Passage, faults_of_a_text
from .reading import Files, open_folder
from .settings import RunSettings
from .tally import ModelHeads, Tally
from .texts import Problem

COUNTED = 4096  # passages whose numbers are handed on together
Row = dict[str, Any]

# A model is loaded once a process, whichever of the steps below asks for it.
_outline = lru_cache(maxsize=1)(load_outline)


def count_passages(row: Row, job: Job, files: Files) -> Iterator[Row]:
    """The passages of some files (names as JSON in "item"): their ids, tokens and hashes as bytes, and problems."""
    model = _outline(job.model)
    numbers: list[tuple[int, int, int]] = []
    problems: list[Problem] = []
    for passage in passages_of(files, tuple(json.loads(row["item"])), job, model):
        if isinstance(passage, Problem):
            problems.append(passage)
        else:
            numbers.append((passage.id, _tokens(model, passage.text), text_hash(passage.text)))
        if len(numbers) + len(problems) == COUNTED:
            yield _counted(numbers, problems)
            numbers, problems = [], []
    yield _counted(numbers, problems)


def _tokens(model: Model, text: str) -> int:
    return len(model.tokenizer(text, verbose=False)["input_ids"]) if model.tokenizer else 0


def _counted(numbers: list[tuple[int, int, int]], problems: list[Problem]) -> Row:
    array = np.array(numbers, np.uint64).reshape(-1, 3)
    return {"numbers": array.tobytes(), "problems": json.dumps([asdict(problem) for problem in problems])}


def read_shards(row: Row, job: Job, files: Files, wanted: NDArray[np.uint64], most: int) -> Iterator[Row]:
    """The wanted passages of some files, `most` of them in each row, as JSON in "shard".

    wanted  [passages] ids, sorted
    """
    held: list[Passage] = []
    for passage in passages_of(files, tuple(json.loads(row["item"])), job, _outline(job.model)):
        if isinstance(passage, Passage):
            place = int(np.searchsorted(wanted, np.uint64(passage.id)))
            if place < len(wanted) and int(wanted[place]) == passage.id:
                held.append(passage)
        if len(held) == most:
            yield {"shard": json.dumps([asdict(passage) for passage in held])}
            held = []
    if held:
        yield {"shard": json.dumps([asdict(passage) for passage in held])}


@dataclass(frozen=True)
class Failure:
    """The reason why a worker cannot work: an InputError in a form that travels."""

    message: str
    field: str


class Measurer:
    """Holds a model, and makes of each shard a tally, which it leaves as a file in `folder`.

    threads  with how many it computes; the same number gives the same last bits
    """

    def __init__(self, job: Job, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._job, self._failure = job, None
        try:
            self._system, self._folder = open_folder(folder)
            self._check_folder()
            self._check_versions()
            job.settings.require_metrics()
            self._model = load_model(job.model, dtype=job.settings.dtype, device=job.settings.device)
            self._check_weights()
            self._heads = heads_of(job.settings, self._model)
        except InputError as error:
            self._failure = Failure(str(error), error.field)
        except OSError as error:
            self._failure = Failure(f"A worker cannot use {folder!r}: {error}.", "out")

    def _check_folder(self) -> None:
        if self._system.get_file_info(self._folder).type != fs.FileType.Directory:
            raise InputError(
                f"A worker does not see the folder {self._folder!r}. It has to be one that all machines share, or an "
                f"address of object storage.",
                field="out",
            )

    def _check_versions(self) -> None:
        """Other versions on another machine give other last bits, or do not load the model."""
        wanted, here = self._job.versions, versions_that_count()
        if other := next((name for name in wanted if wanted[name] != here.get(name)), None):
            raise InputError(
                f"A worker has {other} {here.get(other)}, and the run was started with {wanted[other]}. All machines need the "
                f"same versions.",
                field="address",
            )

    def _check_weights(self) -> None:
        """The same name or folder may stand for other weights on another machine."""
        if self._model.revision != self._job.revision:
            raise InputError(
                f"A worker has other weights of {self._model.name} ({self._model.revision}) than where the run was started "
                f"({self._job.revision}). All machines need the same.",
                field="model",
            )

    def __call__(self, rows: Row) -> Row:
        """A batch of one row, {"shard": [JSON]}, to {"failed", "tokens"}."""
        if self._failure is not None:
            return {"failed": [json.dumps(asdict(self._failure))], "tokens": [0]}
        tally = Tally(self._job.settings, self._heads)
        for written in json.loads(rows["shard"][0]):
            passage = parts.read_passage(written)
            try:
                tally.add(passage, self._take(passage.text))
            except InputError as error:
                tally.fail(passage, str(error))
        try:
            parts.save(tally, self._system, self._folder)
        except OSError as error:
            failed = Failure(f"A result could not be written: {error}. Make room and start again: it goes on.", "out")
            return {"failed": [json.dumps(asdict(failed))], "tokens": [0]}
        return {"failed": [""], "tokens": [tally.tokens_read]}

    def _take(self, text: str) -> Taken:
        most = self._job.settings.passage_tokens
        with faults_of_a_text(self._model.name, lambda: take(self._model, "a", most)):
            return take(self._model, text, most)


def take(model: Model, text: str, most: int) -> Taken:
    """One pass over a text of at most `most` tokens: all that the model exposes."""
    if model.captures:
        return capture(model, text, max_tokens=most)
    return attention_weights(model, text, max_tokens=most)


def heads_of(settings: RunSettings, model: Model) -> ModelHeads:
    """The heads of this model that are measured. Raises InputError (field "heads") for heads that it does not have."""
    taken = take(model, "a", settings.passage_tokens)
    kind = taken.kinds[0]
    layers, heads = taken.layers(kind), taken.heads(kind)
    every = tuple((layer, head) for layer in range(layers) for head in range(heads))
    measured = every if settings.heads is None else settings.heads
    if lacking := [place for place in measured if place not in every]:
        layer, head = lacking[0]
        raise InputError(
            f"{model.name} has no head {layer}.{head}: layers run from 0 to {layers - 1}, heads from 0 to {heads - 1}.",
            field="heads",
        )
    return ModelHeads(kind, measured, layers, heads, model.revision)
