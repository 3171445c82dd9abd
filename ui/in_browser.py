"""Components: what runs in the browser, made from the files beside a module, and what it sends; and the browser's address."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from ui import state

MOST_CLICKS = 100  # in one message


def component_beside(file: str, *names: str | Path) -> Any:
    """Return the component made from the HTML, style and script of these names beside a module: names of files there, or paths,
    without their endings. The last one is that of the component."""
    parts = {}
    for ending in ("html", "css", "js"):
        sources = [Path(file).parent / f"{name}.{ending}" for name in names]
        parts[ending] = "\n".join(source.read_text("utf-8") for source in sources if source.is_file()) or None
    return component(f"headlight_{names[-1]}", **parts)


def session() -> str:
    """Return a random name of this session: a page that stays open while the server restarts sees another one."""
    return st.session_state.setdefault(state.SESSION, token_hex(8))


def sent(key: str, name: str) -> Any:
    """Return what a component has sent under this name; None if the component is gone, since messages can come late."""
    return getattr(st.session_state.get(key), name, None)


def clicks_seen(key: str) -> int:
    """Return the number of clicks that have been read from a component that counts them: see clicks.js."""
    return st.session_state.setdefault(state.CLICKS_SEEN, {}).get(key, 0)


def new_clicks(key: str) -> list[Any]:
    """Return the clicks that a component has sent and that have not been read yet. From now on they are read.

    Of more than MOST_CLICKS the first ones: nobody clicks so often between two runs, but a browser can send anything.
    """
    seen = clicks_seen(key)
    match sent(key, "clicks"):
        case {"first": int(first), "waiting": list(clicks)} if 0 <= first <= seen:
            st.session_state[state.CLICKS_SEEN][key] = max(seen, first + len(clicks))
            return clicks[seen - first :][:MOST_CLICKS]
    return []


# --- the address

_FOLLOWER = component_beside(__file__, "address")


def follow(page: str, address: Mapping[str, Sequence[str]], *, read: Mapping[str, Sequence[str]], is_new: bool) -> None:
    """Set the browser's address. Call it once a run, at its end. One visit to a view is one entry of the browser's history.

    Streamlit adds an entry for every address that it is given, and does not report an address that comes while a page runs. So
    the address is written here, and if the browser has gone to an address that no run has read, it is sent again.

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
