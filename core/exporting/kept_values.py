"""The values of a chart in a file: as plain values for JSON, and back. Whoever wrote the file is not trusted."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..figures.descriptions import KINDS
from ..figures.values import Values, floats
from .fields import Fields, broken

MAX_CHARACTERS = 2_000  # of a name
_TEXTS = ("part", "value", "opening", "closing", "prefix")
_ARRAY = {"dtype", "bdata", "shape"}
_DTYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4")


def written(values: Values) -> dict[str, Any]:
    """The values for JSON."""
    packed = {"numbers": _packed(values.numbers), "x": None if values.x is None else _packed(values.x)}
    return vars(values) | {"rows": list(values.rows), "columns": list(values.columns)} | packed


def read(fields: Fields) -> Values:
    """The values that were written so. Raises InputError where they are damaged, or numbers and names do not fit."""
    if fields.values.get("kind") not in KINDS:
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


def unpacked(value: Mapping[str, Any]) -> NDArray:
    """A table as Plotly packs it. Plotly itself would find out in the browser that it does not fit."""
    packed, dtype, shape = value.get("bdata"), value.get("dtype"), str(value.get("shape", ""))
    if not value.keys() <= _ARRAY or dtype not in _DTYPES or not isinstance(packed, str):
        raise broken("a picture in it has numbers that cannot be read")
    try:
        flat = np.frombuffer(base64.b64decode(packed, validate=True), dtype=f"<{dtype}")
        return flat.reshape([int(side) for side in shape.split(",")]) if shape else flat
    except (ValueError, binascii.Error):
        raise broken("a picture in it has numbers that cannot be read") from None


def _packed(numbers: NDArray[np.floating]) -> dict[str, str]:
    little = np.ascontiguousarray(numbers).astype(numbers.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": f"f{numbers.itemsize}", "bdata": data, "shape": ", ".join(map(str, numbers.shape))}


def _numbers(packed: object) -> NDArray[np.floating]:
    numbers = floats(unpacked(packed)) if isinstance(packed, dict) else np.zeros(())
    if numbers.ndim not in (1, 2):
        raise broken("a picture in it has numbers that cannot be read")
    return numbers


def _block(block: object) -> tuple[int, int]:
    match block:
        case [int(rows), int(columns)] if 0 < rows <= 2**20 and 0 < columns <= 2**20:
            return rows, columns
    raise broken("what a picture in it shows cannot be read")
