"""Pictures for screens and for print: a figure with a title and notes above it, on a background of its own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ..figures.labels import ALL_LABELS, thinned, without_effect
from ..figures.palette import DIVERGING, DIVERGING_ON_DARK, PIN, set_signed_colours
from ..figures.typeface import GAP, ems, ems_of_label, wrapped

WIDTH = 900  # minimum width in pixels
HEIGHT = 340  # minimum height in pixels
EQUATION_WIDTH = 1080  # pixels
PADDING = 16  # pixels on each side
LEGEND = 36  # height in pixels
MARGINS = {"l": 70, "r": 40, "t": 30, "b": 60}  # pixels, for figures that leave their margins to Plotly
LINES = 4  # maximum number below the title
LABEL, MAX_LABELS = 16, 64  # pixels of a label; number of labels up to which a picture grows for them

# Print: the widths of one column and of two in millimetres, and the pixels in which a picture of that width is laid out.
COLUMN, COLUMNS = 85, 170
PRINT_PIXELS = {COLUMN: 480, COLUMNS: 960}
SMALLEST, LARGEST = 12, 14  # pixels of letters in print: 6 and 7 points
TALLEST = 1.3  # the height of all cells in print, as a share of the picture's width
# The room of a label beside a row and of a slanted one below a column, in heights of its letters.
DOWN, SLANTED = 1.2, 1.45
TURNED = 8  # pixels: where slanted labels would be smaller, they stand on their side


@dataclass(frozen=True)
class Ground:
    """The background of a picture: its colour, and those of text and of signed numbers on it."""

    paper: str
    ink: str
    signed: list[list]


GROUNDS = {"light": Ground("#ffffff", "#1d2430", DIVERGING), "dark": Ground("#14171c", "#e8ebf0", DIVERGING_ON_DARK)}


class _Heading(NamedTuple):
    """Pixels of the letters of the title and of the notes, and of a line of each."""

    title: int
    title_line: int
    note: int
    note_line: int


_ON_SCREEN, _IN_PRINT = _Heading(20, 34, 13, 20), _Heading(16, 24, SMALLEST, 16)


def print_widths(figure: go.Figure) -> tuple[int, ...]:
    """The widths in millimetres at which a figure can be read in print: the equation needs two columns."""
    return (COLUMNS,) if _is_line(figure.layout) else tuple(PRINT_PIXELS)


def portrait(
    figure: go.Figure,
    title: str,
    notes: Sequence[str],
    ground: Ground,
    *,
    millimetres: int | None = None,
    least: int = WIDTH,
    marks: bool = True,
) -> go.Figure:
    """A copy of a figure for export, with a title and notes above it. `layout.width` and `layout.height` are its size.

    title, notes  any text: it is shown as it is; "" and [] leave it out
    millimetres   one of `print_widths`: the letters then have at least 6 points (labels of up to 30 tokens fewer, where all
                  of them would not fit), and the cells of a heatmap are square. None: for screens
    least         minimum width in pixels, on screens
    marks         whether what is chosen is marked
    """
    # Copies: the page's own figure does not change.
    drawn: Any = figure.data
    traces, all_else = [trace.to_plotly_json() for trace in drawn], figure.layout.to_plotly_json()
    set_signed_colours(traces, all_else, ground.signed)
    if not marks:
        _unmark(all_else)
    if millimetres is not None:
        _raise_letters([*traces, all_else])
    picture = go.Figure(traces, all_else)
    layout: Any = picture.layout
    edges = _edges(layout)
    if millimetres is None:
        width, height = _for_screens(layout, edges, least)
    else:
        width, height = _for_print(picture, edges, PRINT_PIXELS[millimetres])
    layout.update(
        width=round(width),
        height=round(height + PADDING),
        autosize=False,
        paper_bgcolor=ground.paper,
        plot_bgcolor=ground.paper,
        font={"color": ground.ink},
        margin={edge: room + PADDING for edge, room in edges.items()},
    )
    write_header(picture, title, notes, in_print=millimetres is not None)
    return picture


def write_header(picture: go.Figure, title: str, notes: Sequence[str], *, in_print: bool) -> None:
    """Write a title and notes above a picture that has its size, which grows by their lines."""
    layout: Any = picture.layout
    sizes, margin = _IN_PRINT if in_print else _ON_SCREEN, layout.margin
    room = layout.width - 2 * PADDING
    heading, lines = _lines([title], room / sizes.title, bold=True), _lines(notes, room / sizes.note)
    at = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "showarrow": False, "align": "left", "xanchor": "left"}
    at |= {"yanchor": "bottom", "xshift": PADDING - margin.l}
    above = margin.t - PADDING / 2
    if heading:
        text = "<br>".join(f"<b>{without_effect(line)}</b>" for line in heading)
        yshift = above + sizes.note_line * len(lines) + 2
        picture.add_annotation(text=text, font={"size": sizes.title}, yshift=yshift, **at)
    if lines:
        text = "<br>".join(map(without_effect, lines))
        picture.add_annotation(text=text, font={"size": sizes.note}, yshift=above, **at)
    header = sizes.title_line * len(heading) + sizes.note_line * len(lines)
    layout.update(height=layout.height + header, margin_t=margin.t + header)


def _unmark(layout: dict[str, Any]) -> None:
    """Take the frames of what is chosen away, and the bold of its names. They stay, unseen: axes on which nothing is drawn have
    no labels."""
    for shape in layout.get("shapes", ()):
        if shape.get("line", {}).get("color") == PIN:
            shape["line"] = {"width": 0}
    for axis in (layout[name] for name in ("xaxis", "yaxis") if layout.get(name, {}).get("ticktext")):
        axis["ticktext"] = [text.removeprefix("<b>").removesuffix("</b>") for text in axis["ticktext"]]


def _edges(layout: Any) -> dict[str, float]:
    """The room on each side of a figure in pixels, for labels, legend and colour bar."""
    edges: dict[str, float] = dict(MARGINS)
    edges |= {edge: room for edge, room in layout.margin.to_plotly_json().items() if edge in MARGINS}
    if not _has_twins(layout) and not _is_line(layout):
        edges["t"] = max(edges["t"], LEGEND)  # heatmaps have room for theirs
    return edges


def _has_twins(layout: Any) -> bool:
    return all(axis in layout and layout[axis].tickvals is not None for axis in ("xaxis2", "yaxis2"))


def _is_line(layout: Any) -> bool:
    """Whether this is the equation, whose letters need their own width and height."""
    return "subplots" in (layout.meta or ())


def _lines(texts: Sequence[str], room: float, *, bold: bool = False) -> list[str]:
    """Break texts into lines that are at most as wide as `room`, in heights of their letters; at most four."""
    every = (line for text in texts for line in wrapped(text, room, bold=bold))
    lines = list(islice(every, LINES + 1))
    if len(lines) > LINES:
        last = next(wrapped(lines[LINES - 1], room - ems("…", bold=bold), bold=bold))
        lines[LINES - 1 :] = [f"{last}…"]
    return lines


# --- screens


def _for_screens(layout: Any, edges: dict[str, float], least: int) -> tuple[float, float]:
    """The width and the height in pixels, without what stands above. A heatmap grows for its labels, up to a limit."""
    if _is_line(layout):
        return EQUATION_WIDTH, layout.height
    width, height = max(least, layout.width or 0), max(layout.height or 0, HEIGHT)
    if not _has_twins(layout):
        return width, height
    rows, columns = (min(len(axis.tickvals), MAX_LABELS) for axis in (layout.yaxis2, layout.xaxis2))
    width = max(width, columns * LABEL + edges["l"] + edges["r"])
    height = max(height, rows * LABEL + edges["t"] + edges["b"])
    for axis, twin, room in (
        (layout.xaxis, layout.xaxis2, width - edges["l"] - edges["r"]),
        (layout.yaxis, layout.yaxis2, height - edges["t"] - edges["b"]),
    ):
        labels = _all_labels(axis, twin)
        if labels is not None and len(labels) * LABEL <= room:
            axis.update(tickvals=list(labels), ticktext=list(labels.values()))
    return width, height


def _all_labels(axis: Any, twin: Any) -> dict[float, str] | None:
    """The label of each place of the hidden axis: a picture in a file has no hover. None where a label stands for several."""
    labels, places = twin.ticktext, twin.tickvals
    if labels is None or any(place != int(place) for place in places):
        return None
    bold = {place for place, text in zip(axis.tickvals, axis.ticktext, strict=True) if text.startswith("<b>")}
    texts = [label.partition("<br>")[0].rsplit(" (", 1)[0] for label in labels]
    return {place: f"<b>{text}</b>" if place in bold else text for place, text in zip(places, texts, strict=True)}


# --- print


def _raise_letters(part: Any) -> None:
    """Enlarge all letters of a part of a figure that are too small for print."""
    for value in part.values() if isinstance(part, dict) else part:
        if isinstance(value, dict | list):
            _raise_letters(value)
    if isinstance(part, dict):
        for name, font in part.items():
            if name.endswith("font") and isinstance(font, dict) and isinstance(font.get("size"), int | float):
                font["size"] = max(font["size"], SMALLEST)


def _for_print(picture: go.Figure, edges: dict[str, float], width: int) -> tuple[float, float]:
    """The width and the height in pixels, without what stands above, after fitting a heatmap into them with square cells."""
    layout: Any = picture.layout
    ratio = layout.yaxis.scaleratio  # of the patches of an image, which keeps its proportions
    if not _has_twins(layout) or not (ratio or layout.xaxis2.overlaying):
        return width, layout.height or HEIGHT
    columns, rows = (abs(axis.range[1] - axis.range[0]) for axis in (layout.xaxis, layout.yaxis))
    rows *= ratio or 1
    room = width - edges["l"] - edges["r"] - 2 * PADDING
    cell = min(room / columns, TALLEST * width / rows)
    across, down = cell * columns, cell * rows
    edges["r"] += room - across  # the colour bar stays beside the cells
    _fit_labels(layout.xaxis, layout.xaxis2, across, SLANTED if layout.xaxis.tickangle else None)
    _fit_labels(layout.yaxis, layout.yaxis2, down, DOWN)
    _fit_numbers(picture, cell)
    picture.update_traces(colorbar_nticks=max(2, min(6, int(down / (2 * LARGEST)))), selector=_counts_its_ticks)
    return width, down + edges["t"] + edges["b"] + PADDING


def _counts_its_ticks(trace: Any) -> bool:
    return trace.type == "heatmap" and trace.showscale is not False and trace.colorbar.tickvals is None


def _fit_labels(axis: Any, twin: Any, room: float, each: float | None) -> None:
    """Write as many labels as fit into these pixels, evenly spaced, among them the pinned one; all of up to 30 tokens.

    each  the room of a label in heights of its letters; None: it stands upright, and its own length counts
    """
    if axis.showticklabels is False:
        return
    shown = dict(zip(axis.tickvals, axis.ticktext or map(str, axis.tickvals), strict=True))
    labels = _all_labels(axis, twin) or shown
    places, texts = list(labels), list(labels.values())
    if twin.ticktext is not None and len(places) <= ALL_LABELS:
        _fit_all(axis, labels, room, each)
        return
    each = each or max(map(ems_of_label, texts)) + ems("0")
    pinned = next((at for at, text in enumerate(texts) if text.startswith("<b>")), None)
    kept = thinned(len(places), pinned, max(1, int(room / each / (axis.tickfont.size or LARGEST))))
    axis.update(tickvals=[places[at] for at in kept], ticktext=[texts[at] for at in kept])


def _fit_all(axis: Any, labels: Mapping[float, str], room: float, each: float | None) -> None:
    """Write all labels, in letters that fit; on their side where slanted ones could not be read."""
    size, per_label = axis.tickfont.size or LARGEST, room / len(labels)
    widest = max(map(ems_of_label, labels.values())) * size
    if widest > per_label if each is None else each == SLANTED and per_label < TURNED * SLANTED:
        axis.tickangle, each = -90, DOWN
    if each is not None:
        size = min(size, per_label / each)
    axis.update(tickvals=list(labels), ticktext=list(labels.values()), tickfont_size=size)


def _fit_numbers(picture: go.Figure, cell: float) -> None:
    """Write the numbers of the cells in letters that fit into a cell, or leave them out."""
    kept: list[Any] = []
    traces: Any = picture.data
    for trace in traces:
        if trace.type == "scatter" and trace.mode == "text":
            size = int(cell / (max(map(ems_of_label, trace.text), default=1) + GAP))
            if size < SMALLEST:
                continue
            trace.textfont.size = min(size, LARGEST)
        kept.append(trace)
    picture.data = kept


# --- pictures that are compared, beside each other in one figure

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
