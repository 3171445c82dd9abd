"""Messages that components send from the browser."""

from __future__ import annotations

from typing import Any

import streamlit as st


def sent(key: str, name: str) -> Any:
    """Return what a component has sent under this name; None if the component is gone, since messages can come late."""
    return getattr(st.session_state.get(key), name, None)
