"""Components: what runs in the browser, made from the files beside a module, and what it sends."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from ui import state

MOST_CLICKS = 100  # in one message


def component_beside(file: str, *shared: str | Path) -> Any:
    """Return the component made from the HTML, style and script beside this module, after the `shared` files: names of files
    there, or paths, without their endings."""
    module = Path(file)
    parts = {}
    for ending in ("html", "css", "js"):
        sources = [module.parent / f"{name}.{ending}" for name in (*shared, module.stem)]
        parts[ending] = "\n".join(source.read_text("utf-8") for source in sources if source.is_file()) or None
    return component(f"headlight_{module.stem}", **parts)


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
