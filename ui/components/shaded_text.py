"""A text as one of its tokens looks at it: the others shade by how much attention they get, and a sentence says most of it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ui.components.tokens import spelled, token_component

_TEXT = token_component(Path(__file__))


def shaded_text(
    tokens: Sequence[str], weights: ArrayLike, query: int, *, start: int = 0, limit: float, key: str
) -> None:
    """Put the text on the page.

    weights  [tokens] from 0 to 1, what the query gives to each
    query    the place of the token that looks, among these
    start    the position of the first of these tokens in the whole text
    limit    the weight with the strongest shade; the same for texts that are compared
    Raises ValueError for weights that do not fit, and a query that is none of the tokens.
    """
    numbers = np.ascontiguousarray(weights, dtype="<f4")
    if numbers.shape != (len(tokens),) or not 0 <= query < len(tokens):
        raise ValueError(f"There are {len(tokens)} tokens, weights of shape {numbers.shape}, and the query {query}.")
    data = {
        "tokens": spelled(tokens, start) | {"marks": "", "after": "." * len(tokens)},  # a line break is its mark alone
        "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
        "query": int(query),
        "limit": float(limit),
    }
    _TEXT(key=key, data=data)


def shade_legend(limit: float, *, key: str) -> None:
    """What shades and frames mean, for texts of this limit."""
    _TEXT(key=key, data={"tokens": None, "limit": float(limit)})
