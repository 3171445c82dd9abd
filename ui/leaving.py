"""What visitors leave behind: results that only they have asked for are forgotten, and the memory given back to the system."""

import gc
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from threading import Event, Thread

from streamlit.runtime import exists, get_instance

from ui.cache import MEMORY, Memory
from ui.freed import give_back
from ui.serving import forget_pages, sessions

LOOK = 15.0  # seconds between two looks. Who has left is missed twice: a page that is loaded again is another session


@contextmanager
def forgetting() -> Iterator[None]:
    """While this lasts, another thread looks now and then for those who have left."""
    is_over = Event()
    Thread(target=_look, args=[is_over], daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _look(is_over: Event) -> None:
    gone: Set[str] = set()
    while not is_over.wait(LOOK):
        gone = forget(MEMORY, gone, lambda session: exists() and get_instance().is_active_session(session))


def forget(memory: Memory, missed: Set[str], is_there: Callable[[str], bool]) -> Set[str]:
    """Forget what only sessions have asked for that were missed before and are not there now. Return all that are not there."""
    gone = {session for session in memory.sessions() | sessions() if not is_there(session)}
    left = gone & missed
    if any((forget_pages(left), memory.leave(left))):
        gc.collect()
        give_back()
    return gone
