"""Show me around: a few states of the page itself, each with a sentence or two about what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st

from core import Ledger
from core.attention.stages import number
from core.figures.labels import visible
from ui import state
from ui.components.tour import tour_card
from ui.controls.what_if import AS_GIVEN
from ui.views.sources.heads import opening_head
from ui.views.sources.passes import SENTENCE
from ui.views.sources.scenes import Scene

ENCODER, DECODER = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"


@dataclass(frozen=True)
class Stop:
    """A state of the page, and a few sentences about it.

    stage  the one that is open
    words  from the head that is shown and its chosen pair
    """

    stage: str
    words: Callable[[Scene, Ledger], str]
    model: str = ENCODER
    pair: tuple[int, int] | None = (10, 2)  # "it" looks at "animal"
    more: Mapping[str, object] = field(default_factory=dict)

    def choices(self) -> dict[str, object]:
        """The choices on the page, by the keys of its widgets."""
        layer, head = opening_head(self.model)
        query, key = self.pair or (None, None)
        return {
            state.SOURCE: "real",
            state.TEXT: SENTENCE,
            state.PAIR: "",
            state.MODEL: self.model,
            state.DTYPE: "float32",
            state.DEVICE: "cpu",
            state.LAYER: layer,
            state.HEAD: head,
            state.STAGE: self.stage,
            state.QUERY: query,
            state.KEY: key,
            state.SCALING: True,
            state.MASK: AS_GIVEN,
        } | dict(self.more)

    def is_shown(self) -> bool:
        """Whether all that is still chosen; whichever pair is, the words are about that."""
        return all(
            (st.session_state.get(key) or None) == (value or None)
            for key, value in self.choices().items()
            if key not in (state.QUERY, state.KEY)
        )


def _weights(scene: Scene, cell: Ledger) -> str:
    query, key = _pair(scene, cell)
    return (
        f"A language model has read this sentence. This is one of its attention heads. Each row is a token that looks (query), "
        f"each column a token that is looked at (key): {query} gives {cell.weight:.1%} of its attention to {key}."
    )


def _raw(scene: Scene, cell: Ledger) -> str:
    query, key = _pair(scene, cell)
    return (
        f"It begins with dot products: each query is multiplied by each key, number by number, and the products are added up. "
        f"For {query} and {key}, {len(cell.products)} products add up to {number(cell.raw)}. The bars show each of them."
    )


def _scaled(_: Scene, cell: Ledger) -> str:
    size = len(cell.products)
    return (
        f"All scores are multiplied by 1/√{size}: {number(cell.raw)} becomes {number(cell.scaled)}. Without this, most rows "
        f"give almost all their weight to one key. Switch Scaling off above to see it."
    )


def _softmax(_: Scene, cell: Ledger) -> str:
    return (
        f"Softmax turns each row into weights that add up to 1: e to the power of the score, divided by the sum of its row. "
        f"{number(cell.masked)} becomes a weight of {number(cell.weight)}."
    )


def _output(scene: Scene, cell: Ledger) -> str:
    query, _ = _pair(scene, cell)
    return (
        f"The weights mix the values: the output of {query} is the sum of all rows of V, each multiplied by its weight. The "
        f"table below the picture adds them up."
    )


def _mask(scene: Scene, _: Ledger) -> str:
    forbidden, (queries, keys) = scene.overview.row_numbers["forbidden"].sum(), scene.head.shape
    return (
        f"This is another model, which writes text, so no token may look ahead. {forbidden:,} of {queries * keys:,} pairs are "
        f"masked and drawn in grey: their score becomes −∞, and their weight exactly 0."
    )


def _own(_scene: Scene, _cell: Ledger) -> str:
    return (
        "Now try it yourself: type a sentence, choose a layer and a head, and click any cell. The page Heads shows all heads "
        "of a model at once, and Learn has experiments for every part of the equation."
    )


STOPS = (
    Stop("weights", _weights),
    Stop("raw", _raw),
    Stop("scaled", _scaled),
    Stop("weights", _softmax),
    Stop("output", _output),
    Stop("mask", _mask, model=DECODER, pair=None),
    Stop("weights", _own),
)


def show_tour_button() -> None:
    if st.session_state.get(state.TOUR) is None:
        st.button("Show me around", key=state.TOUR_START, icon=":material/tour:", on_click=_go, args=(0,))


def show_tour(scene: Scene | None, cell: Ledger | None) -> None:
    """Show the card of the current stop during a tour.

    A stop's words describe what it shows. They would be wrong if the page shows something else by now.
    """
    at = st.session_state.get(state.TOUR)
    if at is None:
        return
    stop = STOPS[at]
    if not stop.is_shown():
        words = "You have changed what this stop shows. Next goes on with the tour; Esc leaves everything as it is."
    elif scene is not None and cell is not None:
        words = stop.words(scene, cell)
    else:
        words = f"This stop shows {stop.model}, which cannot be opened here: above it says why. Go on with Next."
    tour_card(words, at, len(STOPS), state.EQUATION, _go)


def _go(to: int | None) -> None:
    """Go to a stop and choose what it shows. Beyond the last stop, the choices from before the tour come back. None leaves the
    tour and keeps what is shown."""
    if st.session_state.get(state.TOUR) is None:
        st.session_state[state.BEFORE_TOUR] = {key: st.session_state.get(key) for key in STOPS[0].choices()}
    if to is None:
        st.session_state[state.TOUR] = None
    elif to == len(STOPS):
        st.session_state[state.TOUR] = None
        st.session_state.update(st.session_state[state.BEFORE_TOUR])
    else:
        st.session_state[state.TOUR] = to
        st.session_state.update(STOPS[to].choices())


def _pair(scene: Scene, cell: Ledger) -> tuple[str, str]:
    """The tokens of the chosen pair in quotation marks."""
    query, key = scene.query_tokens[cell.query], scene.key_tokens[cell.key]
    return f"“{visible(query)}”", f"“{visible(key)}”"
