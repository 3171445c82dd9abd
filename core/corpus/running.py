"""A run: a model reads a whole corpus on Ray Data, and what its heads do is measured and kept.

Ray Data hands out files, moves passages to workers that hold the model once each, and starts dead workers anew. The result does
not depend on how it does so: tallies add up in any order, and a run is over when every passage has been counted once.
"""

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
from typing import Any, TypeVar, cast

import numpy as np
import psutil
import ray
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext, Dataset
from ray.exceptions import RayError

from ..claims.claim import Claim
from ..errors import InputError, first_line
from ..installed import versions
from ..models.loading import load_outline, model_revision, model_size
from ..models.passages import By, Problem
from ..models.sizes import free_bytes
from ..record_pass import name_alone
from ..units import bytes_in_words
from .folder import RunFolder, load_parts, merge_parts, parts_in, read_problem
from .reading import Files, find_files, is_uri, open_folder, require_address
from .settings import Job, RunSettings, versions_that_count
from .steps import (
    CENSUS,
    Measurer,
    Row,
    bytes_kept,
    corpus_hash,
    count_passages,
    finished_tables,
    fitted,
    in_order,
    limited,
    read_shards,
)
from .tables import About
from .tally import Tally, first_of

SHARD = 128  # passages that a worker measures in one go, at most: a stopped run loses no more of each worker
SHARE, LARGEST = 16, 4  # more than SHARE workers measure more in one go, up to LARGEST times as much
AT_ONCE = 16  # parts that are merged into one
LISTED_AFTER = 5  # seconds between two listings of the folder of parts, which takes a while on object storage
READ_AT_ONCE = 2**20  # bytes of small files that one task reads
ROUNDS = 3  # attempts to measure what has been lost on the way
LEAST_SHARE, MOST_CPUS = 0.01, 1_000  # the fewest and the most processors or GPUs of a worker
Result = TypeVar("Result")
RETRIES = 20  # of a shard whose worker dies, in each round: one that kills every worker must not go on for ever


@dataclass(frozen=True)
class Progress:
    """How far a run is: what it does, how many tokens are done, of how many, and the seconds left; None where not known."""

    doing: str
    tokens: int = 0
    of: int = 0
    left: float | None = None


