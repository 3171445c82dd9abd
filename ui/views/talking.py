"""The talk that a session holds: a view added, opened, prepared; and the page that edits it."""

from __future__ import annotations

import streamlit as st

from core import InputError
from ui import links, presenting, state
from ui.markdown import plain, show_error
from ui.shown import Shown
from ui.talk import MAX_BYTES, Talk, from_file, to_file, view_at, view_of

NEW = "new_link"


def held() -> Talk:
    return st.session_state.get(state.TALK, Talk())


def hold(talk: Talk) -> None:
    st.session_state[state.TALK] = talk


def kept() -> str | None:
    """What the browser keeps; None while this session has not held a talk."""
    return to_file(held()).decode() if state.TALK in st.session_state else None


def found(text: str) -> None:
    """The browser has kept a talk of an earlier session."""
    if state.TALK not in st.session_state:
        try:
            hold(from_file(text.encode(errors="replace"))[0])
        except InputError:
            hold(Talk())


def begin() -> int | None:
    """Which view of the talk is shown, from 0, as the address says; None while it is none."""
    count = len(held().views)
    places = {str(place): str(place) for place in range(1, count + 1)} | {"0": "none"}
    if count == 0:
        return None  # the browser may still have it: the address keeps its place
    place = int(links.chosen(state.TALK_AT, places, opening="0", what="View of the talk"))
    return place - 1 if place else None


def is_rehearsing() -> bool:
    return st.session_state.get(state.REHEARSING, False)


def add_to_talk(shown: Shown) -> None:
    """A button that puts the view, as it is shown now, at the end of the talk."""
    if st.button("Add this view to the talk", key=state.ADD_TO_TALK, icon=":material/playlist_add:"):
        title = shown.title if shown.of is None else f"{shown.title}: head {shown.of.layer}.{shown.of.head}"
        try:
            hold(held().with_view(view_of(title, shown.page, links.here())))
        except InputError as error:
            show_error(error)
            return
        st.success(f"View {len(held().views)} of the talk. Title and notes are on the page Talk.")


# --- the page


def show_talk() -> None:
    talk = held()
    if (troubled := st.session_state.pop(state.REHEARSED, None)) is not None:
        _say_what_was_prepared(talk, troubled)
    with st.container(horizontal=True):
        empty = not talk.views
        st.button(
            "Start", key=state.START_TALK, icon=":material/slideshow:", type="primary", disabled=empty, on_click=_go
        )
        st.button(
            "Prepare",
            key=state.PREPARE_TALK,
            icon=":material/model_training:",
            disabled=empty,
            on_click=_go,
            kwargs={"rehearsing": True},
            help="Opens every view once, so that nothing is read or loaded for the first time on stage.",
        )
        st.download_button(
            "Save",
            to_file(talk),
            "talk.json",
            "application/json",
            key=state.SAVE_TALK,
            icon=":material/download:",
            disabled=empty,
        )
    for place in range(len(talk.views)):
        _show_view(talk, place)
    if empty:
        st.info(
            "No views yet. Open a page as you want to show it, press Share, and add it to the talk.",
            icon=":material/slideshow:",
        )
    _show_reading()


def _show_view(talk: Talk, place: int) -> None:
    view = talk.views[place]
    with st.container(border=True, horizontal=True, vertical_alignment="bottom"):
        named = (state.button("title", place), state.button("notes", place))
        for key, words in zip(named, (view.title, view.notes), strict=True):
            st.session_state[key] = words  # the list is what counts: its views change places
        st.text_input(f"View {place + 1}", key=named[0], on_change=_edit, args=(place,), width=300)
        st.text_area("Notes", key=named[1], on_change=_edit, args=(place,), height=68, width="stretch")
        for name, icon, by in (("Up", "arrow_upward", -1), ("Down", "arrow_downward", 1)):
            st.button(
                "",
                key=state.button(name.lower(), place),
                icon=f":material/{icon}:",
                help=name,
                on_click=lambda by=by: hold(held().moved(place, by)),
                disabled=not 0 <= place + by < len(talk.views),
            )
        st.button(
            "",
            key=state.button("remove", place),
            icon=":material/delete:",
            help="Remove",
            on_click=lambda: hold(held().without(place)),
        )
        st.caption(plain(f"/{view.link}"[:120]))


def _edit(place: int) -> None:
    title, notes = (st.session_state[state.button(name, place)] for name in ("title", "notes"))
    hold(held().changed(place, title=title, notes=notes))


def _show_reading() -> None:
    with st.expander("Open a saved talk, or add a view by its link"):
        problem = st.empty()
        file = st.file_uploader("A talk that was saved here", ["json"], key=state.TALK_FILE, on_change=_read)
        st.text_input(
            "The link of a view", key=state.NEW_VIEW, on_change=_add_link, placeholder="https://…/heads?layer=5&head=11"
        )
        said = st.session_state.pop(state.TALK_SAID, ())
        with problem.container():
            for message in said:
                st.warning(plain(message), icon=":material/info:")
            if file is not None and file.size > MAX_BYTES:
                st.caption("Too large.")


def _read() -> None:
    file = st.session_state[state.TALK_FILE]
    if file is None:
        return
    try:
        talk, remarks = from_file(file.getvalue())
    except InputError as error:
        st.session_state[state.TALK_SAID] = (str(error),)
        return
    hold(talk)
    st.session_state[state.TALK_SAID] = tuple(remarks)


def _add_link() -> None:
    link = st.session_state[state.NEW_VIEW]
    if not link.strip():
        return
    try:
        hold(held().with_view(view_at("", link)))
    except InputError as error:
        st.session_state[state.TALK_SAID] = (str(error),)
        return
    st.session_state[state.NEW_VIEW] = ""


def _go(*, rehearsing: bool = False) -> None:
    """Open the first view, presented."""
    st.session_state[state.REHEARSING] = rehearsing
    presenting.go_to(held().views[0].presented(0))


def _say_what_was_prepared(talk: Talk, troubled: list[int]) -> None:
    if troubled:
        names = ", ".join(f"{place + 1} ({talk.views[place].title})" for place in troubled if place < len(talk.views))
        st.warning(
            plain(f"All views are prepared. These show a message, look at them: {names}."), icon=":material/warning:"
        )
    else:
        st.success(f"All {len(talk.views)} views are prepared.", icon=":material/check:")
