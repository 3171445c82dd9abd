"""The talk of a session: adding, presenting and preparing its views, and the page that edits it; the buttons of every page."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import streamlit as st

from core import InputError
from core.exporting.page import MOST_VIEWS, to_page
from ui import given, links, presenting, state
from ui.components.browser import browser, held, hold, is_read, say_of_talk, view_order
from ui.controls.fields import switch, upload, uploaded_file
from ui.gallery.views import CARDS, PICTURES, Card
from ui.markdown import errors_shown, plain
from ui.shown import PageContents
from ui.talk import MAX_BYTES, Talk, TalkView, from_file, to_file, view_at, view_of


def _forget_unread() -> None:
    del st.session_state[state.TALK_UNREAD]
    hold(held())


@contextmanager
def _changing() -> Iterator[None]:
    """Change the talk, or show why it cannot be changed."""
    st.session_state[state.TALK_SAID] = []
    try:
        yield
    except InputError as error:
        say_of_talk(str(error))


def begin() -> int | None:
    """Return the index of the view that is shown, as the address says; None if the talk does not have it."""
    count = len(held().views)
    if count == 0:
        return None  # the browser may still have the talk: the address keeps the number of the view
    number = links.field(state.TALK_AT, links.NumberForm(0, count, whole=True), 0, "View of the talk")
    return number - 1 if number else None


def is_rehearsing() -> bool:
    """Return whether every view is only opened in turn, to prepare it."""
    return st.session_state.get(state.REHEARSING, False)


def remember(shown: PageContents) -> None:
    """Remember what the page shows, for `add_to_talk`. A view of the gallery has the title of its card."""
    title = shown.title if shown.of is None else f"{shown.title}: head {shown.of.layer}.{shown.of.head}"
    for card in CARDS.values():
        if card.page == shown.page and links.shows(card.address):
            title = card.title
    st.session_state[state.VIEW_HERE] = title, shown.page, links.here()


def add_to_talk() -> None:
    """Add the view that the page shows to the end of the talk. Call it before the page runs."""
    try:
        hold(held().with_view(view_of(*st.session_state[state.VIEW_HERE])))
    except InputError as error:
        st.toast(plain(str(error)), icon=":material/error:")
        return
    st.session_state[state.ADDED_VIEW] = held().views[-1].link


# --- the page


def show_talk() -> None:
    """Show the page Talk: messages, buttons for the whole talk, its views, and ways to open or add more."""
    if is_read():
        with errors_shown():
            _read_given()
    talk = held()
    with st.container():  # messages and views come and go without moving anything else
        _show_messages()
        if (troubled := st.session_state.pop(state.REHEARSED, None)) is not None:
            _show_prepared(talk, troubled)
    _show_buttons(talk)
    with st.container():
        if talk.views:
            of_cards = {_view_of(card).link: PICTURES / f"{word}.png" for word, card in CARDS.items()}
            view_order(talk, of_cards, lambda marks: hold(held().ordered(marks)))
        for index in range(len(talk.views)):
            _show_view(talk, index)
        if not is_read():
            words = "Reading the talk that this browser keeps. What you add in the meantime is added to it."
            st.info(words, icon=":material/hourglass_empty:")
        elif not talk.views:
            words = "No views yet. Open a page, set it up as you want to show it, and press “Add to talk” at the top."
            st.info(words, icon=":material/slideshow:")
            titles = {word: card.title for word, card in CARDS.items()}
            look: dict[str, Any] = {"selection_mode": "multi", "format_func": titles.__getitem__}
            chosen = st.pills("Or begin with views of the gallery", titles, key=state.CARDS_CHOSEN, **look)
            st.button("Add them", key=state.ADD_CARDS, disabled=not chosen, on_click=_add_cards)
    _show_reading()


def _show_buttons(talk: Talk) -> None:
    empty = not talk.views
    with st.container(horizontal=True):
        start = {"key": state.START_TALK, "icon": ":material/slideshow:", "on_click": _go, "args": (False,)}
        st.button("Start", type="primary", disabled=empty, **start)
        prepare = {"key": state.PREPARE_TALK, "icon": ":material/model_training:", "on_click": _go, "args": (True,)}
        words = "Opens every view once, so that nothing has to load on stage."
        st.button("Prepare", help=words, disabled=empty, **prepare)
        save = {"key": state.SAVE_TALK, "icon": ":material/download:", "disabled": empty}
        st.download_button("Save", to_file(talk), "talk.json", "application/json", **save)
        _offer_page(talk)


def _offer_page(talk: Talk) -> None:
    """Offer the talk as one page, once its views were opened in turn."""
    look: dict[str, Any] = {"label": "Save as a page", "key": state.SAVE_PAGE, "icon": ":material/web_asset:"}
    words = "One HTML file with all views, which opens without a network on any machine, with the same keys."
    try:
        page = _page_of(talk) if 0 < len(talk.views) <= MOST_VIEWS else None
    except InputError as error:
        st.button(**look, help=plain(str(error)), disabled=True)
        return
    if page is not None:
        st.download_button(**look, data=page, file_name="talk.html", mime="text/html", help=words, on_click="ignore")
    elif 0 < len(talk.views) <= MOST_VIEWS:
        st.button(**look, help=f"{words} First opens every view once.", on_click=_go, args=(True,))
    else:
        st.button(**look, help=f"{words} It holds 1 to {MOST_VIEWS} views.", disabled=True)


def _page_of(talk: Talk) -> str | None:
    """Return the talk as a page, if all its views have been opened in turn since the session began; None otherwise.

    Raises InputError (field "views") for a page that is too large.
    """
    pages = st.session_state.get(state.TALK_PAGES, {})
    if not all(view.mark in pages for view in talk.views):
        return None
    of, page = st.session_state.get(state.TALK_PAGE, (None, None))
    if of != talk:
        views = [replace(pages[view.mark], title=view.title, notes=view.notes) for view in talk.views]
        page = to_page(views, title=talk.views[0].title)
        st.session_state[state.TALK_PAGE] = talk, page
    return page


def _show_messages() -> None:
    for message in st.session_state.get(state.TALK_SAID, ()):
        st.warning(plain(message), icon=":material/info:")
    if (unread := st.session_state.get(state.TALK_UNREAD)) is not None:
        text, why = unread
        words = f"The talk in this browser's storage cannot be read or added. {plain(why)} It stays there, and no other talk "
        words += "is stored, until you delete it. Save its file first: it holds all views and notes."
        st.error(words, icon=":material/error:")
        with st.container(horizontal=True):
            st.download_button("Save its file", text, "talk-as-kept.json", "application/json", key=state.SAVE_UNREAD)
            st.button("Delete it", key=state.FORGET_UNREAD, on_click=_forget_unread)
    if (why := st.session_state.get(state.TALK_LOST)) is not None:
        words = f"This browser cannot store the talk ({plain(why)}). Save it to a file; a reload of the page loses it."
        st.warning(words, icon=":material/save:")


def _show_view(talk: Talk, index: int) -> None:
    """Show the fields and buttons of one view.

    Their keys hold its mark, so that what a browser sends about a view reaches it even if it has moved meanwhile.
    """
    view = talk.views[index]
    changing = {"on_change": _edit, "args": (view.mark,)}
    with st.container(border=True):
        line = st.container(horizontal=True, vertical_alignment="bottom")
        st.text_area("Notes", view.notes, key=_key("notes", view.mark), height=150, **changing)
    with line:
        st.text_input(f"View {index + 1}", view.title, key=_key("title", view.mark), width=300, **changing)
        pressed = {"on_click": _change_view, "args": (view.mark, Talk.without), "help": "Remove"}
        st.button("", key=_key("remove", view.mark), icon=":material/delete:", **pressed)


def _key(name: str, mark: str) -> str:
    return state.button(name, int(mark, 16))


def _edit(mark: str) -> None:
    texts = {name: st.session_state.get(_key(name, mark)) for name in ("title", "notes")}
    _change_view(mark, partial(Talk.changed, **texts))


def _change_view(mark: str, change: Callable[[Talk, int], Talk]) -> None:
    if (index := held().index(mark)) is not None:
        with _changing():
            hold(change(held(), index))


def _show_reading() -> None:
    with st.expander("Open a saved talk, or add a view by its link"):
        upload("A talk saved on this page", state.TALK_FILE, ["json"], on_change=_read)
        # A form, and a new field after each link: a browser that has not yet heard that a field was emptied would add its
        # link twice, or put it there again.
        row = {"key": state.NEW_VIEW, "horizontal": True, "vertical_alignment": "bottom"}
        with st.form(state.NEW_VIEW_FORM, border=False), st.container(**row):
            example = "https://…/heads?layer=5&head=11"
            st.text_input("Link of a view", key=_new_view(), placeholder=example, width="stretch")
            st.form_submit_button("Add", on_click=_add_link)


def _read() -> None:
    if (file := uploaded_file(state.TALK_FILE)) is not None:
        with _changing():
            _hold(file.getvalue())


@cache
def _read_given() -> None:
    """Open the talk that the server was started with, once: after that the browser keeps it, with what is changed. Raises
    InputError, for each visitor, if it cannot be read."""
    if (path := given.file(".json")) is not None:
        _hold(given.contents(path, MAX_BYTES))


def _hold(file: bytes) -> None:
    talk, remarks = from_file(file)
    for remark in remarks:
        say_of_talk(remark)
    hold(talk)


def _add_cards() -> None:
    with _changing():
        talk = held()
        for word, card in CARDS.items():
            if word in st.session_state[state.CARDS_CHOSEN]:
                talk = talk.with_view(_view_of(card))
        hold(talk)


def _view_of(card: Card) -> TalkView:
    address = {name: [word] for name, word in links.lasting(card.address).items()}
    return view_of(card.title, card.page, address)


def _new_view() -> str:
    return state.button(state.NEW_VIEW, st.session_state.setdefault(state.VIEWS_ADDED, 0))


def _add_link() -> None:
    if (link := st.session_state[_new_view()]).strip():
        with _changing():
            talk = held().with_view(view_at("", link))
            st.session_state[state.VIEWS_ADDED] += 1  # a link that could not be added stays, to be corrected
            hold(talk)


def _go(rehearsing: bool) -> None:
    st.session_state[state.REHEARSING] = rehearsing
    links.go_to(held().views[0].presented(0))


def _show_prepared(talk: Talk, troubled: list[int]) -> None:
    """Say how many views are ready. troubled: the indices of those that showed a message or drew nothing."""
    count = len(talk.views)
    ready = f"{count - len(troubled)} of {count} views are ready."
    if troubled:
        names = ", ".join(f"{index + 1} ({talk.views[index].title})" for index in troubled if index < count)
        words = f"{ready} Check these, which show a message or no picture: {names}."
        st.warning(plain(words), icon=":material/warning:")
    else:
        st.success(ready, icon=":material/check:")


def _lead_back() -> None:
    """Lead back to the view of the talk that was left, while nobody presents."""
    views, left = held().views, st.session_state.get(state.TALK_LEFT, 0)
    if 0 < left <= len(views) and not presenting.is_on():
        words = f"Back to the talk, {left} of {len(views)}"
        back = {"on_click": links.go_to, "args": (views[left - 1].presented(left - 1),)}
        look: dict[str, Any] = {"icon": ":material/keyboard_return:", "help": "Presents the view that you left."}
        st.button(words, key=state.BACK_TO_TALK, type="tertiary", **look, **back)


def show_actions(page: str, paths: Sequence[str], *, can_present: bool, has_pictures: bool) -> bool:
    """Show the buttons, and return whether somebody has pressed Share.

    page, paths   the path of this page, and the paths of all pages
    has_pictures  whether the page has pictures, below which tables can be shown
    """
    with st.container(key=state.ACTIONS, horizontal=True, vertical_alignment="center", width="content"):
        is_added = state.ADDED_VIEW in st.session_state
        browser(page, paths, asks=page == "talk")
        if is_added:  # said once the browser has got the talk to keep: whoever reads it may leave at once
            # Before the browser has answered nobody knows how many come before it.
            what = f"View {len(held().views)} of the talk" if is_read() else "Added to the talk"
            st.toast(f"{what}. Edit its title and notes on the page Talk.", icon=":material/check:")
        _lead_back()
        if can_present:
            words = "Shows the page without controls, in large letters. Press Esc to leave, ? for the keys."
            enters = {"on_click": st.session_state.update, "args": ({state.PRESENT: True},)}
            look = {"key": state.PRESENT_PAGE, "icon": ":material/slideshow:", "help": words}
            st.button("Present", type="tertiary", **look, **enters)
        if has_pictures:
            switch("Tables", state.TABLES, help="Shows a table of the strongest values below each picture.")
            adding = {"key": state.ADD_TO_TALK, "on_click": add_to_talk, "help": "Adds this view to the talk."}
            st.button("Add to talk", icon=":material/playlist_add:", type="tertiary", **adding)
        look: dict[str, Any] = {"icon": ":material/ios_share:", "help": "Saves what the page shows as files."}
        return st.button("Share", key=state.SHARE, type="tertiary", **look)
