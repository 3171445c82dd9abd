"""The equation as a line of small pictures: a click on one, or the arrow keys, open that stage below."""

from __future__ import annotations

import streamlit as st

from core.attention.formulas import added
from core.attention.stages import BY_KEY
from core.figures.heatmaps.equation import TERMS, equation, middle_of
from ui import links, state
from ui.components import pin
from ui.components.keys import arrow_keys
from ui.links import Choice
from ui.views.charts import show_chart
from ui.views.head_links import link_to_heads
from ui.views.step_by_step.scenes import Scene

ORDER = tuple(TERMS)
NAMES = {key: BY_KEY[key].name for key in ORDER}


def opened_stage() -> str:
    """The key of the stage that is open."""
    return links.field(state.STAGE, Choice(NAMES, {"Q, K, V": "query", "inputs": "query"}), "weights", "Stage")


def show_equation(scene: Scene, cell: tuple[int, int], opened: str) -> None:
    """Show the equation, with the chosen pair marked in every matrix."""
    matrices = scene.overview.matrices
    chart = equation(matrices, pin=cell, opened=opened, scale=scene.head.scale, added=added(scene.head))
    shapes = (f"{name} {matrices[key].shape[0]} by {matrices[key].shape[1]}" for key, name in NAMES.items())
    with st.container(key=state.EQUATION):
        alt = f"The equation of attention, a small heatmap for each matrix: {', '.join(shapes)}"
        numbers = scene.numbers(ORDER)
        show_chart(chart, "equation", alt, fills=False, title="The equation, all stages", numbers=numbers)


def show_ways_on(scene: Scene, cell: tuple[int, int], opened: str) -> None:
    """Show the line whose arrow keys walk through the equation, and a link to all heads of the model."""
    arrow_keys(
        state.picture("equation"),
        f"Open a stage with the arrow keys. Open: {NAMES[opened]}, {BY_KEY[opened].sentence}",
        (0, ORDER.index(opened)),
        (1, len(ORDER)),
        lambda _, place: _open(place),
        words="← → or a click opens a matrix",
        line=(state.EQUATION, middle_of(opened)),
    )
    if scene.real is not None:
        link_to_heads(scene.real.of, cell)


def clicked(cell: pin.Cell) -> None:
    """A click on the equation opens a stage, one on any other picture chooses a pair."""
    if place := pin.place_in(cell, "equation", "stage", (1, len(ORDER))):
        _open(place[1])
    else:
        pin.pin(cell)


def _open(place: int) -> None:
    st.session_state[state.STAGE] = ORDER[place]
