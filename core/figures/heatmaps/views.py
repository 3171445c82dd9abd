"""Heatmaps of heads: a stage, a mask as the matrix M, a view of a text or of a window, two heads with their difference,
a grid of all heads, and the patches of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from plotly.colors import sample_colorscale

from ...attention.rowwise import Pooled
from ...attention.stages import BY_KEY, Stage
from ..chart import Chart, Values, head_values, numbered
from ..labels import thinned
from ..palette import ALLOWED, FORBIDDEN, PIN, SEQUENTIAL, colour_range, largest, text_on
from ..theme import PLAIN_AXIS, enlarged, letters, template, thick
from .frames import over_cells
from .heatmap import Axis, heatmap, printed_in


def stage_heatmap(
    stage: Stage,
    stages: Mapping[str, Pooled],
    query_tokens: Sequence[str] | None,
    key_tokens: Sequence[str] | None,
    *,
    pin: tuple[int, int] | None,
    **look: Any,
) -> Chart:
    """Draw one stage as a heatmap with the pinned (query, key) marked; `look` is that of `heatmap`.

    stages  each stage by its key, pooled or a window of it
    query_tokens, key_tokens  those of the whole; None: numbers
    """
    query, key = pin or (None, None)
    queries, keys, beside = Axis("query", query_tokens, query), Axis("key", key_tokens, key), stage.beside
    return heatmap(
        stages[stage.key],
        queries if stage.rows == "query" else keys,
        keys if stage.columns == "key" else Axis("dimension"),
        name=stage.noun,
        scale=stage.scale,
        hover=None if beside is None else (BY_KEY[beside].noun, stages[beside].values),
        **look,
    )


def colour_limit(stage: Stage, *drawn: Pooled) -> float | None:
    """Return the colour range that suits all of these pictures of a stage: the largest number, None for permissions."""
    if stage.scale == "permission":
        return None
    return largest(np.concatenate([pooled.values.ravel() for pooled in drawn]))


MAX_PRINTED = 12  # keys: beyond that the numbers do not fit into their cells


def additive_mask(added: NDArray[np.floating], queries: Sequence[str], keys: Sequence[str], **look: Any) -> Chart:
    """Draw M [queries, keys] of 0 and -inf: each cell in the colour of its meaning, with its number where that fits; `look` is
    that of `heatmap`."""
    forbidden = np.isneginf(added)
    chart = heatmap(
        np.where(forbidden, 0.0, 1.0),
        Axis("query", queries),
        Axis("key", keys),
        name="mask",
        scale="permission",
        forbidden=forbidden,
        **look,
    )
    if max(added.shape) <= MAX_PRINTED:
        size = letters(15 if len(keys) <= 9 else 12)
        for text, cells, colour in (("−∞", forbidden, None), ("0", ~forbidden, text_on([ALLOWED])[0])):
            texts = [f"<b>{text}</b>"] * int(cells.sum())
            chart.traces.append(printed_in(cells, texts, {"size": size, "color": colour}))
    return chart


def view_heatmap(
    cells: Pooled,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    removed: NDArray[np.floating] | None,
    name: str,
    signed: bool,
    pin: tuple[int, int],
    marked: Sequence[int] = (),
    **look: Any,
) -> Chart:
    """Draw a view, or a part of it; `look` is that of `heatmap`.

    query_tokens, key_tokens  those of the whole
    removed  [queries] share of each query that is left out; pointing at a row shows its mean. None: nothing is left out
    pin      the framed (query, key)
    marked   further queries whose rows are framed
    """
    notes = None
    if removed is not None:
        blocks = np.split(removed, range(cells.row_block, len(removed), cells.row_block))
        notes = [f"<br>left out {block.mean():.1%}" for block in blocks]
    chart = heatmap(
        replace(cells, values=cells.values.astype(np.float32)),
        Axis("query", query_tokens, pin[0], notes),
        Axis("key", key_tokens, pin[1]),
        name=name,
        scale="signed" if signed else "share",
        **look,
    )
    dotted = {"color": PIN, "width": thick(1), "dash": "dot"}
    whole = range(cells.shape[1])
    rows = [query - cells.start[0] for query in marked]
    chart.layout["shapes"] += [
        over_cells(range(row, row + 1), whole, line=dotted) for row in rows if row in range(cells.shape[0])
    ]
    return chart


PARTS = ("first", "second", "difference")


def compared_heatmaps(
    pictures: Mapping[str, Pooled],
    queries: Mapping[str, Axis],
    keys: Mapping[str, Axis],
    *,
    divergence: NDArray[np.floating],
    limits: tuple[float, float],
    **look: Any,
) -> dict[str, Chart]:
    """Draw the three heatmaps: both weights in one colour range from 0 up, the difference in colours around 0.

    pictures    by `PARTS`; queries and keys: the common axes of the whole, with the tokens and the gaps of each picture
    divergence  [rows] shown when pointing at a row; of rows that are drawn as one, the largest
    limits      the weight and the difference with the strongest colour
    look        that of `heatmap`, for each of them
    """
    notes = _notes(divergence, pictures["difference"].row_block)
    charts: dict[str, Chart] = {}
    for part in PARTS:
        cells, signed = pictures[part], part == "difference"
        charts[part] = heatmap(
            replace(cells, values=cells.values.astype(np.float32)),
            replace(queries[part], notes=notes),
            keys[part],
            name="difference" if signed else "weight",
            scale="signed" if signed else "share",
            limit=limits[signed],
            gap_name="in one text only" if signed else "not in this text",
            printed=0,
            **look,
        )
    # Legends differ in height, and labels in length: cells should not.
    margins = [chart.layout["margin"] for chart in charts.values()]
    widest = {side: max(margin[side] for margin in margins) for side in ("l", "t", "b")}
    for margin in margins:
        margin |= widest
    return charts


def strongest_colours(pictures: Mapping[str, Pooled]) -> tuple[float, float]:
    """Return the `limits` of these pictures: the largest weight and the largest difference; 1 where all are 0."""
    weights = np.concatenate([pictures["first"].values.ravel(), pictures["second"].values.ravel()])
    return largest(weights), largest(pictures["difference"].values)


def _notes(divergence: NDArray[np.floating], block: int) -> list[str]:
    parts = np.split(divergence, range(block, len(divergence), block))
    return [
        "" if np.isnan(part).all() else f"<br>divergence {np.nanmax(part):.3f} nats{' at most' if block > 1 else ''}"
        for part in parts
    ]


# --- a grid of all heads, layers by heads: a number for each head, or a small picture of its weights

GAP, MASKED, ZERO = 0, 1, 2  # levels of the small pictures: those from ZERO up are weights
_LEVELS = 255
_MARKED = (0, 0.01, 0.1, 0.3, 0.6, 1)  # weights beside the colour bar


def metric_grid(
    values: NDArray[np.floating], label: str, *, signed: bool, chosen: tuple[int, int], **look: Any
) -> Chart:
    """Draw one number for each head [layers, heads], NaN where it is unknown; `look` is that of `heatmap`."""
    axes, scale = map(Axis, ("layer", "head"), (None, None), chosen), "signed" if signed else "share"
    return heatmap(values, *axes, name=label, scale=scale, printed=0, **look)


def small_pictures(
    weights: NDArray[np.floating], *, chosen: tuple[int, int], left_out: NDArray[np.bool_] | None, height: int
) -> Chart:
    """Draw small pictures [layers, heads, rows, columns] of weights, NaN where masked, in a grid of layers and heads.

    One colour range for all, 0 to 1, that grows with the square root of the weight, so that a weight of 0.01 is still seen.
    """
    layers, heads, rows, columns = weights.shape
    shown = np.where(np.isnan(weights), MASKED, _level(np.nan_to_num(weights))).round().astype(np.uint8)
    if left_out is not None:
        shown[left_out] = MASKED
    framed = np.pad(shown, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=GAP)
    grid = framed.transpose(0, 2, 1, 3).reshape(layers * (rows + 1), heads * (columns + 1))
    layer, head = chosen
    picture = {
        "type": "heatmap",
        "z": grid,
        "x": _places(heads, columns),
        "y": _places(layers, rows),
        "zmin": GAP,
        "zmax": _LEVELS,
        "colorscale": _colours(),
        "colorbar": {"tickvals": _level(_MARKED).tolist(), "ticktext": [f"{weight:g}" for weight in _MARKED]},
        "hovertemplate": "layer <b>%{y:.0f}</b><br>head <b>%{x:.0f}</b><extra></extra>",
    }
    frame = over_cells(range(layer, layer + 1), range(head, head + 1), line={"color": PIN, "width": thick(3)})
    gaps = {"x1": frame["x1"] - 1 / (columns + 1), "y1": frame["y1"] - 1 / (rows + 1)}  # are outside the frame
    layout = {
        "template": template(),
        "height": height,
        "margin": {"l": enlarged(52), "r": enlarged(66), "t": 8, "b": enlarged(42), "autoexpand": False},
        "xaxis": _axis("head", heads, [-0.5, heads - 0.5]),
        "yaxis": _axis("layer", layers, [layers - 0.5, -0.5]),
        "xaxis2": {"tickvals": list(range(heads)), "overlaying": "x", "visible": False},
        "yaxis2": {"tickvals": list(range(layers)), "overlaying": "y", "visible": False},
        "shapes": [frame | gaps],
        "meta": {"rows": "layer", "columns": "head", "row_block": 1, "column_block": 1},
    }
    return Chart([picture], layout, (_largest_weights(weights, left_out),))


def _largest_weights(weights: NDArray[np.floating], left_out: NDArray[np.bool_] | None) -> Values:
    """The largest weight of each head; NaN where all of it is masked, and of heads that are left out."""
    layers, heads = weights.shape[:2]
    largest = np.nan_to_num(weights, nan=-1.0).max(axis=(2, 3))
    is_drawn = largest >= 0 if left_out is None else (largest >= 0) & ~left_out
    opening = f"{layers} by {heads} heads, by their largest weight"
    return head_values(np.where(is_drawn, largest, np.nan), "largest weight", opening=opening)


def _level(weight: ArrayLike) -> NDArray[np.floating]:
    return ZERO + np.sqrt(weight) * (_LEVELS - ZERO)


def _colours() -> list[list[object]]:
    """The colour scale: nothing between the pictures, grey where masked, then the colours of weights."""
    edges = [(GAP + MASKED) / 2 / _LEVELS, (MASKED + ZERO) / 2 / _LEVELS]
    steps = np.linspace(0, 1, 12)
    colours = sample_colorscale(SEQUENTIAL, steps)
    scale: list[list[object]] = [
        [0, "rgba(0,0,0,0)"],
        [edges[0], "rgba(0,0,0,0)"],
        [edges[0], FORBIDDEN],
        [edges[1], FORBIDDEN],
        [edges[1], colours[0]],
    ]
    first = ZERO / _LEVELS
    return scale + [[float(first + step * (1 - first)), colour] for step, colour in zip(steps, colours, strict=True)]


def _places(count: int, cells: int) -> NDArray[np.floating]:
    """Return the middles of all cells; the picture of layer or head i lies around i."""
    step = 1 / (cells + 1)
    return (np.arange(count * (cells + 1)) + 0.5) * step - 0.5


def _axis(name: str, count: int, span: list[float]) -> dict[str, object]:
    places = thinned(count, max_labels=16)
    return {"title": {"text": name}, "range": span, "tickvals": places, **PLAIN_AXIS}


# --- an image cut into patches, and how much one of them attends to each

# How much of the image the colours of the smallest number, of half the largest and of the largest hide.
OPACITIES = (0.05, 0.55, 0.8)
WIDTH, MAX_HEIGHT = 600, 560  # pixels
MARGIN, RIGHT = 8, 66  # pixels
HIDDEN = PLAIN_AXIS | {"showticklabels": False, "constrain": "domain"}


def on_image(
    image: NDArray[np.uint8],
    values: NDArray[np.floating],
    query: tuple[int, int] | None,
    *,
    name: str = "weight",
    signed: bool = False,
    area: tuple[float, float, float, float] = (0, 0, 1, 1),
    axes: tuple[str, str] = ("patch_row", "patch_column"),
    region: tuple[range, range] | None = None,
    width_drawn: int = WIDTH,
) -> Chart:
    """Draw the numbers [rows, columns] of one query over the patches of an image [height, width, 3]; NaN leaves a patch bare.

    The image is grey, so that every colour is a number's, and keeps its proportions.

    query   the patch that looks, framed; None: a token that is not a patch
    signed  two colours that meet at 0, instead of one from 0 up
    area    (left, top, right, bottom) of all patches as shares of the image; beyond 0 and 1 where they are padding
    axes    what the page calls rows and columns when one is clicked
    region  rows and columns of patches in one frame, in whose place the mouse can draw another one
    width_drawn  pixels: about how wide the image is drawn, from which its height follows
    """
    rows, columns = values.shape
    height, width = image.shape[:2]
    left, top, right, bottom = area
    across, down = columns / (right - left), rows / (bottom - top)  # patches in the width and height of the image
    x, y = -0.5 - left * across, -0.5 - top * down  # of the image's upper left corner
    drawn = values.astype(np.float32)
    colours = colour_range(largest(values), signed=signed)
    colours["colorscale"] = _see_through(colours["colorscale"], signed=signed)
    pointing = f"patch <b>%{{y}},%{{x}}</b><br>{name} <b>%{{z:.6g}}</b><extra></extra>"
    grey = {"source": Image.fromarray(image).convert("L"), "sizing": "stretch", "layer": "below"}
    proportions = {"scaleanchor": "x", "scaleratio": (height / down) / (width / across)}
    layout = {
        "template": template(),
        "height": min(MAX_HEIGHT, round(width_drawn * height / width)) + 2 * MARGIN,
        "margin": dict.fromkeys("ltb", MARGIN) | {"r": enlarged(RIGHT), "autoexpand": False},
        "xaxis": HIDDEN | {"range": [min(-0.5, x), max(columns - 0.5, x + across)]},
        "yaxis": HIDDEN | {"range": [max(rows - 0.5, y + down), min(-0.5, y)]} | proportions,
        # Only for the page, which looks here for the middles of the cells.
        "xaxis2": {"tickvals": list(range(columns)), "visible": False},
        "yaxis2": {"tickvals": list(range(rows)), "visible": False},
        "images": [grey | {"xref": "x", "yref": "y", "x": x, "y": y, "sizex": across, "sizey": down}],
        "meta": {"rows": axes[0], "columns": axes[1], "row_block": 1, "column_block": 1},
    }
    frames = [] if query is None else [tuple(range(place, place + 1) for place in query)]
    if region is not None:
        frames.append(region)
        layout["meta"]["drags"] = True
    layout["shapes"] = [over_cells(*frame, line={"color": PIN, "width": thick(3)}) for frame in frames]
    numbers = Values(
        kind="cells",
        headings=("patch row", "patch column"),
        value=name,
        numbers=drawn,
        rows=numbered(rows),
        columns=numbered(columns),
        opening=f"{rows:,} by {columns:,}",
    )
    return Chart([{"type": "heatmap", "z": drawn, **colours, "hovertemplate": pointing}], layout, (numbers,))


def _see_through(scale: list[list[float | str]], *, signed: bool) -> list[list[float | str]]:
    """Return the colour scale with opacities that grow evenly with the size of the number."""
    places = np.linspace(0, 1, 21)
    sizes = np.abs(2 * places - 1) if signed else places
    opacities = np.interp(sizes, np.linspace(0, 1, len(OPACITIES)), OPACITIES)
    colours = sample_colorscale(scale, places.tolist())
    return [
        [place, f"rgba({colour[4:-1]}, {opacity:.3f})"]
        for place, colour, opacity in zip(places.tolist(), colours, opacities, strict=True)
    ]
