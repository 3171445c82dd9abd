"""Small tables of numbers, whose headings may occur twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table: the first column to the left, the others to the right. Cells are Markdown; escape what others wrote."""
    unbroken = [[row[0].replace(" ", "\N{NO-BREAK SPACE}"), *row[1:]] for row in rows]
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *unbroken]
    st.markdown("\n".join("| " + " | ".join(line) + " |" for line in lines))


def numbers(values: ArrayLike) -> list[str]:
    """Cells with three decimals and a real minus sign; NaN in a colour of its own."""
    return [
        ":red[**NaN**]" if np.isnan(value) else f"{value:,.3f}".replace("-", "−")
        for value in np.ravel(np.asarray(values))
    ]


def small_number(value: float) -> str:
    """A cell with two digits and a power of ten that no line break can tear apart: 5.3e−04."""
    return f"{value:.1e}".replace("-", "−") if value else "0"
