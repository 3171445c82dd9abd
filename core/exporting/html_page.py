"""A figure as one HTML page that needs no network: plotly.js is packed inside, and the browser unpacks it.

plotly-cartesian.min.js.gz is the part of plotly.js that draws heatmaps, bars and lines, a third of the whole: the package
plotly.js-cartesian-dist-min of npm, in the version of plotly.js that plotly.py brings along.
"""

from __future__ import annotations

import base64
import gzip
import html
from functools import cache
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import plotly.io

from .about import About

CARTESIAN = Path(__file__).with_name("plotly-cartesian.min.js.gz")
WHOLE = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
IN_CARTESIAN = {"bar", "heatmap", "scatter"}  # the kinds of traces that are drawn here and that it can draw

_DRAW = """
const text = (id) => document.getElementById(id).textContent;
const draw = async () => {
    const packed = Uint8Array.from(atob(text("plotly")), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
    const { data, layout } = JSON.parse(text("figure"));
    await Plotly.newPlot("picture", data, layout, { displaylogo: false });
};
draw().catch((error) => {
    document.getElementById("picture").textContent = `This browser cannot draw the picture: ${error.message}`;
});
"""


def to_html(figure: go.Figure, title: str, about: About) -> str:
    """An HTML page with the figure and the notes about it. It contains plotly.js, and its policy forbids to load anything."""
    rows = "\n".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in about.items()
    )
    layout: Any = figure.layout
    traces: Any = figure.data
    drawn = plotly.io.to_json(figure, validate=False)  # with each < as \u003c, so that no text in it can end the script
    ground, ink = layout.paper_bgcolor, layout.font.color
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>
body {{ margin: 1.5rem; font: 15px/1.5 system-ui, sans-serif; background: {ground}; color: {ink}; }}
table {{ border-collapse: collapse; margin-top: 1rem; }}
th {{ text-align: left; padding-right: 1.5rem; vertical-align: top; font-weight: 600; }}
td {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<div id="picture"></div>
<script type="application/json" id="figure">{drawn}</script>
<script type="text/plain" id="plotly">{_packed({trace.type for trace in traces} <= IN_CARTESIAN)}</script>
<script>{_DRAW}</script>
<table>
{rows}
</table>
</body>
</html>
"""


@cache
def _packed(is_cartesian: bool) -> str:
    """plotly.js, compressed by gzip and written in letters; of the whole that takes half a second and 2 MB."""
    script = CARTESIAN.read_bytes() if is_cartesian else gzip.compress(WHOLE.read_bytes(), mtime=0)
    return base64.b64encode(script).decode()
