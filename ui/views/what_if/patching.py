"""Patching: heads get their outputs from another text, and the answer moves towards the answer to that text."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core import InputError
from core.heads.patching import Patching
from core.models.tokens import token_texts
from core.notebook.figures import heads_figure
from ui import models, presenting, state
from ui.calls import result_of
from ui.controls.fields import switch, text_line
from ui.markdown import quoted, show_error
from ui.progress import run
from ui.requests import KindRequest, PatchRequest
from ui.views.heads.filling import fill_grid, show_strongest
from ui.views.sources.heads import RealHead
from ui.views.what_if import results

LABEL = "Moved"
WORDS = (
    "Each head in turn gets its output from the other text. 0: the answer does not change. 1: it becomes the answer to the "
    "other text, measured by the difference of the logits of both answers."
)
OF_VECTORS = (
    "Each head in turn gets its output from the other text. 0: the sentence vector does not move. 1: it moves all the way, "
    "along the line to the other text's vector."
)
THROUGH = (
    "Only the path through head {layer}.{head} is measured: all other heads keep their outputs for this text, and only the "
    "output of {layer}.{head} changes. No path leads to it from its own layer or from later ones."
)


def show_patching(real: RealHead) -> None:
    """The field for the other text, both answers, and how far each head moves the one to the other."""
    if real.request.image is not None or real.request.pair:
        st.info("Patching compares two texts. Choose a model that reads them, and leave the second text empty.")
        return
    source = text_line(
        "Other text with as many tokens",
        state.SOURCE_TEXT,
        placeholder="… Italy is, where the text says … France is",
    )
    problem = st.container()
    if not source.strip():
        st.info(
            "Type another text of the same length, such as the same one with a name replaced.", icon=":material/edit:"
        )
        return
    of = KindRequest(real.request, real.kind)
    try:
        with problem:
            both = run(
                results.patching.task(of, source),
                "Reading both texts",
                2,
                unit="text",
                seconds=2 * models.reading_seconds(real.capture),
                needs=4 * real.capture.nbytes,  # of both, what a continued pass keeps beside
            )
    except InputError as error:
        with problem:
            show_error(error)
        return
    if both is None:
        return
    _show_answers(real, both)
    through = _choose_path(real)
    request = PatchRequest(of, source, through)
    growing = results.patch_effects(request)
    result_of(heads_figure, growing, "moved", head=(real.layer, real.head))
    values = fill_grid(
        growing,
        request,
        "Patching every head",
        LABEL,
        real,
        signed=True,
    )
    moved = values[real.layer, real.head]
    if np.isfinite(moved):
        with presenting.told("number"):
            st.markdown(f"Head {real.layer}.{real.head} moves the answer by **{moved:.1%}** of the way.")
    st.caption(WORDS if both.answers is not None else OF_VECTORS)
    if through is not None:
        st.caption(THROUGH.format(layer=through[0], head=through[1]))
    show_strongest(values, LABEL)


def _choose_path(real: RealHead) -> tuple[int, int] | None:
    """The later head through which the others may act; None: any way."""
    only = switch(
        f"Only through the chosen head, {real.layer}.{real.head}",
        state.THROUGH_HEAD,
        disabled=real.layer == 0,
        help="Path patching. The chosen head needs layers below it.",
    )
    return (real.layer, real.head) if only and real.layer > 0 else None


def _show_answers(real: RealHead, both: Patching) -> None:
    if both.answers is None or both.probabilities is None:
        return
    names = token_texts(real.capture.model.tokenizer, both.answers)
    for title, shares in zip(("This text", "The other text"), both.probabilities, strict=True):
        said = ", ".join(f"{quoted(name)} **{share:.1%}**" for name, share in zip(names, shares, strict=True))
        with presenting.told():
            st.markdown(f"{title}: {said}")