@dataclass(frozen=True)
class Pool:
    """A number of workers (0: as many as there are processors), and the processors and GPUs of each of them."""

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
    claims: Sequence[Claim | str] = RunSettings.claims,
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
    answer), "heads", "claims", "examples_of", "by", "workers" (not enough memory), "cpus", "gpus", "tokens".
    """
    require_address(model, "model")
    require_pool(workers, cpus, gpus)
    settings = RunSettings(
        column=column,
        by=by,
        heads=None if heads is None else tuple(sorted(set(heads))),
        tokens=tokens,
        passage_tokens=passage_tokens,
        strongest=strongest,
        sample=sample,
        examples_of=tuple(examples_of),
        claims=tuple(map(str, claims)),
        dtype=dtype,
        device=device,
    )
    settings.validate()
    pool = Pool(workers or 0, cpus, gpus)
    return begin(partial(_run, model, data, out, settings, pool), address, pool, on_progress)


def _run(
    model: str,
    data: str,
    out: str,
    settings: RunSettings,
    pool: Pool,
    address: str | None,
    on_progress: Callable[[Progress], None],
) -> About:
    """A run that is driven from this process: arguments as those of `run`."""
    began = time.monotonic()
    on_progress(Progress("Looking for files"))
    files = find_files(data, lambda entries: on_progress(Progress(f"Looking for files, at {entries:,} so far")))
    data_folder = files.folder if is_uri(files.folder) else os.path.abspath(files.folder)
    model = os.path.abspath(model) if os.path.isdir(model) else model
    outline = load_outline(model)
    settings = fitted(settings, outline)
    folder = RunFolder.of(out)
    with folder.alone():
        on_progress(Progress("Looking at the model"))
        job = Job(model, model_revision(model), data_folder, versions_that_count(), settings)
        kept = bytes_kept(settings, outline)
        with on_ray(address, pool) as pool:
            if len(ray.nodes()) == 1:  # what others have free is not known here
                require_memory([(job.model, job.settings.dtype)], kept, pool.size)
            tally, corpus = _Work(job, files, folder, pool, on_progress).tally(kept)
        about = About.of(
            tally,
            outline,
            data=data if is_uri(data) else name_alone(data),
            files=len(files.names),
            corpus=corpus,
            versions=versions("torch", "transformers", "numpy", "ray"),
            seconds=time.monotonic() - began,
        )
        folder.finish(finished_tables(tally, outline), about)
    return about


@dataclass(frozen=True, eq=False)
class _Work:
    """What a run reads and keeps, and who does it."""

    job: Job
    files: Files
    folder: RunFolder
    pool: Pool
    on_progress: Callable[[Progress], None]

    def tally(self, kept: int) -> tuple[Tally, str]:
        """The tally of all passages that are wanted, and their hash."""
        self.on_progress(Progress("Counting the passages"))
        census, problems, unread = take_census(self.files, self.job)
        wanted = limited(census, self.job.settings.tokens)
        corpus, whole = corpus_hash(wanted), int(wanted["tokens"].sum())
        self.folder.begin(self.job.json(corpus), (AT_ONCE + 2 * self.pool.size) * kept)
        for _ in range(ROUNDS):
            left = self.folder.left(wanted["id"])
            if not len(left):
                break
            self.measure(left, whole - int(wanted["tokens"][np.isin(wanted["id"], left)].sum()), whole)
        if len(left := self.folder.left(wanted["id"])):
            raise InputError(f"{len(left):,} passages could not be measured: workers died on them.", field="data")
        self.on_progress(Progress("Putting everything together", whole, whole))
        with self.folder.in_words():
            tally = _together(self.folder)
        tally.note(problems, unread)
        return tally, corpus

    def measure(self, left: NDArray[np.uint64], done: int, whole: int) -> None:
        """Measure the passages that are left, by sorted ids. Raises InputError with the reason why a worker cannot work.

        done, whole  how many tokens have been measured, and how many there are in all
        """
        self.on_progress(Progress("Starting the workers", done, whole))
        measured = on_workers(Measurer, (self.job, self.folder.parts_address), self.job, self.files, left, self.pool)
        merger, first = _PartMerger(self.folder), None
        with suppress(RayError):  # what it leaves undone is left for the next round
            for row in measured:
                now, done = time.monotonic(), done + int(row["tokens"])
                first = first or (now, done)  # before the first result, workers have been starting
                began, before = first
                seconds = (whole - done) * (now - began) / (done - before) if done > before else None
                self.on_progress(Progress("Measuring", done, whole, seconds))
                merger.step()
        merger.end()


# --- reading on the workers


def take_census(files: Files, job: Job) -> tuple[NDArray[np.void], list[Problem], int]:
    """The census of all passages, the first problems, and how many problems there are in all.

    Raises InputError (field "data" or "column") where there are no passages.
    """
    # Reading takes no processor of its own: while workers hold all of them, it would never begin.
    counted = groups_of(files).flat_map(partial(count_passages, job=job), num_cpus=0)
    rows, problems, unread = [np.empty(0, CENSUS)], [], 0
    for row in counted.iter_rows():
        rows.append(np.frombuffer(row["census"], CENSUS))
        further = [read_problem(written) for written in json.loads(row["problems"])]
        problems, unread = first_of([*problems, *further]), unread + len(further)
    return in_order(np.concatenate(rows), problems, unread), problems, unread


def groups_of(files: Files) -> Dataset:
    """The files in groups, each of which one task reads: many small files, or one large file."""
    groups: list[list[str]] = [[]]
    size = 0
    for name, count in zip(files.names, files.bytes, strict=True):
        if groups[-1] and size + count > READ_AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += count
    return ray.data.from_items([json.dumps(group) for group in groups], override_num_blocks=len(groups))


def on_workers(
    worker: type, given: tuple[Any, ...], job: Job, files: Files, left: NDArray[np.uint64], pool: Pool
) -> Iterator[Row]:
    """What workers of a class, which are made of what is given and a number of threads, find in the passages that are left, by
    sorted ids: a row a shard. Raises InputError with the reason why a worker cannot work."""
    reading = partial(read_shards, job=job, wanted=left, most=pool.shard(len(left)))
    shards = groups_of(files).flat_map(reading, num_cpus=0)
    found = shards.map_batches(
        worker,
        fn_constructor_args=(*given, max(1, round(pool.cpus))),
        batch_size=1,
        compute=ActorPoolStrategy(size=pool.size),
        num_cpus=pool.cpus,
        num_gpus=pool.gpus,
        max_task_retries=RETRIES,
    )
    for row in found.iter_rows():
        if row["failed"]:
            raise InputError(**json.loads(row["failed"]))
        yield row


# --- before the work


def require_pool(workers: int | None, cpus: float, gpus: float) -> None:
    if workers is not None and workers < 1:
        raise InputError(f"There are to be {workers} workers; there has to be 1 at least.", field="workers")
    for field, number in (("cpus", cpus), ("gpus", gpus)):
        if number != 0 and not LEAST_SHARE <= number <= MOST_CPUS:  # nor NaN
            why = f"{field} is {number:g}; a worker can have 0, or from {LEAST_SHARE} to {MOST_CPUS:,}."
            raise InputError(why, field=field)


def require_memory(models: Sequence[tuple[str, str]], kept: int, workers: int) -> None:
    """Raise InputError (field "workers") where so many of them, each with these models (name, dtype), do not fit."""
    # A worker holds what it keeps several times while that is put in order and written; Python and torch come on top. Measured:
    # all-MiniLM-L6-v2 0.92 GB where this says 0.90, SmolLM2 1.67 GB where it says 1.66.
    needed = sum(model_size(name).needed(dtype) for name, dtype in models) + 4 * kept + 7 * 10**8
    free = free_bytes("cpu")
    if workers * needed > free:
        most = int(free // needed)
        advice = f"Take {most} of them." if most else "Keep fewer examples, or take a smaller model."
        needs, has = bytes_in_words(workers * needed), bytes_in_words(free)
        why = f"{workers} workers need about {needs} of memory, and {has} are free. {advice}"
        raise InputError(why, field="workers")


# --- Ray


@contextmanager
def on_ray(address: str | None, pool: Pool) -> Iterator[Pool]:
    """Ray, in this machine or the cluster at an address, and its workers. Ray that runs in this process already stays."""
    ours = not ray.is_initialized()
    if ours:
        _connect(address, pool)
    there = ray.cluster_resources()
    context, log = DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, context.target_max_block_size, log.level
    # One row in each block, so that shards go to whichever worker is free.
    context.enable_progress_bars, context.target_max_block_size = False, 1
    log.setLevel(logging.ERROR)
    try:
        needs = {"CPU": pool.cpus, "GPU": pool.gpus}
        rooms = [int(there.get(name, 0) // each) for name, each in needs.items() if each > 0]
        yield replace(pool, size=pool.size or max(1, min(rooms, default=1)))
    finally:
        context.enable_progress_bars, context.target_max_block_size, level = before
        log.setLevel(level)
        if ours:
            ray.shutdown()


def _connect(address: str | None, pool: Pool) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    workers = pool.size or 1
    try:
        if address is None:
            # More workers than processors are allowed; each would wait for ever for one that there is not.
            cpus = max(psutil.cpu_count(logical=False) or 1, ceil(workers * pool.cpus))
            ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
        else:
            _require_answer(address)
            ray.init(address, **quiet)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise InputError(f"No Ray cluster answers at {address!r}: {first_line(error)}.", field="address") from error
    gpus = ray.cluster_resources().get("GPU", 0)
    if address is None and workers * pool.gpus > gpus:
        ray.shutdown()
        why = f"The workers need {workers * pool.gpus:g} GPUs, and this machine has {gpus:g}."
        raise InputError(why, field="workers")


def _require_answer(address: str) -> None:
    """Raise OSError where nobody listens at host:port, ValueError for anything else.

    Ray itself would ask again and again for minutes.
    """
    if address == "auto":
        return
    found = re.fullmatch(r"(?:ray://)?(\[.*\]|[^:/]+):(\d{1,5})", address)
    if found is None:
        raise ValueError('this is not an address; write "auto", host:port or ray://host:port')
    socket.create_connection((found[1].strip("[]"), int(found[2])), timeout=10).close()


def begin(
    work: Callable[..., Result], address: str | None, pool: Pool, on_progress: Callable[[Progress], None]
) -> Result:
    """Do work that takes an address and `on_progress`: in this process, or in the cluster if only Ray's client reaches it."""
    if address is None or not address.startswith("ray://"):
        return work(address, on_progress)
    with on_ray(address, pool):
        return _run_there(work, on_progress)


