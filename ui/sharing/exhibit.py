"""Sharing a whole view as an exhibit, one file that the page "Exhibit" shows again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import streamlit as st

from core import InputError
from core.attention.matrix_files import MAX_SCORES
from core.exporting.documents import without_folder
from core.exporting.exhibit import ENDING, Drawing, Exhibit, Upload, write
from core.exporting.kept_heads import KeptHead
from ui import links, state
from ui.controls.target import in_address
from ui.progress import for_its_visitor
from ui.requests import HeadRequest
from ui.sharing.pictures import offered
from ui.sharing.provenance import about, file_name
from ui.shown import PageContents
from ui.views.sources import passes

NAMES_OF_FILES = (state.MODEL, state.OTHER_MODEL, state.RUN)  # fields in which a path may stand


def show_exhibit(shown: PageContents) -> None:
    """Show a button that makes and saves the file, and a caption that says what the file holds."""
    address = full_address(shown)
    image = st.session_state.get(state.SHOWN_IMAGE)
    uploads = {} if image is None else {state.IMAGE: Upload(*image)}
    heads = ["the head"] if shown.head is not None else list(_requests(shown))
    contents = f"{len(shown.pictures)} pictures" + (f" and all inputs of {' and '.join(heads)}" if heads else "")
    make, name = (
        for_its_visitor(partial(file_of, shown, address, uploads)),
        file_name(about(shown), shown.title, f".{ENDING}"),
    )
    icon, kind = ":material/inventory_2:", "application/octet-stream"
    st.download_button("Exhibit", make, name, kind, key=state.SAVE_EXHIBIT, icon=icon, on_click="ignore")
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
    if (of := shown.of) is not None:
        text = of.text
        address |= {state.TEXT: (text.text,), state.MODEL: (text.model.name,), state.KIND: (of.kind,)}
        address |= {state.DTYPE: (text.model.dtype,), state.DEVICE: (text.model.device,)}
        address |= {state.LAYER: (str(of.layer),), state.HEAD: (str(of.head),)}
        address |= {name: (words,) for name, words in in_address(text.target).items()}
    places = {name: tuple(map(without_folder, address[name])) for name in NAMES_OF_FILES if name in address}
    return address | places


def _requests(shown: PageContents) -> dict[str, HeadRequest]:
    """Return the heads of models that go into the file: those with known queries and keys, and not too long for a file."""
    if shown.of is None:
        return {}

    def fits(of: HeadRequest) -> bool:
        return passes.captured.is_known(of.text) and prod(passes.captured(of.text).shape(of.kind)) <= MAX_SCORES

    heads = {f"head {shown.of.layer}.{shown.of.head}": shown.of} | shown.beside
    return {name: of for name, of in heads.items() if fits(of)}


def _heads(shown: PageContents) -> dict[str, KeptHead]:
    if shown.head is not None:
        return {"the head": shown.head()}
    requests = _requests(shown).items()
    return {name: KeptHead.of(passes.captured(of.text), of.layer, of.head, of.kind) for name, of in requests}
