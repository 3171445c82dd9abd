"""Patching: heads get their outputs from another text, and the answer moves towards the answer to that text."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core.heads.examples import FRANCE, ITALY, TIRED, WIDE
from core.heads.metrics import largest
from core.heads.patching import Patching
from core.models.tokens import token_texts
from core.notebook.figures import heads_figure
from ui import links, presenting, state
from ui.calls import result_of
from ui.controls.fields import switch, text_line
from ui.markdown import errors_shown, quoted
from ui.progress import Growing, run
from ui.requests import PatchRequest
from ui.views.grid_of_heads import Grid, fill_grid, show_strongest
from ui.views.sources.heads import RealHead
from ui.views.sources.models import TEXTS, needs
from ui.views.what_if import results

LABEL = "Share of the way"
EXAMPLES = {TIRED: WIDE, FRANCE: ITALY}  # a text -> another one with as many tokens
WORDS = (
    "Each head in turn gets its output from the other text. 0: the answer does not change. 1: it becomes the answer to the "
    "other text, measured by the difference of the logits of both answers."
)
OF_VECTORS = (
    "Each head in turn gets its output from the other text. 0: the sentence vector does not move. 1: it moves all the way, "
    "along the line to the other text's vector."
)


@needs(TEXTS)
def show_patching(real: RealHead) -> None:
    """Show the field for the other text, both answers, and how far each head moves the one to the other."""
    if real.request.pair:
        st.info("Patching compares two texts. Leave the second text empty.")
        return
    source = text_line("Other text with as many tokens", state.SOURCE_TEXT)
    problem = st.container()
    if not source.strip():
        words = "Type another text of the same length, such as the same one with a name replaced."
        st.info(words, icon=":material/edit:")
        if (example := EXAMPLES.get(real.request.text)) is not None:
            st.button(f"“{example}”", key=state.USE_EXAMPLE, on_click=links.put, args=(state.SOURCE_TEXT, example))
        return
    both = None
    with problem, errors_shown():
        both = run(
            results.patching.task(real.of_kind, source),
            "Reading both texts",
            2,
            unit="text",
            needs=4 * real.capture.nbytes,  # of both, what a continued pass keeps beside
        )
    if both is not None:
        with errors_shown():
            _show_effects(real, source, both)


def _show_effects(real: RealHead, source: str, both: Patching) -> None:
    _show_answers(real, both)
    only = switch(
        f"Only through the chosen head, {real}",
        state.THROUGH_HEAD,
        disabled=real.layer == 0,
        help="Path patching. The chosen head needs layers below it.",
    )
    through = real.place if only and real.layer > 0 else None
    request = PatchRequest(real.of_kind, source, through)
    growing = results.patch_effects(request)
    result_of(heads_figure, growing, "moved", head=real.place)
    finding = st.empty()
    finding.markdown("#### Measuring", anchors=False)  # keeps the place of what will be found
    values = fill_grid(growing, request, "Patching every head", LABEL, real, signed=True)
    with finding.container(gap=None):
        _say_largest(real, growing, values, "the answer" if both.answers is not None else "the sentence vector")
    st.caption(WORDS if both.answers is not None else OF_VECTORS)
    if through is not None:
        st.caption(
            f"Only the path through head {real} is measured: all other heads keep their outputs for this text, and only the "
            f"output of {real} changes. No path leads to it from its own layer or from later ones."
        )
    show_strongest(values, LABEL)


def _say_largest(real: RealHead, growing: Growing, values: Grid, what: str) -> None:
    """Say which head of those measured so far moves the answer most, and what the chosen one does."""
    most, among = largest(values), "" if growing.done == growing.total else f" of {growing.done} measured heads"
    if most is not None:
        share = f"**{values[most]:.1%}** of the way".replace("-", "−")
        presenting.finding(f"Head {most[0]}.{most[1]} moves {what} most{among}: {share}.", level=4)
    if most != real.place and np.isfinite(values[real.place]):
        moved = f"{values[real.place]:z.1%}".replace("-", "−")
        presenting.tell(f"Head {real} moves it {moved} of the way.")


def _show_answers(real: RealHead, both: Patching) -> None:
    if both.answers is None or both.probabilities is None:
        return
    names = token_texts(real.capture.model.tokenizer, both.answers)
    for title, shares in zip(("This text", "The other text"), both.probabilities, strict=True):
        words = ", ".join(f"{quoted(name)} **{share:.1%}**" for name, share in zip(names, shares, strict=True))
        presenting.tell(f"{title}: {words}")
