"""One bound for what is kept and what runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from core import InputError
from ui.memory import Memory


def keep(memory: Memory, name: str, size: int) -> None:
    memory.get(name, lambda: SimpleNamespace(nbytes=size))


def test_what_is_kept_makes_room_for_what_runs() -> None:
    memory = Memory(10)
    keep(memory, "old", 4)
    keep(memory, "new", 4)
    assert memory.reserve(6)
    assert ("old" in memory, "new" in memory) == (False, True)
    with memory.held(6):
        keep(memory, "meanwhile", 3)  # of the six, so that nothing else has to go
        assert ("new" in memory, memory.reserved, memory.kept) == (True, 3, 7)
    assert (memory.reserved, memory.kept) == (0, 7)


def test_what_runs_is_never_more_than_there_is() -> None:
    memory = Memory(10)
    assert memory.reserve(7)
    assert not memory.reserve(4)
    with memory.held(7):
        pass
    assert memory.reserve(4)


def test_work_within_work_gives_back_what_is_its_own() -> None:
    memory = Memory(10)
    memory.reserve(6)
    with memory.held(6):
        memory.reserve(2)
        with memory.held(2):
            keep(memory, "result", 5)
            assert (memory.reserved, memory.kept) == (3, 5)
        assert memory.reserved == 3
    assert (memory.reserved, memory.kept) == (0, 5)


def test_what_can_never_fit_is_refused_with_both_figures() -> None:
    memory = Memory(2 * 10**9)
    memory.check(2 * 10**9)
    with pytest.raises(InputError, match=r"needs about 3\.1 GB; this host allows 2\.0 GB") as refused:
        memory.check(3.1 * 10**9)
    assert refused.value.field == "text"
