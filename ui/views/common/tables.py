"""Small tables of numbers, whose headings may occur twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headings, which may be equal. Cells are Markdown; escape what others wrote. A wide table scrolls.

    Written as Markdown: Streamlit's own tables load a megabyte of scripts with the first of them.
    """
    lines = [[cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line[:1]] + list(line[1:]) for line in rows]
    written = [list(headings), ["---"] * len(headings), *lines]
    st.markdown("\n".join(f"| {' | '.join(line)} |" for line in written))


def numbers(values: ArrayLike) -> list[str]:
    """Cells with three decimals and a real minus sign; NaN in a colour of its own."""
    return [
        ":red[**NaN**]" if np.isnan(value) else f"{value:,.3f}".replace("-", "−")
        for value in np.ravel(np.asarray(values))
    ]


def small_number(value: float) -> str:
    """A cell with two digits and a power of ten that no line break can tear apart: 5.3e−04."""
    return f"{value:.1e}".replace("-", "−") if value else "0"
