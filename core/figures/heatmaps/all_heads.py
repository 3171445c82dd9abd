"""A grid of all heads of a model, layers by heads: a number for each head, or a small picture of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from plotly.colors import sample_colorscale

from ..chart import Chart, Values, head_values
from ..labels import thinned
from ..palette import FORBIDDEN, PIN, SEQUENTIAL
from ..theme import PLAIN_AXIS, enlarged, template, thick
from .frames import over_cells
from .heatmap import Axis, heatmap

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
