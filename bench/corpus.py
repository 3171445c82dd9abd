"""What a run over a corpus costs, and what it survives.

    python -m bench.corpus throughput   tokens a second with all that is kept, against the plain pass, in turns, one thread
    python -m bench.corpus scaling      whole runs with one and two workers; a worker's peak memory, also over ten times as much
    python -m bench.corpus faults       workers killed, the driver killed, a corrupt file: the same result
    python -m bench.corpus nodes        two Ray nodes on this machine: the same result

The texts are those of `python -m core.corpus example`. Times hang on the machine; of interest is their ratio.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pyarrow.parquet as pq
import torch

from bench.measuring import resident
from core import load_model
from core.corpus.__main__ import documentation
from core.corpus.settings import RunSettings
from core.corpus.steps import heads_of, take
from core.corpus.tally import Tally
from core.models.inputs import all_inputs
from core.models.inputs import run as plain_pass
from core.models.passages import Location, Passage, counter, cut

WORKER = "ray::MapWorker"
ENCODER, DECODER = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"
SHARD = 128


def throughput() -> None:
    torch.set_num_threads(1)
    for name, passages in ((ENCODER, 2 * SHARD), (DECODER, SHARD)):
        model = load_model(name)
        count = counter(model)
        texts = (Passage(Location("documentation", row), 0, text) for row, text in enumerate(documentation(), start=1))
        found = (passage for text in texts for passage in cut(text, count, 128) if isinstance(passage, Passage))
        settings = RunSettings()
        heads = heads_of(settings, model)
        seconds: dict[str, float] = {"plain": 0, "kept": 0}
        tokens, tally = 0, Tally(settings, heads)
        for number, passage in enumerate(islice(found, passages)):
            if number % SHARD == 0:
                tally = Tally(settings, heads)  # as a worker does
            inputs = all_inputs(model, passage.text)
            tokens += inputs["input_ids"].shape[1]
            started = time.perf_counter()
            plain_pass(model, inputs)
            between = time.perf_counter()
            tally.add(passage, take(model, passage.text, 128))
            seconds["plain"] += between - started
            seconds["kept"] += time.perf_counter() - between
        print(
            f"{name}: {tokens:,} tokens; plain pass {tokens / seconds['plain']:,.0f} tokens/s, with all that is kept "
            f"{tokens / seconds['kept']:,.0f}; {seconds['kept'] / seconds['plain']:.2f} times the time"
        )


def scaling() -> None:
    with corpus(files=8, characters=500_000) as few, corpus(files=8, characters=500_000, times=10) as many:
        for name, data, workers, tokens in (
            (ENCODER, few, 1, 100_000),
            (ENCODER, few, 2, 100_000),
            (DECODER, few, 1, 15_000),
            (DECODER, few, 2, 15_000),
            (ENCODER, few, 2, 20_000),
            (ENCODER, many, 2, 200_000),
        ):
            with TemporaryDirectory() as folder:
                out = Path(folder, "run")
                driver = start(data, out, name, "--workers", workers, "--tokens", tokens)
                peaks: dict[int, int] = {}
                began = ended = 0.0
                while driver.poll() is None:
                    for worker in workers_of(driver):
                        with suppress(OSError):  # it has just ended
                            peaks[worker.pid] = max(peaks.get(worker.pid, 0), resident("VmHWM", worker.pid))
                    if not began and list(out.glob("parts/*.npz")):
                        began = time.monotonic()
                    ended = time.monotonic()
                    time.sleep(0.2)
                about = json.loads(pq.read_schema(out / "metrics.parquet").metadata[b"headlight"])
                print(
                    f"{name}, {about['tokens']:,} tokens, {workers} workers: {about['seconds']:.0f} s from start to end; "
                    f"{about['tokens'] / about['seconds']:,.0f} tokens/s; after the first part {ended - began:.0f} s; "
                    f"largest worker {max(peaks.values(), default=0) / 1e6:,.0f} MB"
                )


def faults() -> None:
    with corpus(files=49, characters=400_000) as data, TemporaryDirectory() as folder:
        undisturbed = Path(folder, "undisturbed")
        start(data, undisturbed).wait()
        wanted = contents(undisturbed)

        killed, out = 0, Path(folder, "workers")
        driver = start(data, out)
        while driver.poll() is None:
            if killed < 10 and (there := workers_of(driver)) and list(out.glob("parts/*.npz")):
                there[killed % len(there)].kill()
                killed += 1
                time.sleep(3)
            time.sleep(0.1)
        print(f"worker killed {killed} times: {'the same' if contents(out) == wanted else 'ANOTHER RESULT'}")

        killed, out = 0, Path(folder, "drivers")
        while True:
            driver = start(data, out)
            before = set(out.glob("parts/*.npz"))
            while driver.poll() is None and (killed == 10 or not set(out.glob("parts/*.npz")) - before):
                time.sleep(0.05)
            if driver.poll() is not None:
                break
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            killed += 1
        print(f"driver killed {killed} times: {'the same' if contents(out) == wanted else 'ANOTHER RESULT'}")

        corrupt, out = Path(data, "corrupt.jsonl.gz"), Path(folder, "corrupt")
        corrupt.write_bytes(b"\x1f\x8b\x08\x00 this is no gzip")
        start(data, out).wait()
        problems = pq.read_table(out / "problems.parquet").to_pylist()
        rest = {name: rows for name, rows in contents(out).items() if name != "problems"}
        same = rest == {name: rows for name, rows in wanted.items() if name != "problems"}
        print(f"one corrupt file of 50: {'the same' if same else 'ANOTHER RESULT'}; listed: {problems}")


def nodes() -> None:
    ray = str(Path(sys.executable).with_name("ray"))
    # The machines of a cluster have the program, and agree on a token.
    there = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "PYTHONPATH": os.getcwd()}
    environment = {**os.environ, **there}
    with corpus(files=8, characters=300_000) as data, TemporaryDirectory() as folder:
        alone = Path(folder, "alone")
        start(data, alone).wait()
        head = [
            "start",
            "--head",
            "--port=6399",
            "--num-cpus=1",
            "--include-dashboard=false",
            "--ray-client-server-port=20021",
        ]
        joins = ["start", "--address=127.0.0.1:6399", "--num-cpus=1"]
        try:
            for command in (head, joins):
                subprocess.run([ray, *command], check=True, env=environment, stdout=subprocess.DEVNULL)
            for address in ("127.0.0.1:6399", "ray://127.0.0.1:20021"):
                out = Path(folder, address.replace("/", "-"))
                start(data, out, ENCODER, "--address", address).wait()
                print(f"two nodes, {address}: {'the same' if contents(out) == contents(alone) else 'ANOTHER RESULT'}")
        finally:
            subprocess.run([ray, "stop", "--force"], stdout=subprocess.DEVNULL)


@contextmanager
def corpus(files: int, characters: int, times: int = 1) -> Iterator[Path]:
    """A folder of JSONL files with so many characters of text together."""
    with TemporaryDirectory() as folder:
        lines: list[list[str]] = [[] for _ in range(files)]
        left = characters
        for number, text in enumerate(documentation()):
            if left <= 0:
                break
            lines[number % files].append(json.dumps({"text": text}) + "\n")
            left -= len(text)
        for number, held in enumerate(lines):
            Path(folder, f"{number:03}.jsonl").write_text("".join(times * held))
        yield Path(folder)


def start(data: Path, out: Path, model: str = ENCODER, *options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "core.corpus", "run", "--model", model, "--data", data, "--out", out, *options]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def workers_of(driver: subprocess.Popen) -> list[psutil.Process]:
    try:
        below = psutil.Process(driver.pid).children(recursive=True)
        return [process for process in below if process.cmdline()[:1] and process.cmdline()[0].startswith(WORKER)]
    except psutil.Error:
        return []


def contents(run: Path) -> dict[str, str]:
    """A hash of each table's rows; what a run says of itself, such as its seconds, is left out."""
    tables = {file.stem: pq.read_table(file).to_pydict() for file in sorted(run.glob("*.parquet"))}
    return {name: hashlib.blake2b(repr(table).encode()).hexdigest() for name, table in tables.items()}


MEASURES: dict[str, Callable[[], None]] = {
    "throughput": throughput,
    "scaling": scaling,
    "faults": faults,
    "nodes": nodes,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or MEASURES:
        MEASURES[wanted]()
