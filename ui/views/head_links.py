"""Links from one page to the same head on another, with its text and its chosen pair."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitPageNotFoundError

from ui import state, stores

PAGES = Path(__file__).parents[2] / "pages"


def link_to_steps(head: stores.HeadRequest, cell: tuple[int, int] | None) -> None:
    """The head stage by stage; cell: the (query, key) that is chosen."""
    _link("step_by_step", "Its steps", ":material/steps:", head, cell)


def link_to_heads(head: stores.HeadRequest, cell: tuple[int, int] | None) -> None:
    """The head among all the heads of its model."""
    _link("heads", "All heads of this model", ":material/apps:", head, cell)


def _link(page: str, label: str, icon: str, head: stores.HeadRequest, cell: tuple[int, int] | None) -> None:
    with suppress(StreamlitPageNotFoundError):  # a page that runs by itself
        st.page_link(PAGES / f"{page}.py", label=label, icon=icon, query_params=_there(head, cell))


def _there(head: stores.HeadRequest, cell: tuple[int, int] | None) -> dict[str, str]:
    """What the address says, so that the page opens with this head, whatever was chosen there before.

    An image is in no address, and comes along by itself.
    """
    text = head.text
    said = {state.SOURCE: "real", state.TEXT: text.text, state.MODEL: text.model, state.KIND: head.kind}
    said |= {state.LAYER: str(head.layer), state.HEAD: str(head.head)}
    said |= {key: words for key, words in ((state.PAIR, text.pair), (state.TARGET, text.target)) if words}
    said |= {state.TRUNCATE: "true"} if text.keep is not None else {}
    # Not under the names of their fields: what a session holds in these, even nothing, Streamlit prefers to a link within the
    # app. All else that is named here the session holds anyway, or no field is bound to it.
    return said if cell is None else said | {state.CELL: f"{cell[0]}-{cell[1]}"}
