"""The colours of all figures. Any kind of colour vision tells them apart, on white, on black and on a projector.

Lines and bars stand out from the page's background by 3 to 1 in either theme, text by 4.5 to 1 (WCAG 2.2, 1.4.11 and 1.4.3).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plotly.colors import get_colorscale, sample_colorscale, validate_colors

Scale = list[list[Any]]  # of [place from 0 to 1, colour]

# Weights, from 0 up: Viridis grows evenly in lightness for every kind of colour vision and holds no grey.
SEQUENTIAL: Scale = get_colorscale("Viridis")

# Signed numbers around 0: blue below, almost white at 0, orange above; safe for the common kinds of colour blindness.
DIVERGING: Scale = [[0.0, "#2d6cb3"], [0.25, "#93b8dd"], [0.5, "#f7f7f5"], [0.75, "#f0b06a"], [1.0, "#c25a00"]]
# On a dark page almost black at 0, so that a difference of nothing does not outshine everything else.
DIVERGING_ON_DARK: Scale = [[0.0, "#63a6ea"], [0.25, "#2c5580"], [0.5, "#090b0e"], [0.75, "#84501a"], [1.0, "#f0902e"]]

# No scale holds a grey, so grey can only mean: this pair is forbidden. See-through, to suit any background.
FORBIDDEN = "rgba(128, 132, 142, 0.28)"
ALLOWED = "#3aa394"

ABOVE, BELOW, TOTAL = "#d07a22", "#3f7fc4", "#7a8290"
PIN = "#e6007e"
INK = "#808590"  # frames and hatching, on any background
GRID = "rgba(128, 132, 142, 0.2)"

# Text: no single colour is 4.5 to 1 on white and on the dark theme's background (4.24 is the most there is).
TEXT, TEXT_ON_DARK = "#5a616d", "#a9afba"

# Told apart by lightness too, for every kind of colour vision and for print.
SERIES = (BELOW, ABOVE, "#3aa394", "#a04fa8", TOTAL, "#a8931c")

# A line over cells has to be seen on every colour there is, and no single colour is: a dark one in a white casing.
ON_ANY_CELL = ({"color": "#ffffff", "width": 4}, {"color": "#1d2430", "width": 2})


def largest(values: NDArray[np.floating]) -> float:
    """Return the largest distance from 0, which gets the strongest colour; 1 where there is no number but 0."""
    return float(np.nanmax(np.abs(values), initial=0.0)) or 1.0


def colour_range(limit: float, *, signed: bool) -> dict[str, Any]:
    """Return the colours of a heatmap whose strongest one is that of `limit`: on both sides of 0, or from 0 up."""
    return {"zmin": -limit if signed else 0, "zmax": limit, "colorscale": DIVERGING if signed else SEQUENTIAL}


def set_signed_colours(traces: list[dict[str, Any]], layout: dict[str, Any], scale: Scale) -> None:
    """Draw the signed numbers of a figure, which are those in `DIVERGING` or `DIVERGING_ON_DARK`, in the colours of `scale`.

    Numbers printed in the cells become black or white to suit.
    """
    printed = [trace for trace in traces if trace["type"] == "scatter" and trace.get("mode") == "text"]
    for coloured in [*traces, layout.get("coloraxis", {})]:
        if coloured.get("colorscale") not in (DIVERGING, DIVERGING_ON_DARK):
            continue
        coloured["colorscale"] = scale
        for texts in printed:
            numbers = np.asarray(coloured["z"], float)[tuple(np.asarray(texts[axis], int) for axis in "yx")]
            texts["textfont"]["color"] = text_on(colours_of((numbers / coloured["zmax"] + 1) / 2, scale))


def text_on(colours: Sequence[str]) -> list[str]:
    """Return black or white for each colour, whichever has more contrast: at least 4.58 to 1. Plotly's own choice between
    white and a dark grey falls to 2.5 to 1.

    colours  each "#rrggbb" or "rgb(r, g, b)"
    """
    parts = np.array(validate_colors(list(colours), colortype="tuple")).reshape(-1, 3)
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]  # relative (WCAG 2.2), from 0 for black to 1 for white
    return np.where(luminance < 0.179, "white", "black").tolist()  # at 0.179 both have the same contrast


def colours_of(shares: NDArray[np.floating], scale: Scale) -> list[str]:
    """Return the colour of each place on a colour scale; places go from 0 to 1."""
    return [str(colour) for colour in sample_colorscale(scale, np.clip(shares, 0, 1).ravel().tolist())]
