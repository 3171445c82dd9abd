"""How long work was announced to take, and how long it took: on this machine as it is, and with one core taken.

    python -m bench.estimates
    python -m bench.estimates --models all-MiniLM-L6-v2 --lengths 128 512 --threads 1

bench/README.md says how to read the table.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch
import transformers

from core.capturing.capture import capture
from core.capturing.estimates import Run, Speeds, estimate, measuring_operations, reading_operations
from core.heads.metrics import head_metrics
from core.models.loading import load_model
from core.models.model import Model

MODELS = ["all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"]
OPENING = 16  # tokens: about what a page reads before anybody has typed anything


@dataclass(frozen=True)
class Row:
    """Seconds that one piece of work took, and what was announced."""

    tokens: int
    work: str
    taken: float
    first: float
    later: float
    announcing: float


def go_through(name: str, lengths: list[int], threads: int) -> list[Row]:
    """Texts of these lengths, one after the other, in a process where nothing has run before."""
    torch.set_num_threads(threads)
    transformers.utils.logging.disable_progress_bar()
    model, speeds = load_model(name), Speeds()
    opening = read_and_measure(model, OPENING)
    for run in opening:
        speeds.learn(run)
    rows = []
    for tokens in lengths:
        if model.max_tokens is not None and tokens > model.max_tokens:
            continue
        only_opening = Speeds()
        for run in opening:
            only_opening.learn(run)
        start = time.perf_counter()
        first = announced(model, tokens, only_opening)
        announcing = time.perf_counter() - start
        later = announced(model, tokens, speeds)
        runs = read_and_measure(model, tokens)
        for run in runs:
            speeds.learn(run)
        taken = np.cumsum([run.seconds for run in runs])
        for work, *seconds in zip(("reading", "and measuring"), taken, first, later, strict=True):
            rows.append(Row(tokens, work, *seconds, announcing))
            say(f"{tokens:,} tokens, {work}: {seconds[0]:.1f} s")
    return rows


def announced(model: Model, tokens: int, speeds: Speeds) -> list[float]:
    """Seconds of reading, and of reading and measuring."""
    return [estimate(model, tokens, speeds, measuring=measuring).seconds for measuring in (False, True)]


def read_and_measure(model: Model, tokens: int) -> list[Run]:
    ids = torch.randint(1000, 20_000, (tokens,), generator=torch.Generator().manual_seed(0)).numpy()
    start = time.perf_counter()
    taken = capture(model, input_ids=ids)
    read = time.perf_counter()
    head_metrics(taken)
    measured = time.perf_counter()
    return [
        Run(model.name, "reading", reading_operations(model, tokens), read - start),
        Run(model.name, "measuring", measuring_operations(model, tokens), measured - read),
    ]


@contextmanager
def hog() -> Iterator[None]:
    """A program that takes all it gets of one core."""
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        program.kill()
        program.wait()


def in_fresh_process(name: str, lengths: list[int], threads: int) -> list[Row]:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(go_through, name, lengths, threads).result()


def lines(rows: list[Row]) -> list[str]:
    return [
        f"{row.tokens:6,}  {row.work:13}  {row.taken:8.2f} s  "
        f"{row.first:8.2f} s  {row.first / row.taken:5.2f}  {row.later:8.2f} s  {row.later / row.taken:5.2f}  "
        f"{row.announcing:8.2f} s"
        for row in rows
    ]


def say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="MODEL")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1024, 2048, 4096], metavar="TOKENS")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (one a core)")
    options = parser.parse_args()
    for name in options.models:
        for state in ("as it is", "one core taken"):
            say(f"{name}, {state}")
            load = os.getloadavg()[0]
            if state == "as it is":
                rows = in_fresh_process(name, options.lengths, options.threads)
            else:
                with hog():
                    rows = in_fresh_process(name, options.lengths, options.threads)
            print(f"\n{name}, machine {state} (load {load:.1f} before)\n")
            print(f"{'tokens':6}  {'work':13}  {'took':>10}  {'first':>10}  ratio  {'later':>10}  ratio  announcing")
            print("\n".join(lines(rows)), flush=True)
    print(
        f"\nPython {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}; "
        f"{os.cpu_count()} cores, {options.threads} threads"
    )


if __name__ == "__main__":
    main()
