"""Results that are there already when a test begins."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ui.cache import Cached


@pytest.fixture
def keep() -> Iterator[Callable[..., None]]:
    """Keeps a result as if the function had returned it for this request, unless it has one already; until the test ends:
    nobody has recorded the call that made it, which other tests want to see."""
    kept = []

    def keep(function: Cached, result: Any, *request: Any) -> None:
        key = function.key(*request)
        if key not in function.store:
            function.store.get(key, lambda: result)
            kept.append((function.store, key))

    yield keep
    for store, key in kept:
        store._results.pop(key, None)
