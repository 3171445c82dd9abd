"""Figures for paper, slides and other people's screens: with a title, with where they come from, on a ground of their own."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import plotly.io

from .about import About

WIDTH = 900  # pixels, or what a wide figure needs
LEAST = 340  # pixels of height
LONG = 1080  # pixels wide, of the equation
SIDE = 16  # pixels around
TITLE, LINE, LEGEND = 34, 20, 36  # pixels of height
EDGES = {"l": 70, "r": 40, "t": 30, "b": 60}  # pixels, where a figure leaves its margins to Plotly
LETTERS = 118  # in a line below the title
LINES = 4
ROOM, MOST = 16, 64  # pixels that a label beside another one needs; how many labels a picture grows for


@dataclass(frozen=True)
class Ground:
    """What a picture stands on: its colour and that of the words on it."""

    paper: str
    ink: str


GROUNDS = {"light": Ground("#ffffff", "#1d2430"), "dark": Ground("#14171c", "#e8ebf0")}


def portrait(figure: go.Figure, title: str, notes: Sequence[str], ground: Ground) -> go.Figure:
    """The figure with a title and notes above it, in full size, as it is taken away. `layout.width` and `.height` are its size.

    title, notes  any text: it is shown as it is
    """
    taken = go.Figure(figure)  # a copy, so that the page's own stays as it is
    layout: Any = taken.layout
    lines = _wrapped(notes)
    has_twins = all(axis in layout and layout[axis].tickvals is not None for axis in ("xaxis2", "yaxis2"))
    is_line = "subplots" in (layout.meta or ())  # the equation, whose letters want their own width and height
    edges = EDGES | {edge: room for edge, room in layout.margin.to_plotly_json().items() if edge in EDGES}
    if not has_twins and not is_line:
        edges["t"] = max(edges["t"], LEGEND)  # heatmaps have made room for theirs
    width, height = max(WIDTH, layout.width or 0), max(layout.height or 0, LEAST)
    if is_line:
        width, height = LONG, layout.height
    elif has_twins:  # as large as all labels need, if that can be
        rows, columns = (min(len(axis.tickvals), MOST) for axis in (layout.yaxis2, layout.xaxis2))
        width = max(width, columns * ROOM + edges["l"] + edges["r"])
        height = max(height, rows * ROOM + edges["t"] + edges["b"])
        _write_all_labels(layout.xaxis, layout.xaxis2, width - edges["l"] - edges["r"])
        _write_all_labels(layout.yaxis, layout.yaxis2, height - edges["t"] - edges["b"])
    words = {"t": TITLE + LINE * len(lines)}
    layout.update(
        width=round(width),
        height=round(height + words["t"] + SIDE),
        autosize=False,
        paper_bgcolor=ground.paper,
        plot_bgcolor=ground.paper,
        font={"color": ground.ink},
        margin={edge: room + SIDE + words.get(edge, 0) for edge, room in edges.items()},
    )
    at = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "showarrow": False, "align": "left", "xanchor": "left"}
    at |= {"yanchor": "bottom", "xshift": -edges["l"]}
    above = edges["t"] + SIDE / 2
    taken.add_annotation(text=f"<b>{_shown(title)}</b>", font={"size": 20}, yshift=above + LINE * len(lines) + 2, **at)
    if lines:
        taken.add_annotation(text="<br>".join(map(_shown, lines)), font={"size": 13}, yshift=above, **at)
    return taken


def _wrapped(notes: Sequence[str]) -> list[str]:
    lines = [line for note in notes for line in textwrap.wrap(note, LETTERS)]
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], lines[LINES - 1][: LETTERS - 1] + "…"]


def _shown(text: str) -> str:
    """Any text so that Plotly shows it as it is."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def _write_all_labels(axis: Any, twin: Any, room: float) -> None:
    """Every label that the hidden axis knows, where there is room for all: a file cannot be pointed at."""
    labels, places = twin.ticktext, twin.tickvals
    if labels is None or len(labels) * ROOM > room or any(place != int(place) for place in places):
        return
    bold = {place for place, text in zip(axis.tickvals, axis.ticktext, strict=True) if text.startswith("<b>")}
    texts = [label.partition("<br>")[0].rsplit(" (", 1)[0] for label in labels]
    written = [f"<b>{text}</b>" if place in bold else text for place, text in zip(places, texts, strict=True)]
    axis.update(tickvals=places, ticktext=written)


def to_html(figure: go.Figure, title: str, about: About) -> str:
    """One page that shows the figure and what there is to know about it, without a network: it holds plotly.js itself, and
    may not load anything, whatever stands in it.
    """
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
