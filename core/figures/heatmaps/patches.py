"""An image cut into patches, and how much one of them attends to each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from plotly.colors import sample_colorscale

from ..chart import Chart
from ..palette import PIN, colour_range, largest
from ..theme import PLAIN_AXIS, enlarged, template, thick
from ..values import Values, numbered
from .frames import over_cells

# How much of the image the colours of the smallest number, of half the largest and of the largest hide.
OPACITIES = (0.05, 0.55, 0.8)
WIDTH, MAX_HEIGHT = 600, 560  # pixels: about how wide the image is drawn, from which its height follows
MARGIN, RIGHT = 8, 66  # pixels
HIDDEN = PLAIN_AXIS | {"showticklabels": False, "constrain": "domain"}


def on_image(
    image: NDArray[np.uint8],
    values: NDArray[np.floating],
    query: tuple[int, int] | None,
    *,
    name: str = "weight",
    signed: bool = False,
) -> Chart:
    """Draw the numbers [rows, columns] of one query over the patches of an image [height, width, 3]; NaN leaves a patch bare.

    The image is grey, so that every colour is a number's, and keeps its proportions.

    query   the patch that looks, framed; None: a token that is no patch
    signed  two colours that meet at 0, instead of one from 0 up
    """
    rows, columns = values.shape
    height, width = image.shape[:2]
    drawn = values.astype(np.float32)
    colours = colour_range(largest(values), signed=signed)
    colours["colorscale"] = _see_through(colours["colorscale"], signed=signed)
    pointing = f"patch <b>%{{y}},%{{x}}</b><br>{name} <b>%{{z:.6g}}</b><extra></extra>"
    grey = {"source": Image.fromarray(image).convert("L"), "sizing": "stretch", "layer": "below"}
    proportions = {"scaleanchor": "x", "scaleratio": (height / rows) / (width / columns)}
    layout = {
        "template": template(),
        "height": min(MAX_HEIGHT, round(WIDTH * height / width)) + 2 * MARGIN,
        "margin": dict.fromkeys("ltb", MARGIN) | {"r": enlarged(RIGHT), "autoexpand": False},
        "xaxis": HIDDEN | {"range": [-0.5, columns - 0.5]},
        "yaxis": HIDDEN | {"range": [rows - 0.5, -0.5]} | proportions,
        # Only for the page, which looks here for the middles of the cells.
        "xaxis2": {"tickvals": list(range(columns)), "visible": False},
        "yaxis2": {"tickvals": list(range(rows)), "visible": False},
        "images": [grey | {"xref": "x", "yref": "y", "x": -0.5, "y": -0.5, "sizex": columns, "sizey": rows}],
        "meta": {"rows": "patch_row", "columns": "patch_column", "row_block": 1, "column_block": 1},
    }
    if query is not None:
        row, column = (range(place, place + 1) for place in query)
        layout["shapes"] = [over_cells(row, column, line={"color": PIN, "width": thick(3)})]
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
