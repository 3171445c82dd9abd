"""What several pages show: a heading, charts, the magnified window of a long text, tables, and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike
from plotly.basedatatypes import BaseFigure

from core.attention.rowwise import Overview, RowwiseMatrix, around
from core.capturing.certifying import CHECKED, NOT_CHECKED, Certificate
from core.figures.chart import Chart, copied, packed
from core.figures.palette import DIVERGING_ON_DARK, TEXT_ON_DARK, set_signed_colours
from core.units import small_number
from ui import passes, presenting, shown, state
from ui.markdown import plain
from ui.progress import run
from ui.requests import HeadRequest

# Plotly's own camera makes a picture without title or model: the dialog "Share" makes better ones. One zooms by drawing a
# rectangle: with two more buttons for it, the bar would cover the name of the columns of a narrow picture.
_REMOVED = ["select2d", "lasso2d", "autoScale2d", "toImage", "zoomIn2d", "zoomOut2d"]
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": _REMOVED}
SIDE = 32  # tokens of a magnified window


def show_heading(title: str, sentence: str) -> None:
    """Both are words of our own, never what others wrote: they are read as Markdown.

    Left out while presenting, when each view says what is seen.
    """
    if presenting.is_on():
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=state.HEADING):
        st.markdown(f"### {title}", width="content", anchors=False)
        st.caption(sentence, width="content")


# --- charts


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
    drawing = _Drawing(chart, dark=st.context.theme.type == "dark")
    st.plotly_chart(drawing, key=state.picture(name), theme=None, config=config, alt=words, height=height)
    if st.session_state.get(state.TABLES) and not presenting.is_on() and (strongest := chart.strongest()) is not None:
        table(list(map(plain, strongest.headings)), [list(map(plain, row)) for row in strongest.rows])
        st.caption(plain(strongest.left_out))


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
    if not isinstance(entry, np.ndarray) or entry.dtype.str not in ("<f4", "<f8", "|u1"):
        return entry
    return packed(entry)


def show_heatmap(
    chart: Chart, name: str, alt: str, compact: bool = False, *, title: str = "", numbers: shown.Numbers | None = None
) -> None:
    """Draw the heatmap, and say so where one drawn cell stands for several."""
    show_chart(chart, name, alt, title=title, numbers=numbers, tools=not compact)
    rows, columns = chart.block
    if rows * columns > 1:
        st.caption(f"Each drawn cell is the strongest of {rows} × {columns}.")


def show_magnified(
    matrix: RowwiseMatrix,
    cell: tuple[int, int],
    draw: Callable[[Overview], None],
    *,
    unit: str = "token",
    side: int = SIDE,
) -> None:
    """Say which window around the chosen (query, key) follows, and draw it.

    A text of at most `side` tokens, whose every number can be seen already, has no such window; nor has a presentation.

    draw  draws the window; its matrices know where they begin
    unit  what a row or a column is: a token or a word
    """
    if presenting.is_on() or max(matrix.shape) <= side:
        return
    rows, columns = (around(position, length, side) for position, length in zip(cell, matrix.shape, strict=True))
    st.markdown(
        f"**Every {unit} near the chosen pair**: queries {rows.start} to {rows.stop - 1}, "
        f"keys {columns.start} to {columns.stop - 1}"
    )
    draw(matrix.window(rows, columns))


# --- tables


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Show rows under headings, of which two may be equal. Cells are Markdown: escape foreign text. A wide table scrolls.

    The table is Markdown, because Streamlit's own tables load a megabyte of scripts.
    """
    lines = [[cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line[:1]] + list(line[1:]) for line in rows]
    written = [list(headings), ["---"] * len(headings), *lines]
    st.markdown("\n".join(f"| {' | '.join(line)} |" for line in written))


def numbers(values: ArrayLike) -> list[str]:
    """Return cells with three decimals and a real minus sign; NaN is red."""
    return [
        ":red[**NaN**]" if np.isnan(value) else f"{value:z,.3f}".replace("-", "−")
        for value in np.ravel(np.asarray(values))
    ]


# --- certificates


def show_certificate(certificate: Certificate, *, of_original: bool = False, what: str = "the model") -> None:
    """Show whether the numbers agree; their provenance, what was checked and what was not are behind one click.

    of_original  whether the view above shows something else, which the model never computed
    what         what the numbers were compared with
    """
    difference = small_number(certificate.difference)
    compared = f"{what}: {certificate.cells:,} output numbers from its Q, K and V, largest difference {difference}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        more = f"Does not agree with {compared}, {certificate.rounding:,.0f} times what rounding explains"
        verdict(certificate.holds, f"Agrees with {compared}", more)
        with st.popover("Provenance", type="tertiary"):
            for name, text in _provenance(certificate).items():
                st.caption(f"**{name}** {plain(text)}")
    if certificate.left_out:
        st.caption(f"{certificate.left_out} rows with nothing to attend to are left out.")
    if of_original:
        words = "This speaks of the original, with the scale and mask above. The model never computed what is changed."
        st.caption(words)


def check_head(of: HeadRequest, what: str = "the model") -> None:
    """Compute and show the certificate of a head; what: as in `show_certificate`."""
    certificate = run(passes.certificate.task(of), f"Comparing the head with {what}", 1)
    if certificate is not None:
        show_certificate(certificate, what=what)


def verdict(holds: bool, yes: str, no: str) -> None:
    """Say whether a check holds."""
    if holds:
        st.badge(yes, icon=":material/verified:", color="green")
    else:
        st.badge(no, icon=":material/error:", color="red")


def _provenance(certificate: Certificate) -> dict[str, str]:
    dtype = certificate.dtype
    if certificate.traced_in != dtype:
        dtype = f"model in {dtype}, traced in {certificate.traced_in}"
    return {
        "model": certificate.model,
        "revision": certificate.revision,
        "precision": dtype,
        "scale": f"{certificate.scale:.6g}",
        "mask": certificate.mask,
        "checked": CHECKED,
        "not checked": NOT_CHECKED,
    }
