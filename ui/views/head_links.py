"""Links from one page to the same head on another, with its text and its chosen pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import streamlit as st
from streamlit.errors import StreamlitPageNotFoundError

from ui import state
from ui.controls.target import in_address
from ui.controls.what_if import Change
from ui.requests import HeadRequest
from ui.views.sources.heads import RealHead

PAGES = Path(__file__).parents[2] / "pages"


def link_to_steps(head: HeadRequest, cell: tuple[int, int] | None) -> None:
    """Link to the head stage by stage. cell: the chosen (query, key)"""
    _link("step_by_step", "All stages", ":material/steps:", head, cell, {state.SOURCE: ["real"]})


def link_to_heads(head: HeadRequest, cell: tuple[int, int] | None) -> None:
    """Link to the head among all heads of its model."""
    _link("heads", "All heads of this model", ":material/apps:", head, cell)


def link_to_what_if(head: HeadRequest, changes: Sequence[str] = (), label: str = "What if") -> None:
    """Link to the page where the head can be changed. changes: lines of `core.capturing.edit_lines`"""
    _link("what_if", label, ":material/tune:", head, None, {state.EDITS: list(changes)} if changes else {})


def link_to_text(head: HeadRequest, cell: tuple[int, int]) -> None:
    """Link to the head over a text from a corpus, with a pair of its tokens."""
    _link("heads", "Open live", ":material/open_in_new:", head, cell)


def link_to_changing(real: RealHead, change: Change) -> None:
    """Link from a head with another scale or mask to what the model then does; no link for a mask that was typed."""
    kind = real.kind if len(real.capture.kinds) > 1 else None
    changes = change.lines(real.layer, real.head, kind)
    if changes is not None:
        link_to_what_if(real.of, changes, "What does the model then do?")


def _link(
    page: str,
    label: str,
    icon: str,
    head: HeadRequest,
    cell: tuple[int, int] | None,
    more: Mapping[str, list[str]] = MappingProxyType({}),
) -> None:
    with suppress(StreamlitPageNotFoundError):  # a page that runs by itself
        st.page_link(PAGES / f"{page}.py", label=label, icon=icon, query_params=_there(head, cell) | dict(more))


def _there(head: HeadRequest, cell: tuple[int, int] | None) -> dict[str, str | list[str]]:
    """Return the address with which a page opens with this head and this pair, whatever was chosen there before.

    An empty word stands for a field's opening value. An image is in no address; the session holds it for all pages.
    """
    text = head.text
    address: dict[str, str | list[str]] = {state.TEXT: text.text, state.PAIR: text.pair or ""}
    address |= {state.MODEL: text.model.name, state.DTYPE: text.model.dtype, state.DEVICE: text.model.device}
    address |= {state.KIND: head.kind}
    address |= {state.LAYER: str(head.layer), state.HEAD: str(head.head)}
    address |= in_address(text.target) | {state.TRUNCATE: "" if text.keep is None else "true"}
    query, key = ("", "") if cell is None else map(str, cell)
    return address | {state.QUERY: query, state.KEY: key}
