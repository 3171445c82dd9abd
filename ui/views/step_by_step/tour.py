"""Show me around: a few states of the page itself, each with a sentence or two about what it shows."""

from dataclasses import dataclass

import streamlit as st

from core import Ledger
from core.attention.stages import number
from core.figures.labels import visible
from ui import links, state
from ui.components.keys import tour_card
from ui.controls.masks import AS_GIVEN
from ui.views.sources.heads import opening_head
from ui.views.sources.text_fields import SENTENCE
from ui.views.step_by_step.scenes import Scene

ENCODER, DECODER = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"


@dataclass(frozen=True)
class TourStop:
    """A state of the page, and a few sentences about it.

    stage      the one that is open
    sentences  with names for the numbers of the chosen pair: see `words`
    subject    the key of the widget or picture that the sentences are about
    """

    stage: str
    sentences: str
    model: str = ENCODER
    pair: tuple[int, int] | None = (10, 2)  # "it" looks at "animal"
    subject: str = state.picture("As it is")

    def choices(self) -> dict[str, object]:
        layer, head = opening_head(self.model)
        query, key = self.pair or (None, None)
        choices: dict[str, object] = {state.SOURCE: "real", state.TEXT: SENTENCE, state.PAIR: ""}
        choices |= {state.MODEL: self.model, state.DTYPE: "float32", state.DEVICE: "cpu"}
        choices |= {state.LAYER: layer, state.HEAD: head, state.STAGE: self.stage, state.QUERY: query, state.KEY: key}
        return choices | {state.SCALING: True, state.MASK: AS_GIVEN}

    def is_shown(self) -> bool:
        """Whether all that is still chosen; whichever pair is, the words are about that."""
        choices = {key: value for key, value in self.choices().items() if key not in (state.QUERY, state.KEY)}
        return all((st.session_state.get(key) or None) == (value or None) for key, value in choices.items())

    def words(self, scene: Scene, cell: Ledger) -> str:
        """The sentences with the numbers of the head that is shown and its chosen pair."""
        queries, keys = scene.head.shape
        return self.sentences.format(
            query=f"“{visible(scene.query_tokens[cell.query])}”",
            looked_at=f"“{visible(scene.key_tokens[cell.key])}”",
            size=len(cell.products),
            share=cell.weight,
            forbidden=scene.overview.row_numbers["forbidden"].sum(),
            pairs=queries * keys,
            **{name: number(getattr(cell, name)) for name in ("raw", "scaled", "masked", "weight")},
        )


STOPS = (
    TourStop(
        "weights",
        "A language model has read this sentence. This is one of its attention heads. Each row is a token that looks (query), "
        "each column a token that is looked at (key): {query} gives {share:.1%} of its attention to {looked_at}.",
    ),
    TourStop(
        "raw",
        "It begins with dot products: each query is multiplied by each key, number by number, and the products are added up. "
        "For {query} and {looked_at}, {size} products add up to {raw}. The bars show each of them.",
        subject=state.picture("waterfall"),
    ),
    TourStop(
        "scaled",
        "All scores are multiplied by 1/√{size}: {raw} becomes {scaled}. Without this, most rows give almost all their weight "
        "to one key. Switch Scaling off under “Scale and mask” to see it.",
    ),
    TourStop(
        "weights",
        "Softmax turns each row into weights that add up to 1: e to the power of the score, divided by the sum of its row. "
        "{masked} becomes a weight of {weight}.",
    ),
    TourStop(
        "output",
        "The weights mix the values: the output of {query} is the sum of all rows of V, each multiplied by its weight. The "
        "table below the picture adds them up.",
    ),
    TourStop(
        "mask",
        "This is another model, which writes text, so no token may look ahead. {forbidden:,} of {pairs:,} pairs are masked and "
        "drawn in grey: their score becomes −∞, and their weight exactly 0.",
        model=DECODER,
        pair=None,
    ),
    TourStop(
        "weights",
        "Now try it yourself: type a sentence, choose a head, and click any cell. The page Heads shows all heads "
        "of a model at once, and Learn has experiments for every part of the equation.",
        subject=state.TEXT,
    ),
)


def show_tour_button() -> None:
    if st.session_state.get(state.TOUR) is None:
        st.button("Show me around", key=state.TOUR_START, icon=":material/tour:", on_click=_go, args=(0,))


def show_tour(scene: Scene | None, cell: Ledger | None) -> None:
    """Show the card of the current stop during a tour.

    A stop's words describe what it shows. They would be wrong if the page shows something else by now.
    """
    if (at := st.session_state.get(state.TOUR)) is None:
        return
    stop = STOPS[at]
    if not stop.is_shown():
        words = "You have changed what this stop shows. Next goes on with the tour; Esc leaves everything as it is."
    elif scene is not None and cell is not None:
        words = stop.words(scene, cell)
    else:
        words = f"This stop shows {stop.model}, which cannot be opened here: above it says why. Go on with Next."
    tour_card(words, at, len(STOPS), stop.subject, _go)


def _go(to: int | None) -> None:
    """Go to a stop; beyond the last one, back to the choices from before the tour. None leaves the tour where it is."""
    if st.session_state.get(state.TOUR) is None:
        st.session_state[state.BEFORE_TOUR] = {key: st.session_state.get(key) for key in STOPS[0].choices()}
    is_over = to == len(STOPS)
    st.session_state[state.TOUR] = None if is_over else to
    if is_over:
        links.put_all(st.session_state[state.BEFORE_TOUR])
    elif to is not None:
        links.put_all(STOPS[to].choices())
