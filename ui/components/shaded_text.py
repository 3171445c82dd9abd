"""A text shaded by the attention of one of its tokens, with a sentence that names the tokens that get most."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from core.figures.text.tokens import TOKENS, spelled
from ui.in_browser import component_beside

_TEXT = component_beside(__file__, TOKENS)


def shaded_text(
    tokens: Sequence[str],
    weights: ArrayLike,
    query: int,
    *,
    start: int = 0,
    limit: float,
    verb: Literal["attends", "takes"] = "attends",
    key: str,
) -> None:
    """Put the text on the page.

    weights  [tokens] from 0 to 1: the attention of the query to each token
    query    the index of the query token among these
    start    the position of the first of these tokens in the whole text
    limit    the weight with the strongest shade; use the same for texts that are compared
    verb     what the query does: "attends" to a token, or "takes" from it what it passes on
    Raises ValueError for weights of another shape, and for a query outside of the tokens.
    """
    numbers = np.ascontiguousarray(weights, dtype="<f4")
    if numbers.shape != (len(tokens),) or not 0 <= query < len(tokens):
        raise ValueError(
            f"weights have shape {numbers.shape} and query is {query}; for {len(tokens)} tokens, weights must have shape "
            f"({len(tokens)},) and query must be from 0 to {len(tokens) - 1}."
        )
    data = {
        "tokens": spelled(tokens, start) | {"marks": "", "after": "." * len(tokens)},  # a line break is its mark alone
        "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
        "query": int(query),
        "limit": float(limit),
        "says": {"attends": ["attends to", "attends most to"], "takes": ["takes from", "takes most from"]}[verb],
    }
    _TEXT(key=key, data=data)


def shade_legend(limit: float, *, key: str) -> None:
    """Show the legend of shades and frames, for texts with this limit."""
    _TEXT(key=key, data={"tokens": None, "limit": float(limit)})
