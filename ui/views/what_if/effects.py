"""Which heads matter for one answer: each head muted, each layer, or each token hidden."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core import Capture, InputError
from core.capturing.sampling import most_probable
from core.figures.labels import visible
from core.figures.plots.bars import bars
from core.notebook.figures import heads_figure
from ui import models, presenting, state
from ui.calls import result, result_of
from ui.controls.edit_list import HIDDEN
from ui.controls.fields import menu
from ui.markdown import plain, quoted, show_error
from ui.progress import fill
from ui.requests import EffectRequest, KindRequest
from ui.views.common.pictures import show_chart
from ui.views.heads.filling import fill_grid, show_strongest
from ui.views.sources.heads import RealHead
from ui.views.what_if import results

TAKEN_AWAY = {"heads": "Heads", "layers": "Layers", "tokens": "Tokens"}
OFFERED = 20  # next tokens
PRINTED = 16  # bars with their numbers on them
WORDS = {
    "heads": "Each head is muted in turn: its output is set to 0 before W_O mixes the heads.",
    "layers": "All heads of a layer are muted together.",
    "tokens": f"Each token is hidden in turn. {HIDDEN}",
}


def show_effects(real: RealHead) -> None:
    """What muting heads and layers, or hiding tokens, does to the next token or to the sentence vector."""
    if real.request.image is not None:
        st.info("Effects are measured on texts. Choose a model that reads them.", icon=":material/image:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        taken_away = menu("Taken away", state.TAKEN_AWAY, TAKEN_AWAY, look="buttons")
        answer = _choose_token(real.capture)
    of = KindRequest(real.request, real.kind)
    try:
        if taken_away == "heads":
            request = EffectRequest(of, "heads", None if answer is None else answer[0])
            _show_heads(real, request, answer)
        else:
            kept = "layers" if taken_away == "layers" else "tokens"
            _show_bars(real, EffectRequest(of, kept, None if answer is None else answer[0]))
    except InputError as error:
        show_error(error)
        return
    st.caption(f"{WORDS[taken_away]} {_unit(answer is not None)}")


def _choose_token(capture: Capture) -> tuple[int, str, float] | None:
    """The next token whose probability is looked at: its number, its text, its probability; None for a sentence vector."""
    if capture.logits is None:
        return None
    best = most_probable(capture.logits, OFFERED)
    named = dict(zip(map(str, best), capture.next_tokens(OFFERED), strict=True))
    words = {number: f"{visible(token)}  {share:.1%}" for number, (token, share) in named.items()}
    chosen = menu("Next token", state.NEXT_TOKEN, words, width=240)
    return int(chosen), *named[chosen]


def _label(predicts: bool) -> str:
    return "Change of log p" if predicts else "1 − cosine"


def _unit(predicts: bool) -> str:
    if predicts:
        return "Change of the next token's log probability, in nats: below 0, it helped; above 0, it worked against the token."
    return "1 − cosine of the sentence vectors (the mean over all tokens of the last hidden state): 0 where nothing changes."


def _show_heads(real: RealHead, request: EffectRequest, answer: tuple[int, str, float] | None) -> None:
    label, signed = _label(answer is not None), answer is not None
    presenting.title(f"Which heads of {plain(str(real.request.model))} matter: {plain(label)}")
    growing = results.effects(request)
    result_of(heads_figure, growing, "effect", head=(real.layer, real.head))
    values = fill_grid(
        growing,
        request,
        "Muting every head",
        label,
        real,
        signed=signed,
    )
    effect = values[real.layer, real.head]
    if np.isfinite(effect):
        words = f"Without head {real.layer}.{real.head}"
        if answer is None:
            words += f": 1 − cosine **{effect:.4f}**."
        else:
            _, token, share = answer
            words += f", {quoted(token)} goes from {share:.1%} to **{share * np.exp(effect):.1%}**."
        with presenting.told("number"):
            st.markdown(words)
    show_strongest(values, label)


def _show_bars(real: RealHead, request: EffectRequest) -> None:
    capture, growing = real.capture, result(results.effects(request))
    of_tokens = request.taken_away == "tokens"
    names = capture.tokens(real.kind)[1] if of_tokens else tuple(map(str, range(growing.total)))
    label = _label(request.token is not None)

    def draw(last: bool) -> None:
        known = np.nan_to_num(growing.values, nan=0.0)
        axis = "token that is hidden" if of_tokens else "layer that is muted"
        chart = bars(names, {label: known}, y=label, x=axis, printed=growing.total <= PRINTED)
        name = "effects" if last else f"effects {growing.done}"
        show_chart(chart, name, f"{label}, for each {axis}.", title=f"{label}, for each {axis}")

    fill(
        growing,
        request,
        "Hiding every token" if of_tokens else "Muting every layer",
        draw,
        unit="token" if of_tokens else "layer",
        seconds=models.reading_seconds(capture),
    )
    if growing.done < growing.total:
        st.caption(f"{growing.done} of {growing.total} {request.taken_away} are measured. The others are drawn as 0.")
