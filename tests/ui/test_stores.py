"""What is kept, and what is not worked out twice."""

from __future__ import annotations

import pytest

from ui.stores import Store


class Work:
    """Gives a text of so many letters, and counts how often it was asked to."""

    def __init__(self, letters: int) -> None:
        self.letters, self.count = letters, 0

    def __call__(self) -> str:
        self.count += 1
        return "x" * self.letters


def test_the_least_recently_used_is_forgotten_first() -> None:
    store = Store(10, len)
    first, second, third = Work(4), Work(4), Work(4)
    store.get("first", first)
    store.get("second", second)
    store.get("first", first)
    store.get("third", third)
    assert [name in store for name in ("first", "second", "third")] == [True, False, True]
    assert (first.count, second.count, third.count) == (1, 1, 1)


def test_what_is_larger_than_the_bound_is_kept_alone_until_something_else_comes() -> None:
    """Everything on a page that shows a pass asks for it; given but not kept, it would be read over and over."""
    store = Store(10, len)
    large = Work(11)
    store.get("small", Work(4))
    assert len(store.get("large", large)) == len(store.get("large", large)) == 11
    assert large.count == 1
    assert "small" not in store
    store.get("small", Work(4))
    assert "large" not in store


def test_work_that_failed_leaves_nothing_behind() -> None:
    store = Store(10, len)

    def fail() -> str:
        raise ValueError("no result")

    with pytest.raises(ValueError, match="no result"):
        store.get("it", fail)
    assert "it" not in store
    assert store.get("it", Work(3)) == "xxx"
