"""An image cut into patches, and how much one of them attends to each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from plotly.colors import sample_colorscale

from ..chart import Chart, Values, numbered
from ..palette import PIN, colour_range, largest
from ..theme import PLAIN_AXIS, enlarged, template, thick
from .frames import over_cells

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
