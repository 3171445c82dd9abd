"""Layers are measured side by side, each with one thread of torch's."""

import time
from collections.abc import Iterator
from functools import partial
from threading import Barrier, Event, Lock, Thread

import pytest
import torch

from core.progress import held, stop_point, stopped_by
from core.threads import one_thread, processor_time, side_by_side
from tests.conftest import PATIENCE


class Ended(BaseException):
    pass


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items_whichever_is_done_first():
    pairs = Barrier(2)

    def work(item: int) -> int:
        if item in (1, 2):
            pairs.wait(PATIENCE)  # the second begins before the first is done, or neither ends
        return item * item

    told: list[int] = []
    assert side_by_side(work, iter(range(1, 8)), told.append) == [1, 4, 9, 16, 25, 36, 49]
    assert told == [1, 2, 3, 4, 5, 6, 7]
    assert side_by_side(work, [], told.append) == []


def test_no_more_items_are_taken_than_there_are_threads():
    taken: list[int] = []
    done: list[int] = []
    waiting: list[int] = []

    def items() -> Iterator[int]:
        for item in range(20):
            taken.append(item)
            waiting.append(len(taken) - len(done))
            yield item

    side_by_side(done.append, items())
    assert max(waiting) <= 3


def test_each_item_is_computed_with_one_thread_and_other_threads_keep_theirs():
    told: dict[str, int] = {}

    def work(_: int) -> int:
        return torch.get_num_threads()

    assert side_by_side(work, range(6)) == [1] * 6
    with one_thread():
        side_by_side(work, range(2))
        told["here"] = torch.get_num_threads()
        other = Thread(target=lambda: told.update(elsewhere=torch.get_num_threads()))
        other.start()
        other.join()
    told["afterwards"] = torch.get_num_threads()
    assert told == {"here": 1, "elsewhere": 3, "afterwards": 3}


@pytest.mark.parametrize("where", ["work", "items", "progress"])
def test_an_error_reaches_the_caller_and_nothing_else_begins(where: str):
    begun: list[int] = []

    def step(place: str, number: int) -> int:
        if place == "work":
            begun.append(number)
        if (place, number) == (where, 4):
            raise RuntimeError(where)
        return number

    items = (step("items", item) for item in range(50))
    with pytest.raises(RuntimeError, match=where):
        side_by_side(partial(step, "work"), items, partial(step, "progress"))
    assert max(begun) < 9


def test_what_ends_the_thread_that_waits_ends_the_others_at_their_next_stop_point():
    begun: set[int] = set()

    def for_ever(item: int) -> None:
        while True:
            begun.add(item)
            stop_point()

    def check(_: float | None) -> None:
        if len(begun) == 3:
            raise Ended

    before = torch.get_num_threads()
    with stopped_by(check), pytest.raises(Ended):
        side_by_side(for_ever, range(9))
    assert begun == {0, 1, 2}
    assert torch.get_num_threads() == before


def test_how_much_of_the_items_is_done_is_told_and_they_wait_while_the_caller_waits():
    told, going_on, passed = Event(), Event(), []

    def work(item: int) -> None:
        stop_point((item + 1) / 8)
        going_on.wait(20)
        passed.append(item)
        stop_point()
        passed.append(item)

    def check(part: float | None) -> None:
        if part == 3 / 8:  # of both
            going_on.set()
            while len(passed) < 2:
                time.sleep(0.001)
            time.sleep(0.05)
            told.set()
            assert len(passed) == 2  # none has gone past its next stop point

    with stopped_by(check):
        side_by_side(work, range(2), lambda _: None)
    assert told.is_set()
    assert len(passed) == 4


def test_the_time_of_the_other_threads_counts():
    def work(_: int) -> None:
        begun = time.thread_time()
        while time.thread_time() < begun + 0.05:
            stop_point()

    before, own = processor_time(), time.thread_time()
    side_by_side(work, range(4))
    assert processor_time() - before >= time.thread_time() - own + 4 * 0.05


def test_whoever_waits_for_a_lock_can_be_ended():
    lock = Lock()

    def check(_: float | None) -> None:
        raise Ended

    with held(lock), stopped_by(check), pytest.raises(Ended), held(lock):
        pass
    with held(lock):
        pass
