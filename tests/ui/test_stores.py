"""Stores that several sessions use at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from ui.stores import SharedStore


def test_sessions_that_ask_at_once_wait_for_one_piece_of_work() -> None:
    store, begun, done = SharedStore(2), Event(), Event()

    def slow() -> object:
        begun.set()
        assert done.wait(60)
        return object()

    with ThreadPoolExecutor() as sessions:
        try:
            first = sessions.submit(store.get, "model", slow)
            assert begun.wait(60)
            second = sessions.submit(store.get, "model", object)
            assert sessions.submit(store.get, "another model", lambda: "at once").result(60) == "at once"
            with pytest.raises(TimeoutError):
                second.result(0.2)
        finally:
            done.set()
        assert first.result(60) is second.result(60) is store.get("model", object)


def test_work_that_failed_is_tried_again() -> None:
    store = SharedStore(2)
    with pytest.raises(ZeroDivisionError):
        store.get("model", lambda: 1 / 0)
    assert "model" not in store
    assert store.get("model", lambda: "found") == "found"
