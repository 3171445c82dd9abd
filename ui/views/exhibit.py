"""A file that somebody opens: an exhibit, with ways to compare it with the model. Others open on the page Heads."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlencode

import streamlit as st

from core import InputError
from core.errors import shortened
from core.exporting.exhibit import ENDING, MAX_BYTES, Exhibit, KeptHead, Origin, read
from core.figures.labels import visible
from ui import given, lessons, shown, state
from ui.controls.fields import upload
from ui.links import go_to
from ui.markdown import errors_shown, plain, show_error
from ui.progress import following, run
from ui.requests import ModelChoice, TextRequest
from ui.views.certificates import show_certificate
from ui.views.charts import show_chart
from ui.views.sources import models, passes
from ui.views.sources.reading import run_pass
from ui.views.sources.text_fields import RECORDED, keep_recorded, target_from_address

STEPS = "step_by_step"
LIVE = (STEPS, "heads", "what_if", *lessons.LESSONS)  # pages that can compute the view of a file again
LONGEST = 400  # characters of a text


def show_opening() -> None:
    """Show the field for a file, and the exhibit that is open. A pass or weights open on Heads, in the place of a model."""
    label = "An exhibit that “Share” has saved, a recorded pass (safetensors), or attention weights (NPZ)"
    new = {"on_change": st.session_state.update, "args": ({state.EXHIBIT_IS_NEW: True},)}
    file = upload(label, state.EXHIBIT_FILE, [ENDING, *RECORDED], **new)
    if file is None and state.EXHIBIT not in st.session_state and (path := given.file(ENDING)) is not None:
        with errors_shown():
            _open(_given(given.contents(path, MAX_BYTES)))
    if file is not None and st.session_state.get(state.EXHIBIT_IS_NEW, False):
        st.session_state.pop(state.EXHIBIT, None)
        try:
            if file.name.lower().endswith(ENDING):
                _open(read(file.getvalue()))
            else:
                models.load(ModelChoice(file.name, contents=file.getvalue()))
                del st.session_state[state.EXHIBIT_IS_NEW]
                keep_recorded(file)
                _leave("heads", {state.MODEL: (file.name,)})
        except InputError as error:
            show_error(error)  # again in every run, until there is another file
            return
    if (exhibit := st.session_state.get(state.EXHIBIT)) is not None:
        _show(exhibit)


_given = lru_cache(maxsize=1)(read)  # the exhibit that the server was started with


def _open(exhibit: Exhibit) -> None:
    """Open an exhibit: one of Step by step as the source of that page. Raises InputError (field "file") if it is too long."""
    for kept in exhibit.heads.values():
        models.check_length(*kept.head.shape, "Open one of a shorter text.", "file")
    st.session_state[state.EXHIBIT] = exhibit
    st.session_state.pop(state.EXHIBIT_IS_NEW, None)
    if exhibit.page == STEPS and exhibit.heads:
        _open_steps()


def _open_steps() -> None:
    """Go to Step by step, with the file as the source of its numbers, and with the address in the file."""
    exhibit: Exhibit = st.session_state[state.EXHIBIT]
    address = dict(exhibit.address) if exhibit.page == STEPS else {}
    _leave(STEPS, address | {state.SOURCE: ("file",)})


def _leave(page: str, address: Mapping[str, Sequence[str]]) -> None:
    go_to(f"{page}?{urlencode(address, doseq=True)}")
    st.rerun()


def _show(exhibit: Exhibit) -> None:
    shown.now().about = exhibit.about
    pictures, beside = st.columns([7, 5], gap="medium")
    with pictures:
        st.subheader(plain(exhibit.title), anchor=False)
        st.caption("From an exhibit: all numbers and pictures are those in its file.")
        for number, drawing in enumerate(exhibit.drawings):
            st.markdown(f"**{plain(drawing.title)}**")
            show_chart(drawing.chart, f"kept {number}", drawing.alt, title=drawing.title, tools=True)
    with beside:
        _show_ways_on(exhibit)
        for name, kept in exhibit.heads.items():
            computed = run(passes.kept_overview.task(kept), "Computing it again", 1)
            if computed is not None and (certificate := computed[1]) is not None:
                st.markdown(f"**{plain(name)}**, computed again from the exhibit")
                show_certificate(certificate)
        with st.expander("What the file says of itself", expanded=not exhibit.drawings):
            for note in exhibit.about.items():
                name, text = (plain(visible(shortened(words, LONGEST))) for words in note)  # each in one line
                st.caption(f"**{name}** {text}")


def _show_ways_on(exhibit: Exhibit) -> None:
    kept = next(iter(exhibit.heads.values()), None)
    origin = None if kept is None else kept.origin
    with st.container(horizontal=True):
        if kept is not None and st.button("Step by step", key=state.OPEN_STEPS, icon=":material/steps:"):
            _open_steps()
        if exhibit.page in LIVE and st.button("Open live", key=state.OPEN_LIVE, icon=":material/play_arrow:"):
            if (image := exhibit.uploads.get(state.IMAGE)) is not None:
                st.session_state[state.SHOWN_IMAGE] = (image.name, image.data)
            _leave(exhibit.page, exhibit.address)
        key, icon = state.COMPARE_LIVE, ":material/compare:"
        compares = origin is not None and st.button("Compare with the model", key=key, icon=icon)
    if kept is None or origin is None:
        return
    st.caption(plain(f"“Open live” and “Compare with the model” need {origin.name}; the rest of this page does not."))
    if compares:
        _compare(exhibit, kept, origin)


@errors_shown()
def _compare(exhibit: Exhibit, kept: KeptHead, origin: Origin) -> None:
    """Run the model again, and say whether it still gives the numbers of the file."""
    if (live := _live(exhibit, kept, origin)) is None:
        return
    if live.same_as(kept):
        st.success("The model gives the same numbers, to the last bit.", icon=":material/verified:")
        return
    now, before = live.head, kept.head
    words = "The model now reads different tokens from those in the exhibit."
    if now.shape == before.shape and live.key_tokens == kept.key_tokens:
        difference = max(float(abs(now.query - before.query).max()), float(abs(now.key - before.key).max()))
        revision = "" if live.origin == origin else " This is another revision or precision of the model."
        words = f"The model now gives different numbers: queries and keys differ by up to {difference:.2g}.{revision}"
    st.warning(words, icon=":material/difference:")


def _live(exhibit: Exhibit, kept: KeptHead, origin: Origin) -> KeptHead | None:
    """Return the same head from the model. Raises InputError if there is no such model, or it cannot read the text."""

    def word(name: str) -> str | None:
        return next(iter(exhibit.address.get(name, ())), None)

    chosen = ModelChoice(origin.name, origin.dtype)
    with following(st.empty(), f"Reading {origin.name}") as tell:
        model = models.load(chosen, tell)
    image = exhibit.uploads.get(state.IMAGE) if model.reads_images or model.takes_images else None
    text = "" if model.reads_images else word(state.TEXT) or ""
    pair = word(state.PAIR) if model.takes_pairs else None
    target = target_from_address(word) if model.is_encoder_decoder else None
    keep = len(kept.key_tokens) if word(state.TRUNCATE) else None
    request = TextRequest(chosen, text, pair, target, keep, None if image is None else image.data)
    capture = run_pass(request, model)
    return None if capture is None else KeptHead.of(capture, origin.layer, origin.head, origin.kind)
