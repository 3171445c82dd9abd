"""Show a chart on a page. All charts are shown here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import plotly.graph_objects as go
import streamlit as st

from core.figures.chart import Chart
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT_ON_DARK, set_signed_colours
from ui import presenting, shown, state
from ui.markdown import plain
from ui.views.common.tables import table

# Plotly's own camera makes a picture without title or model: the dialog "Share" makes better ones.
_REMOVED = ["select2d", "lasso2d", "autoScale2d", "toImage"]
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": _REMOVED}


def show_chart(
    chart: Chart,
    name: str,
    alt: str,
    *,
    title: str = "",
    numbers: shown.Numbers | None = None,
    tools: bool = False,
    fills: bool = True,
) -> None:
    """Draw the chart under the key `state.picture(name)`; below it, where a visitor wants tables, its strongest values.

    alt      what kind of picture it is: a person who cannot see it is told this, and then the chart's description
    title    what it is called in Share; left out, its name
    numbers  the exact ones that it was drawn from, where these are more than it draws
    tools    whether Plotly's own buttons, for zooming, appear beside it
    fills    whether it grows with the window while presenting
    """
    shown.now().pictures[name] = shown.Picture(name, title or name[:1].upper() + name[1:], chart, alt, numbers)
    words = f"{alt} {chart.description}".strip()
    config = _CONFIG if tools and not presenting.is_on() else {"displayModeBar": False}
    height = "stretch" if fills and presenting.is_on() else "content"
    with _colours_of_the_theme(chart.figure):
        st.plotly_chart(chart.figure, key=state.picture(name), theme=None, config=config, alt=words, height=height)
    if st.session_state.get(state.TABLES) and not presenting.is_on() and (strongest := chart.strongest()) is not None:
        table(list(map(plain, strongest.headings)), [list(map(plain, row)) for row in strongest.rows])
        st.caption(plain(strongest.left_out))


@contextmanager
def _colours_of_the_theme(figure: go.Figure) -> Iterator[None]:
    """Give the figure the colours of the page's theme while it is sent, and take them back for exports."""
    if st.context.theme.type != "dark":
        yield
        return
    figure.update_layout(font_color=TEXT_ON_DARK)
    set_signed_colours(figure, DIVERGING_ON_DARK)
    try:
        yield
    finally:  # Streamlit may end the run here
        figure.update_layout(font_color=None)
        set_signed_colours(figure, DIVERGING)


def show_heatmap(
    chart: Chart, name: str, alt: str, compact: bool = False, *, title: str = "", numbers: shown.Numbers | None = None
) -> None:
    """Draw the heatmap, and say so where one drawn cell stands for several."""
    show_chart(chart, name, alt, title=title, numbers=numbers, tools=not compact)
    rows, columns = chart.block
    if rows * columns > 1:
        st.caption(f"Each drawn cell is the strongest of {rows} × {columns}.")
