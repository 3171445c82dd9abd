"""Small HTML tables for notebooks. Texts by others are shown as text, never as markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from ..attention.rowwise import Pooled
from ..figures.labels import visible
from ..figures.palette import DIVERGING, FORBIDDEN, SEQUENTIAL, colours_of, largest, text_on

PRINTED = 12  # number of columns up to which every cell of a picture shows its number
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
_LEFT = '<td style="text-align: left">'


class Html(str):
    """A text that is HTML; every other text is escaped."""


def token(value: str) -> Html:
    """A token with visible blanks, as code, in which notebooks do not look for formulas."""
    return Html(f"<code>{html.escape(visible(value))}</code>")


def table(rows: Iterable[Sequence[object]], heading: Sequence[str] = ()) -> str:
    """A table of texts, numbers and Html."""

    def cell(value: object) -> str:
        return value if isinstance(value, Html) else html.escape(str(value))

    return _html(map(cell, heading), [[f"{_LEFT}{cell(value)}</td>" for value in row] for row in rows])


def shaded(cells: Pooled, *, signed: bool) -> str:
    """A matrix as a table with the colours of its figure, for programs that cannot draw the figure. Masked cells are grey."""
    limit = largest(cells.values)
    shares = np.nan_to_num((cells.values / limit + 1) / 2 if signed else cells.values / limit)
    colours = colours_of(shares, DIVERGING if signed else SEQUENTIAL)
    height, width = cells.values.shape
    is_printed = cells.exact and width <= PRINTED
    drawn = [
        _cell(*cell, is_printed) for cell in zip(cells.values.ravel().tolist(), colours, text_on(colours), strict=True)
    ]
    rows = [
        [f"<th>{_places(cells.block(row, 0)[0])}</th>", *drawn[row * width : (row + 1) * width]]
        for row in range(height)
    ]
    return _html(["", *(_places(cells.block(0, column)[1]) for column in range(width))], rows)


def _html(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of headings, and of rows of whole cells, <td> or <th>."""
    head = "".join(f"<th>{cell}</th>" for cell in heading)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table class="{_NO_FORMULAS}">{head}<tbody>{body}</tbody></table>'


def _cell(value: float, colour: str, letters: str, is_printed: bool) -> str:
    if np.isnan(value):
        return f'<td title="masked" style="background: {FORBIDDEN}"></td>'
    number = f"{value:.2f}" if is_printed else ""
    return f'<td title="{value:.6g}" style="background: {colour}; color: {letters}">{number}</td>'


def _places(places: range) -> str:
    return str(places.start) if len(places) == 1 else f"{places.start}–{places.stop - 1}"
