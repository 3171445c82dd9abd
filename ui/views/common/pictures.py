"""Putting a figure on a page: the one place where charts are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import plotly.graph_objects as go
import streamlit as st

from core.figures.findings import finding, strongest
from core.figures.palette import TEXT_ON_DARK
from ui import presenting, shown, state
from ui.markdown import plain
from ui.views.common.tables import table

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
    fills: bool = True,
) -> None:
    """The figure under the key `state.picture(name)`; below it, where a visitor wants tables, its strongest values.

    alt      what kind of picture it is: a person who cannot see it is told this, and what the picture shows
    title    what it is called where it is taken away; left out, its name
    numbers  the exact ones that it was drawn from, where these are more than it draws
    tools    whether Plotly's own buttons, for zooming, appear beside it
    fills    whether it grows with the window while presenting
    """
    said = f"{alt} {finding(figure)}".strip()
    shown.now().pictures[name] = shown.Picture(name, title or name[:1].upper() + name[1:], figure, said, numbers)
    config = _CONFIG if tools and not presenting.is_on() else {"displayModeBar": False}
    height = "stretch" if fills and presenting.is_on() else "content"
    with _text_for_the_theme(figure):
        st.plotly_chart(figure, key=state.picture(name), theme=None, config=config, alt=said, height=height)
    if st.session_state.get(state.TABLES) and not presenting.is_on():
        _show_table(figure)


@contextmanager
def _text_for_the_theme(figure: go.Figure) -> Iterator[None]:
    """Text that can be read on the page's background, while the figure is sent; as it was for whoever takes it away."""
    if st.context.theme.type != "dark":
        yield
        return
    figure.update_layout(font_color=TEXT_ON_DARK)
    try:
        yield
    finally:  # here a run ends that nobody waits for any more
        figure.update_layout(font_color=None)


def _show_table(figure: go.Figure) -> None:
    found = strongest(figure)
    if found is not None:
        table([plain(heading) for heading in found.headings], [[plain(cell) for cell in row] for row in found.rows])
        st.caption(plain(found.left_out))


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
