"""The Plotly template that all figures share, and the size of their letters.

A figure holds its template. Without one it would get the one that Streamlit sets.
"""

from contextvars import ContextVar
from typing import Any

from .palette import GRID, INK, TEXT
from .typeface import FAMILY

PLAIN_AXIS = {"showgrid": False, "zeroline": False}

# The height in pixels of the smallest letters: more than 0 on a wall. Whatever belongs to letters grows with them.
smallest_letters: ContextVar[int] = ContextVar("smallest_letters", default=0)


def letters(size: int) -> int:
    """Return the height in pixels of letters that are `size` pixels high at a desk."""
    return max(size, smallest_letters.get())


def enlarged(pixels: float, size: int = 14) -> int:
    """Return the size in pixels of something that takes `pixels` at a desk, beside letters of `size`."""
    return round(pixels * letters(size) / size)


def thick(width: float) -> float:
    """Return the width in pixels of a line that is `width` pixels wide at a desk."""
    return width * letters(12) / 12


def template() -> dict[str, Any]:
    """Return the template of a figure, with larger letters than at a desk where these are wanted.

    Every figure sends all of it to the browser, so it holds only what most figures need.
    """
    # Plotly would measure each label, to hide those that are cut: a tenth of the time in which a picture is drawn.
    axis = {"ticks": "", "title": {"standoff": 8}, "ticklabeloverflow": "allow"}
    return {
        "data": {
            "heatmap": [{"hoverongaps": False, "colorbar": colour_bar(12, 13)}],
            "bar": [{"textposition": "outside", "textangle": 0, "cliponaxis": False}],
        },
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": TEXT, "size": letters(14), "family": FAMILY},
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "hoverlabel": {"font": {"size": letters(14), "family": FAMILY}, "align": "left"},
            "dragmode": False,
            "bargap": 0.2,
            "annotationdefaults": {"showarrow": False},
            "xaxis": PLAIN_AXIS | axis,
            "yaxis": {"gridcolor": GRID, "zerolinecolor": INK, "nticks": 6} | axis,
        },
    }


def plain_layout(height: int) -> dict[str, Any]:
    """Return the layout that every plot starts from: room for the legend above, and for the labels at the sides."""
    return {
        "template": template(),
        "height": height,
        "margin": {"l": 8, "r": 16, "t": enlarged(34), "b": 8},
        "xaxis": {"automargin": True},
        "yaxis": {"automargin": True},
    }


def colour_bar(thickness: int, size: int) -> dict[str, Any]:
    """Return the look of a colour bar of this thickness, with letters of this size."""
    look = {"thickness": enlarged(thickness), "outlinewidth": 0, "ticks": "", "tickfont": {"size": letters(size)}}
    # Plotly's own x of 1.02 takes room from the numbers: 20 pixels beside a picture 1000 wide.
    return look | {"x": 1, "xpad": 12}
