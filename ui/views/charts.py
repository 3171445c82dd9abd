"""Charts and tables on a page, and the magnified window of a long text."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike
from plotly.basedatatypes import BaseFigure

from core.attention.rowwise import Overview, RowwiseMatrix, around
from core.figures.chart import Chart, copied, packed
from core.figures.palette import DIVERGING_ON_DARK, TEXT_ON_DARK, set_signed_colours
from ui import presenting, shown, state
from ui.markdown import plain

# Plotly's own camera makes a picture without title or model: the dialog "Share" makes better ones. One zooms by drawing a
# rectangle: with two more buttons for it, the bar would cover the name of the columns of a narrow picture.
_REMOVED = ["select2d", "lasso2d", "autoScale2d", "toImage", "zoomIn2d", "zoomOut2d"]
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": _REMOVED}
SIDE = 32  # tokens of a magnified window
Pair = tuple[int, int]  # (query, key)


def show_chart(
    chart: Chart,
    name: str,
    alt: str,
    *,
    title: str = "",
    numbers: shown.ShownNumbers | None = None,
    tools: bool | None = None,
    fills: bool = True,
    grows: bool = False,
    beside: str = "",
) -> None:
    """Draw the chart under the key `state.picture(name)`; below it, where a visitor wants tables, its strongest values.

    Where one drawn cell stands for several, a sentence says so.

    alt      what kind of picture it is: a person who cannot see it is told this, and then the chart's description
    title    what it is called in Share; left out, its name
    numbers  the exact ones that it was drawn from, where these are more than it draws
    tools    whether Plotly's own buttons, for zooming, appear beside it; None: beside a heatmap
    fills    whether it grows with the window while presenting
    grows    whether it grows with the window at a desk, too
    beside   the name of the picture that it is compared with, for Share
    """
    page, title = shown.now(), title or name[:1].upper() + name[1:]
    page.pictures[name] = shown.Picture(name, title, chart, alt, numbers, page.aside, beside)
    if shown.is_quiet():
        return
    words = f"{alt} {chart.description}".strip()
    if tools is None:
        tools = any(trace["type"] == "heatmap" for trace in chart.traces)
    config = _CONFIG if tools and not presenting.is_on() else {"displayModeBar": False}
    grows = grows and not presenting.is_on()
    height = "stretch" if grows or (fills and presenting.is_on()) else "content"
    drawing = _Drawing(chart, dark=st.context.theme.type == "dark")
    room = {"key": state.one_of(state.GROWING, name), "height": chart.layout["height"], "border": False}
    with st.container(**room) if grows else nullcontext():
        st.plotly_chart(drawing, key=state.picture(name), theme=None, config=config, alt=words, height=height)
    if st.session_state.get(state.TABLES) and not presenting.is_on() and (strongest := chart.strongest()) is not None:
        table(list(map(plain, strongest.headings)), [list(map(plain, row)) for row in strongest.rows])
        st.caption(plain(strongest.left_out))
    rows, columns = chart.block
    if rows * columns > 1:
        st.caption(f"Each drawn cell is the strongest of {rows} × {columns}.")


class _Drawing(BaseFigure):
    """A chart for `st.plotly_chart`, which asks a figure of Plotly for its dictionary, and for nothing else.

    Plotly's own figure would check every entry, at each run of a page.
    """

    def __init__(self, chart: Chart, *, dark: bool) -> None:
        self._sent = as_sent(chart, dark=dark)

    def to_dict(self) -> dict[str, Any]:
        return self._sent


def as_sent(chart: Chart, *, dark: bool) -> dict[str, Any]:
    """What the browser gets of a chart, in the colours of the page's theme. The chart keeps its own, for exports."""
    sent = copied({"data": chart.traces, "layout": chart.layout})
    if dark:
        sent["layout"]["font"] = sent["layout"].get("font", {}) | {"color": TEXT_ON_DARK}
        set_signed_colours(sent["data"], sent["layout"], DIVERGING_ON_DARK)
    sent["data"] = [{name: _packed(entry) for name, entry in trace.items()} for trace in sent["data"]]
    return sent


def _packed(entry: Any) -> Any:
    """An array as plotly.js reads it: the bytes of its numbers. Other arrays become lists when they are written as JSON."""
    is_read = isinstance(entry, np.ndarray) and entry.dtype.str in ("<f4", "<f8", "|u1")
    return packed(entry) if is_read else entry


def show_magnified(
    matrix: RowwiseMatrix, cell: Pair, draw: Callable[[Overview], None], *, unit: str = "token", side: int = SIDE
) -> None:
    """Say which window around the chosen (query, key) follows, and draw it.

    A text of at most `side` tokens, whose every number can be seen already, has no such window, and a presentation shows none.

    draw  draws the window; its matrices know where they begin
    unit  what a row or a column is: a token or a word
    """
    if presenting.is_on() or max(matrix.shape) <= side:
        return
    rows, columns = (around(position, length, side) for position, length in zip(cell, matrix.shape, strict=True))
    window = f"queries {rows.start} to {rows.stop - 1}, keys {columns.start} to {columns.stop - 1}"
    st.markdown(f"**Every {unit} near the chosen pair**: {window}")
    draw(matrix.window(rows, columns))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Show rows under headings, of which two may be equal. Cells are Markdown: escape foreign text. A wide table scrolls.

    The table is Markdown, because Streamlit's own tables load a megabyte of scripts.
    """
    lines = [[cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line[:1]] + list(line[1:]) for line in rows]
    written = [list(headings), ["---"] * len(headings), *lines]
    shown.say("\n".join(f"| {' | '.join(line)} |" for line in written))


def numbers(values: ArrayLike) -> list[str]:
    """Return cells with three decimals and a real minus sign; NaN is red."""
    return [":red[**NaN**]" if np.isnan(value) else f"{value:z,.3f}".replace("-", "−") for value in np.ravel(values)]
