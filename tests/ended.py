"""A test that does not end is ended and told of, and the run goes on with the next one.

Playwright's calls may wait for ever. Its driver, a process of its own, keeps their time: where it hangs, no timeout comes, and
killing the browser changes nothing. Where only a page hangs, calls without a timeout stand: `evaluate`, `mouse`, `close`.

pytest-timeout says how long a test may take: by `timeout` in pyproject.toml, a marker, or --timeout. What happens then is here.
Playwright waits for answers in greenlets, of which a thread shows only one; asyncio keeps to itself what is raised in its
callbacks, so it is raised again until it arrives; and what is put away after a failure has to end too.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from types import FrameType

import pytest
from pytest_timeout import Settings, is_debugging

# How many times slower than this machine the browser and the servers are, to find tests and pages that depend on their speed.
SLOW_BROWSER, SLOW_SERVER = (float(os.environ.get(f"SLOW_{what}", "1")) for what in ("BROWSER", "SERVER"))
LONGER = 3 if SLOW_BROWSER * SLOW_SERVER > 1 else 1  # how many times as long as elsewhere a test may take
AGAIN = 5.0  # seconds
DEEPEST = 30  # calls that are told of each stack
SETTINGS = pytest.StashKey[Settings]()


class Ended(pytest.fail.Exception):
    """What was done had no end. `stacks` says where everything stood."""

    stacks = ""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Ended in the main thread if what is done takes longer."""
    _begin(seconds)
    try:
        yield
    finally:
        _let_go()


def _begin(seconds: float) -> None:
    def strike(_: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        if not is_debugging():
            ended = Ended(f"It had not ended after {seconds:g} s.")
            ended.stacks = stacks(frame)
            raise ended

    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)


def _let_go() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def stacks(interrupted: FrameType | None) -> str:
    """Of all threads, and of all greenlets that wait."""
    gc.unfreeze()  # what is frozen is not among the objects that are told
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames() | {threading.get_ident(): interrupted}
    found = [(f"Thread {names.get(ident, ident)}", frame) for ident, frame in frames.items()]
    greenlets = [one for one in gc.get_objects() if hasattr(type(one), "gr_frame")]
    found += [(f"Greenlet {one}", one.gr_frame) for one in greenlets if one.gr_frame is not None]
    return "\n".join(f"{name}\n{''.join(traceback.format_stack(frame)[-DEEPEST:])}" for name, frame in found)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool | None:
    """Called by pytest-timeout before a test is set up."""
    item.stash[SETTINGS] = settings
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None  # it ends the whole process
    _begin(settings.timeout * LONGER)
    item.cancel_timeout = _let_go  # what pytest-timeout calls in the end
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    ended = call.excinfo.value if call.excinfo is not None else None
    if isinstance(ended, Ended):
        item.config.hook.pytest_timeout_cancel_timer(item=item)
    report = yield
    if isinstance(ended, Ended):
        report.sections.append(("Where everything stood when it was ended", ended.stacks))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """pytest-timeout lets go at the first failure."""
    if SETTINGS in item.stash:
        item.config.hook.pytest_timeout_cancel_timer(item=item)
        item.config.hook.pytest_timeout_set_timer(item=item, settings=item.stash[SETTINGS])
    return (yield)
