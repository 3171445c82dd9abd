"""Putting a heatmap on a page."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from ui import state

_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}


def show_heatmap(figure: go.Figure, name: str, alt: str, compact: bool = False) -> None:
    """The figure, and a word where one drawn cell stands for several."""
    st.plotly_chart(
        figure,
        key=state.picture(name),
        theme=None,
        config=_CONFIG | ({"displayModeBar": False} if compact else {}),
        alt=alt,
    )
    rows, columns = figure.layout.meta["row_block"], figure.layout.meta["column_block"]
    if rows * columns > 1:
        st.caption(f"Each drawn cell is the strongest of {rows} × {columns}.")
