"""A page with nothing but a token view of random weights; what the address says, it shows.

streamlit run tests/browser/token_view_app.py
?text=markup&mask=causal&direction=to&lines=1&count=200&seed=1&from=100&plain=1&keys=pieces
    With grow=1 every pinned token makes the text one token longer.
"""

import numpy as np
import streamlit as st

from ui.components.token_view import token_view

SPACES = "The| cat| sat| on| the| mat|,| and| the| dog| slept| near| Kath|mand|u|."
PIECES = "[CLS]|the|cat|was|sleep|##ing|on|the|mat|.|[SEP]"
MARKUP = "<b>|<img src=x onerror=alert(1)>|$x$|*a*|שלום|🙂|first|\n|second|`code`|&lt;"
TEXTS = {"spaces": SPACES.split("|"), "pieces": PIECES.split("|"), "markup": MARKUP.split("|")}


def tokens(name: str, count: int | None) -> list[str]:
    text = TEXTS[name]
    if count is None:
        return text
    repeated = text * (count // len(text) + 1)
    return [repeated[0], *(f" {token.strip()}" if token[0].isalpha() else token for token in repeated[1:count])]


def weights(queries: int, keys: int, *, seed: int = 0, is_causal: bool = False) -> np.ndarray:
    """[queries, keys] float32: rows sum to 1, NaN above the diagonal if causal."""
    scores = 2 * np.random.default_rng(seed).standard_normal((queries, keys))
    scores[:, 0] += 2  # a sink, as real heads have one
    if is_causal:
        scores[np.triu_indices(queries, 1, keys)] = -np.inf
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = exponentials / exponentials.sum(axis=1, keepdims=True)
    return np.where(np.isneginf(scores), np.nan, shares).astype(np.float32)


def toggle(token: int) -> None:
    pins = st.session_state.pins
    st.session_state.clicked = token
    st.session_state.pins = [pin for pin in pins if pin != token] if token in pins else [*pins, token]


def main() -> None:
    asked = st.query_params
    count = int(asked["count"]) if "count" in asked else None
    if count is not None and "grow" in asked:
        count += len(st.session_state.get("pins", []))
    queries = tokens(asked.get("text", "spaces"), count)
    keys = tokens(asked["keys"], count) if "keys" in asked else queries
    start = int(asked.get("from", 0))
    st.session_state.setdefault("pins", [])
    seed = st.number_input("Seed", value=int(asked.get("seed", 0)), key="seed")
    pins = st.multiselect("Pinned", range(start, start + max(len(queries), len(keys))), key="pins")
    rows, columns = (range(start, start + len(of)) for of in (queries, keys))
    token_view(
        ([""] * start + queries, [""] * start + keys),
        rows,
        columns,
        weights(len(queries), len(keys), seed=int(seed), is_causal=asked.get("mask") == "causal"),
        direction="to" if asked.get("direction") == "to" else "from",
        lines="lines" in asked,
        pinned=pins,
        percent="plain" not in asked,
        on_token=toggle,
        key="view",
    )
    st.text(f"clicked: {st.session_state.get('clicked')}")


if __name__ == "__main__":
    main()
