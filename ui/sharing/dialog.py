"""The dialog "Share": everything that can be taken away from the page, one section below the other."""

from __future__ import annotations

import streamlit as st

from ui.shown import Shown


def open_dialog(shown: Shown) -> None:
    """Over the page, once all of it is there."""
    _dialog(shown)


@st.dialog("Share", width="large")
def _dialog(shown: Shown) -> None:
    names = [picture.name for picture in shown.pictures.values()]
    st.write(f"{shown.title}: {len(names)} pictures")
