"""Tables on a page, and the numbers in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Show rows under headings, of which two may be equal. Cells are Markdown: escape foreign text. A wide table scrolls.

    The table is Markdown, because Streamlit's own tables load a megabyte of scripts.
    """
    lines = [[cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line[:1]] + list(line[1:]) for line in rows]
    written = [list(headings), ["---"] * len(headings), *lines]
    st.markdown("\n".join(f"| {' | '.join(line)} |" for line in written))


def numbers(values: ArrayLike) -> list[str]:
    """Return cells with three decimals and a real minus sign; NaN is red."""
    return [
        ":red[**NaN**]" if np.isnan(value) else f"{value:z,.3f}".replace("-", "−")
        for value in np.ravel(np.asarray(values))
    ]
