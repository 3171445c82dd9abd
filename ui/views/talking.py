"""The talk that a session holds: a view added, opened, prepared; and the page that edits it."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core import InputError
from ui import links, state
from ui.components.browser import Keeping
from ui.links import Number, go_to
from ui.markdown import plain, show_error
from ui.shown import Shown
from ui.talk import Talk, from_file, to_file, view_at, view_of


def held() -> Talk:
    return st.session_state.get(state.TALK, Talk())


def hold(talk: Talk) -> None:
    st.session_state[state.TALK] = talk
    st.session_state[state.TALK_TEXT] = to_file(talk).decode()
    _count()


def _count() -> None:
    st.session_state[state.TALK_NUMBER] = st.session_state.get(state.TALK_NUMBER, 0) + 1


# --- what the browser keeps


def keeping() -> Keeping:
    """While it keeps a talk that cannot be read, nothing is put in its place."""
    text = None if state.TALK_UNREAD in st.session_state else st.session_state.get(state.TALK_TEXT)
    number = st.session_state.get(state.TALK_NUMBER, 0)
    return Keeping(number, text, text == st.session_state.get(state.TALK_KEPT), _found, _kept, _lost)


def _found(text: str, base: str | None) -> None:
    """A talk of an earlier session, or of another window."""
    try:
        theirs = from_file(text.encode(errors="replace"))[0]
    except InputError as error:
        st.session_state[state.TALK_UNREAD] = (text, str(error))
        _count()
        return
    mine = st.session_state.get(state.TALK)
    before = Talk() if base is None else from_file(base.encode())[0]
    hold(theirs if mine is None else mine.merged(theirs, before))
    st.session_state[state.TALK_KEPT] = text
    if mine is not None and held() != mine:
        _say("Another window has changed this talk. What was done in both is here.")


def _kept(text: str) -> None:
    st.session_state[state.TALK_KEPT] = text
    st.session_state.pop(state.TALK_LOST, None)


def _lost(why: str) -> None:
    st.session_state[state.TALK_LOST] = why


def _forget_unread() -> None:
    del st.session_state[state.TALK_UNREAD]
    hold(held())


def _say(words: str) -> None:
    """On the page Talk, until somebody next changes the talk there."""
    st.session_state.setdefault(state.TALK_SAID, []).append(words)


def _change(change: Callable[[], Talk]) -> None:
    """Hold what the talk becomes, or say what is wrong."""
    st.session_state[state.TALK_SAID] = []
    try:
        hold(change())
    except InputError as error:
        _say(str(error))


def begin() -> int | None:
    """Which view of the talk is shown, from 0, as the address says; None while it is none."""
    count = len(held().views)
    if count == 0:
        return None  # the browser may still have it: the address keeps its place
    place = links.field(state.TALK_AT, Number(0, count, whole=True), 0, "View of the talk")
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
        st.toast(
            f"View {len(held().views)} of the talk. Title and notes are on the page Talk.", icon=":material/check:"
        )
        st.rerun()  # the whole page, which hands it to the browser


# --- the page


def show_talk() -> None:
    talk = held()
    with st.container():  # what is said, and the views, move nothing else when they come and go
        _say_what_is_kept()
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
    with st.container():
        for place in range(len(talk.views)):
            _show_view(talk, place)
        if empty:
            st.info(
                "No views yet. Open a page as you want to show it, press Share, and add it to the talk.",
                icon=":material/slideshow:",
            )
    _show_reading()


def _say_what_is_kept() -> None:
    for message in st.session_state.get(state.TALK_SAID, ()):
        st.warning(plain(message), icon=":material/info:")
    if (unread := st.session_state.get(state.TALK_UNREAD)) is not None:
        text, why = unread
        st.error(
            f"The talk that this browser keeps cannot be read. {plain(why)} It stays there, and nothing is put in its place, "
            "until you forget it. Save the file first: it holds all views and notes.",
            icon=":material/error:",
        )
        with st.container(horizontal=True):
            st.download_button(
                "Save the file as it is", text, "talk-as-kept.json", "application/json", key=state.SAVE_UNREAD
            )
            st.button("Forget it", key=state.FORGET_UNREAD, on_click=_forget_unread)
    if (why := st.session_state.get(state.TALK_LOST)) is not None:
        st.warning(
            f"This browser does not keep the talk ({plain(why)}). Save it, or a reload loses it.",
            icon=":material/save:",
        )


def _show_view(talk: Talk, place: int) -> None:
    """Its fields and buttons go by its mark: what a browser says of a view holds for it, wherever it has gone meanwhile."""
    view = talk.views[place]
    with st.container(border=True, horizontal=True, vertical_alignment="bottom"):
        changing = {"on_change": _edit, "args": (view.mark,)}
        st.text_input(f"View {place + 1}", view.title, key=_key("title", view.mark), width=300, **changing)
        st.text_area("Notes", view.notes, key=_key("notes", view.mark), height=68, width="stretch", **changing)
        for name, icon, by in (("Up", "arrow_upward", -1), ("Down", "arrow_downward", 1)):
            st.button(
                "",
                key=_key(name.lower(), view.mark),
                icon=f":material/{icon}:",
                help=name,
                on_click=_move,
                args=(view.mark, by),
                disabled=not 0 <= place + by < len(talk.views),
            )
        st.button(
            "",
            key=_key("remove", view.mark),
            icon=":material/delete:",
            help="Remove",
            on_click=_remove,
            args=(view.mark,),
        )
        st.caption(plain(f"/{view.link}"[:120]))


def _key(name: str, mark: str) -> str:
    return state.button(name, int(mark, 16))


def _edit(mark: str) -> None:
    title, notes = (st.session_state.get(_key(name, mark)) for name in ("title", "notes"))
    if (place := held().place(mark)) is not None:
        _change(lambda: held().changed(place, title=title, notes=notes))


def _move(mark: str, by: int) -> None:
    if (place := held().place(mark)) is not None:
        _change(lambda: held().moved(place, by))


def _remove(mark: str) -> None:
    if (place := held().place(mark)) is not None:
        _change(lambda: held().without(place))


def _show_reading() -> None:
    with st.expander("Open a saved talk, or add a view by its link"):
        st.file_uploader("A talk that was saved here", ["json"], key=state.TALK_FILE, on_change=_read)
        # A form, and another field after each link: a browser that has not yet heard that a field has been emptied would add
        # its link twice, or put it there again.
        row = {"key": state.NEW_VIEW, "horizontal": True, "vertical_alignment": "bottom"}
        with st.form(state.NEW_VIEW_FORM, border=False), st.container(**row):
            st.text_input(
                "The link of a view", key=_new_view(), placeholder="https://…/heads?layer=5&head=11", width="stretch"
            )
            st.form_submit_button("Add", on_click=_add_link)


def _read() -> None:
    file = st.session_state[state.TALK_FILE]
    if file is None:
        return

    def read() -> Talk:
        talk, remarks = from_file(file.getvalue())
        for remark in remarks:
            _say(remark)
        return talk

    _change(read)


def _views_added() -> int:
    return st.session_state.get(state.VIEWS_ADDED, 0)


def _new_view() -> str:
    return state.button(state.NEW_VIEW, _views_added())


def _add_link() -> None:
    link = st.session_state[_new_view()]

    def add() -> Talk:
        talk = held().with_view(view_at("", link))
        st.session_state[state.VIEWS_ADDED] = _views_added() + 1  # what could not be added stays, to be put right
        return talk

    if link.strip():
        _change(add)


def _go(*, rehearsing: bool = False) -> None:
    """Open the first view, presented."""
    st.session_state[state.REHEARSING] = rehearsing
    go_to(held().views[0].presented(0))


def _say_what_was_prepared(talk: Talk, troubled: list[int]) -> None:
    if troubled:
        names = ", ".join(f"{place + 1} ({talk.views[place].title})" for place in troubled if place < len(talk.views))
        st.warning(
            plain(f"All views are prepared. These show a message, look at them: {names}."), icon=":material/warning:"
        )
    else:
        st.success(f"All {len(talk.views)} views are prepared.", icon=":material/check:")
