"""Keys: of a presentation, where they need no focus; arrows that walk through a grid; and those of the card of a tour.

Every page listens for the keys of a presentation: for stages, heads and views, spotlight and notes. Those that are pressed
after Present or Start, but before the page is there, are kept and handled as soon as possible. That component also sends the
size of the window.
"""

from collections.abc import Callable, Mapping

import streamlit as st

from ui import presenting, state
from ui.in_browser import component_beside, sent, session
from ui.links import go_to
from ui.presenting import SPOTS, Presentation, Walk
from ui.talk import Talk

_KEYS = component_beside(__file__, "small_pictures", "presenting_keys")
_ARROWS = component_beside(__file__, "arrows")
_TOUR_CARD = component_beside(__file__, "tour")
LARGEST = 20_000  # pixels: the largest window
_ENTERS = f".st-key-{state.PRESENT_PAGE} button, .st-key-{state.START_TALK} button"


def await_keys() -> None:
    """Listen for keys on a page that nobody presents: they wait until somebody does."""
    _KEYS(key=state.STAGE_KEYS, data=_data("") | {"presenting": False})


def listen(presentation: Presentation, page: str, talk: Talk, index: int | None, *, rehearsing: bool) -> None:
    """Listen for keys on a page that somebody presents.

    page        the path of the page
    index       the index of the view in the talk; None if the talk does not have it
    rehearsing  whether every view is only opened in turn, behind a curtain
    """
    walk = presentation.walk
    data = _data(page) | {
        "presenting": True,
        "window": presentation.window,
        "place": None if walk is None else walk.place,
        "shape": None if walk is None else walk.shape,
        "spots": list(SPOTS) if presentation.lights else [],
        "spot": presenting.spot(),
        "rehearsing": rehearsing,
    }
    _KEYS(
        key=state.STAGE_KEYS,
        data=data | _of_talk(talk, index),
        on_press_change=lambda: _pressed(walk),
        on_rehearsed_change=lambda: _rehearsed(len(talk.views)),
        on_window_change=_measured,
    )


def _of_talk(talk: Talk, index: int | None) -> dict[str, object]:
    """Return what the browser needs to know of the talk, at the view with this index."""
    if index is None:
        awaits_talk = state.TALK_AT in st.session_state[state.ASKED]
        return {"at": None, "awaitsTalk": awaits_talk, "links": [], "notes": "", "next": ""}
    return {
        "at": index,
        "awaitsTalk": False,
        "links": [view.presented(number) for number, view in enumerate(talk.views)],
        "notes": talk.views[index].notes,
        "next": "" if index + 1 >= len(talk.views) else talk.views[index + 1].title,
    }


def _pressed(walk: Walk | None) -> None:
    """Take in a press; of several presses the browser sends only the last, with the outcome of all."""
    press = sent(state.STAGE_KEYS, "press")
    if not isinstance(press, Mapping):
        return
    if walk is not None and (step := read_step(press, walk.shape)) is not None:
        walk.on_step(*step[:2])
    if press.get("spot") in SPOTS:
        st.session_state[state.SPOT] = press["spot"]
    if press.get("leaves") is True:
        presenting.leave()
    if isinstance(number := press.get("presses"), int):
        st.session_state[state.STAGE_PRESSES] = number


def _rehearsed(count: int) -> None:
    """Return to the page Talk once all `count` views have been opened; the browser sends which of them show a message."""
    views = sent(state.STAGE_KEYS, "rehearsed")
    views = views if isinstance(views, list) else []
    st.session_state[state.REHEARSED] = [index for index in views if isinstance(index, int) and 0 <= index < count]
    presenting.leave()
    go_to("talk")


def _measured() -> None:
    """Remember the size of the window."""
    match sent(state.STAGE_KEYS, "window"):
        case [int(width), int(height)] if 0 < width < LARGEST and 0 < height < LARGEST:
            st.session_state[state.WINDOW] = (width, height)


def _data(page: str) -> dict[str, object]:
    """Return what the browser needs to know on any page."""
    return {
        "session": session(),
        "presses": st.session_state.get(state.STAGE_PRESSES, 0),
        "page": page,
        "enters": _ENTERS,
    }


# --- arrows and the tour


def arrow_keys(
    picture: str,
    label: str,
    place: tuple[int, int],
    shape: tuple[int, ...],
    on_step: Callable[[int, int], None],
    *,
    words: str = "← ↑ ↓ → walk through the heads",
    line: tuple[str, float] | None = None,
) -> None:
    """Show a line of text that can be focused, also by a click on the picture with the key `picture`.

    Arrow keys then walk from `place` through a grid of this shape, and call on_step(row, column). While presenting, the whole
    page listens for them instead.

    label  the line's name for screen readers
    words  the line's text
    line   the key of a container that scrolls sideways, and the place in it, from 0 to 1, that stays in sight
    """

    if presenting.walk_through(place, shape, on_step):
        return

    def stepped() -> None:
        if (step := read_step(sent(state.ARROWS, "step"), shape)) is not None:
            row, column, st.session_state[state.PRESSES] = step
            on_step(row, column)

    data = {
        "picture": f".st-key-{picture}",
        "text": words,
        "label": label,
        "place": place,
        "shape": shape,
        "line": None if line is None else {"box": f".st-key-{line[0]}", "share": line[1]},
        "presses": st.session_state.get(state.PRESSES, 0),
        "session": session(),
    }
    _ARROWS(key=state.ARROWS, data=data, on_step_change=stepped)


def read_step(press: object, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (row, column, number of the press); None if what the browser sent is not a step in this grid."""
    if isinstance(press, Mapping):
        match press.get("place"), press.get("presses"):
            case [int(row), int(column)], int(presses) if 0 <= row < shape[0] and 0 <= column < shape[1]:
                return row, column, presses
    return None


def tour_card(words: str, stop: int, count: int, subject: str, on_go: Callable[[int | None], None]) -> None:
    """Show the card of a tour at this stop of `count`, beside its subject or, without room for that, above or below it: these
    words, the number of the stop, and Next, Back and Leave, also by the arrow keys and Esc.

    subject  the key of the widget or picture that the words are about: it is outlined, and scrolled into view at every new stop
    on_go    called with the next stop, with `count` after the last one, or with None if somebody leaves
    """

    def moved() -> None:
        message = sent(state.TOUR_CARD, "go")
        if isinstance(message, Mapping):
            match message.get("stop"), message.get("presses"):
                case (None | int()) as target, int(presses) if target is None or 0 <= target <= count:
                    st.session_state[state.TOUR_PRESSES] = presses
                    on_go(target)

    data = {
        "words": words,
        "stop": stop,
        "count": count,
        "presses": st.session_state.get(state.TOUR_PRESSES, 0),
        "session": session(),
        "subject": f".st-key-{subject}",
    }
    _TOUR_CARD(key=state.TOUR_CARD, data=data, on_go_change=moved)