def _run_there(work: Callable[..., Result], on_progress: Callable[[Progress], None]) -> Result:
    """Do work that takes an address and `on_progress`, in the cluster: Ray's client cannot drive Ray Data."""
    start_board: Any = ray.remote(num_cpus=0)(_Board)
    start: Any = ray.remote(num_cpus=0, max_retries=0)(_run_and_report)
    board = start_board.remote()
    task = start.remote(work, board)
    try:
        while not ray.wait([task], timeout=1)[0]:
            if (progress := cast("Progress | None", ray.get(board.last.remote()))) is not None:
                on_progress(progress)
        ended = cast("Result | dict[str, str]", ray.get(task))
    except RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        why = f"The run on the cluster failed: {reason}. Every machine there needs this program."
        raise InputError(why, field="address") from error
    except BaseException:
        ray.cancel(task)
        raise
    if isinstance(ended, dict):
        raise InputError(**ended)
    return ended


class _Board:
    """Holds the last progress of a run within a cluster."""

    def __init__(self) -> None:
        self._last: Progress | None = None

    def put(self, progress: Progress) -> None:
        self._last = progress

    def last(self) -> Progress | None:
        return self._last


def _run_and_report(work: Callable[..., Result], board: Any) -> Result | dict[str, str]:
    """What the run returns, or the arguments of an InputError, which does not travel as it is."""
    try:
        return work(None, board.put.remote)
    except InputError as error:
        return {"message": str(error), "field": error.field}


