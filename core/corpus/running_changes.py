"""What changed in a copy of a model over a whole corpus: Ray Data hands the passages to workers that hold both models.

The result does not depend on how it does so: what workers add up is exact, and which half of the corpus a passage belongs to
follows from where it stands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy
from ray.exceptions import RayError

from ..errors import InputError, first_line
from ..models.loading import load_model, load_outline, model_revision
from .changes import HALVES, Changes, Pair
from .folder import read_passage
from .passages import By, Passage, faults_of_a_text
from .reading import Files, find_files, is_uri, require_address
from .running import (
    RETRIES,
    Pool,
    Progress,
    groups_of,
    on_ray,
    require_memory,
    require_pool,
    run_there,
    take_census,
)
from .settings import Job, RunSettings, versions_that_count
from .workers import Row, fitted, limited, read_shards, require_versions, require_weights


def run_changes(
    base: str,
    copy: str,
    data: str,
    *,
    column: str = RunSettings.column,
    by: By = RunSettings.by,
    tokens: int | None = RunSettings.tokens,
    passage_tokens: int = RunSettings.passage_tokens,
    dtype: str = RunSettings.dtype,
    copy_dtype: str = RunSettings.dtype,
    device: str = RunSettings.device,
    address: str | None = None,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> Changes:
    """Compare every head of a model with the same head of a copy of it, over a corpus (`core.corpus.changes`).

    base, copy   as for `load_model`: names or folders, which every machine has to have
    dtype, copy_dtype  of the weights of each
    All other arguments, and the errors, are those of `core.corpus.running.run`; field "copy" for a copy that does not open.
    """
    require_address(base, "base")
    require_address(copy, "copy")
    require_pool(workers, cpus, gpus)
    settings = RunSettings(
        column=column, by=by, tokens=tokens, passage_tokens=passage_tokens, dtype=dtype, device=device
    )
    settings.validate()
    replace(settings, dtype=copy_dtype).validate()
    pool = Pool(workers or 0, cpus, gpus)
    begin = partial(_run, base, copy, copy_dtype, data, settings, pool)
    if address is not None and address.startswith("ray://"):
        with on_ray(address, pool):
            return run_there(begin, on_progress)
    return begin(address, on_progress)


@dataclass(frozen=True)
class _Copy:
    """The copy as workers load it; `Job` says the same of the base."""

    name: str
    dtype: str
    revision: str


def _run(
    base: str,
    copy: str,
    copy_dtype: str,
    data: str,
    settings: RunSettings,
    pool: Pool,
    address: str | None,
    on_progress: Callable[[Progress], None],
) -> Changes:
    """A run that is driven from this process: arguments as those of `run_changes`."""
    on_progress(Progress("Looking for files"))
    files = find_files(data)
    folder = files.folder if is_uri(files.folder) else os.path.abspath(files.folder)
    base, copy = (os.path.abspath(name) if os.path.isdir(name) else name for name in (base, copy))
    for name in (base, copy):
        settings = fitted(settings, load_outline(name))
    job = Job(base, model_revision(base), folder, versions_that_count(), settings)
    with on_ray(address, pool) as pool:
        require_memory([(base, settings.dtype), (copy, copy_dtype)], 0, pool.size)
        on_progress(Progress("Counting the passages"))
        census, _, unread = take_census(files, job)
        wanted = limited(census, settings.tokens)
        changes = _measured(job, _Copy(copy, copy_dtype, model_revision(copy)), files, wanted, pool, on_progress)
    changes.unread += unread
    return changes


def _measured(
    job: Job,
    copy: _Copy,
    files: Files,
    wanted: NDArray[np.void],
    pool: Pool,
    on_progress: Callable[[Progress], None],
) -> Changes:
    """The changes over the passages of a sorted census."""
    whole = int(wanted["tokens"].sum())
    on_progress(Progress("Starting the workers", 0, whole))
    reading = partial(read_shards, job=job, wanted=wanted["id"], most=pool.shard(len(wanted)))
    measured = (
        groups_of(files)
        .flat_map(reading, num_cpus=0)
        .map_batches(
            _Comparer,
            fn_constructor_args=(job, copy, max(1, round(pool.cpus))),
            batch_size=1,
            compute=ActorPoolStrategy(size=pool.size),
            num_cpus=pool.cpus,
            num_gpus=pool.gpus,
            max_task_retries=RETRIES,
        )
    )
    changes: Changes | None = None
    try:
        for row in measured.iter_rows():
            if row["failed"]:
                raise InputError(**json.loads(row["failed"]))
            part = Changes.from_bytes(row["changes"])
            if changes is not None:
                part.merge(changes)
            changes = part
            on_progress(Progress("Comparing", changes.tokens, whole))
    except RayError as error:
        raise InputError(f"The workers ended: {first_line(error)}. Start again with fewer.", field="workers") from error
    if changes is None:
        raise InputError("There is no text in it.", field="data")
    return changes


class _Comparer:
    """Holds a model and its copy, and makes of each shard the changes over its passages. threads: with how many it computes"""

    def __init__(self, job: Job, copy: _Copy, threads: int) -> None:
        torch.set_num_threads(threads)
        self._failure = ""
        settings = job.settings
        try:
            require_versions(job.versions)
            base = load_model(job.model, dtype=settings.dtype, device=settings.device)
            other = load_model(copy.name, dtype=copy.dtype, device=settings.device)
            require_weights(base, job.revision)
            require_weights(other, copy.revision)
            self._pair = Pair(base, other)
            self._pair.changes()  # raises for models of different shapes, before any passage
        except InputError as error:
            self._failure = json.dumps({"message": str(error), "field": error.field})

    def __call__(self, rows: Row) -> Row:
        """A batch of one row, {"shard": [JSON]}, to {"failed", "changes"}; failed: the arguments of an InputError as JSON."""
        if self._failure:
            return {"failed": [self._failure], "changes": [b""]}
        changes = self._pair.changes()
        self._add(changes, map(read_passage, json.loads(rows["shard"][0])))
        return {"failed": [""], "changes": [changes.to_bytes()]}

    def _add(self, changes: Changes, passages: Iterable[Passage]) -> None:
        for passage in passages:
            half = passage.id % HALVES  # as good as drawn at random
            try:
                with faults_of_a_text("The models", lambda: self._pair.tokens("a")):
                    self._pair.add(changes, passage.text, half)
            except InputError:
                changes.unread += 1


def as_json(changes: Changes, base: str, copy: str) -> dict[str, Any]:
    """What the command writes: names, what was read, the losses in nats a token, and the rows of the table (null for NaN)."""
    rows = changes.table().astype(object)
    loss = changes.loss
    return {
        "base": base,
        "copy": copy,
        **{name: getattr(changes, name) for name in ("passages", "tokens", "unlike", "unread")},
        "loss": None if loss is None else {"base": loss[0], "copy": loss[1]},
        "heads": rows.where(rows.notna(), None).to_dict("records"),
        "versions": versions_that_count(),
    }
