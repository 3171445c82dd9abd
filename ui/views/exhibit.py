"""An exhibit that somebody opens: the view with the numbers of the file, and ways to compare it with the model."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from core import InputError
from core.errors import shortened
from core.exporting.exhibit import ENDING, Exhibit, read
from core.exporting.kept_heads import KeptHead, Origin
from core.figures.labels import visible
from ui import lessons, models, passes, shown, state
from ui.controls.target import from_address
from ui.links import go_to
from ui.markdown import plain, show_error
from ui.progress import following, in_turn
from ui.requests import ModelChoice, TextRequest
from ui.views.common.certificate import show_certificate
from ui.views.common.pictures import show_chart
from ui.views.sources.passes import run_pass

STEPS = "step_by_step"
LIVE = (STEPS, "heads", "what_if", *lessons.LESSONS)  # pages that can compute the view of a file again
LONGEST = 400  # characters of a text


def show_opening() -> None:
    """Show the field for a file, and the exhibit that is open."""
    file = st.file_uploader(
        "Exhibit", type=ENDING, key=state.EXHIBIT_FILE, on_change=_dropped, label_visibility="collapsed"
    )
    if file is not None and st.session_state.pop(state.EXHIBIT_IS_NEW, False):
        try:
            st.session_state[state.EXHIBIT] = read(file.getvalue())
        except InputError as error:
            st.session_state.pop(state.EXHIBIT, None)
            show_error(error)
            return
        exhibit = st.session_state[state.EXHIBIT]
        if exhibit.page == STEPS and exhibit.heads:
            _open_steps()
    if (exhibit := st.session_state.get(state.EXHIBIT)) is not None:
        _show(exhibit)


def _dropped() -> None:
    st.session_state[state.EXHIBIT_IS_NEW] = True


def _open_steps() -> None:
    """Go to Step by step, with the file as the source of its numbers, and with the address in the file."""
    exhibit: Exhibit = st.session_state[state.EXHIBIT]
    address = dict(exhibit.address) if exhibit.page == STEPS else {}
    _leave(STEPS, {name: list(words) for name, words in address.items()} | {state.SOURCE: ["file"]})


def _leave(page: str, address: dict[str, list[str]]) -> None:
    go_to(f"{page}?{urlencode(address, doseq=True)}")
    st.rerun()


def _show(exhibit: Exhibit) -> None:
    shown.now().about = exhibit.about
    pictures, beside = st.columns([7, 5], gap="medium")
    with pictures:
        st.subheader(plain(exhibit.title), anchor=False)
        st.caption("From a file: all numbers and pictures are those in the file.")
        for number, drawing in enumerate(exhibit.drawings):
            st.markdown(f"**{plain(drawing.title)}**")
            show_chart(drawing.chart, f"kept {number}", drawing.alt, title=drawing.title, tools=True)
    with beside:
        _show_ways_on(exhibit)
        for name, kept in exhibit.heads.items():
            _, certificate = passes.kept_overview(kept)
            if certificate is not None:
                st.markdown(f"**{plain(name)}**, computed again from the file")
                show_certificate(certificate)
        with st.expander("Origin", expanded=not exhibit.drawings):
            for name, text in exhibit.about.items():
                st.caption(f"**{_in_one_line(name)}** {_in_one_line(text)}")


def _in_one_line(text: str) -> str:
    """Return a text in one line, shortened if it is long, and escaped for Markdown."""
    return plain(visible(shortened(text, LONGEST)))


def _show_ways_on(exhibit: Exhibit) -> None:
    """Show buttons for the head step by step, for the live view, and for a comparison with the model."""
    kept = next(iter(exhibit.heads.values()), None)
    origin = None if kept is None else kept.origin
    with st.container(horizontal=True):
        if kept is not None and st.button("Step by step", key=state.OPEN_STEPS, icon=":material/steps:"):
            _open_steps()
        if exhibit.page in LIVE and st.button("Open live", key=state.OPEN_LIVE, icon=":material/play_arrow:"):
            if (upload := exhibit.uploads.get(state.IMAGE)) is not None:
                st.session_state[state.SHOWN_IMAGE] = (upload.name, upload.data)
            _leave(exhibit.page, {name: list(words) for name, words in exhibit.address.items()})
        compares = origin is not None and st.button(
            "Compare with the model", key=state.COMPARE_LIVE, icon=":material/compare:"
        )
    if origin is not None:
        st.caption(
            plain(f"“Open live” and “Compare with the model” need {origin.name}; the rest of this page does not.")
        )
    if compares and kept is not None and origin is not None:
        _compare(exhibit, kept, origin)


def _compare(exhibit: Exhibit, kept: KeptHead, origin: Origin) -> None:
    """Run the model again, and say whether it still gives the numbers of the file."""
    try:
        live = _live(exhibit, kept, origin)
    except InputError as error:
        show_error(error)
        return
    if live is None:
        return
    if live.same_as(kept):
        st.success("The model gives the same numbers, to the last bit.", icon=":material/verified:")
    elif live.head.shape != kept.head.shape or live.key_tokens != kept.key_tokens:
        st.warning("The model now reads different tokens from those in the file.", icon=":material/difference:")
    else:
        difference = max(
            float(abs(now - before).max())
            for now, before in ((live.head.query, kept.head.query), (live.head.key, kept.head.key))
        )
        revision = "" if live.origin == origin else " This is another revision or dtype of the model."
        st.warning(
            f"The model now gives different numbers: queries and keys differ by up to {difference:.2g}.{revision}",
            icon=":material/difference:",
        )


def _live(exhibit: Exhibit, kept: KeptHead, origin: Origin) -> KeptHead | None:
    """Return the same head from the model. Raises InputError if there is no such model, or it cannot read the text."""

    def word(name: str) -> str | None:
        return next(iter(exhibit.address.get(name, ())), None)

    chosen = ModelChoice(origin.name, origin.dtype)
    place = st.empty()
    with in_turn(place, f"Reading {origin.name}"), following(place, f"Reading {origin.name}") as tell:
        model = models.load(chosen, tell)
    image = exhibit.uploads.get(state.IMAGE) if model.reads_images else None
    request = TextRequest(
        chosen,
        "" if image is not None else word(state.TEXT) or "",
        word(state.PAIR) if model.takes_pairs else None,
        from_address(word) if model.is_encoder_decoder else None,
        keep=len(kept.key_tokens) if word(state.TRUNCATE) else None,
        image=None if image is None else image.data,
    )
    passed = run_pass(request, model, None, False)
    return None if passed is None else KeptHead.of(passed[1], origin.layer, origin.head, origin.kind)
