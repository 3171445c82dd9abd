"""Putting a figure on a page: the one place where charts are drawn."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from ui import presenting, shown, state

_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}


def show_chart(figure: go.Figure, name: str, alt: str, *, tools: bool = False, fills: bool = True) -> None:
    """The figure under the key `state.picture(name)`.

    alt    what a person who cannot see it is told
    tools  whether Plotly's own buttons, for zooming, appear beside it
    fills  whether it grows with the window while presenting
    """
    shown.now().pictures[name] = shown.Picture(name, figure, alt)
    config = _CONFIG if tools and not presenting.is_on() else {"displayModeBar": False}
    height = "stretch" if fills and presenting.is_on() else "content"
    st.plotly_chart(figure, key=state.picture(name), theme=None, config=config, alt=alt, height=height)


def show_heatmap(figure: go.Figure, name: str, alt: str, compact: bool = False) -> None:
    """The figure, and a word where one drawn cell stands for several."""
    show_chart(figure, name, alt, tools=not compact)
    rows, columns = figure.layout.meta["row_block"], figure.layout.meta["column_block"]
    if rows * columns > 1:
        st.caption(f"Each drawn cell is the strongest of {rows} × {columns}.")
