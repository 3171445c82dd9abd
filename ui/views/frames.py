"""Frames: what a page would show if a knob stood elsewhere. They are sent with the page, so that pictures, numbers and
sentences follow a knob while it is held, without the server; once it is let go, the page runs.

What makes a part of a page also makes its frames: it runs again, quietly, with each value of a knob (`ui.shown.quietly`).
A frame holds only what differs from the page. Nothing is computed in the browser.

Frames cost more than the page itself. So they are made from the moment on at which a visitor comes near a knob of the page, or
presents it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import streamlit as st
from plotly.utils import PlotlyJSONEncoder

from core import InputError
from core.progress import stop_point
from ui import links, presenting, shown, state
from ui.in_browser import component_beside, sent
from ui.markdown import pieces
from ui.shown import Knob, PageContents
from ui.views.charts import as_sent

SECONDS = 1.0  # in which the frames of a page are made; one that is not there by then stays out, unless it is played
SECONDS_FOR_A_FILE = 4.0
MOST_BYTES = 300_000  # of all frames of a picture

_FRAMES = component_beside(__file__, "frames")
_PLAYER = component_beside(__file__, "player")
Part = Callable[[], Iterable[object]]
Frame = dict[str, Any]


def handle(
    name: str,
    label: str,
    picture: str,
    point: Callable[[float], Iterable[float]],
    at: Iterable[float],
    holds: Mapping[float, Mapping[str, Any]] | None = None,
) -> None:
    """Let a thing in a picture be moved by hand.

    name     of a slider that it moves too, or of a knob of its own
    point    gives where it is at a place, in the numbers of the picture's axes; `at` is where it is now
    holds    of a knob of its own: what fields hold at each place

    The other arguments are those of `shown.Knob`.
    """
    knobs = shown.now().knobs
    if shown.is_quiet() or (holds is None and name not in knobs):
        return
    holds = knobs[name].holds if holds is None else holds
    points = {place: _pair(point(place)) for place in holds}
    knobs[name] = Knob(holds, label, picture=picture, points=points, at=_pair(at))


def player(name: str, seconds: float, label: str = "Play") -> None:
    """Show buttons that play a knob, from its first place to its last; it rests at each for so many seconds."""
    knobs = shown.now().knobs
    if name in knobs:
        knobs[name] = replace(knobs[name], rest=seconds)
        _PLAYER(key=state.PLAYER, data={"knob": name, "label": label})


def _pair(point: Iterable[float]) -> tuple[float, float]:
    x, y = point
    return float(x), float(y)


def follow(show: Part) -> None:
    """Send the frames of all knobs that this run has shown. Where some are missing, the browser shows the nearest one.

    show  draws the part of the page that the knobs change; it runs with other values of each, one knob at a time
    """
    page = shown.now()
    if not page.knobs:
        return
    wanted: list[str] = st.session_state.setdefault(state.FRAMES_WANTED, [])
    rehearses = st.session_state.get(state.REHEARSING, False)  # nobody moves a knob then
    is_wanted = page.page in wanted or (presenting.is_on() and not rehearses)

    def make(seconds: float, *, dark: bool = False) -> None:
        with suppress(InputError):  # the page says what is wrong with a field, and shows what it was before
            page.frames_of, page.frames = _made(show, page, seconds, dark=dark)

    page.make_frames = lambda: make(SECONDS_FOR_A_FILE)
    if is_wanted:
        make(SECONDS, dark=st.context.theme.type == "dark")

    def moved() -> None:
        match sent(state.FRAMES, "moved"):
            case {"knob": str(name), "place": int() | float() as place} if name in page.knobs:
                links.put_all(page.knobs[name].holds.get(place, {}))

    knobs = {name: _sent(knob, page.frames.get(name, {}), page.fields) for name, knob in page.knobs.items()}
    data = {"frames": json.dumps({"said": page.frames_of, "knobs": knobs}), "isWanted": is_wanted}
    _FRAMES(key=state.FRAMES, data=data, on_moved_change=moved, on_wanted_change=lambda: wanted.append(page.page))


def _made(
    show: Part, page: PageContents, seconds: float, *, dark: bool
) -> tuple[list[list[str]], dict[str, dict[float, Frame]]]:
    """Return the pieces of the texts that the knobs of a page may change, and the frames of each knob by their places."""
    end = time.thread_time() + seconds
    base = _Drawn(shown.quietly(show, page.fields), dark=dark)
    frames: dict[str, dict[float, Frame]] = {name: {} for name in page.knobs}
    sizes = dict.fromkeys(base.charts, 0)
    for name, place in _interleaved(page.knobs):
        stop_point()
        if time.thread_time() > end and not page.knobs[name].rest:
            continue
        try:
            other = _Drawn(shown.quietly(show, {**page.fields, **page.knobs[name].holds[place]}), dark=dark)
        except InputError:  # the page would say what is wrong
            continue
        frame = base.changes(other)
        with_frame = sizes | {chart: sizes[chart] + len(json.dumps(of)) for chart, of in frame["charts"].items()}
        if max(with_frame.values(), default=0) <= MOST_BYTES:
            frames[name][place], sizes = frame, with_frame
    return base.said, frames


def _sent(knob: Knob, frames: Mapping[float, Frame], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "frames": sorted(frames.items()),
        "label": knob.label,
        "picture": knob.picture and state.picture(knob.picture),
        "points": [[place, *point] for place, point in sorted(knob.points.items())],
        "at": knob.at,
        "now": knob.now(fields),
        "rest": knob.rest,
    }


def _interleaved(knobs: Mapping[str, Knob]) -> Iterator[tuple[str, float]]:
    """Each place of each knob. Places that are played, and the ends of others, come first; then those so far are always spread
    evenly."""
    places = [
        (0 if knob.rest or place == max(knob.holds) else _mirrored(number, len(knob.holds)), name, place)
        for name, knob in knobs.items()
        for number, place in enumerate(sorted(knob.holds))
    ]
    for _, name, place in sorted(places):
        yield name, place


def _mirrored(number: int, count: int) -> int:
    """The number with its bits in reverse: those of 0 to 7 are 0, 4, 2, 6, 1, 5, 3, 7."""
    bits = max(1, (count - 1).bit_length())
    return int(f"{number:0{bits}b}"[::-1], 2) << (32 - bits)


class _Drawn:
    """What a run shows, as the browser gets it.

    charts  by the key of the picture: its traces and its layout
    said    the pieces of each text, as `ui.markdown.pieces`
    """

    def __init__(self, page: PageContents, *, dark: bool) -> None:
        figures = {state.picture(name): as_sent(picture.chart, dark=dark) for name, picture in page.pictures.items()}
        # As JSON has them: without arrays, and with None for what is not a number.
        self.charts: dict[str, dict[str, Any]] = json.loads(json.dumps(figures, cls=PlotlyJSONEncoder))
        self.said = [pieces(said.words) for said in page.said]

    def changes(self, other: _Drawn) -> Frame:
        """What differs in another run, of the pictures and texts that both have: whole entries of traces and layouts."""
        both = [name for name in self.charts if name in other.charts]
        charts = {name: change for name in both if (change := _changes(self.charts[name], other.charts[name]))}
        same = len(self.said) == len(other.said)
        texts = enumerate(zip(self.said, other.said, strict=True)) if same else ()
        return {"charts": charts, "said": {number: new for number, (old, new) in texts if new != old}}


def _changes(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The entries of each trace and of the layout that differ; where there is another number of traces, all of them."""
    layout = _differing(old["layout"], new["layout"])
    if len(old["data"]) != len(new["data"]):
        return {"all": new["data"], "layout": layout}
    data = [_differing(*traces) for traces in zip(old["data"], new["data"], strict=True)]
    return {"data": data, "layout": layout} if layout or any(data) else {}


def _differing(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {name: new.get(name) for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
