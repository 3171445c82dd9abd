"""What several of these programs share: how long something takes, how much memory it needs, quartiles, and a browser."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from check import find_browser
from tests.browser.driver import BROWSER_ARGUMENTS


def seconds(run: Callable[[], object]) -> float:
    """How long `run` takes, without the time to free what it returns."""
    start = time.perf_counter()
    kept = run()
    elapsed = time.perf_counter() - start
    del kept
    return elapsed


def resident(which: str, process: int | str = "self") -> int:
    """VmRSS (now) or VmHWM (at its peak) of a process, in bytes. Linux; raises OSError where the process has ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{which}:")), 0)


def quartiles(values: Sequence[float] | np.ndarray, digits: int) -> str:
    """The median and both quartiles."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


@contextmanager
def load_average() -> Iterator[None]:
    """Say what else the machine does, before and after."""
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}", flush=True)
    yield
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser that the tests use."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=[*BROWSER_ARGUMENTS])
        yield browser
        browser.close()
