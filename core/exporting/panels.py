"""Pictures that are compared, beside each other in one figure for export."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ..figures.labels import without_effect
from .pictures import COLUMN, PADDING, Ground, portrait, write_header

PANEL = 560  # minimum width of each in pixels, on screens
BAR = 0.02  # between the cells and their colour bar, as a share of the cells' width
NAME = 22  # height in pixels of the name above each
_AXIS = re.compile(r"([xy])(axis)?(\d*)( domain)?")
# Where the parts of a figure name an axis.
_NAMES = {"xaxis", "yaxis", "anchor", "overlaying", "matches", "scaleanchor", "xref", "yref", "axref", "ayref"}


def panels(
    figures: Mapping[str, go.Figure],
    title: str,
    notes: Sequence[str],
    ground: Ground,
    *,
    millimetres: int | None = None,
    marks: bool = True,
) -> go.Figure:
    """A figure with heatmaps from the left to the right, each with its name above; title and notes as in `portrait`.

    millimetres  COLUMNS, for two; None: for screens
    """
    in_print = millimetres is not None
    look: dict[str, Any] = {"millimetres": COLUMN if in_print else None, "least": PANEL, "marks": marks}
    drawn: list[Any] = [portrait(figure, "", [], ground, **look) for figure in figures.values()]
    layouts = [one.layout.to_plotly_json() for one in drawn]
    margins = [layout["margin"] for layout in layouts]
    edges = {"l": margins[0]["l"], "r": margins[-1]["r"], **{side: max(one[side] for one in margins) for side in "tb"}}
    height = max(one["height"] - margin["t"] - margin["b"] for one, margin in zip(layouts, margins, strict=True))
    width, at = sum(layout["width"] for layout in layouts), -edges["l"]
    traces, whole = [], layouts[0] | {"shapes": [], "annotations": []}
    whole["showlegend"] = any(layout.get("showlegend") for layout in layouts)
    for place, (name, layout) in enumerate(zip(figures, layouts, strict=True)):
        margin = layout["margin"]
        sides = at + margin["l"], at + layout["width"] - margin["r"]
        room = [side / (width - edges["l"] - edges["r"]) for side in sides]
        at += layout["width"]
        in_legend = {trace.get("name") for trace in traces}
        for trace in (trace.to_plotly_json() for trace in drawn[place].data):
            moved = _moved({"xaxis": "x", "yaxis": "y"} | trace, place)
            if "colorbar" in trace:
                moved["colorbar"] = trace["colorbar"] | {"x": room[1] + BAR * (room[1] - room[0])}
            traces.append(moved | ({"showlegend": False} if trace.get("name") in in_legend else {}))
        for key, part in layout.items():
            if key.startswith("xaxis"):
                whole[_renamed(key, place)] = _moved({"anchor": "y"} | part, place) | {"domain": room}
            elif key.startswith("yaxis"):
                whole[_renamed(key, place)] = _moved({"anchor": "x"} | part, place)
            elif key in ("shapes", "annotations"):
                whole[key] += [_moved(each, place) for each in part]
        above = {"x": room[0], "y": 1, "xref": "paper", "yref": "paper", "yshift": edges["t"] - PADDING / 2}
        above |= {"xanchor": "left", "yanchor": "bottom", "showarrow": False, "xshift": PADDING - margin["l"]}
        whole["annotations"].append({"text": f"<b>{without_effect(name)}</b>", **above})
    picture = go.Figure(traces, whole)
    edges["t"] += NAME
    picture.update_layout(width=width, height=height + edges["t"] + edges["b"], margin=edges)
    write_header(picture, title, notes, in_print=in_print)
    return picture


def _moved(part: dict[str, Any], place: int) -> dict[str, Any]:
    """A part of a panel's figure with the names that its axes have in the whole figure."""
    return part | {name: _renamed(of, place) for name, of in part.items() if name in _NAMES and isinstance(of, str)}


def _renamed(axis: str, place: int) -> str:
    """The name of an axis of the panel at this place, each of which has two of each letter; other words stay."""
    if (name := _AXIS.fullmatch(axis)) is None:
        return axis
    number = int(name[3] or 1) + 2 * place
    return f"{name[1]}{name[2] or ''}{'' if number == 1 else number}{name[4] or ''}"
