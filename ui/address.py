"""The browser's address as it follows the page: it says what is shown, and one visit to a view is one entry of the history.

Streamlit makes an entry for every address that it is told, and tells a page of none that has come while it ran. So the address
is written here, and where the browser went to one that no run has read, it is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex

import streamlit as st
from streamlit.components.v2 import component

from ui import state

_FOLLOWER = component("headlight_address", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"))


def session() -> str:
    """A name of this session: a page that stays open while the server starts anew finds another."""
    return st.session_state.setdefault(state.SESSION, token_hex(8))


def follow(page: str, address: Mapping[str, Sequence[str]], *, read: Mapping[str, Sequence[str]], is_new: bool) -> None:
    """Have the browser's address say this. Once a run, at its end.

    page    its path below the app's own address
    read    what this session has read of the address with which somebody came to the page
    is_new  whether it is another view than that of the entry that the history is at
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
    _FOLLOWER(key=state.FOLLOWER, data=data)


def _pairs(address: Mapping[str, Sequence[str]]) -> list[list[str]]:
    return [[name, word] for name, words in address.items() for word in words]
