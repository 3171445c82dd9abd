"""Keep the browser's address up to date with the page; one visit to a view is one entry of the browser's history.

Streamlit adds an entry for every address that it is given, and does not report an address that comes while a page runs. So the
address is written here, and if the browser has gone to an address that no run has read, it is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from ui import state
from ui.in_browser import component_beside, session

_FOLLOWER = component_beside(__file__)


def follow(page: str, address: Mapping[str, Sequence[str]], *, read: Mapping[str, Sequence[str]], is_new: bool) -> None:
    """Set the browser's address. Call it once a run, at its end.

    page    the path of the page below the app's own address
    read    the address with which somebody came to the page, as this session has read it
    is_new  whether this is another view than the current entry of the browser's history
    """
    st.session_state[state.RUN_NUMBER] = number = st.session_state.get(state.RUN_NUMBER, 0) + 1
    data = {
        "session": session(),
        "run": number,
        "page": page,
        "says": _pairs(address),
        "read": _pairs(read),
        "isNew": is_new,
    }
    _FOLLOWER(key=state.FOLLOWER, data=data, on_connected_change=lambda: None)


def _pairs(address: Mapping[str, Sequence[str]]) -> list[list[str]]:
    return [[name, word] for name, words in address.items() for word in words]
