"""An image cut into patches, and how much one of them attends to each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from plotly.colors import sample_colorscale

from ..chart import Chart
from ..palette import DIVERGING, PIN, SEQUENTIAL
from ..theme import enlarged, template, thick
from ..values import Values, numbered

# How much of the image the colours of the smallest number, of half the largest and of the largest hide.
FAINT, HALF, STRONG = 0.05, 0.55, 0.8
WIDTH, MAX_HEIGHT = 600, 560  # pixels: about how wide the image is drawn, from which its height follows
MARGINS = {"l": 8, "r": 66, "t": 8, "b": 8}
HIDDEN = {"showgrid": False, "zeroline": False, "showticklabels": False}


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
    drawn = values.astype(np.float32)
    limit = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    figure = go.Figure(
        go.Heatmap(
            z=drawn,
            zmin=-limit if signed else 0,
            zmax=limit,
            colorscale=_see_through(DIVERGING, (STRONG, HALF, FAINT, HALF, STRONG))
            if signed
            else _see_through(SEQUENTIAL),
            hovertemplate=f"patch <b>%{{y}},%{{x}}</b><br>{name} <b>%{{z:.6g}}</b><extra></extra>",
        )
    )
    height, length = image.shape[:2]
    figure.update_layout(
        template=template(),
        height=min(MAX_HEIGHT, round(WIDTH * height / length)) + MARGINS["t"] + MARGINS["b"],
        margin=MARGINS | {"r": enlarged(MARGINS["r"])} | {"autoexpand": False},
        xaxis=HIDDEN | {"range": [-0.5, columns - 0.5], "constrain": "domain"},
        yaxis=HIDDEN
        | {
            "range": [rows - 0.5, -0.5],
            "constrain": "domain",
            "scaleanchor": "x",
            "scaleratio": (height / rows) / (length / columns),
        },
        # Only for the page, which looks here for the middles of the cells.
        xaxis2={"tickvals": list(range(columns)), "visible": False},
        yaxis2={"tickvals": list(range(rows)), "visible": False},
        images=[
            {
                "source": Image.fromarray(image).convert("L"),
                "xref": "x",
                "yref": "y",
                "x": -0.5,
                "y": -0.5,
                "sizex": columns,
                "sizey": rows,
                "sizing": "stretch",
                "layer": "below",
            }
        ],
        meta={"rows": "patch_row", "columns": "patch_column", "row_block": 1, "column_block": 1},
    )
    if query is not None:
        row, column = query
        figure.add_shape(
            type="rect",
            x0=column - 0.5,
            x1=column + 0.5,
            y0=row - 0.5,
            y1=row + 0.5,
            line={"color": PIN, "width": thick(3)},
        )
    return Chart(
        figure,
        (
            Values(
                kind="cells",
                headings=("patch row", "patch column"),
                value=name,
                numbers=drawn,
                rows=numbered(rows),
                columns=numbered(columns),
                opening=f"{rows:,} by {columns:,}",
            ),
        ),
    )


def _see_through(
    scale: str | list[list[float | str]], opacities: Sequence[float] = (FAINT, HALF, STRONG)
) -> list[list[float | str]]:
    """Return the colour scale with opacities that change evenly from each of these to the next."""
    places = np.linspace(0, 1, 21)
    opacity = np.interp(places, np.linspace(0, 1, len(opacities)), opacities)
    colours = sample_colorscale(scale, places.tolist())
    return [
        [place, f"rgba({colour[4:-1]}, {seen:.3f})"]
        for place, colour, seen in zip(places.tolist(), colours, opacity, strict=True)
    ]
