"""A run: a model reads a whole corpus on Ray Data, and what its heads do is measured and kept.

Ray Data hands out files, moves passages to workers that hold the model once each, starts dead workers anew and spreads over a
cluster. The result does not depend on how it does so: a passage is identified by where it stands, tallies of passages add up
to the same result in any order, and a run is over when every passage has been counted once.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, cast

import numpy as np
import psutil
import pyarrow as pa
import ray
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext, Dataset
from ray.exceptions import RayError

from ..errors import InputError
from ..models.inputs import all_inputs
from ..models.loading import load_outline, model_revision, model_size
from ..models.model import Model
from ..models.sizes import free_bytes
from ..models.tokens import token_texts
from ..units import bytes_in_words
from ..versions import versions
from . import parts
from .about import About
from .columns import LAST, MAP
from .folder import RunFolder
from .job import Census, Job, versions_that_count
from .profiles import map_of
from .reading import Files, find_files, open_folder, require_address
from .settings import RunSettings
from .storing import tables
from .tally import Tally, first_of, tally_bytes
from .texts import By, Problem
from .workers import Failure, Measurer, count_passages, read_shards

SHARD = 128  # passages that a worker measures in one go, at most: a stopped run loses no more of each worker
SHARE, LARGEST = 16, 4  # more than SHARE workers measure more in one go, up to LARGEST times as much
AT_ONCE = 16  # parts that are merged into one
LISTED_AFTER = 5  # seconds between two listings of the folder of parts, which takes a while on object storage
READ_AT_ONCE = 2**20  # bytes of small files that one task reads
ROUNDS = 3  # attempts to measure what has been lost on the way
LEAST_SHARE, MOST_CPUS = 0.01, 1_000  # the fewest and the most processors or GPUs of a worker
RETRIES = 20  # of a shard whose worker dies, in each round: one that kills every worker must not go on for ever


@dataclass(frozen=True)
class Progress:
    """How far a run is: what it does, how many tokens are done, of how many, and the seconds left; None where not known."""

    doing: str
    tokens: int = 0
    of: int = 0
    left: float | None = None


def run(
    model: str,
    data: str,
    out: str,
    *,
    column: str = RunSettings.column,
    by: By = RunSettings.by,
    heads: Sequence[tuple[int, int]] | None = RunSettings.heads,
    tokens: int | None = RunSettings.tokens,
    passage_tokens: int = RunSettings.passage_tokens,
    strongest: int = RunSettings.strongest,
    sample: int = RunSettings.sample,
    examples_of: Sequence[str] = RunSettings.examples_of,
    address: str | None = None,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    dtype: str = RunSettings.dtype,
    device: str = RunSettings.device,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> About:
    """Measure what the heads of a model do over a corpus, into the folder `out` (`core.corpus.opened` opens it).

    model        as for `load_model`: a name or a folder, which every machine has to have
    data         a file, a folder or a pattern; local or on object storage (`core.corpus.reading`)
    address      of a Ray cluster: "auto", "host:6379" from one of its machines, "ray://host:10001" from anywhere, in which case
                 model, data and out are looked for there; None: Ray in this machine
    workers      how many processes hold the model; None: as many as there are processors
    cpus, gpus   of each worker; a part of a GPU is allowed
    on_progress  called now and then; what it raises ends the run, which can be continued
    All other arguments are the fields of `core.corpus.settings.RunSettings`.

    A run that was stopped continues when it is called again with the same arguments and folder. Raises InputError: field "data"
    (nothing to read), "column", "model", "out" (not to be written, no room, another run there or at work there), "address" (no
    answer), "heads", "examples_of", "by", "workers" (not enough memory), "cpus", "gpus", "tokens".
    """
    require_address(model, "model")
    _require_pool(workers, cpus, gpus)
    settings = RunSettings(
        column=column,
        by=by,
        heads=None if heads is None else tuple(sorted(set(heads))),
        tokens=tokens,
        passage_tokens=passage_tokens,
        strongest=strongest,
        sample=sample,
        examples_of=tuple(examples_of),
        dtype=dtype,
        device=device,
    )
    settings.validate()
    begin = partial(_run, model, data, out, settings, workers, cpus, gpus)
    if address is not None and address.startswith("ray://"):
        with _ray(address, workers, cpus, gpus):
            return _run_there(begin, on_progress)
    return begin(address, on_progress)


def _run(
    model: str,
    data: str,
    out: str,
    settings: RunSettings,
    workers: int | None,
    cpus: float,
    gpus: float,
    address: str | None,
    on_progress: Callable[[Progress], None],
) -> About:
    """A run that is driven from this process: arguments as those of `run`."""
    began = time.monotonic()
    on_progress(Progress("Looking for files"))
    files = find_files(data, lambda entries: on_progress(Progress(f"Looking for files, at {entries:,} so far")))
    files = replace(files, folder=files.folder if "://" in files.folder else os.path.abspath(files.folder))
    model = os.path.abspath(model) if os.path.isdir(model) else model
    outline = _outline(model)
    folder = RunFolder.of(out)
    with folder.alone():
        on_progress(Progress("Looking at the model"))
        longest = min(settings.passage_tokens, outline.max_tokens or settings.passage_tokens)
        settings = replace(settings, passage_tokens=longest)
        job = Job(model, model_revision(model), files.folder, versions_that_count(), settings)
        bytes_kept = _bytes_kept(settings, outline)
        with _ray(address, workers, cpus, gpus) as pool:
            if len(ray.nodes()) == 1:  # what others have free is not known here
                _require_memory(job, bytes_kept, pool.size)
            tally, corpus = _tallied(job, files, folder, bytes_kept, pool, on_progress)
        about = About.of(
            tally,
            outline,
            data=data,
            files=len(files.names),
            corpus=corpus,
            versions=versions("torch", "transformers", "numpy", "ray"),
            seconds=time.monotonic() - began,
        )
        folder.finish(_tables(tally, outline), about)
    return about


def _tallied(
    job: Job, files: Files, folder: RunFolder, bytes_kept: int, pool: Pool, on_progress: Callable[[Progress], None]
) -> tuple[Tally, str]:
    """The tally of all passages that are wanted, and the hash of these (`Census.corpus`)."""
    on_progress(Progress("Counting the passages"))
    census, problems, unread = _census(job, files)
    _require_texts(census, problems, unread)
    wanted = census.limited(job.settings.tokens)
    folder.begin(job.json(wanted.corpus), (AT_ONCE + 2 * pool.size) * bytes_kept)
    for _ in range(ROUNDS):
        left = folder.left(wanted.ids)
        if not len(left):
            break
        _measure(_Round(job, files, wanted, left, folder), pool, on_progress)
    if len(left := folder.left(wanted.ids)):
        raise InputError(f"{len(left):,} passages could not be measured: workers died on them.", field="data")
    on_progress(Progress("Putting everything together", wanted.total, wanted.total))
    with folder.in_words():
        tally = _together(folder)
    tally.note(problems, unread)
    return tally, wanted.corpus


def _tables(tally: Tally, model: Model) -> Iterator[tuple[str, pa.Table]]:
    """All tables of a finished run, `LAST` last."""
    tokens_of = {
        number: token_texts(model.tokenizer, all_inputs(model, passage.text)["input_ids"][0].tolist())
        for number, passage in tally.shown_passages.items()
    }
    made: dict[str, pa.Table] = {}
    for name, table in tables(tally, tokens_of):
        made[name] = table
        if name == LAST:
            yield MAP, map_of(*(made[one].to_pandas() for one in ("metrics", "classes", "distances"))).table()
        yield name, table


# --- before the work


def _require_pool(workers: int | None, cpus: float, gpus: float) -> None:
    if workers is not None and workers < 1:
        raise InputError(f"There are to be {workers} workers; there has to be 1 at least.", field="workers")
    for field, number in (("cpus", cpus), ("gpus", gpus)):
        if number != 0 and not LEAST_SHARE <= number <= MOST_CPUS:  # nor NaN
            raise InputError(
                f"{field} is {number:g}; a worker can have 0, or from {LEAST_SHARE} to {MOST_CPUS:,}.", field=field
            )


def _outline(model: str) -> Model:
    """The model without its weights. Raises InputError (field "model") for one that reads no texts."""
    outline = load_outline(model)
    if outline.reads_images:
        raise InputError(f"{outline.name} reads images, not texts. Choose another model.", field="model")
    if outline.tokenizer is None:
        raise InputError(f"{outline.name} came without a tokenizer: it reads no texts.", field="model")
    return outline


def _require_texts(census: Census, problems: Sequence[Problem], unread: int) -> None:
    """problems: the first of all that are `unread`"""
    if len(census.ids):
        return
    first = f" The first of {unread:,} problems, in {problems[0].place.file}: {problems[0].why}" if problems else ""
    is_column = any("no column" in problem.why for problem in problems)
    raise InputError(f"There is no text in it.{first}", field="column" if is_column else "data")


def _bytes_kept(settings: RunSettings, outline: Model) -> int:
    """About how much a tally takes, in memory and as a file."""
    config = outline.network.config.get_text_config()
    layers, per_layer = getattr(config, "num_hidden_layers", 12), getattr(config, "num_attention_heads", 12)
    return tally_bytes(settings, len(settings.heads or ()) or layers * per_layer)


def _require_memory(job: Job, bytes_kept: int, workers: int) -> None:
    # A worker holds what it keeps several times while that is put in order and written; Python and torch come on top. Measured:
    # all-MiniLM-L6-v2 0.92 GB where this says 0.90, SmolLM2 1.67 GB where it says 1.66.
    needed = model_size(job.model).needed(job.settings.dtype) + 4 * bytes_kept + 7 * 10**8
    free = free_bytes("cpu")
    if workers * needed > free:
        most = int(free // needed)
        advice = f"Take {most} of them." if most else "Keep fewer examples, or take a smaller model."
        raise InputError(
            f"{workers} workers need about {bytes_in_words(workers * needed)} of memory, and {bytes_in_words(free)} are free. "
            f"{advice}",
            field="workers",
        )


# --- Ray


@contextmanager
def _ray(address: str | None, workers: int | None, cpus: float, gpus: float) -> Iterator[Pool]:
    """Ray, in this machine or the cluster at an address, with a pool of as many workers as are asked for.

    Where Ray runs in this process already, that one is used and left running.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ours = not ray.is_initialized()
    cores = psutil.cpu_count(logical=False) or 1
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if ours and address is None:
            # More workers than processors are allowed; each would wait for ever for one that there is not.
            ray.init("local", num_cpus=max(cores, ceil((workers or 1) * cpus)), include_dashboard=False, **quiet)
        elif ours and address is not None:
            _require_answer(address)
            ray.init(address, **quiet)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
        raise InputError(f"No Ray cluster answers at {address!r}: {reason}", field="address") from error
    there = ray.cluster_resources()
    if ours and address is None and (workers or 1) * gpus > there.get("GPU", 0):
        ray.shutdown()
        raise InputError(
            f"The workers need {(workers or 1) * gpus:g} GPUs, and this machine has {there.get('GPU', 0):g}.",
            field="workers",
        )
    context, log = DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, context.target_max_block_size, log.level
    # One row in each block, so that shards go to whichever worker is free.
    context.enable_progress_bars, context.target_max_block_size = False, 1
    log.setLevel(logging.ERROR)
    try:
        rooms = [int(there.get(name, 0) // each) for name, each in (("CPU", cpus), ("GPU", gpus)) if each > 0]
        yield Pool(workers or max(1, min(rooms, default=1)), cpus, gpus)
    finally:
        context.enable_progress_bars, context.target_max_block_size, level = before
        log.setLevel(level)
        if ours:
            ray.shutdown()


def _require_answer(address: str) -> None:
    """Raises OSError where nobody listens at host:port, ValueError for what is no address.

    Ray itself would ask again and again for minutes.
    """
    if address == "auto":
        return
    found = re.fullmatch(r"(?:ray://)?(\[.*\]|[^:/]+):(\d{1,5})", address)
    if found is None:
        raise ValueError('this is no address; write "auto", host:port or ray://host:port')
    socket.create_connection((found[1].strip("[]"), int(found[2])), timeout=10).close()


def _run_there(begin: Callable[..., About], on_progress: Callable[[Progress], None]) -> About:
    """A run that is driven from within a cluster: Ray Data cannot be driven through Ray's client.

    begin  `_run` without its last two arguments
    """
    start_board: Any = ray.remote(num_cpus=0)(_Board)
    start_run: Any = ray.remote(num_cpus=0, max_retries=0)(_run_and_report)
    board = start_board.remote()
    run_there = start_run.remote(begin, board)
    try:
        while not ray.wait([run_there], timeout=1)[0]:
            if (progress := cast("Progress | None", ray.get(board.last.remote()))) is not None:
                on_progress(progress)
        ended = cast("About | Failure", ray.get(run_there))
    except RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise InputError(
            f"The run on the cluster failed: {reason}. Every machine there needs this program.", field="address"
        ) from error
    except BaseException:
        ray.cancel(run_there)
        raise
    if isinstance(ended, Failure):
        raise InputError(ended.message, field=ended.field)
    return ended


class _Board:
    """Holds the last progress of a run within a cluster."""

    def __init__(self) -> None:
        self._last: Progress | None = None

    def put(self, progress: Progress) -> None:
        self._last = progress

    def last(self) -> Progress | None:
        return self._last


def _run_and_report(begin: Callable[..., About], board: Any) -> About | Failure:
    try:
        return begin(None, board.put.remote)
    except InputError as error:  # which does not travel as it is
        return Failure(str(error), error.field)


def _dataset(items: Sequence[Any]) -> Dataset:
    return ray.data.from_items([json.dumps(item) for item in items], override_num_blocks=len(items))


def _groups(files: Files) -> list[list[str]]:
    """The files in groups, each of which one task reads: many small files, or one large file."""
    groups: list[list[str]] = [[]]
    size = 0
    for name, count in zip(files.names, files.bytes, strict=True):
        if groups[-1] and size + count > READ_AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += count
    return groups


def _census(job: Job, files: Files) -> tuple[Census, list[Problem], int]:
    """All passages, the first problems, and how many problems there are in all."""
    # Reading takes no processor of its own: while workers hold all of them, it would never begin.
    counted = _dataset(_groups(files)).flat_map(partial(count_passages, job=job, files=files), num_cpus=0)
    numbers, problems, unread = [np.empty((0, 3), np.uint64)], [], 0
    for row in counted.iter_rows():
        numbers.append(np.frombuffer(row["numbers"], np.uint64).reshape(-1, 3))
        further = [parts.read_problem(written) for written in json.loads(row["problems"])]
        problems, unread = first_of([*problems, *further]), unread + len(further)
    ids, tokens, hashes = np.concatenate(numbers).T
    return Census.of(ids, tokens.astype(np.int64), hashes), problems, unread


@dataclass(frozen=True)
class Pool:
    """A number of workers, and the processors and GPUs of each of them."""

    size: int
    cpus: float
    gpus: float

    def shard(self, passages: int) -> int:
        """The number of passages that a worker measures in one go, of this many in all.

        The part that it then writes is of the same size however many they are: where hundreds of workers write to one folder,
        each writes less often. Where few passages are left, every worker still gets several shards.
        """
        most = SHARD * min(max(self.size // SHARE, 1), LARGEST)
        return max(1, min(passages // (4 * self.size), most))


@dataclass(frozen=True, eq=False)
class _Round:
    """The work for one pass of Ray Data: of all `wanted` passages those that are `left`, as sorted ids."""

    job: Job
    files: Files
    wanted: Census
    left: NDArray[np.uint64]
    folder: RunFolder


def _measure(task: _Round, pool: Pool, on_progress: Callable[[Progress], None]) -> None:
    """Measure the passages that are left. Raises InputError with the reason why a worker cannot work."""
    whole = task.wanted.total
    done = whole - int(task.wanted.tokens[np.isin(task.wanted.ids, task.left)].sum())
    on_progress(Progress("Starting the workers", done, whole))
    reading = partial(read_shards, job=task.job, files=task.files, wanted=task.left, most=pool.shard(len(task.left)))
    measured = (
        _dataset(_groups(task.files))
        .flat_map(reading, num_cpus=0)
        .map_batches(
            Measurer,
            fn_constructor_args=(task.job, task.folder.parts_address, max(1, round(pool.cpus))),
            batch_size=1,
            compute=ActorPoolStrategy(size=pool.size),
            num_cpus=pool.cpus,
            num_gpus=pool.gpus,
            max_task_retries=RETRIES,
        )
    )
    merger, clock = _PartMerger(task.folder), _Clock(done, whole)
    with suppress(RayError):  # what it leaves undone is left for the next round
        for row in measured.iter_rows():
            if row["failed"]:
                failure = Failure(**json.loads(row["failed"]))
                raise InputError(failure.message, field=failure.field)
            done += int(row["tokens"])
            on_progress(Progress("Measuring", done, whole, clock.left(done)))
            merger.step()
    merger.end()


class _Clock:
    """Estimates the remaining time from the speed since the first result: before it, workers have been starting."""

    def __init__(self, done: int, of: int) -> None:
        self._first, self._of = (time.monotonic(), done), of
        self._started = False

    def left(self, done: int) -> float | None:
        now = time.monotonic()
        if not self._started:
            self._first, self._started = (now, done), True
            return None
        began, before = self._first
        return (self._of - done) * (now - began) / (done - before) if done > before else None


class _PartMerger:
    """Puts parts together while others are being made, so that there are never many."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._merge = ray.remote(num_cpus=0)(_merge)
        self._busy: dict[ray.ObjectRef, list[str]] = {}
        self._listed = 0.0

    def step(self) -> None:
        if time.monotonic() - self._listed < LISTED_AFTER:
            return
        self._listed = time.monotonic()
        ended, _ = ray.wait([*self._busy], num_returns=len(self._busy), timeout=0) if self._busy else ([], [])
        for one in ended:
            del self._busy[one]
        taken = {name for names in self._busy.values() for name in names}
        with self._folder.in_words():
            names = [name for name in parts.names_in(self._folder.system, self._folder.parts) if name not in taken]
        for start in range(0, len(names) - AT_ONCE + 1, AT_ONCE):
            chosen = names[start : start + AT_ONCE]
            self._busy[self._merge.remote(self._folder.parts_address, chosen)] = chosen

    def end(self) -> None:
        """Wait for the merges that have begun."""
        ray.wait([*self._busy], num_returns=len(self._busy)) if self._busy else None


def _merge(address: str, names: Sequence[str]) -> None:
    parts.merged(*open_folder(address), names)


def _together(folder: RunFolder) -> Tally:
    """Merge all parts into one tally: on the workers of the cluster as long as there are many."""
    merge = ray.remote(num_cpus=0)(_merge)
    while len(names := parts.names_in(folder.system, folder.parts)) > AT_ONCE:
        chosen = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
        ray.get([merge.remote(folder.parts_address, group) for group in chosen if len(group) > 1])
    tally = parts.load(folder.system, folder.parts, names[0])
    for name in names[1:]:
        tally.merge(parts.load(folder.system, folder.parts, name))
    return tally
