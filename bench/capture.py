"""What capturing a model's heads and measuring them all costs, beside a pass that keeps nothing and one that keeps all weights.

    python -m bench.capture
    python -m bench.capture --lengths 512 --rounds 21 --threads 1

Four passes of the same network over the same tokens are compared; "plain again" is the first of them once more, so that
whatever separates the two is noise. bench/README.md says how to read the table.
"""

import argparse
import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import transformers

from bench.measuring import quartiles, resident, seconds
from core.capturing.capture import Capture, capture
from core.heads.metrics import head_metrics
from core.models.loading import load_model

MODEL = "SmolLM2-135M-Instruct"
TINY = 8  # tokens of the pass that makes everything resident that does not depend on the length
MB = 1e6

Pass = Callable[[torch.Tensor], object]


# --- the passes


def plain() -> Pass:
    network = load_network("sdpa")
    return lambda ids: forward(network, ids)


def capturing() -> Pass:
    model = load_model(MODEL)
    return lambda ids: capture(model, input_ids=ids)


def atlas() -> Pass:
    """All that the page "Atlas" needs to know of a text: the capture, and every metric of every head."""
    model = load_model(MODEL)

    def run(ids: torch.Tensor) -> tuple[Capture, pd.DataFrame]:
        taken = capture(model, input_ids=ids)
        return taken, head_metrics(taken)

    return run


def output_attentions() -> Pass:
    network = load_network("eager")
    return lambda ids: forward(network, ids, output_attentions=True)


PASSES: dict[str, Callable[[], Pass]] = {
    "plain": plain,
    "plain again": plain,
    "capture": capturing,
    "atlas": atlas,
    "output_attentions": output_attentions,
}

MAX_WEIGHTS = 2048  # tokens: the weights of all heads of twice as many take 18 GB


def passes_for(length: int) -> list[str]:
    return [name for name in PASSES if name != "output_attentions" or length <= MAX_WEIGHTS]


def load_network(implementation: str) -> transformers.PreTrainedModel:
    folder = load_model(MODEL).network.name_or_path
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32, attn_implementation=implementation
    )


def forward(network: transformers.PreTrainedModel, ids: torch.Tensor, **options: bool) -> object:
    with torch.inference_mode():
        return network(input_ids=ids[None], use_cache=False, logits_to_keep=1, **options)


def token_ids(length: int) -> torch.Tensor:
    """[length] words of no text at all: dense arithmetic takes as long whatever they are."""
    return torch.randint(1000, 40_000, (length,), generator=torch.Generator().manual_seed(0))


# --- what they cost


def interleaved(passes: dict[str, Pass], ids: torch.Tensor, rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each pass: [rounds]. One more round comes first and is dropped."""
    taken: dict[str, list[float]] = {name: [] for name in passes}
    for order in orders(list(passes), rounds + 1):
        for name in order:
            taken[name].append(seconds(lambda run=passes[name]: run(ids)))
    return {name: np.array(times[1:]) for name, times in taken.items()}


def orders(names: list[str], rounds: int) -> Iterator[list[str]]:
    """Rows of Williams' designs: within twice as many rounds as names, each runs as often right after each of the others."""
    count = len(names)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    for number in range(rounds):
        row = [names[(place + number) % count] for place in zigzag]
        yield row if number // count % 2 == 0 else row[::-1]


def extra_memory(name: str, length: int, threads: int) -> int:
    """Bytes by which one pass raises the resident size of this process at its peak, what it returns included."""
    prepare(threads)
    run = PASSES[name]()
    run(token_ids(TINY))
    ids = token_ids(length)
    # What loading took and gave back must not count: its peak (getrusage would report that, or even the parent's), and
    # the free pages that malloc keeps, which would hide the first megabytes of the pass.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    kept = run(ids)
    peak = resident("VmHWM")
    del kept
    return peak - before


def in_fresh_process(name: str, length: int, threads: int) -> int:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(extra_memory, name, length, threads).result()


def head_times(kept: Capture) -> np.ndarray:
    """Seconds until the weights of one head are there, for one head in each layer: [layers]."""
    heads = [(layer, layer % kept.heads()) for layer in range(kept.layers())]
    return np.array([seconds(lambda at=at: kept.trace(*at).weights) for at in heads])


def prepare(threads: int) -> None:
    torch.set_num_threads(threads)
    transformers.utils.logging.disable_progress_bar()


# --- the table


def length_rows(length: int, times: dict[str, np.ndarray], memory: dict[str, int]) -> list[str]:
    rows = []
    for name in times:
        ratio = quartiles(times[name] / times["plain"], 3)
        taken = f"{np.median(times[name]):.3f} s"
        rows.append(f"{length:6,}  {name:17}  {taken:>10}  {ratio:22}  {memory[name] / MB:9,.0f} MB")
    return rows


def share_rows(length: int, memory: dict[str, int], one_head: np.ndarray) -> list[str]:
    rows = []
    for name in ("capture", "atlas"):
        share = beyond = "not run"
        if "output_attentions" in memory:
            share, beyond = (
                f"{(memory[name] - base) / (memory['output_attentions'] - base):.1%}" for base in (0, memory["plain"])
            )
        rows.append(f"{length:6,}  {name:8}  {share:>12}  {beyond:>12}  {quartiles(one_head * 1e3, 2)}")
    return rows


def measure(length: int, passes: dict[str, Pass], rounds: int, threads: int) -> tuple[list[str], list[str]]:
    ids = token_ids(length)
    chosen = {name: passes[name] for name in passes_for(length)}
    say(f"{length:,} tokens: memory")
    memory = {name: in_fresh_process(name, length, threads) for name in chosen}
    say(f"{length:,} tokens: time, {rounds} rounds")
    times = interleaved(chosen, ids, rounds)
    return length_rows(length, times, memory), share_rows(length, memory, head_times(passes["capture"](ids)))


def say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1024, 2048, 4096], metavar="TOKENS")
    parser.add_argument("--rounds", type=int, default=8, help="rounds that count, after a first that does not (8)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (one a core)")
    options = parser.parse_args()
    if not Path("/proc/self/clear_refs").exists():
        parser.error("This needs Linux: elsewhere a process cannot ask for the memory that it took at its peak.")

    prepare(options.threads)
    passes = {name: load() for name, load in PASSES.items()}
    measured = [measure(length, passes, options.rounds, options.threads) for length in options.lengths]

    print(f"{MODEL}, float32: median (quartiles) of {options.rounds} rounds; extra memory at the peak of one pass\n")
    print(f"{'tokens':6}  {'pass':17}  {'time':>10}  {'time / plain':22}  {'extra memory':>12}")
    print("\n".join(row for rows, _ in measured for row in rows))
    print("\nmemory / memory of output_attentions, and time until one head's weights are there")
    print(f"{'tokens':6}  {'pass':8}  {'extra memory':>12}  {'beyond plain':>12}  ms a head")
    print("\n".join(row for _, rows in measured for row in rows))
    print(
        f"\nPython {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"NumPy {np.__version__}; {os.cpu_count()} cores, {options.threads} threads"
    )


if __name__ == "__main__":
    main()
