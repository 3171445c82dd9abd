"""Charts in a file as data: only what this program draws, without links, external images or markup."""

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io
from numpy.typing import NDArray

from ..errors import InputError
from ..figures.chart import KINDS_OF_VALUES, Chart, Layout, Trace, Values, floats, packed
from ..figures.theme import template
from ..models.fields import Fields, broken
from .pictures import GROUNDS, portrait
from .tables import tables_of

MAX_JSON = 4 * 2**20  # bytes of one figure
MAX_NODES = 200_000  # values; a packed array counts as one
MAX_TRACES = 500  # of a figure, and as many values
MAX_CHARACTERS = 2_000  # of a text
MAX_SIZE = 4_000  # pixels of a figure's width or height
KINDS = ("heatmap", "bar", "scatter", "waterfall")
# The only images that a figure may contain: pixels within the file.
_PIXELS = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]*")
_LAYOUT = re.compile(
    r"(?:[xy]axis\d{0,2}|template|height|width|margin|font|showlegend|legend|dragmode|modebar|shapes|annotations|meta|images|bar\w+|"
    r"coloraxis|hovermode|hoverlabel|title|uniformtext|autosize|paper_bgcolor|plot_bgcolor|colorway|waterfall\w+|hidesources)"
)
# Anything that looks like a tag, except the markup that this program writes for Plotly; it is shown as it is.
_TAG = re.compile(r"<(?!/?(?:b|i|br|sub|sup|extra)>)")

_TEXTS = ("part", "value", "opening", "closing", "prefix")
_KEYS = {"dtype", "bdata", "shape"}  # of a packed table
_DTYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4")


def written(chart: Chart) -> dict[str, Any]:
    """The figure and the values of a chart for JSON, without the template, which all figures share."""
    made = json.loads(str(plotly.io.to_json(chart.figure, validate=False)))
    made["layout"].pop("template", None)
    return {
        "figure": {"data": made["data"], "layout": made["layout"]},
        "values": [_written_values(values) for values in chart.values],
    }


def read(drawn: Fields) -> Chart:
    """Read a chart that `written` has made; of an older file, without values. Raises InputError for any other."""
    values = tuple(map(_read_values, drawn.parts("values", MAX_TRACES)))
    chart = Chart(*_figure(drawn.values.get("figure")), values)
    _try(chart)
    return chart


def _figure(drawn: object) -> tuple[list[Trace], Layout]:
    if not isinstance(drawn, dict) or set(drawn) != {"data", "layout"}:
        raise _broken("cannot be read")
    data, layout = drawn["data"], drawn["layout"]
    if not isinstance(data, list) or not isinstance(layout, dict) or len(data) > MAX_TRACES:
        raise _broken("cannot be read")
    if any(not isinstance(trace, dict) or trace.get("type", "scatter") not in KINDS for trace in data):
        raise _broken("is of a kind that Headlight does not draw")
    if unknown := next((key for key in layout if not _LAYOUT.fullmatch(key)), None):
        raise _broken(f"sets {unknown[:30]!r}, which no picture of Headlight sets")
    budget = [MAX_NODES]
    data, layout = _checked(data, budget, 0), _checked(layout, budget, 0)
    for side in ("width", "height"):
        size = layout.get(side)
        if size is not None and not (isinstance(size, int | float) and 10 <= size <= MAX_SIZE):
            raise _broken(f"has a {side} of {str(size)[:20]}")
    try:
        figure = go.Figure(data, layout)
    except (ValueError, TypeError):  # Plotly's message may be as long as the file
        raise _broken("cannot be drawn by Plotly") from None
    checked: Any = figure.data
    return [trace.to_plotly_json() for trace in checked], figure.layout.to_plotly_json() | {"template": template()}


def _broken(why: str) -> InputError:
    """The error for a file with a picture that cannot be drawn, with the reason."""
    return broken(f"a picture in it {why}")


def _try(chart: Chart) -> None:
    """Raise InputError for a chart that fails when it is described or exported, as pages do with every chart."""
    try:
        traces: Any = chart.figure.data
        for trace in traces:
            if trace.type == "heatmap":
                np.asarray(trace.z, dtype=np.float64)  # numbers, in rows of one length
        _ = chart.description
        chart.strongest()
        tables_of(chart)
        portrait(chart.figure, "", [], GROUNDS["light"])
    except Exception:  # a figure from elsewhere may raise any error
        raise _broken("cannot be drawn by Headlight") from None


def _checked(value: Any, budget: list[int], depth: int) -> Any:
    """The value with harmless texts. budget: [number of further values that are allowed]"""
    budget[0] -= 1
    if budget[0] < 0 or depth > 12:
        raise _broken("is too large")
    if isinstance(value, dict):
        if value.keys() & {"bdata", "dtype"}:
            return _unpacked(value)
        if any(not re.fullmatch(r"\w{1,30}", key) for key in value):
            raise _broken("has settings that Headlight does not know")
        return {
            key: _pixels(entry) if key == "source" else _checked(entry, budget, depth + 1)
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


def _pixels(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_JSON or not _PIXELS.fullmatch(value):
        raise _broken("refers to an external image")
    return value


# --- the numbers that a chart draws


def _written_values(values: Values) -> dict[str, Any]:
    numbers = {"numbers": packed(values.numbers), "x": None if values.x is None else packed(values.x)}
    return vars(values) | {"rows": list(values.rows), "columns": list(values.columns)} | numbers


def _read_values(fields: Fields) -> Values:
    if fields.values.get("kind") not in KINDS_OF_VALUES:
        raise broken("what a picture in it shows cannot be read")
    rows, columns, headings = (fields.texts(name, MAX_CHARACTERS) for name in ("rows", "columns", "headings"))
    numbers = _numbers(fields.values.get("numbers"))
    x = None if fields.values.get("x") is None else _numbers(fields.values["x"])
    length = len(rows if x is None else x)
    expected = (length, len(columns)) if columns else (length,)
    if numbers.shape != expected or len(headings) != len(expected) or (x is not None and x.ndim != 1):
        raise broken("the numbers of a picture in it do not fit their names")
    return Values(
        kind=fields.values["kind"],
        numbers=numbers,
        headings=headings,
        rows=rows,
        columns=columns,
        x=x,
        is_mask=fields.values.get("is_mask") is True,
        block=_block(fields.values.get("block")),
        **{name: fields.text(name, MAX_CHARACTERS) for name in _TEXTS},
    )


def _unpacked(value: Mapping[str, Any]) -> NDArray:
    """A table as Plotly packs it. Plotly itself would find out in the browser that it does not fit."""
    data, dtype, shape = value.get("bdata"), value.get("dtype"), str(value.get("shape", ""))
    if not value.keys() <= _KEYS or dtype not in _DTYPES or not isinstance(data, str):
        raise _broken("has numbers that cannot be read")
    try:
        flat = np.frombuffer(base64.b64decode(data, validate=True), dtype=f"<{dtype}")
        return flat.reshape([int(side) for side in shape.split(",")]) if shape else flat
    except ValueError:
        raise _broken("has numbers that cannot be read") from None


def _numbers(table: object) -> NDArray[np.floating]:
    numbers = floats(_unpacked(table)) if isinstance(table, dict) else np.zeros(())
    if numbers.ndim not in (1, 2):
        raise _broken("has numbers that cannot be read")
    return numbers


def _block(block: object) -> tuple[int, int]:
    match block:
        case [int(rows), int(columns)] if 0 < rows <= 2**20 and 0 < columns <= 2**20:
            return rows, columns
    raise broken("what a picture in it shows cannot be read")
