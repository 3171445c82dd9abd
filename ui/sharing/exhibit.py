"""Taking all of a view away as one file, an exhibit, which the page "Open a file" opens again."""

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
from ui.shown import Shown


def show_exhibit(shown: Shown) -> None:
    """A button for the file, which is made when it is pressed, and what it will hold."""
    address = full_address(shown)
    image = st.session_state.get(state.SHOWN_IMAGE)
    uploads = {} if image is None else {state.IMAGE: Upload(*image)}
    heads = head_names(shown)
    what = f"{len(shown.pictures)} pictures" + (f" and all inputs of {' and '.join(heads)}" if heads else "")
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
        f"One file with all of this view: its address with all texts, uploads, {what}. The page “Open a file” shows it again "
        f"with the same numbers, with or without the model."
    )


def file_of(shown: Shown, address: dict[str, tuple[str, ...]], uploads: dict[str, Upload]) -> bytes:
    """The exhibit of a page. Where it would be too large to be opened again, it is written without its pictures, which follow
    from its heads."""
    drawings = tuple(Drawing(one.title, one.alt, one.chart) for one in offered(shown).values())
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


def full_address(shown: Shown) -> dict[str, tuple[str, ...]]:
    """All that the address says, and what it leaves out because the page opens with it: what that is may change."""
    said = {name: tuple(words) for name, words in links.here().items()}
    if (of := shown.of) is not None:
        text = of.text
        said |= {state.TEXT: (text.text,), state.MODEL: (text.model.name,), state.KIND: (of.kind,)}
        said |= {state.DTYPE: (text.model.dtype,), state.DEVICE: (text.model.device,)}
        said |= {state.LAYER: (str(of.layer),), state.HEAD: (str(of.head),)}
        said |= {name: (words,) for name, words in in_address(text.target).items()}
    return said


def head_names(shown: Shown) -> list[str]:
    """What the heads that go into the file are called."""
    return ["the head"] if shown.head is not None else list(_requests(shown))


def _requests(shown: Shown) -> dict[str, HeadRequest]:
    """The heads of models that are kept: those whose queries and keys are known, and that are not too long for a file."""
    if shown.of is None:
        return {}
    asked = {f"head {shown.of.layer}.{shown.of.head}": shown.of} | shown.beside
    return {name: of for name, of in asked.items() if passes.captured.is_known(of.text) and _fits(of)}


def _fits(of: HeadRequest) -> bool:
    queries, keys = passes.captured(of.text).shape(of.kind)
    return queries * keys <= MAX_SCORES


def _heads(shown: Shown) -> dict[str, KeptHead]:
    if shown.head is not None:
        return {"the head": shown.head()}
    return {
        name: KeptHead.of(passes.captured(of.text), of.layer, of.head, of.kind) for name, of in _requests(shown).items()
    }
