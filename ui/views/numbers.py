"""The exact numbers behind what a page shows, for those who take them away; none is made before."""

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
    """Whole stages of a head."""
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
    """A view of the page Heads, as far as it is seen."""
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
    """The weights of some rows of a head."""

    def make() -> tuple[Table, ...]:
        return (table_of("weights", "Weights", np.where(trace.mask, trace.weights, np.nan), rows, columns),)

    return Numbers(trace.weights.size, make, {"stage": "weights"})


def of_pair(pair: HeadPair, part: str, name: str, queries: Sequence[str], keys: Sequence[str]) -> Numbers:
    """One of the three pictures of two heads: "first", "second" or "difference"."""
    rows, columns = pair.shape

    def make() -> tuple[Table, ...]:
        found = pair.window(range(rows), range(columns)).matrices[part]
        return (table_of(part, name, found.values, Side("query", queries), Side("key", keys)),)

    return Numbers(rows * columns, make, {"stage": "weights", "which": name})


def of_heads(measured: pd.DataFrame) -> Numbers:
    """Every metric of every head; heads are called by layer and head."""
    names = [name for name in measured.columns if name not in ("layer", "head")]
    values = measured[names].to_numpy(dtype=np.float64)
    places = zip(measured["layer"], measured["head"], strict=True)
    rows = Side("head", tuple(f"head {layer}.{head}" for layer, head in places), start=None)
    columns = Side("metric", tuple(map(str, names)), start=None)
    return Numbers(values.size, lambda: (table_of("metrics", "Metrics", values, rows, columns),))


def of_grid(values: NDArray[np.floating], name: str) -> Numbers:
    """A number for each head: [layers, heads]."""
    held = values.copy()  # it may go on growing
    return Numbers(held.size, lambda: (table_of("heads", name, held, Side("layer"), Side("head")),), {"numbers": name})


def of_tokens(tokens: Sequence[str], columns: Mapping[str, Sequence[float] | NDArray[np.floating]]) -> Numbers:
    """A few numbers for each of some tokens."""
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
    """Numbers whose rows and columns have names: (what they are names of, the names)."""
    sides = [Side(heading, tuple(names), start=None) for heading, names in (rows, columns)]
    return Numbers(values.size, lambda: (table_of(key, name, values, *sides),))


def table_of(key: str, name: str, values: NDArray[np.floating], rows: Side, columns: Side) -> Table:
    """Where there is no number, it is NaN."""
    return Table(key=key, name=name, values=values, missing=np.isnan(values), rows=rows, columns=columns)


def kept(scene: Scene) -> KeptHead:
    """The head of a scene by itself, where it is none of a model's pass."""
    return scene.kept or KeptHead(
        head=scene.head, query_tokens=scene.query_tokens, key_tokens=scene.key_tokens, says=scene.origin
    )
