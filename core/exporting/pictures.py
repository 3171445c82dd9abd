"""Figures for papers, slides and other screens: with a title, a note on where they come from, and a background."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import plotly.io

from .about import About

WIDTH = 900  # minimum width in pixels
HEIGHT = 340  # minimum height in pixels
EQUATION_WIDTH = 1080  # pixels
PADDING = 16  # pixels on each side
TITLE, LINE, LEGEND = 34, 20, 36  # heights in pixels
MARGINS = {"l": 70, "r": 40, "t": 30, "b": 60}  # pixels, for figures that leave their margins to Plotly
CHARACTERS = 118  # maximum number in a line below the title
LINES = 4  # maximum number below the title
LABEL, MAX_LABELS = 16, 64  # pixels of a label; number of labels up to which a picture grows for them


@dataclass(frozen=True)
class Ground:
    """The background of a picture: its colour and the colour of text on it."""

    paper: str
    ink: str


GROUNDS = {"light": Ground("#ffffff", "#1d2430"), "dark": Ground("#14171c", "#e8ebf0")}


def portrait(figure: go.Figure, title: str, notes: Sequence[str], ground: Ground) -> go.Figure:
    """A copy of a figure for export, with a title and notes above it. `layout.width` and `layout.height` are its size.

    title, notes  any text: it is shown as it is
    """
    picture = go.Figure(figure)  # a copy: the page's own figure does not change
    layout: Any = picture.layout
    lines = _wrapped(notes)
    has_twins = all(axis in layout and layout[axis].tickvals is not None for axis in ("xaxis2", "yaxis2"))
    is_line = "subplots" in (layout.meta or ())  # the equation, whose letters need their own width and height
    edges = MARGINS | {edge: room for edge, room in layout.margin.to_plotly_json().items() if edge in MARGINS}
    if not has_twins and not is_line:
        edges["t"] = max(edges["t"], LEGEND)  # heatmaps have room for theirs
    width, height = max(WIDTH, layout.width or 0), max(layout.height or 0, HEIGHT)
    if is_line:
        width, height = EQUATION_WIDTH, layout.height
    elif has_twins:  # large enough for all labels, up to a limit
        rows, columns = (min(len(axis.tickvals), MAX_LABELS) for axis in (layout.yaxis2, layout.xaxis2))
        width = max(width, columns * LABEL + edges["l"] + edges["r"])
        height = max(height, rows * LABEL + edges["t"] + edges["b"])
        _write_all_labels(layout.xaxis, layout.xaxis2, width - edges["l"] - edges["r"])
        _write_all_labels(layout.yaxis, layout.yaxis2, height - edges["t"] - edges["b"])
    header = TITLE + LINE * len(lines)
    layout.update(
        width=round(width),
        height=round(height + header + PADDING),
        autosize=False,
        paper_bgcolor=ground.paper,
        plot_bgcolor=ground.paper,
        font={"color": ground.ink},
        margin={edge: room + PADDING + (header if edge == "t" else 0) for edge, room in edges.items()},
    )
    at = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "showarrow": False, "align": "left", "xanchor": "left"}
    at |= {"yanchor": "bottom", "xshift": -edges["l"]}
    above = edges["t"] + PADDING / 2
    picture.add_annotation(
        text=f"<b>{_shown(title)}</b>", font={"size": 20}, yshift=above + LINE * len(lines) + 2, **at
    )
    if lines:
        picture.add_annotation(text="<br>".join(map(_shown, lines)), font={"size": 13}, yshift=above, **at)
    return picture


def _wrapped(notes: Sequence[str]) -> list[str]:
    lines = [line for note in notes for line in textwrap.wrap(note, CHARACTERS)]
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], lines[LINES - 1][: CHARACTERS - 1] + "…"]


def _shown(text: str) -> str:
    """Escape a text so that Plotly shows it as it is."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def _write_all_labels(axis: Any, twin: Any, room: float) -> None:
    """Show all labels of the hidden axis if there is room for all of them: a picture in a file has no hover."""
    labels, places = twin.ticktext, twin.tickvals
    if labels is None or len(labels) * LABEL > room or any(place != int(place) for place in places):
        return
    bold = {place for place, text in zip(axis.tickvals, axis.ticktext, strict=True) if text.startswith("<b>")}
    texts = [label.partition("<br>")[0].rsplit(" (", 1)[0] for label in labels]
    written = [f"<b>{text}</b>" if place in bold else text for place, text in zip(places, texts, strict=True)]
    axis.update(tickvals=places, ticktext=written)


def to_html(figure: go.Figure, title: str, about: About) -> str:
    """An HTML page with the figure and the notes about it. It contains plotly.js, and its policy forbids to load anything."""
    drawn = plotly.io.to_html(figure, full_html=False, include_plotlyjs=True, config={"displaylogo": False})
    rows = "\n".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in about.items()
    )
    layout: Any = figure.layout
    ground, ink = layout.paper_bgcolor, layout.font.color
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>
body {{ margin: 1.5rem; font: 15px/1.5 system-ui, sans-serif; background: {ground}; color: {ink}; }}
table {{ border-collapse: collapse; margin-top: 1rem; }}
th {{ text-align: left; padding-right: 1.5rem; vertical-align: top; font-weight: 600; }}
td {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
</style>
</head>
<body>
{drawn}
<table>
{rows}
</table>
</body>
</html>
"""
