"""What every figure has in common, as a Plotly template, and how large its letters are.

A figure names its template, or it would get the one Streamlit sets.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import plotly.graph_objects as go
import plotly.io

from .palette import GRID, INK, TEXT

TEMPLATE = "headlight"


@dataclass(frozen=True)
class Lettering:
    """How figures are drawn that are looked at from far away.

    least  pixels: no letter is smaller, and what belongs to letters grows with them; 0: at a desk
    """

    least: int = 0


lettering: ContextVar[Lettering] = ContextVar("lettering", default=Lettering())  # noqa: B039 - it is frozen


def letters(size: int) -> int:
    """How many pixels letters have that have `size` at a desk."""
    return max(size, lettering.get().least)


def enlarged(pixels: float, size: int = 14) -> int:
    """How many pixels there are for something that has `pixels` at a desk beside letters of that size."""
    return round(pixels * letters(size) / size)


def thick(width: float) -> float:
    """How wide a line is that has `width` pixels at a desk."""
    return width * letters(12) / 12


def template() -> str | go.layout.Template:
    """The template of a figure: by its name at a desk, and one with larger letters where they are wanted."""
    wanted = lettering.get()
    return _template(wanted) if wanted.least else TEMPLATE


def plain_layout(height: int) -> dict[str, Any]:
    """What every chart starts from: room above for the legend, and at the sides as much as the labels need."""
    return {
        "template": template(),
        "height": height,
        "margin": {"l": 8, "r": 16, "t": enlarged(34), "b": 8},
        "xaxis": {"automargin": True},
        "yaxis": {"automargin": True},
    }


@lru_cache(maxsize=8)
def _template(_: Lettering) -> go.layout.Template:
    """A figure takes the whole template along to the browser: only what most figures need is in it."""
    tick_letters = {"size": letters(13)}
    colour_bar = {"thickness": enlarged(12), "outlinewidth": 0, "ticks": "", "tickfont": tick_letters, "xpad": 6}
    return go.layout.Template(
        data={
            "heatmap": [{"hoverongaps": False, "colorbar": colour_bar}],
            "bar": [{"textposition": "outside", "textangle": 0, "cliponaxis": False}],
        },
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": TEXT, "size": letters(14)},
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "hoverlabel": {"font": {"size": letters(14)}, "align": "left"},
            "dragmode": False,
            "bargap": 0.2,
            "annotationdefaults": {"showarrow": False},
            "xaxis": {"showgrid": False, "zeroline": False, "ticks": "", "title": {"standoff": 8}},
            "yaxis": {"gridcolor": GRID, "zerolinecolor": INK, "ticks": "", "title": {"standoff": 8}, "nticks": 6},
        },
    )


plotly.io.templates[TEMPLATE] = _template(Lettering())
