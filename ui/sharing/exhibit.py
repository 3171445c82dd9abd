"""Sharing a whole view as one file, an exhibit, which the page "Open a file" opens again."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core import InputError
from core.attention.matrix_files import MAX_SCORES
from core.exporting.exhibit import ENDING, Drawing, Exhibit, Upload, write
from core.exporting.kept_heads import KeptHead
from ui import links, passes, state
from ui.controls.target import in_address
from ui.requests import HeadRequest
from ui.sharing.pictures import offered
from ui.sharing.provenance import about, file_name
from ui.shown import PageContents


def show_exhibit(shown: PageContents) -> None:
    """Show a button that makes and saves the file, and a caption that says what the file holds."""
    address = full_address(shown)
    image = st.session_state.get(state.SHOWN_IMAGE)
    uploads = {} if image is None else {state.IMAGE: Upload(*image)}
    heads = head_names(shown)
    contents = f"{len(shown.pictures)} pictures" + (f" and all inputs of {' and '.join(heads)}" if heads else "")
    st.download_button(
        "Exhibit",
        lambda: file_of(shown, address, uploads),
        file_name(about(shown), shown.title, f".{ENDING}"),
        "application/octet-stream",
        key=state.SAVE_EXHIBIT,
        icon=":material/inventory_2:",
        on_click="ignore",
    )
    st.caption(
        f"One file with everything in this view: its address with all texts, uploads, {contents}. The page “Open a file” shows "
        f"it again with the same numbers, with or without the model."
    )


def file_of(shown: PageContents, address: dict[str, tuple[str, ...]], uploads: dict[str, Upload]) -> bytes:
    """Return the exhibit of a page; without its pictures, which follow from its heads, if it is too large to open again."""
    drawings = tuple(Drawing(picture.title, picture.alt, picture.chart) for picture in offered(shown).values())
    exhibit = Exhibit(
        page=shown.page,
        title=shown.title,
        address=address,
        about=about(shown),
        heads=_heads(shown),
        drawings=drawings,
        uploads=uploads,
    )
    try:
        return write(exhibit)
    except InputError:
        return write(replace(exhibit, drawings=()))


def full_address(shown: PageContents) -> dict[str, tuple[str, ...]]:
    """Return the whole address, with the opening values that an address leaves out, because these may change."""
    address = {name: tuple(words) for name, words in links.here().items()}
    if (of := shown.of) is not None:
        text = of.text
        address |= {state.TEXT: (text.text,), state.MODEL: (text.model.name,), state.KIND: (of.kind,)}
        address |= {state.DTYPE: (text.model.dtype,), state.DEVICE: (text.model.device,)}
        address |= {state.LAYER: (str(of.layer),), state.HEAD: (str(of.head),)}
        address |= {name: (words,) for name, words in in_address(text.target).items()}
    return address


def head_names(shown: PageContents) -> list[str]:
    """Return the names of the heads that go into the file."""
    return ["the head"] if shown.head is not None else list(_requests(shown))


def _requests(shown: PageContents) -> dict[str, HeadRequest]:
    """Return the heads of models that go into the file: those with known queries and keys, and not too long for a file."""
    if shown.of is None:
        return {}
    asked = {f"head {shown.of.layer}.{shown.of.head}": shown.of} | shown.beside
    return {name: of for name, of in asked.items() if passes.captured.is_known(of.text) and _fits(of)}


def _fits(of: HeadRequest) -> bool:
    queries, keys = passes.captured(of.text).shape(of.kind)
    return queries * keys <= MAX_SCORES


def _heads(shown: PageContents) -> dict[str, KeptHead]:
    if shown.head is not None:
        return {"the head": shown.head()}
    return {
        name: KeptHead.of(passes.captured(of.text), of.layer, of.head, of.kind) for name, of in _requests(shown).items()
    }
