"""Addresses of views in the app, which core does not know: the words that docs/links.md lists, as far as answers need them.

    <base>/<page>?model=...&text=...&layer=18&head=6&version=2

Fields that are left out show what the page opens with. The tests open these words on the app's own pages.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

VERSION = 2  # of complete addresses: whoever opens one sees nothing that was chosen before
SHORT, LONGEST = 2_000, 7_500  # characters of an address beside an answer, and of one alone: the app reads 8,000

# The words of each page that agents can name.
_TEXT = ("model", "text", "target", "target_as")
_HEAD = (*_TEXT, "kind", "layer", "head")
_CELL = (*_HEAD, "query", "key")
PAGES = {
    "gallery": (),
    "heads": (*_CELL, "metric", "on"),
    "step_by_step": (*_CELL, "stage"),
    "head": _CELL,
    "what_if": (*_CELL, "edit", "writes"),
    "why": ("model", "text", "answer", "than", "like", "path", "stop", "side"),
    "generation": ("model", "text", "new", "choice", "heat", "top_k", "top_p", "seed"),
    "claims": ("model", "claims", "texts", "checked_on"),
}
MEAN_OF_ALL = "the mean of all tokens"  # what `than` says on the page Why


def address(base: str, page: str, most: int = SHORT, **words: Any) -> str | None:
    """The address of a view; None if it would have more than `most` characters.

    words  of the page; one that is None is left out, and a list is said once for each entry
    base   of the app, such as "http://localhost:8501"
    """
    said = {name: value for name, value in words.items() if value is not None}
    assert said.keys() <= {*PAGES[page]}, f"{page} has no {said.keys() - {*PAGES[page]}}"
    if "target" in said:
        said["target_as"] = "text"
    whole = f"{base.rstrip('/')}/{page}?{urlencode(said | {'version': VERSION}, doseq=True)}"
    return whole if len(whole) <= most else None
