"""The exact numbers behind the pictures of a page, made only when somebody saves them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.exporting.tables import Side, Table
from core.heads.comparing import HeadPair
from core.heads.views import ViewMatrix
from ui.shown import ShownNumbers

Array = NDArray[np.floating]
Make = Callable[[], Array]


def of_view(matrix: ViewMatrix, again: Callable[[], ViewMatrix]) -> ShownNumbers:
    """Return the numbers of a view of the page Heads: those of its rows and columns.

    again  makes the matrix when they are wanted: the record of a page outlives the pass, which is much larger
    """
    view, rows, columns, labels = matrix.view, matrix.rows, matrix.columns, matrix.labels
    about = {
        "stage": view.quantity,
        "heads": ", ".join(f"{layer}.{head}" for layer, head in view.heads),
        "left out as keys": ", ".join(sorted(view.left_out)) or "nothing",
        "what remains sums to 1": "yes" if view.renormalise else "no",
        "rows and columns": f"{labels.unit}s",
    }
    about |= {} if view.part == "all" else {"part": view.part}
    sides = (
        Side("query", labels.queries[rows.start : rows.stop], start=rows.start),
        Side("key", labels.keys[columns.start : columns.stop], start=columns.start),
    )
    cells = len(rows) * len(columns)
    return _table(view.quantity, view.quantity, cells, lambda: again().exact(rows, columns), *sides, about)


def of_weights(weights: Array, rows: Side, columns: Side) -> ShownNumbers:
    return _table("weights", "Weights", weights.size, lambda: weights, rows, columns, {"stage": "weights"})


def of_pair(pair: HeadPair, part: str, name: str, queries: Sequence[str], keys: Sequence[str]) -> ShownNumbers:
    """Return the numbers of one of the three pictures of two heads. part: "first", "second" or "difference\""""
    rows, columns = pair.shape

    def values() -> Array:
        return pair.window(range(rows), range(columns)).matrices[part].values

    about = {"stage": "weights", "which": name}
    return _table(part, name, rows * columns, values, Side("query", queries), Side("key", keys), about)


def of_heads(measured: pd.DataFrame) -> ShownNumbers:
    """Return every metric of every head; rows are named by layer and head."""
    names = [name for name in measured.columns if name not in ("layer", "head")]
    heads = [f"head {layer}.{head}" for layer, head in zip(measured["layer"], measured["head"], strict=True)]
    values = measured[names].to_numpy(dtype=np.float64)
    return of_table("metrics", "Metrics", values, ("head", heads), ("metric", list(map(str, names))))


def of_grid(values: Array, name: str) -> ShownNumbers:
    held = values.copy()  # more of them may still come
    return _table("heads", name, held.size, lambda: held, Side("layer"), Side("head"), {"numbers": name})


def of_tokens(tokens: Sequence[str], columns: Mapping[str, Sequence[float] | Array]) -> ShownNumbers:
    values = np.array(list(columns.values()), dtype=np.float64).T
    sides = Side("token", tuple(tokens)), Side("number", tuple(columns), start=None)
    return _table("tokens", "Tokens", values.size, lambda: values, *sides)


def of_table(
    key: str, name: str, values: Array, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]]
) -> ShownNumbers:
    """Return numbers whose rows and columns have names: (heading, names)."""
    of_rows, of_columns = (Side(heading, tuple(names), start=None) for heading, names in (rows, columns))
    return _table(key, name, values.size, lambda: values, of_rows, of_columns)


def _table(
    key: str, name: str, cells: int, values: Make, rows: Side, columns: Side, about: Mapping[str, str] | None = None
) -> ShownNumbers:
    """Return a single table, in which NaN stands for a number that is missing, and notes on it."""
    named: dict[str, Any] = {"key": key, "name": name, "rows": rows, "columns": columns}
    return ShownNumbers(cells, lambda: (Table(values=values(), **named),), dict(about or {}))
