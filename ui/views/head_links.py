"""Links from one page to the same head on another, with its text and its chosen pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import streamlit as st
from streamlit.errors import StreamlitPageNotFoundError

from ui import state, stores
from ui.controls.target import in_address
from ui.controls.what_if import Change
from ui.views.scene import RealHead

PAGES = Path(__file__).parents[2] / "pages"


def link_to_steps(head: stores.HeadRequest, cell: tuple[int, int] | None) -> None:
    """The head stage by stage; cell: the (query, key) that is chosen."""
    _link("step_by_step", "Its steps", ":material/steps:", head, cell)


def link_to_heads(head: stores.HeadRequest, cell: tuple[int, int] | None) -> None:
    """The head among all the heads of its model."""
    _link("heads", "All heads of this model", ":material/apps:", head, cell)


def link_to_what_if(head: stores.HeadRequest, changes: Sequence[str] = (), label: str = "What if") -> None:
    """The head where it can be changed; changes: as lines of `core.capturing.edit_lines`."""
    _link("what_if", label, ":material/tune:", head, None, {state.EDITS: list(changes)} if changes else {})


def open_live(head: stores.HeadRequest, cell: tuple[int, int], key: str) -> None:
    """A button of this key that leaves for a head over a text from elsewhere, with a pair of tokens.

    The page has fields for layer and head of its own, and these are chosen there.
    """
    words = "The same text in the same head on the page Heads"
    if st.button("Open live", key=key, icon=":material/open_in_new:", type="tertiary", help=words):
        for held in (
            state.TEXT,
            state.PAIR,
            state.MODEL,
            state.DTYPE,
            state.DEVICE,
            state.KIND,
            state.QUERY,
            state.KEY,
        ):
            st.session_state.pop(held, None)  # or Streamlit would prefer it to what a link within the app says
        said = {name: words for name, words in _there(head, cell).items() if name not in (state.LAYER, state.HEAD)}
        st.switch_page(PAGES / "heads.py", query_params=said)


def link_to_changing(real: RealHead, change: Change) -> None:
    """From a head with another scale or mask to what its model then does; a mask that was typed leads nowhere."""
    kind = real.kind if len(real.capture.kinds) > 1 else None
    changes = change.lines(real.layer, real.head, kind)
    if changes is not None:
        link_to_what_if(real.of, changes, "And what would the model then do?")


def _link(
    page: str,
    label: str,
    icon: str,
    head: stores.HeadRequest,
    cell: tuple[int, int] | None,
    more: Mapping[str, list[str]] = MappingProxyType({}),
) -> None:
    with suppress(StreamlitPageNotFoundError):  # a page that runs by itself
        st.page_link(PAGES / f"{page}.py", label=label, icon=icon, query_params=_there(head, cell) | dict(more))


def _there(head: stores.HeadRequest, cell: tuple[int, int] | None) -> dict[str, str | list[str]]:
    """What the address says, so that the page opens with this head, whatever was chosen there before.

    An image is in no address, and comes along by itself.
    """
    text = head.text
    said: dict[str, str | list[str]] = {state.SOURCE: "real", state.TEXT: text.text}
    said |= {state.MODEL: text.model.name, state.DTYPE: text.model.dtype, state.DEVICE: text.model.device}
    said |= {state.KIND: head.kind}
    said |= {state.LAYER: str(head.layer), state.HEAD: str(head.head)}
    said |= in_address(text.target) | ({state.PAIR: text.pair} if text.pair else {})
    said |= {state.TRUNCATE: "true"} if text.keep is not None else {}
    # Not under the names of their fields: what a session holds in these, even nothing, Streamlit prefers to a link within the
    # app. All else that is named here the session holds anyway, or no field is bound to it.
    return said if cell is None else said | {state.CELL: f"{cell[0]}-{cell[1]}"}
