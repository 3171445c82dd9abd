"""Results that are there already when a test begins."""

from typing import Any

from ui.cache import Cached


def keep(function: Cached, result: Any, *request: Any) -> None:
    """Keep a result as if the function had returned it for this request, unless it has one already."""
    function.store.get(function.key(*request), lambda: result)
