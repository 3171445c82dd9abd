"""Ten starts killed in the middle of the first conversion of SmolLM2: is every next start right?

    python -m bench.kills    about 3 minutes on 2 idle cores

Each time with a cache folder of its own: a process that converts is killed (SIGKILL) at one of ten moments. The next one must
give the very weights, files and tokens of a conversion that nobody disturbed, and leave nothing else behind but a free lock.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from core.models.conversion import MANIFEST, file_sha256
from tests.source_files import ROOT

# Loads the model and says what it has: a hash over the name and the numbers of every tensor, and some tokens. Where a number is
# given, it dies when it reports for that time how far it is: 272 tensors, then the files written.
START = """
import hashlib, json, os, signal, sys
from core import load_model
reports = 0
def report(words, share):
    global reports
    reports += 1
    if reports == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
model = load_model("SmolLM2-135M-Instruct", report=report)
sha = hashlib.sha256()
for name, tensor in sorted(model.network.state_dict().items()):
    sha.update(name.encode() + tensor.numpy().tobytes())
print(json.dumps([sha.hexdigest(), model.tokenizer("1 + 12 = café 東京").input_ids]))
"""
WEIGHTS = 538_000_000  # bytes, about
# When it is killed: at a report, or as soon as the folder looks so.
MOMENTS: dict[str, int | Callable[[dict[str, int]], bool]] = {
    "with the tokenizer written": lambda sizes: "tokenizer.json" in sizes,
    "before the first tensor": 1,
    "at tensor 60": 60,
    "at tensor 130": 130,
    "at tensor 200": 200,
    "at the last tensor": 272,
    "with some of the weights written": lambda sizes: sum(sizes.values()) > WEIGHTS / 10,
    "with most of the weights written": lambda sizes: sum(sizes.values()) > WEIGHTS * 3 / 4,
    "with all files written": 273,
    "with the manifest written": lambda sizes: MANIFEST in sizes,
}
Result = tuple[str, list[int]]


def start(cache: Path, dies_at: int = 0) -> subprocess.Popen[str]:
    """A process that loads the model."""
    return subprocess.Popen(
        [sys.executable, "-c", START, str(dies_at)],
        cwd=ROOT,
        env=os.environ | {"HEADLIGHT_CACHE": str(cache), "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Result:
    """The hash of the weights, and the tokens."""
    said, _ = process.communicate(timeout=300)
    sha, tokens = json.loads(said)
    return sha, tokens


def files(cache: Path) -> dict[str, str]:
    """Every file in the cache with its hash, as it is and not as the manifest says."""
    return {
        str(file.relative_to(cache)): file_sha256(file)
        for file in cache.rglob("*")
        if file.is_file() and file.name != MANIFEST
    }


def wrong(cache: Path, found: Result, expected: Result, undisturbed: Path) -> list[str]:
    """What is not as it should be after a start."""
    troubles = [] if found == expected else ["other weights or tokens"]
    if files(cache) != files(undisturbed):
        troubles.append(f"other files: {sorted(files(cache).keys() ^ files(undisturbed).keys())}")
    for manifest in cache.rglob(MANIFEST):
        said = {name: one["sha256"] for name, one in json.loads(manifest.read_text("utf-8"))["files"].items()}
        if said != {name: file_sha256(manifest.parent / name) for name in said}:
            troubles.append("the manifest says other hashes")
    for lock in cache.glob("*.lock"):
        with FileLock(lock).acquire(timeout=1):  # raises Timeout where somebody holds it
            pass
    return troubles


def kill(moment: int | Callable[[dict[str, int]], bool], cache: Path) -> str:
    """Kill a conversion at a moment; gives what it left, in words."""
    if isinstance(moment, int):
        process = start(cache, moment)
    else:
        process = start(cache)
        while process.poll() is None and not moment(sizes(cache)):
            time.sleep(0.001)
        process.kill()
    process.communicate(timeout=300)
    if process.returncode != -signal.SIGKILL or list(cache.glob(f"*-v?/{MANIFEST}")):
        return "a whole model: it was too late"
    left = sizes(cache)
    return f"{len(left)} files, {sum(left.values()) / 1e6:.0f} MB"


def sizes(cache: Path) -> dict[str, int]:
    """The files of a conversion that is under way."""
    with suppress(FileNotFoundError):  # it has just been given its name
        return {file.name: file.stat().st_size for file in cache.glob("*.part-*/*")}
    return {}


def main() -> None:
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = Path(folder) / "undisturbed"
        expected = finish(start(undisturbed))
        print(f"undisturbed: weights {expected[0][:16]}", flush=True)
        for number, (name, moment) in enumerate(MOMENTS.items()):
            cache = Path(folder) / str(number)
            left = kill(moment, cache)
            troubles = wrong(cache, finish(start(cache)), expected, undisturbed)
            right += not troubles
            print(f"killed {name}: left {left}; next start {'; '.join(troubles) or 'right'}", flush=True)
            shutil.rmtree(cache)
    print(f"{right} of {len(MOMENTS)} next starts right")
    sys.exit(right < len(MOMENTS))


if __name__ == "__main__":
    main()
