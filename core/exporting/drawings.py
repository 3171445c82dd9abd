"""Charts that come from a file, as data: only what this program draws, without links, images from elsewhere or markup."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io

from ..figures import theme
from ..figures.chart import Chart
from . import kept_values
from .kept_heads import broken
from .kept_values import MAX_LETTERS
from .pictures import GROUNDS, portrait
from .tables import tables_of

MAX_JSON = 4 * 2**20  # bytes of one figure
MAX_NODES = 200_000  # values, a table that is packed counting as one
MAX_TRACES = 500  # of a figure, and as many values
KINDS = ("heatmap", "bar", "scatter", "waterfall")
# The only images that a figure may hold are pixels that it brings along.
_PIXELS = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]*")
_LAYOUT = re.compile(
    r"(?:[xy]axis\d{0,2}|template|height|width|margin|font|showlegend|legend|dragmode|modebar|shapes|annotations|meta|images|bar\w+|"
    r"coloraxis|hovermode|hoverlabel|title|uniformtext|autosize|paper_bgcolor|plot_bgcolor|colorway|waterfall\w+|hidesources)"
)
# What Plotly reads as markup, and this program writes; whatever else looks like a tag is shown as it is.
_TAG = re.compile(r"<(?!/?(?:b|i|br|sub|sup|extra)>)")


def written(chart: Chart) -> dict[str, Any]:
    """The figure and the values of a chart for JSON, without the template, which every figure shares."""
    made = json.loads(str(plotly.io.to_json(chart.figure, validate=False)))
    made["layout"].pop("template", None)
    return {
        "figure": {"data": made["data"], "layout": made["layout"]},
        "values": [kept_values.written(values) for values in chart.values],
    }


def read(drawn: Mapping[str, Any]) -> Chart:
    """The chart that was written so; one without values, as earlier files hold it, has no table.

    Raises InputError for what this program would not have drawn.
    """
    values = drawn.get("values", [])
    if not isinstance(values, list) or len(values) > MAX_TRACES or not all(isinstance(one, dict) for one in values):
        raise broken("what a picture in it shows cannot be read")
    chart = Chart(_figure(drawn.get("figure")), tuple(map(kept_values.read, values)))
    _try(chart)
    return chart


def _figure(drawn: object) -> go.Figure:
    if not isinstance(drawn, dict) or set(drawn) != {"data", "layout"}:
        raise broken("a picture in it is none")
    data, layout = drawn["data"], drawn["layout"]
    if not isinstance(data, list) or not isinstance(layout, dict) or len(data) > MAX_TRACES:
        raise broken("a picture in it is none")
    if any(not isinstance(trace, dict) or trace.get("type", "scatter") not in KINDS for trace in data):
        raise broken("a picture in it is of a kind that Headlight does not draw")
    if unknown := next((key for key in layout if not _LAYOUT.fullmatch(key)), None):
        raise broken(f"a picture in it sets {unknown[:30]!r}, which Headlight does not")
    budget = [MAX_NODES]
    checked = {"data": _checked(data, budget, 0), "layout": _checked(layout, budget, 0)}
    _refuse_size(checked["layout"])
    try:
        figure = go.Figure(checked)
    except (ValueError, TypeError):  # what Plotly says of it may be as long as the file
        raise broken("a picture in it is none that Plotly draws") from None
    figure.update_layout(template=theme.TEMPLATE)
    return figure


def _try(chart: Chart) -> None:
    """Do with the chart what pages do with any, before one of them does."""
    try:
        traces: Any = chart.figure.data
        for trace in traces:
            if trace.type == "heatmap":
                np.asarray(trace.z, dtype=np.float64)  # numbers, in rows of one length
        _ = chart.description
        chart.strongest()
        tables_of(chart)
        portrait(chart.figure, "", [], GROUNDS["light"])
    except Exception:  # what a figure raises that this program did not draw is no closed list
        raise broken("a picture in it is none that Headlight draws") from None


def _checked(value: Any, budget: list[int], depth: int) -> Any:
    """The same value, its texts without foreign markup. `budget` is how many more there may be."""
    budget[0] -= 1
    if budget[0] < 0 or depth > 12:
        raise broken("a picture in it is too large")
    if isinstance(value, dict):
        if value.keys() & {"bdata", "dtype"}:
            return kept_values.unpacked(value)
        if any(not re.fullmatch(r"\w{1,30}", key) for key in value):
            raise broken("a picture in it has settings that Headlight does not know")
        return {
            key: _source(one) if key == "source" else _checked(one, budget, depth + 1) for key, one in value.items()
        }
    if isinstance(value, list):
        return [_checked(one, budget, depth + 1) for one in value]
    if isinstance(value, str):
        if len(value) > MAX_LETTERS:
            raise broken("a text in one of its pictures is too long")
        return _TAG.sub("&lt;", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise broken("a picture in it holds a number that is not finite")
    if isinstance(value, int) and abs(value) > 2**53:
        raise broken("a picture in it holds a number that is too large")
    return value


def _source(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_JSON or not _PIXELS.fullmatch(value):
        raise broken("a picture in it asks for an image from elsewhere")
    return value


def _refuse_size(layout: dict[str, Any]) -> None:
    for side in ("width", "height"):
        size = layout.get(side)
        if size is not None and not (isinstance(size, int | float) and 10 <= size <= 4_000):
            raise broken(f"a picture in it has a {side} of {str(size)[:20]}")
