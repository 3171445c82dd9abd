"""What changed in a copy of a model over a whole corpus: Ray Data hands the passages to workers that hold both models.

The result does not depend on how it does so: what workers add up is exact, and which half of the corpus a passage belongs to
follows from where it stands. What is compared so far is kept in a folder beside the file of the result, so that a run that was
stopped continues.
"""

import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.exceptions import RayError

from ..errors import InputError, first_line
from ..models.loading import load_model, load_outline, model_revision
from ..models.passages import By, Passage, faults_of_a_text
from ..record_pass import name_alone
from .changes import HALVES, Changes, Pair
from .folder import RunFolder, parts_in, put, read_passage
from .reading import Files, find_files, is_uri, require_address
from .running import Pool, Progress, begin, on_ray, on_workers, require_memory, require_pool, take_census
from .settings import Job, RunSettings, versions_that_count
from .steps import Row, corpus_hash, fitted, limited, require_versions, require_weights

UNFINISHED = ".unfinished"  # at the end of the name of the folder, which stays until the file is there
KEPT = "compared.npz"  # the file in it, which is written anew every so many seconds
KEPT_AFTER = 5


def run_changes(
    base: str,
    copy: str,
    data: str,
    out: str,
    *,
    swap: Sequence[tuple[int, int]] = (),
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
    out          the file for the numbers, in JSON
    swap         heads (layer, head) that are given back what they give in the base, each alone, to measure the loss
    dtype, copy_dtype  of the weights of each
    All other arguments, and the errors, are those of `core.corpus.running.run`; field "copy" for a copy that does not open.

    A run that was stopped continues when it is called again with the same arguments and file.
    """
    require_address(out, "out")
    require_address(base, "base")
    require_address(copy, "copy")
    require_pool(workers, cpus, gpus)
    settings = RunSettings(
        column=column, by=by, tokens=tokens, passage_tokens=passage_tokens, dtype=dtype, device=device
    )
    settings.validate()
    replace(settings, dtype=copy_dtype).validate()
    pool = Pool(workers or 0, cpus, gpus)
    work = partial(_run, base, copy, copy_dtype, data, out, tuple(swap), settings, pool)
    return begin(work, address, pool, on_progress)


@dataclass(frozen=True)
class _Copy:
    """The copy as workers load it; `Job` says the same of the base. swap: the heads that are swapped back"""

    name: str
    dtype: str
    revision: str
    swap: tuple[tuple[int, int], ...]


def _run(
    base: str,
    copy: str,
    copy_dtype: str,
    data: str,
    out: str,
    swap: tuple[tuple[int, int], ...],
    settings: RunSettings,
    pool: Pool,
    address: str | None,
    on_progress: Callable[[Progress], None],
) -> Changes:
    """A run that is driven from this process: arguments as those of `run_changes`."""
    on_progress(Progress("Looking for files"))
    files = find_files(data)
    folder = files.folder if is_uri(files.folder) else os.path.abspath(files.folder)
    models = [os.path.abspath(name) if os.path.isdir(name) else name for name in (base, copy)]
    for name in models:
        settings = fitted(settings, load_outline(name))
    job = Job(models[0], model_revision(models[0]), folder, versions_that_count(), settings)
    other = _Copy(models[1], copy_dtype, model_revision(models[1]), swap)
    place = RunFolder.of(out + UNFINISHED)
    with place.alone(), on_ray(address, pool) as pool:
        require_memory([(job.model, settings.dtype), (other.name, copy_dtype)], 0, pool.size)
        on_progress(Progress("Counting the passages"))
        census, _, unread = take_census(files, job)
        wanted = limited(census, settings.tokens)
        whole = int(wanted["tokens"].sum())
        place.begin(_begun(job, other, corpus_hash(wanted)), 0)
        left, changes = place.left(wanted["id"]), _kept(place)
        if len(left):
            on_progress(Progress("Starting the workers", 0 if changes is None else changes.tokens, whole))
            with closing(_compared(job, other, files, left, pool, changes, place)) as parts:
                for changes in parts:
                    on_progress(Progress("Comparing", changes.tokens, whole))
        if changes is None:
            raise InputError("There is no text in it.", field="data")
        changes.unread += unread
        written = json.dumps(as_json(changes, base, copy), indent=1)
        with place.in_words():
            put(written.encode(), place.system, place.path.removesuffix(UNFINISHED))
    with place.in_words():
        place.system.delete_dir(place.path)
    return changes


def _begun(job: Job, copy: _Copy, corpus: str) -> str:
    """The text of job.json."""
    facts = {"copy": name_alone(copy.name), "copy_dtype": copy.dtype, "copy_revision": copy.revision, "swap": copy.swap}
    return json.dumps(json.loads(job.json(corpus)) | facts, sort_keys=True, indent=1)


def _kept(folder: RunFolder) -> Changes | None:
    """What an earlier start has compared; None if that is nothing. Raises InputError (field "out")."""
    with folder.in_words():
        if KEPT not in parts_in(folder.system, folder.parts):
            return None
        with folder.system.open_input_file(f"{folder.parts}/{KEPT}") as file:
            return Changes.from_bytes(file.read())


def _keep(changes: Changes | None, folder: RunFolder) -> float:
    """Write what is compared, in the place of what was there, and return the time. Raises InputError (field "out")."""
    if changes is not None:
        with folder.in_words():
            put(changes.to_bytes(), folder.system, f"{folder.parts}/{KEPT}")
    return time.monotonic()


def _compared(
    job: Job,
    copy: _Copy,
    files: Files,
    left: NDArray[np.uint64],
    pool: Pool,
    changes: Changes | None,
    folder: RunFolder,
) -> Generator[Changes]:
    """Compare the passages that are left, by sorted ids: all changes so far, after each part. They are kept in the folder."""
    when = time.monotonic()
    try:
        for row in on_workers(_Comparer, (job, copy), job, files, left, pool):
            part = Changes.from_bytes(row["changes"])
            if changes is not None:
                part.merge(changes)
            changes = part
            if time.monotonic() - when >= KEPT_AFTER:
                when = _keep(changes, folder)
            yield changes
    except RayError as error:
        why = f"The workers ended: {first_line(error)}. Start again with fewer: it continues."
        raise InputError(why, field="workers") from error
    finally:
        _keep(changes, folder)


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
            self._pair, self._swap = Pair(base, other), copy.swap
            self._pair.changes(self._swap)  # raises for models of different shapes, before any passage
        except InputError as error:
            self._failure = json.dumps({"message": str(error), "field": error.field})

    def __call__(self, rows: Row) -> Row:
        """A batch of one row, {"shard": [JSON]}, to {"failed", "changes"}; failed: the arguments of an InputError as JSON."""
        if self._failure:
            return {"failed": [self._failure], "changes": [b""]}
        changes, passages = self._pair.changes(self._swap), [*map(read_passage, json.loads(rows["shard"][0]))]
        changes.ids = np.array([passage.id for passage in passages], np.uint64)
        self._add(changes, passages)
        return {"failed": [""], "changes": [changes.to_bytes()]}

    def _add(self, changes: Changes, passages: Iterable[Passage]) -> None:
        for passage in passages:
            half = passage.id % HALVES  # as good as drawn at random
            try:
                with faults_of_a_text("The models", lambda: self._pair.ids("a")):
                    self._pair.add(changes, passage.text, half)
            except InputError:
                changes.unread += 1


def as_json(changes: Changes, base: str, copy: str) -> dict[str, Any]:
    """What the file says: names, what was read, the losses in nats a token, the rows of the table (null for NaN), and those of
    the heads that were swapped back."""
    rows = changes.table().astype(object)
    loss = changes.loss
    swapped = changes.swaps_table().to_dict("records") if changes.swapped else []
    return {
        "base": base,
        "copy": copy,
        **{name: getattr(changes, name) for name in ("passages", "tokens", "aligned", "apart", "unlike", "unread")},
        "loss": None if loss is None else {"base": loss[0], "copy": loss[1]},
        "heads": rows.where(rows.notna(), None).to_dict("records"),
        "swapped": swapped,
        "versions": versions_that_count(),
    }
