"""Layers are measured side by side, each with one thread of torch's."""

import time
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


def test_results_come_in_order_whichever_is_done_first_and_no_more_items_are_taken_than_there_are_threads():
    pairs, taken, done, told = Barrier(2), [], [], []

    def items():
        for item in range(1, 20):
            taken.append(item)
            assert len(taken) - len(done) <= 3
            yield item

    def work(item):
        if item in (1, 2):
            pairs.wait(PATIENCE)  # the second begins before the first is done, or neither ends
        done.append(item)
        return item * item

    assert side_by_side(work, items(), told.append) == [item * item for item in range(1, 20)]
    assert told == [*range(1, 20)]
    assert side_by_side(work, [], told.append) == []


def test_each_item_is_computed_with_one_thread_and_other_threads_keep_theirs():
    told = {}

    def work(_):
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
def test_an_error_reaches_the_caller_and_nothing_else_begins(where):
    begun = []

    def step(place, number):
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
    begun = set()

    def for_ever(item):
        while True:
            begun.add(item)
            stop_point()

    def check(_):
        if len(begun) == 3:
            raise Ended

    before = torch.get_num_threads()
    with stopped_by(check), pytest.raises(Ended):
        side_by_side(for_ever, range(9))
    assert begun == {0, 1, 2}
    assert torch.get_num_threads() == before


def test_how_much_of_the_items_is_done_is_told_and_they_wait_while_the_caller_waits():
    told, going_on, passed = Event(), Event(), []

    def work(item):
        stop_point((item + 1) / 8)
        going_on.wait(20)
        passed.append(item)
        stop_point()
        passed.append(item)

    def check(part):
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
    def work(_):
        begun = time.thread_time()
        while time.thread_time() < begun + 0.05:
            stop_point()

    before, own = processor_time(), time.thread_time()
    side_by_side(work, range(4))
    assert processor_time() - before >= time.thread_time() - own + 4 * 0.05


def test_whoever_waits_for_a_lock_can_be_ended():
    lock = Lock()

    def check(_):
        raise Ended

    with held(lock), stopped_by(check), pytest.raises(Ended), held(lock):
        pass
    with held(lock):
        pass
