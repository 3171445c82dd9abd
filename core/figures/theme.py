"""What every figure has in common, as a Plotly template. A figure names it, or it would get the one Streamlit sets."""

from __future__ import annotations

import plotly.graph_objects as go
import plotly.io

from .palette import GRID, INK, TEXT

TEMPLATE = "headlight"

# A figure takes the whole template along to the browser: only what most figures need is in it.
plotly.io.templates[TEMPLATE] = go.layout.Template(
    data={
        "heatmap": [
            {
                "hoverongaps": False,
                "colorbar": {"thickness": 12, "outlinewidth": 0, "ticks": "", "tickfont": {"size": 13}, "xpad": 6},
            }
        ],
        "bar": [{"textposition": "outside", "textangle": 0, "cliponaxis": False}],
    },
    layout={
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": TEXT, "size": 14},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        "hoverlabel": {"font": {"size": 14}, "align": "left"},
        "dragmode": False,
        "bargap": 0.2,
        "annotationdefaults": {"showarrow": False},
        "xaxis": {"showgrid": False, "zeroline": False, "ticks": "", "title": {"standoff": 8}},
        "yaxis": {"gridcolor": GRID, "zerolinecolor": INK, "ticks": "", "title": {"standoff": 8}, "nticks": 6},
    },
)
