"""Small HTML tables for notebooks. Texts by others are shown as text, never as markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np
from plotly.colors import sample_colorscale

from ..attention.pooling import Pooled
from ..figures.labels import visible
from ..figures.palette import DIVERGING, FORBIDDEN, SEQUENTIAL

PRINTED = 12  # number of columns up to which every cell of a picture shows its number


def text(value: object) -> str:
    """Any value as escaped text."""
    return html.escape(str(value))


def token(value: str) -> str:
    """A token with visible blanks, as code, in which notebooks do not look for formulas."""
    return f"<code>{html.escape(visible(value))}</code>"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML, from `text` and `token`. An empty heading is left out."""
    head = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in heading)}</tr></thead>" if heading else ""
    body = "".join(f"<tr>{''.join(f'<td{LEFT}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="{NO_FORMULAS}">{head}<tbody>{body}</tbody></table>'


def shaded(cells: Pooled, *, signed: bool) -> str:
    """A matrix as a table with the colours of its figure, for programs that cannot draw the figure. Masked cells are grey."""
    limit = float(np.nanmax(np.abs(cells.values), initial=0)) or 1.0
    shares = np.nan_to_num((cells.values / limit + 1) / 2 if signed else cells.values / limit)
    colours = sample_colorscale(DIVERGING if signed else SEQUENTIAL, np.clip(shares, 0, 1).ravel())
    printed = cells.exact and cells.values.shape[1] <= PRINTED
    columns = [_place(cells.block(0, column)[1]) for column in range(cells.values.shape[1])]
    rows = []
    for row, (values, shown) in enumerate(zip(cells.values, np.reshape(colours, cells.values.shape), strict=True)):
        line = "".join(map(_cell, values, shown, [printed] * len(values)))
        rows.append(f"<tr><th>{_place(cells.block(row, 0)[0])}</th>{line}</tr>")
    head = f"<tr><th></th>{''.join(f'<th>{column}</th>' for column in columns)}</tr>"
    return f'<table class="{NO_FORMULAS}"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
LEFT = ' style="text-align: left"'
_BLACK_OR_WHITE = 140  # brightness, of 255, from which black text is more legible than white text


def _cell(value: float, colour: str, printed: bool) -> str:
    if np.isnan(value):
        return f'<td title="masked" style="background: {FORBIDDEN}"></td>'
    red, green, blue = (float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    letters = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > _BLACK_OR_WHITE else "white"
    number = f"{value:.2f}" if printed else ""
    return f'<td title="{value:.6g}" style="background: {colour}; color: {letters}">{number}</td>'


def _place(places: range) -> str:
    return str(places.start) if len(places) == 1 else f"{places.start}–{places.stop - 1}"
