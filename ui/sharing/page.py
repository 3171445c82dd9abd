"""A view, or a talk whose views were opened in turn, as one HTML page that needs neither a network nor a server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.exporting.exhibit import Drawing
from core.exporting.page import PageKnob, PageView
from ui import state
from ui.markdown import pieces, runs
from ui.sharing.pictures import about
from ui.shown import Knob, PageContents
from ui.talk import TalkView


def view_of_page(page: PageContents, title: str) -> PageView:
    """Return what an audience sees of a page: what it tells, its pictures, and the frames of its knobs."""
    if page.make_frames is not None:
        page.make_frames()  # on a light ground, whatever the page has
    told = [said.words for said in page.said if said.told and not said.words.startswith("|")]
    pictures = [picture for picture in page.pictures.values() if not picture.aside]
    knobs = [
        _knob(name, knob, page, [picture.name for picture in pictures], [pieces(words) for words in told])
        for name, knob in page.knobs.items()
        if page.frames.get(name)
    ]
    drawings = [Drawing(picture.title, picture.alt, picture.chart) for picture in pictures]
    return PageView(title, [runs(words) for words in told], drawings, knobs, about=about(page))


def _knob(name: str, knob: Knob, page: PageContents, pictures: list[str], told: list[list[str]]) -> PageKnob:
    """Return a knob whose frames name pictures and texts by their numbers in the saved view."""
    now = knob.now(page.fields)
    stands = _nearest(knob, page.fields.get(name)) if now is None else now
    frames = sorted((page.frames[name] | {stands: {"charts": {}, "said": {}}}).items())
    numbers = {state.picture(picture): number for number, picture in enumerate(pictures)}
    lines = {said: told.index(words) for said, words in enumerate(page.frames_of) if words in told}

    def moved(frame: Mapping[str, Any]) -> dict[str, Any]:
        charts = {numbers[key]: change for key, change in frame["charts"].items() if key in numbers}
        return {"charts": charts, "said": {lines[at]: words for at, words in frame["said"].items() if at in lines}}

    is_exact = now is not None or not knob.points
    names = {place: knob.names.get(place, f"{place:g}") for place, _ in frames} | ({} if is_exact else {stands: "…"})
    return PageKnob(
        knob.label, list(names.values()), [moved(frame) for _, frame in frames], list(names).index(stands), knob.rest
    )


def _nearest(knob: Knob, held: Any) -> float:
    """Return where a knob is that stands between its places: at a number of its own, or near the place of its handle."""
    return min(knob.points, key=lambda place: math.dist(knob.points[place], knob.at)) if knob.points else held


def keep(page: PageContents, view: TalkView) -> None:
    """Keep a view of the talk that was just opened, for `ui.views.talking`."""
    st.session_state.setdefault(state.TALK_PAGES, {})[view.mark] = view_of_page(page, view.title)
    st.session_state.pop(state.TALK_PAGE, None)
