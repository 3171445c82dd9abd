"""Putting a figure on a page: the one place where charts are drawn."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from ui import shown, state

# Plotly's own camera makes a picture without title or model: the dialog "Share" makes better ones.
_REMOVED = ["select2d", "lasso2d", "autoScale2d", "toImage"]
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": _REMOVED}


def show_chart(
    figure: go.Figure,
    name: str,
    alt: str,
    *,
    title: str = "",
    numbers: shown.Numbers | None = None,
    tools: bool = False,
) -> None:
    """The figure under the key `state.picture(name)`.

    alt      what a person who cannot see it is told
    title    what it is called where it is taken away; left out, its name
    numbers  the exact ones that it was drawn from, where these are more than it draws
    tools    whether Plotly's own buttons, for zooming, appear beside it
    """
    shown.now().pictures[name] = shown.Picture(name, title or name[:1].upper() + name[1:], figure, alt, numbers)
    config = _CONFIG if tools else {"displayModeBar": False}
    st.plotly_chart(figure, key=state.picture(name), theme=None, config=config, alt=alt)


def show_heatmap(
    figure: go.Figure,
    name: str,
    alt: str,
    compact: bool = False,
    *,
    title: str = "",
    numbers: shown.Numbers | None = None,
) -> None:
    """The figure, and a word where one drawn cell stands for several."""
    show_chart(figure, name, alt, title=title, numbers=numbers, tools=not compact)
    rows, columns = figure.layout.meta["row_block"], figure.layout.meta["column_block"]
    if rows * columns > 1:
        st.caption(f"Each drawn cell is the strongest of {rows} × {columns}.")
