"""What components send from the browser."""

from __future__ import annotations

from typing import Any

import streamlit as st


def sent(key: str, name: str) -> Any:
    """What the component of this key has sent under this name; None where it has gone: messages can come late."""
    return getattr(st.session_state.get(key), name, None)