@ray.remote(num_cpus=0)
def _merge(address: str, names: Sequence[str]) -> None:
    merge_parts(*open_folder(address), names)


class _PartMerger:
    """Puts parts together while others are being made, so that there are never many."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._busy: dict[ray.ObjectRef, list[str]] = {}
        self._listed = 0.0

    def step(self) -> None:
        if time.monotonic() - self._listed < LISTED_AFTER:
            return
        self._listed = time.monotonic()
        ended, _ = ray.wait([*self._busy], num_returns=len(self._busy), timeout=0) if self._busy else ([], [])
        for merge in ended:
            del self._busy[merge]
        taken = {name for names in self._busy.values() for name in names}
        with self._folder.in_words():
            names = [name for name in parts_in(self._folder.system, self._folder.parts) if name not in taken]
        for start in range(0, len(names) - AT_ONCE + 1, AT_ONCE):
            chosen = names[start : start + AT_ONCE]
            self._busy[_merge.remote(self._folder.parts_address, chosen)] = chosen

    def end(self) -> None:
        """Wait for the merges that have begun."""
        ray.wait([*self._busy], num_returns=len(self._busy)) if self._busy else None


def _together(folder: RunFolder) -> Tally:
    """Merge all parts into one tally: on the workers of the cluster as long as there are many."""
    while len(names := parts_in(folder.system, folder.parts)) > AT_ONCE:
        chosen = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
        ray.get([_merge.remote(folder.parts_address, group) for group in chosen if len(group) > 1])
    return load_parts(folder.system, folder.parts, *names)
