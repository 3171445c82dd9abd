"""A path from an answer back to the text: one stop at a time, with its picture and its number."""

from __future__ import annotations

import streamlit as st

from core import Capture
from core.heads.attribution import as_grid
from core.heads.paths import Path
from ui import links, state
from ui.calls import result
from ui.components import pin
from ui.controls.fields import menu
from ui.links import Choice, Text
from ui.markdown import plain
from ui.progress import run
from ui.requests import AnswerRequest, PathRequest, TextRequest
from ui.views.sources.models import MAX_TOKENS, TEXTS, missing
from ui.views.sources.reading import InputFields, read_or_say, run_pass
from ui.views.why import results
from ui.views.why.asking import choose_answer, text_of
from ui.views.why.cutting import choose_cuts
from ui.views.why.drawing import draw
from ui.views.why.saying import say
from ui.views.why.view import SIDES, View, attribution_of, follow_path, opening_side

LONGEST_PATH = 300  # characters
LABEL = 24  # pixels of the label above a field


def show_path(fields: InputFields) -> None:
    """Show the fields, and the path from an answer back to the text."""
    if (words := missing(fields.model, TEXTS)) is not None:
        st.info(plain(words), icon=":material/visibility_off:")
        return
    finding = st.container(gap=None)
    line = st.container(horizontal=True, vertical_alignment="top", gap="small")

    def follow(request: TextRequest) -> tuple[Capture, AnswerRequest, Path] | None:
        capture = run_pass(request, fields.model, MAX_TOKENS, components=True)
        if capture is None:
            return None
        hops = links.field(state.PATH, Text(LONGEST_PATH), "", "Path")
        if hops.startswith("score "):
            with line, st.container(width="content", gap=None):
                st.space(LABEL)
                st.button("Follow the answer", key=state.FOLLOW_ANSWER, on_click=follow_path, args=([],))
            of = AnswerRequest(request, None, "mean")
        else:
            with line:
                of = choose_answer(request, capture)
        path = run(results.path.task(PathRequest(of, hops)), "Following the answer", 1)
        return None if path is None else (capture, of, path)

    followed = read_or_say(fields, follow, lambda followed: followed[0].notes if followed else ())
    if followed is None:
        return
    capture, of, path = followed
    if path.answer is not None:
        result(path.answer)
    with line:
        at = _choose_stop(path)
        choose_cuts(path)
    side = links.field(state.SIDE, Choice(SIDES), opening_side(path, at), "Side") if at else ""
    view = View(capture, of, path, at, side, text_of(capture, of))
    with finding:
        pin.listen(lambda cell: _clicked(view, cell))
        say(view)
    draw(view)


def _choose_stop(path: Path) -> int:
    names = {} if path.answer is None else {"0": "Answer"}
    names |= {str(number): stop.hop.component for number, stop in enumerate(path.stops, start=1)}
    return int(menu("Path", state.STOP, names, look="buttons"))


def _clicked(view: View, cell: pin.Cell) -> None:
    """Go on to the head that was clicked."""
    grid = as_grid(attribution_of(view))
    place = pin.place_in(cell, "layer", "component", grid.values.shape)
    if place is None or place[1] == grid.values.shape[1] - 1:
        return
    kind, layer = grid.rows[place[0]]
    name = f"{kind} {layer}.{place[1]}".strip()
    side = "" if view.stop is None else f"{view.side} "
    follow_path([str(stop.hop) for stop in view.path.stops[: view.at]] + [f"{side}{name}"])
