"""Figures in a file as data: only what this program draws, without links, external images or markup."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io

from ..errors import InputError
from ..figures import theme
from ..figures.findings import finding, strongest
from .kept_heads import broken
from .pictures import GROUNDS, portrait
from .tables import tables_of

MAX_JSON = 4 * 2**20  # bytes of one figure
MAX_NODES = 200_000  # values; a packed array counts as one
MAX_CHARACTERS = 2_000  # of a text in a figure
KINDS = ("heatmap", "bar", "scatter", "waterfall")
# The only images that a figure may contain: pixels within the file.
_PIXELS = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]*")
_LAYOUT = re.compile(
    r"(?:[xy]axis\d{0,2}|template|height|width|margin|font|showlegend|legend|dragmode|modebar|shapes|annotations|meta|images|bar\w+|"
    r"hovermode|hoverlabel|title|uniformtext|autosize|paper_bgcolor|plot_bgcolor|colorway|waterfall\w+|hidesources)"
)
# Anything that looks like a tag, except the markup that this program writes for Plotly; it is shown as it is.
_TAG = re.compile(r"<(?!/?(?:b|i|br|sub|sup|extra)>)")
_ARRAY = {"dtype", "bdata", "shape"}
_DTYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4")


def written(figure: go.Figure) -> dict[str, Any]:
    """The figure as plain values for JSON, without the template, which all figures share."""
    values = json.loads(str(plotly.io.to_json(figure, validate=False)))
    values["layout"].pop("template", None)
    return {"data": values["data"], "layout": values["layout"]}


def read(drawn: object) -> go.Figure:
    """Read a figure that `written` has made. Raises InputError for anything that this program does not draw."""
    if not isinstance(drawn, dict) or set(drawn) != {"data", "layout"}:
        raise _broken("cannot be read")
    data, layout = drawn["data"], drawn["layout"]
    if not isinstance(data, list) or not isinstance(layout, dict) or len(data) > 500:
        raise _broken("cannot be read")
    if any(not isinstance(trace, dict) or trace.get("type", "scatter") not in KINDS for trace in data):
        raise _broken("is of a kind that Headlight does not draw")
    if unknown := next((key for key in layout if not _LAYOUT.fullmatch(key)), None):
        raise _broken(f"sets {unknown[:30]!r}, which no picture of Headlight sets")
    budget = [MAX_NODES]
    checked = {"data": _checked(data, budget, 0), "layout": _checked(layout, budget, 0)}
    _refuse_size(checked["layout"])
    try:
        figure = go.Figure(checked)
    except (ValueError, TypeError):  # Plotly's message may be as long as the file
        raise _broken("is none that Plotly draws") from None
    figure.update_layout(template=theme.TEMPLATE)
    _try(figure)
    return figure


def _broken(why: str) -> InputError:
    """The error for a file with a picture that cannot be drawn, with the reason."""
    return broken(f"a picture in it {why}")


def _try(figure: go.Figure) -> None:
    """Raise InputError for a figure that fails when it is described, exported or framed, as pages do with every figure."""
    try:
        for look in (finding, strongest, tables_of):
            look(figure)
        portrait(figure, "", [], GROUNDS["light"])
    except Exception:  # a figure from elsewhere may raise any error
        raise _broken("is none that Headlight draws") from None


def _checked(value: Any, budget: list[int], depth: int) -> Any:
    """The value with harmless texts. Raises InputError for values that this program does not write.

    budget  [number of further values that are allowed]
    """
    budget[0] -= 1
    if budget[0] < 0 or depth > 12:
        raise _broken("is too large")
    if isinstance(value, dict):
        if value.keys() & {"bdata", "dtype"}:
            return _array(value)
        if any(not re.fullmatch(r"\w{1,30}", key) for key in value):
            raise _broken("has settings that Headlight does not know")
        return {
            key: _source(entry) if key == "source" else _checked(entry, budget, depth + 1)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_checked(entry, budget, depth + 1) for entry in value]
    if isinstance(value, str):
        if len(value) > MAX_CHARACTERS:
            raise _broken("contains a text that is too long")
        return _TAG.sub("&lt;", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _broken("holds a number that is not finite")
    if isinstance(value, int) and abs(value) > 2**53:
        raise _broken("holds a number that is too large")
    return value


def _array(value: dict[str, Any]) -> Any:
    """Unpack an array that Plotly has packed, and check it: Plotly itself would fail in the browser only."""
    packed, dtype, shape = value.get("bdata"), value.get("dtype"), str(value.get("shape", ""))
    if not value.keys() <= _ARRAY or dtype not in _DTYPES or not isinstance(packed, str):
        raise _broken("has numbers that cannot be read")
    try:
        flat = np.frombuffer(base64.b64decode(packed, validate=True), dtype=f"<{dtype}")
        return flat.reshape([int(side) for side in shape.split(",")]) if shape else flat
    except (ValueError, binascii.Error):
        raise _broken("has numbers that cannot be read") from None


def _source(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_JSON or not _PIXELS.fullmatch(value):
        raise _broken("refers to an external image")
    return value


def _refuse_size(layout: dict[str, Any]) -> None:
    for side in ("width", "height"):
        size = layout.get(side)
        if size is not None and not (isinstance(size, int | float) and 10 <= size <= 4_000):
            raise _broken(f"has a {side} of {str(size)[:20]}")
