"""The dialog "Share": a section for each form in which a page can be shared; here, as a page, a link, an exhibit and Python."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from core import InputError
from core.attention.matrix_files import MAX_SCORES
from core.exporting.documents import to_markdown, to_notebook, without_folder
from core.exporting.exhibit import ENDING, Drawing, Exhibit, KeptHead, Upload, write
from core.exporting.page import PageKnob, PageView, to_page
from ui import links, state
from ui.calls import Expression
from ui.controls.fields import uploaded_file
from ui.in_browser import component_beside
from ui.markdown import pieces, runs
from ui.requests import HeadRequest
from ui.sharing.pictures import about, download, file_name, offered, show_pictures
from ui.shown import Knob, PageContents
from ui.talk import TalkView
from ui.views.head_links import address_of
from ui.views.sources import passes

LONG = 2_000  # characters: some programs cut longer addresses
LONGEST = 8_000  # characters: some servers refuse longer addresses
_COPY = component_beside(__file__, "buttons", "link")
NAMES_OF_FILES = (state.MODEL, state.OTHER_MODEL, state.RUN)  # fields in which a path may stand


@st.dialog("Share", width="large")
def open_dialog(shown: PageContents) -> None:
    """Open the dialog over the page; call it when everything on the page is drawn."""
    st.markdown("**A link**")
    show_link(shown)
    st.markdown("**A picture and its numbers**")
    show_pictures(shown)
    if shown.about is None or shown.head is not None:  # a view from an exhibit is in its file already
        st.markdown("**All of this view, as an exhibit**")
        show_exhibit(shown)
    if shown.pictures:
        st.markdown("**A page that opens anywhere**")
        show_page(shown)
    if shown.card:
        st.markdown("**For a model card**")
        show_card(shown)
    st.markdown("**As Python**")
    show_as_python(shown)


# --- a page


def show_page(shown: PageContents) -> None:
    """Show a button that saves what the page shows as one HTML page."""
    name, look = file_name(about(shown), shown.title, ".html"), {"key": state.SAVE_VIEW, "icon": ":material/web_asset:"}
    download("Page", lambda: to_page([view_of_page(shown, shown.title)], title=shown.title), name, "text/html", **look)
    st.caption(
        "Its pictures, sentences and knobs in one HTML file, without a network. The page Talk saves several views."
    )


def show_card(shown: PageContents) -> None:
    """Show a button that saves the lines about a head as Markdown."""
    facts = about(shown)
    name, title = file_name(facts, "Card", ".md"), f"Head {facts['layer.head']} of {facts['model']}"
    look = {"key": state.download(name), "icon": ":material/description:"}
    download("Markdown", lambda: to_markdown(title, shown.card, facts), name, "text/markdown", **look)


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
    held: Any = page.fields.get(name)
    near = min(knob.points, key=lambda place: math.dist(knob.points[place], knob.at), default=held)
    stands = near if now is None else now  # between two places near that of its handle, or at a number of its own
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


def keep(page: PageContents, view: TalkView) -> None:
    """Keep a view of the talk that was just opened, for `ui.views.talking`."""
    st.session_state.setdefault(state.TALK_PAGES, {})[view.mark] = view_of_page(page, view.title)
    st.session_state.pop(state.TALK_PAGE, None)


# --- a link


def show_link(shown: PageContents) -> None:
    """Show the complete address of what the page shows with a button that copies it, and say what it cannot hold."""
    address = link_to(shown, str(st.context.url or f"/{shown.page}"))
    if len(address) > LONGEST:
        st.warning(
            f"The address of this view would have {len(address):,} characters. Servers refuse more than about {LONGEST:,}. "
            f"Save the view as an exhibit instead.",
            icon=":material/link_off:",
        )
        return
    _COPY(key=state.COPY_LINK, data={"address": address})
    left_out = cannot_hold(shown)
    if left_out:
        st.caption(f"A link cannot hold {left_out}. Save an exhibit to keep this view.")
    if len(address) > LONG:
        st.caption(f"Some programs cut addresses of more than {LONG:,} characters; this one has {len(address):,}.")


def link_to(shown: PageContents, url: str) -> str:
    """Return the view's complete address below its page's `url`, with text, model and head even if they are opening values."""
    address = {name: words for name, words in full_address(shown).items() if any(words) and not links.is_foreign(name)}
    return f"{url.partition('?')[0]}?{urlencode(links.lasting(address), doseq=True)}"


def cannot_hold(shown: PageContents) -> str:
    """Return what the page shows and no address can hold, in words; "" if there is nothing."""
    if shown.of is not None and shown.of.text.image is not None:
        return "the image that you uploaded"
    is_own = links.here().get(state.SOURCE) == ["own"]
    if is_own and any(uploaded_file(key) is not None for key in (*state.FILES.values(), state.ARCHIVE)):
        return "the matrices that you uploaded"
    if shown.of is not None and shown.of.text.model.contents is not None:
        return "the file that you opened"
    return "the exhibit that you opened" if shown.of is None and shown.page == "exhibit" else ""


# --- an exhibit


def show_exhibit(shown: PageContents) -> None:
    """Show a button that makes and saves the exhibit, one file that the page "Exhibit" shows again, and say what it holds."""
    address = full_address(shown)
    image = st.session_state.get(state.SHOWN_IMAGE)
    uploads = {} if image is None else {state.IMAGE: Upload(*image)}
    heads = ["the head"] if shown.head is not None else list(_requests(shown))
    contents = f"{len(shown.pictures)} pictures" + (f" and all inputs of {' and '.join(heads)}" if heads else "")
    name, kind = file_name(about(shown), shown.title, f".{ENDING}"), "application/octet-stream"
    look = {"key": state.SAVE_EXHIBIT, "icon": ":material/inventory_2:"}
    download("Exhibit", lambda: file_of(shown, address, uploads), name, kind, **look)
    st.caption(
        f"An exhibit is one file with everything in this view: its address with all texts, uploads, {contents}. The page "
        "“Exhibit” shows it again with the same numbers, with or without the model."
    )


def file_of(shown: PageContents, address: dict[str, tuple[str, ...]], uploads: dict[str, Upload]) -> bytes:
    """Return the exhibit of a page; without its pictures, which follow from its heads, if it is too large to open again."""
    drawings = tuple(Drawing(picture.title, picture.alt, picture.chart) for picture in offered(shown).values())
    heads, facts = _heads(shown), about(shown)
    exhibit = Exhibit(
        page=shown.page,
        title=shown.title,
        address=address,
        about=facts,
        heads=heads,
        drawings=drawings,
        uploads=uploads,
    )
    try:
        return write(exhibit)
    except InputError:
        return write(replace(exhibit, drawings=()))


def full_address(shown: PageContents) -> dict[str, tuple[str, ...]]:
    """Return the whole address, with the opening values that an address leaves out, because these may change; files and folders
    of this machine by their names alone."""
    address = {name: tuple(words) for name, words in links.here().items()}
    if shown.of is not None:
        address |= {name: (words,) for name, words in address_of(shown.of).items()}
    places = {name: tuple(map(without_folder, address[name])) for name in NAMES_OF_FILES if name in address}
    return address | places


def _requests(shown: PageContents) -> dict[str, HeadRequest]:
    """Return the heads of models that go into the file: those with known queries and keys, and not too long for a file."""
    if shown.of is None:
        return {}

    def fits(of: HeadRequest) -> bool:
        return passes.captured.is_known(of.text) and math.prod(passes.captured(of.text).shape(of.kind)) <= MAX_SCORES

    heads = {f"head {shown.of.layer}.{shown.of.head}": shown.of} | shown.beside
    return {name: of for name, of in heads.items() if fits(of)}


def _heads(shown: PageContents) -> dict[str, KeptHead]:
    if shown.head is not None:
        return {"the head": shown.head()}
    requests = _requests(shown).items()
    return {name: KeptHead.of(passes.captured(of.text), of.layer, of.head, of.kind) for name, of in requests}


# --- Python


NOTEBOOK = "application/x-ipynb+json"
WIDE = 88  # characters of an import in one line


def show_as_python(shown: PageContents) -> None:
    """Show the lines with buttons that copy them and save them as a notebook, or say that there are none."""
    cells = cells_of(shown)
    if not cells:
        st.caption("There is no Python for what this page shows now.")
        return
    st.code(in_one(cells), language="python")
    facts = about(shown)
    files = list(shown.recorded.files.values())
    name, look = file_name(facts, shown.title, ".ipynb"), {"key": state.SAVE_NOTEBOOK, "icon": ":material/book_2:"}
    download("Notebook", lambda: to_notebook(cells, shown.title, facts, files=files), name, NOTEBOOK, **look)
    st.caption(
        "The notebook first installs `headlight`. Put it into Headlight's own folder, or name that in its first cell."
    )


def cells_of(shown: PageContents) -> list[str]:
    """Return a program in parts: its opening, and a line for each result that the page shows; [] if there is none."""
    recorded = shown.recorded
    if not recorded.results:
        return []
    program = Program(recorded.files)
    results = list(dict.fromkeys(program.source(result) for result in recorded.results))
    opening = [*program.import_lines(), *([""] if program.variables else []), *program.variables]
    return ["\n".join(opening), *results]


def in_one(cells: Sequence[str]) -> str:
    """Return the parts of a program as one text."""
    opening, *results = cells
    return "\n".join([opening, "", *results])


class Program:
    """Lines of Python. A value that has a name is computed once, however often it is used.

    files      the names of uploaded files by their contents
    variables  the lines that compute the values with names
    """

    def __init__(self, files: dict[bytes, str]) -> None:
        self.variables: list[str] = []
        self._files = files
        self._imports: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}  # by the source of what they hold

    def import_lines(self) -> list[str]:
        """Return the imports of all names in the lines: of the standard library, of numpy, of headlight."""
        homes = sorted(self._imports, key=lambda home: (home.startswith("headlight"), home != "pathlib", home))
        return [_import(home, sorted(self._imports[home])) for home in homes]

    def source(self, part: str | bytes | Expression) -> str:
        """Return an expression or a part of one as Python, after adding the variables that it uses."""
        if isinstance(part, bytes):
            return repr(self._files.get(part, "file"))
        if isinstance(part, str):
            return part
        for home, name in part.imports:
            self._imports.setdefault(home, set()).add(name)
        source = "".join(map(self.source, part.parts))
        return self._variable(part.name, source) if part.name else source

    def _variable(self, name: str, source: str) -> str:
        if source not in self._names:
            alike = sum(other.partition("_")[0] == name for other in self._names.values())
            self._names[source] = f"{name}_{alike + 1}" if alike else name
            self.variables.append(f"{self._names[source]} = {source}")
        return self._names[source]


def _import(home: str, names: list[str]) -> str:
    if home == "numpy":
        return "import numpy as np"
    line = f"from {home} import {', '.join(names)}"
    return line if len(line) <= WIDE else "\n".join([f"from {home} import (", *(f"    {name}," for name in names), ")"])
