"""The colours of all figures. Any kind of colour vision tells them apart, on white, on black and on a projector.

Lines and bars stand out from the page's background by 3 to 1 in either theme, text by 4.5 to 1 (WCAG 2.2, 1.4.11 and 1.4.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from plotly.colors import sample_colorscale

# Weights, from 0 up: Viridis grows evenly in lightness for every kind of colour vision and holds no grey.
SEQUENTIAL = "Viridis"

# Signed numbers around 0: blue below, almost white at 0, orange above; safe for the common kinds of colour blindness.
DIVERGING = [[0.0, "#2d6cb3"], [0.25, "#93b8dd"], [0.5, "#f7f7f5"], [0.75, "#f0b06a"], [1.0, "#c25a00"]]

# Neither scale holds a grey, so grey can only mean: this pair is forbidden. See-through, to suit any background.
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


def text_on(colours: Sequence[str]) -> list[str]:
    """Return black or white for each colour, whichever has more contrast: at least 4.58 to 1. Plotly's own choice between
    white and a dark grey falls to 2.5 to 1.

    colours  each "#rrggbb" or "rgb(r, g, b)"
    """
    dark = luminance(colours) < 0.179  # there both have the same contrast
    return np.where(dark, "white", "black").tolist()


def luminance(colours: Sequence[str]) -> NDArray[np.float64]:
    """Return the relative luminance (WCAG 2.2) of each colour, from 0 for black to 1 for white."""
    parts = np.array([_parts(colour) for colour in colours]).reshape(-1, 3) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def colours_of(shares: NDArray[np.floating], scale: str | list[list]) -> list[str]:
    """Return the colour of each place on a colour scale; places go from 0 to 1."""
    return [str(colour) for colour in sample_colorscale(scale, np.clip(shares, 0, 1).ravel().tolist())]


def _parts(colour: str) -> list[float]:
    if colour.startswith("#"):
        return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return [float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
