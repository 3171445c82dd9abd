"""Real models, loaded once a run: both that are there without a network, and transformers' own eager twins of them."""

import gc
import os
from functools import cache
from itertools import accumulate
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may wait for a model hub
# Ray gives its workers a low priority (nice 15). On a busy machine a test would wait for them for minutes.
os.environ.setdefault("RAY_worker_niceness", "0")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # several processes with as many threads each would wait for one another

import pytest
import torch
from hypothesis import HealthCheck, settings
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import local_script_runner

# Nothing is timed in the tests: how long an example takes says only what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

PATIENCE = 300  # seconds until what must come is missed; only a failing test waits that long
TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n",
    "Ein Café in 東京 costs €5 😀, and the cat saw the other cat; <b>bold</b> $x$ *stars*",
)


@pytest.fixture(scope="session", autouse=True)
def pages_as_tests_run_them():
    """Before each run of a page AppTest reads what all installed packages say of themselves, which takes as long as the page:
    once is enough. And it gives up a run after a few seconds, which a busy machine needs for a page that does nothing."""
    once = cache(manifest_scanner.scan_component_manifests)
    wait = local_script_runner.require_widgets_deltas
    with (
        mock.patch.object(manifest_scanner, "scan_component_manifests", once),
        mock.patch.object(local_script_runner, "require_widgets_deltas", lambda runner, _: wait(runner, PATIENCE)),
    ):
        yield


def pytest_collection_finish():
    """Heavy work searches all of Python's objects for garbage before it begins, but not what is imported by now. Nothing is
    frozen later: what is in use then would never be found once it is garbage, and a model's file would stay mapped."""
    gc.collect()
    gc.freeze()


@cache
def loaded(name):
    from core import load_model

    return load_model(name)


@pytest.fixture(scope="session")
def minilm():
    return loaded("all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def smollm():
    return loaded("SmolLM2-135M-Instruct")


@pytest.fixture(scope="session")
def half():
    """Both real models in bfloat16, by name."""
    from core import load_model

    return {name: load_model(name, dtype="bfloat16") for name in ("all-MiniLM-L6-v2", "SmolLM2-135M-Instruct")}


def eager_attentions(model, capture):
    """The same pass in transformers' own eager code; `.attentions` are its weights by layer."""
    network = model.network
    ours = network.config._attn_implementation
    network.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return network(torch.tensor([capture.input_ids]), output_attentions=True)
    finally:
        network.set_attn_implementation(ours)


# The files whose tests take longest without a browser: they start Ray, other processes, or pages in great number.
LONG = ("test_running.py", "test_docs.py", "test_install.py", "test_notebooks.py", "test_conversion.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes many minutes runs only if its marker is asked for. Each process gets an equal part of the list. Two begin
    with the tests in the browser, half of them each by the sizes of their files, and a third with the longest of the others: it
    needs neither the minute nor the memory that a browser and a server take to get ready. All end with short ones, of which
    whoever is done first takes some over."""
    if "exhaustive" not in config.option.markexpr:
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    in_browser = [item for item in items if item.get_closest_marker("browser")]
    others = [item for item in items if not item.get_closest_marker("browser")]
    others.sort(key=lambda item: item.path.name not in LONG)
    files = list(dict.fromkeys(item.path for item in in_browser))
    ends = list(accumulate(file.stat().st_size for file in files))
    half = sum(2 * end <= ends[-1] for end in ends) if processes > 1 else len(files)
    parts: list[list[pytest.Item]] = []
    for number in reversed(range(processes)):
        mine = {0: files[:half], 1: files[half:]}.get(number, [])
        part = [item for item in in_browser if item.path in mine]
        size = len(items) * (number + 1) // processes - len(items) * number // processes
        room = max(0, size - len(part)) if number else len(others)
        parts.insert(0, part + others[:room])
        others = others[room:]
    items[:] = [item for part in parts for item in part]
