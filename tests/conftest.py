"""Real models, loaded once a run: both that are there without a network, and transformers' own eager twins of them."""

import gc
import os
from functools import cache
from typing import Any
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may wait for a model hub
# Ray gives its workers a low priority (nice 15). On a busy machine a test would wait for them for minutes.
os.environ.setdefault("RAY_worker_niceness", "0")
# What pages have computed is kept up to this size, by these processes and by the servers that they start.
os.environ.setdefault("HEADLIGHT_MEMORY", "200 MB")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # several processes with as many threads each would wait for one another

import pytest
from hypothesis import HealthCheck, settings
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import local_script_runner
from xdist.scheduler.loadscope import LoadScopeScheduling

from check import held
from tests import depth
from ui.freed import give_back, share_freed

pytest_plugins = ["tests.ended"]
share_freed()  # as the app does; each page runs in a thread of its own

# Nothing is timed in the tests: how long an example takes says only what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

HELD = pytest.StashKey[dict[str, int]]()
PATIENCE = 100  # seconds until what must come is missed, less than a test may take
TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n",
    "Ein Café in 東京 costs €5 😀, and the cat saw the other cat; <b>bold</b> $x$ *stars*",
)


@pytest.fixture(scope="session", autouse=True)
def pages_as_tests_run_them():
    """Before each run of a page AppTest reads what all installed packages say of themselves, which takes as long as the page:
    once is enough. It looks a thousand times a second whether the run has ended, for which the page waits, and gives up after a
    few seconds, which a busy machine needs for a page that does nothing."""
    once = cache(manifest_scanner.scan_component_manifests)
    look = local_script_runner.require_widgets_deltas

    def wait(runner: local_script_runner.LocalScriptRunner, _: float) -> None:
        runner._script_thread.join(PATIENCE)
        look(runner, 0.1)

    with (
        mock.patch.object(manifest_scanner, "scan_component_manifests", once),
        mock.patch.object(local_script_runner, "require_widgets_deltas", wait),
    ):
        yield


def pytest_collection_finish():
    """Whoever searches all of Python's objects for garbage leaves out what is imported by now. Nothing is frozen later: what is
    in use then would never be found once it is garbage, and a model's file would stay mapped."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def what_a_file_leaves_is_given_back():
    """To the system: the C library keeps what was freed, and a copy of a model has half a gigabyte."""
    yield
    gc.collect()
    give_back()


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


@pytest.fixture(scope="module")
def half():
    """Both real models in bfloat16, by name; unlike their files they take memory of their own."""
    from core import load_model

    return {name: load_model(name, dtype="bfloat16") for name in ("all-MiniLM-L6-v2", "SmolLM2-135M-Instruct")}


def eager_attentions(model, capture):
    """The same pass in transformers' own eager code; `.attentions` are its weights by layer."""
    import torch  # not above: the process that only hands out the tests is without it

    network = model.network
    ours = network.config._attn_implementation
    network.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return network(torch.tensor([capture.input_ids]), output_attentions=True)
    finally:
        network.set_attn_implementation(ours)


# --- which tests run, and where

# What starts Ray, or a browser and a server, takes more than a gigabyte and time to get ready.
LARGE = ("tests/core/corpus/test_running.py", "tests/browser/")
# Of the other files those that take longest: they start other processes, or pages in great number.
LONG = ("test_docs.py", "test_install.py", "test_notebooks.py", "test_conversion.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the tests that are thorough")


@pytest.hookimpl(tryfirst=True)  # before pytest asks for markers itself (-m)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is thorough, unless it is asked for, and what takes many minutes, unless its marker is. What is
    large comes first and the longest files next: `Files` gives them to the processes in this order. Files for which one visitor
    of the browser stays come after those that have visitors of their own, so that two large pages are never open at once."""
    for case in depth.left_out(items):
        case.add_marker("thorough")
    left_out = {"exhaustive"} - set(config.option.markexpr.split()) | ({"thorough"} if not config.option.all else set())
    is_chosen = {item: not any(map(item.get_closest_marker, left_out)) for item in items}
    chosen = [item for item in items if is_chosen[item]]
    config.hook.pytest_deselected(items=[item for item in items if not is_chosen[item]])
    staying = {item.path for item in chosen if "regular" in item.fixturenames}
    items[:] = sorted(chosen, key=lambda item: (large(item.nodeid), item.path in staying, item.path.name not in LONG))


def large(test: str) -> int:
    """Its place in LARGE, or after all of these."""
    return next((at for at, name in enumerate(LARGE) if test.startswith(name)), len(LARGE))


class Files(LoadScopeScheduling):
    """The tests of a file run in one process, which is given another file when it has few tests left. Those that are large all
    run in one process, one after the other."""

    def _split_scope(self, test: str) -> str:
        return "large" if large(test) < len(LARGE) else test.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    return Files(config, log)


# --- memory


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["held"] = held(os.getpid())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if at_its_end := getattr(node, "workeroutput", {}).get("held"):
        node.config.stash.setdefault(HELD, {})[node.gateway.id] = at_its_end


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much memory each process held when it had run its tests."""
    for process, size in (config.stash.get(HELD, None) or {"This process": held(os.getpid())}).items():
        terminalreporter.write_line(f"{process} held {size / 1e9:.2f} GB at its end" * bool(size))
