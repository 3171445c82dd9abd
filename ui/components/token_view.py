"""A text whose tokens shade by attention: point at a token, and the others shade by how much it attends to them, or they to it.

The browser holds all weights of the window, so that pointing at tokens needs no server. Only a click is sent, as the position
of the token.

A simpler one shows the attention of one token, with a sentence that names those that get most.
"""

import base64
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from core.attention.rowwise import around
from core.figures.text.tokens import TEXT_VIEW, TOKENS, spelled
from ui import state
from ui.in_browser import clicks_seen, component_beside, new_clicks

_VIEW = component_beside(__file__, TOKENS, TEXT_VIEW, "clicks", "token_view")
IN_TEXT = 192  # tokens of a longer text that are shown as text: more are slow to send and hard to read


def part_in_text(position: int, length: int) -> range:
    """Return the part of a text of this length that is shown as text: the whole text, or what is around this position."""
    return around(position, length, IN_TEXT)


def token_view(
    tokens: tuple[Sequence[str], Sequence[str]],
    rows: range,
    columns: range,
    weights: ArrayLike,
    *,
    direction: Literal["from", "to"] = "from",
    lines: bool = False,
    pinned: Collection[int] = (),
    percent: bool = True,
    written_from: int | None = None,
    special: Collection[int] = (),
    on_token: Callable[[int], None] | None = None,
    key: str = state.TOKEN_VIEW,
) -> None:
    """Put the view on the page.

    tokens         (query tokens, key tokens) of the whole text
    rows, columns  the queries and the keys that are shown; the same tokens at the same positions are one text and shown once
    weights        [rows, columns], NaN for masked pairs; a mean counts them as 0
    direction      "from": what a token attends to, weights[token, :]; "to": what attends to it, weights[:, token]. If queries
                   and keys are shown apart, both can be pointed at in either direction
    lines          show two columns joined by lines instead of running text
    pinned         positions in the whole text: of queries for "from", of keys for "to"; others are ignored
    percent        write 0.413 as "41.3%"
    written_from   the first query that the model has written: this one and all later ones are underlined
    special        positions of queries that are special tokens: they are boxed
    on_token       called with the position of a clicked token before the page runs again, while widgets above the view (the
                   list of pins) can still be changed
    """
    query_tokens, key_tokens = tokens[0][rows.start : rows.stop], tokens[1][columns.start : columns.stop]
    is_one_text = list(query_tokens) == list(key_tokens) and rows == columns
    places = rows if direction == "from" else columns

    def clicked() -> None:
        for token in new_clicks(key):
            is_position = isinstance(token, int) and not isinstance(token, bool) and token in places
            if on_token is not None and is_position:
                on_token(token)

    first_written = np.inf if written_from is None else written_from
    # s(pecial), w(ritten) or "." for neither
    marks = "".join("s" if at in special else "w" if at >= first_written else "." for at in rows)
    data = {
        "queries": spelled(query_tokens, rows.start) | {"marks": marks},
        "keys": None if is_one_text else spelled(key_tokens, columns.start) | {"marks": ""},
        "weights": _packed(weights, len(query_tokens), len(key_tokens)),
        "direction": direction,
        "lines": bool(lines),
        "pinned": sorted(int(token) for token in set(pinned)),
        "percent": bool(percent),
        "seen": clicks_seen(key),
    }
    _VIEW(key=key, data=data, on_clicks_change=clicked)


def _packed(weights: ArrayLike, *shape: int) -> str:
    """Return the weights as the browser reads them: float32, little-endian, row by row."""
    numbers = np.ascontiguousarray(weights, dtype="<f4")
    assert numbers.shape == shape, f"weights have the shape {numbers.shape}, and the tokens {shape}"
    return base64.b64encode(numbers.tobytes()).decode("ascii")


# --- the attention of one token


_TEXT = component_beside(__file__, TOKENS, "shaded_text")


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
    """
    assert 0 <= query < len(tokens), f"query {query} lies outside of {len(tokens)} tokens"
    data = {
        "tokens": spelled(tokens, start) | {"marks": "", "after": "." * len(tokens)},  # a line break is its mark alone
        "weights": _packed(weights, len(tokens)),
        "query": int(query),
        "limit": float(limit),
        "says": {"attends": ["attends to", "attends most to"], "takes": ["takes from", "takes most from"]}[verb],
    }
    _TEXT(key=key, data=data)


def shade_legend(limit: float, *, key: str) -> None:
    """Show the legend of shades and frames, for texts with this limit."""
    _TEXT(key=key, data={"tokens": None, "limit": float(limit)})
