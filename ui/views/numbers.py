"""The exact numbers behind the pictures of a page, made only when somebody saves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core import AttentionTrace
from core.attention.stages import BY_KEY
from core.exporting.kept_heads import KeptHead
from core.exporting.tables import Side, Table, stage_table
from core.heads.comparing import HeadPair
from core.heads.views import ViewMatrix
from ui.shown import Numbers
from ui.views.sources.scenes import Scene


def of_stages(scene: Scene, stages: Sequence[str]) -> Numbers:
    """Return the numbers of whole stages of a head."""
    head = scene.head
    shapes = {"query": head.query.shape, "key": head.key.shape, "value": head.value.shape}
    shapes |= {"output": (head.shape[0], head.value.shape[1])}
    told = {"stage": ", ".join(BY_KEY[key].name for key in stages), "scale": repr(head.scale)}
    return Numbers(
        sum(int(np.prod(shapes.get(key, head.shape))) for key in stages),
        lambda: tuple(stage_table(head, key, scene.query_tokens, scene.key_tokens) for key in stages),
        told,
    )


def of_view(matrix: ViewMatrix) -> Numbers:
    """Return the numbers of a view of the page Heads: those of its rows and columns."""
    view, rows, columns = matrix.view, matrix.rows, matrix.columns

    def make() -> tuple[Table, ...]:
        values = matrix.exact(rows, columns)
        sides = (
            Side("query", matrix.labels.queries[rows.start : rows.stop], start=rows.start),
            Side("key", matrix.labels.keys[columns.start : columns.stop], start=columns.start),
        )
        return (table_of(view.quantity, view.quantity, values, *sides),)

    told = {
        "stage": view.quantity,
        "heads": ", ".join(f"{layer}.{head}" for layer, head in view.heads),
        "left out as keys": ", ".join(sorted(view.left_out)) or "nothing",
        "what remains sums to 1": "yes" if view.renormalise else "no",
        "rows and columns": f"{matrix.labels.unit}s",
    }
    told |= {} if view.part == "all" else {"part": view.part}
    return Numbers(len(rows) * len(columns), make, told)


def of_weights(trace: AttentionTrace, rows: Side, columns: Side) -> Numbers:
    """Return the weights of some rows of a head."""

    def make() -> tuple[Table, ...]:
        return (table_of("weights", "Weights", np.where(trace.mask, trace.weights, np.nan), rows, columns),)

    return Numbers(trace.weights.size, make, {"stage": "weights"})


def of_pair(pair: HeadPair, part: str, name: str, queries: Sequence[str], keys: Sequence[str]) -> Numbers:
    """Return the numbers of one of the three pictures of two heads. part: "first", "second" or "difference\""""
    rows, columns = pair.shape

    def make() -> tuple[Table, ...]:
        cells = pair.window(range(rows), range(columns)).matrices[part]
        return (table_of(part, name, cells.values, Side("query", queries), Side("key", keys)),)

    return Numbers(rows * columns, make, {"stage": "weights", "which": name})


def of_heads(measured: pd.DataFrame) -> Numbers:
    """Return every metric of every head; rows are named by layer and head."""
    names = [name for name in measured.columns if name not in ("layer", "head")]
    values = measured[names].to_numpy(dtype=np.float64)
    places = zip(measured["layer"], measured["head"], strict=True)
    rows = Side("head", tuple(f"head {layer}.{head}" for layer, head in places), start=None)
    columns = Side("metric", tuple(map(str, names)), start=None)
    return Numbers(values.size, lambda: (table_of("metrics", "Metrics", values, rows, columns),))


def of_grid(values: NDArray[np.floating], name: str) -> Numbers:
    """Return one number for each head: [layers, heads]."""
    held = values.copy()  # more of them may still come
    return Numbers(held.size, lambda: (table_of("heads", name, held, Side("layer"), Side("head")),), {"numbers": name})


def of_tokens(tokens: Sequence[str], columns: Mapping[str, Sequence[float] | NDArray[np.floating]]) -> Numbers:
    """Return a few numbers for each of some tokens."""
    values = np.array(list(columns.values()), dtype=np.float64).T
    sides = (Side("token", tuple(tokens)), Side("number", tuple(columns), start=None))
    return Numbers(values.size, lambda: (table_of("tokens", "Tokens", values, *sides),))


def of_table(
    key: str,
    name: str,
    values: NDArray[np.floating],
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
) -> Numbers:
    """Return numbers whose rows and columns have names: (heading, names)."""
    sides = [Side(heading, tuple(names), start=None) for heading, names in (rows, columns)]
    return Numbers(values.size, lambda: (table_of(key, name, values, *sides),))


def table_of(key: str, name: str, values: NDArray[np.floating], rows: Side, columns: Side) -> Table:
    """Return a table; NaN stands for a number that is missing."""
    return Table(key=key, name=name, values=values, rows=rows, columns=columns)


def kept(scene: Scene) -> KeptHead:
    """Return the head of a scene that comes from no pass of a model."""
    return scene.kept or KeptHead(
        head=scene.head, query_tokens=scene.query_tokens, key_tokens=scene.key_tokens, says=scene.origin
    )
