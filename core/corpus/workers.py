"""What runs on the workers of a cluster: reading files, and measuring passages. Nothing here knows Ray.

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
from .tally import Settings, Tally
from .texts import Problem

COUNTED = 4096  # passages that are told at once
Row = dict[str, Any]

# A model is loaded once a process, whichever of the steps below asks for it.
_outline = lru_cache(maxsize=1)(load_outline)


def count_passages(row: Row, job: Job, files: Files) -> Iterator[Row]:
    """The passages of some files (names as JSON in "item"): their ids, tokens and hashes as bytes, and problems."""
    model = _outline(job.model)
    held: list[tuple[int, int, int]] = []
    problems: list[Problem] = []
    for found in passages_of(files, tuple(json.loads(row["item"])), job, model):
        if isinstance(found, Problem):
            problems.append(found)
        else:
            held.append((found.id, _tokens(model, found.text), text_hash(found.text)))
        if len(held) + len(problems) == COUNTED:
            yield _counted(held, problems)
            held, problems = [], []
    yield _counted(held, problems)


def _tokens(model: Model, text: str) -> int:
    return len(model.tokenizer(text, verbose=False)["input_ids"]) if model.tokenizer else 0


def _counted(held: list[tuple[int, int, int]], problems: list[Problem]) -> Row:
    numbers = np.array(held, np.uint64).reshape(-1, 3)
    return {"numbers": numbers.tobytes(), "problems": json.dumps([asdict(problem) for problem in problems])}


def read_shards(row: Row, job: Job, files: Files, wanted: NDArray[np.uint64], most: int) -> Iterator[Row]:
    """The wanted passages of some files, `most` of them in a row, as JSON in "shard".

    wanted  [passages] ids, sorted
    """
    held: list[Passage] = []
    for found in passages_of(files, tuple(json.loads(row["item"])), job, _outline(job.model)):
        if isinstance(found, Passage):
            place = int(np.searchsorted(wanted, np.uint64(found.id)))
            if place < len(wanted) and int(wanted[place]) == found.id:
                held.append(found)
        if len(held) == most:
            yield {"shard": json.dumps([asdict(passage) for passage in held])}
            held = []
    if held:
        yield {"shard": json.dumps([asdict(passage) for passage in held])}


@dataclass(frozen=True)
class Failed:
    """Why a worker cannot work: an InputError as it travels."""

    message: str
    field: str


class Measurer:
    """Holds a model, and makes of each shard a tally, which it leaves as a file in `folder`.

    threads  with how many it computes; the same number gives the same last bits
    """

    def __init__(self, job: Job, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._job, self._failed = job, None
        try:
            self._system, self._folder = open_folder(folder)
            self._check_folder()
            self._check_versions()
            self._model = load_model(job.model, dtype=job.dtype, device=job.device)
            self._check_weights()
            self._settings = settings_of(job, self._model)
        except InputError as error:
            self._failed = Failed(str(error), error.field)
        except OSError as error:
            self._failed = Failed(f"A worker cannot use {folder!r}: {error}.", "out")

    def _check_folder(self) -> None:
        if self._system.get_file_info(self._folder).type != fs.FileType.Directory:
            raise InputError(
                f"A worker does not see the folder {self._folder!r}. It has to be one that all machines share, or an "
                f"address of object storage.",
                field="out",
            )

    def _check_versions(self) -> None:
        """On another machine of the cluster there may be others, which give other last bits or do not load the model."""
        wanted, here = self._job.versions, versions_that_count()
        if other := next((name for name in wanted if wanted[name] != here.get(name)), None):
            raise InputError(
                f"A worker has {other} {here.get(other)}, and the run was started with {wanted[other]}. All machines need the "
                f"same versions.",
                field="address",
            )

    def _check_weights(self) -> None:
        """A name or a folder may stand for others on another machine."""
        if self._model.revision != self._job.revision:
            raise InputError(
                f"A worker has other weights of {self._model.name} ({self._model.revision}) than where the run was started "
                f"({self._job.revision}). All machines need the same.",
                field="model",
            )

    def __call__(self, rows: Row) -> Row:
        """A batch of one row, {"shard": [JSON]}, to {"failed", "tokens"}."""
        if self._failed is not None:
            return {"failed": [json.dumps(asdict(self._failed))], "tokens": [0]}
        tally = Tally.empty(self._settings)
        for given in json.loads(rows["shard"][0]):
            passage = parts.read_passage(given)
            try:
                tally.add(passage, self._take(passage.text))
            except InputError as error:
                tally.fail(passage, str(error))
        try:
            parts.save(tally, self._system, self._folder)
        except OSError as error:
            failed = Failed(f"A result could not be written: {error}. Make room and start again: it goes on.", "out")
            return {"failed": [json.dumps(asdict(failed))], "tokens": [0]}
        return {"failed": [""], "tokens": [tally.tokens_read]}

    def _take(self, text: str) -> Taken:
        most = self._job.passage_tokens
        with faults_of_a_text(self._model.name, lambda: take(self._model, "a", most)):
            return take(self._model, text, most)


def take(model: Model, text: str, most: int) -> Taken:
    """One pass over a text of at most `most` tokens: all that the model exposes."""
    if model.captures:
        return capture(model, text, max_tokens=most)
    return attention_weights(model, text, max_tokens=most)


def settings_of(job: Job, model: Model) -> Settings:
    """What is kept of this model. Raises InputError (field "heads") for heads that it does not have."""
    taken = take(model, "a", job.passage_tokens)
    kind = taken.kinds[0]
    layers, heads = taken.layers(kind), taken.heads(kind)
    every = tuple((layer, head) for layer in range(layers) for head in range(heads))
    chosen = every if job.heads is None else job.heads
    if lacking := [place for place in chosen if place not in every]:
        layer, head = lacking[0]
        raise InputError(
            f"{model.name} has no head {layer}.{head}: layers run from 0 to {layers - 1}, heads from 0 to {heads - 1}.",
            field="heads",
        )
    return Settings(
        kind,
        chosen,
        job.passage_tokens,
        job.strongest,
        job.sample,
        job.examples_of,
        revision=model.revision,
        shape=(layers, heads),
    )
