"""What matters for one answer: heads and layers are muted, tokens hidden, or heads get their outputs from another text."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture
from core.capturing.sampling import most_probable
from core.figures.chart import written
from core.figures.labels import all_placed, visible
from core.figures.plots.bars import bars
from core.figures.plots.dots import dots_against
from core.heads.effects import Patching, probability_after, rank_correlation
from core.heads.examples import FRANCE, ITALY, TIRED, WIDE
from core.heads.metrics import largest
from core.models.tokens import token_texts
from core.notebook.figures import heads_figure
from core.units import distance_in_words, small_number
from ui import links, presenting, state
from ui.calls import result, result_of
from ui.controls.fields import menu, switch, text_line
from ui.markdown import errors_shown, plain, quoted
from ui.progress import Growing, fill, run
from ui.views.charts import show_chart
from ui.views.grid_of_heads import Grid, contributions_of, fill_grid, show_strongest
from ui.views.sources.heads import RealHead
from ui.views.sources.models import NEXT_TOKENS
from ui.views.what_if import results
from ui.views.what_if.edit_list import HIDDEN

TAKEN_AWAY: dict[Literal["heads", "layers", "tokens"], str] = {"heads": "Heads", "layers": "Layers", "tokens": "Tokens"}
OFFERED = 20  # next tokens
PRINTED = 16  # bars with their numbers on them
WORDS = {
    "heads": "Each head is muted in turn: its output is set to 0 before W_O mixes the heads. The ten that matter most by the "
    "gradient of the answer come first. A head that matters can be missing among them until all are measured.",
    "layers": "All heads of a layer are muted together.",
    "tokens": f"Each token is hidden in turn. {HIDDEN}",
}
# The label of an effect, and what it is: of the next token, and of the sentence vector.
IN_NATS = "The change is in nats, of the next token: below 0, it helped the token; above 0, it worked against it."
OF_TOKEN = ("Change of log probability", IN_NATS)
OF_VECTOR = ("1 − cosine", "1 − cosine of the sentence vectors ({}): 0 where nothing changes.")
DIRECT = "Direct contribution"
OF_LOGIT = f"{DIRECT}: what a head itself adds to the token's logit, less what it adds to all logits on average."
OF_COSINE = f"{DIRECT}: what a head itself adds to the cosine of the sentence vector with itself, which is 1."
BY_ITSELF = "What later layers make of it is not in it; muting measures both."
LABEL = "Share of the way"
EXAMPLES = {TIRED: WIDE, FRANCE: ITALY}  # a text -> another one with as many tokens
OF_ANSWERS = (
    "Each head in turn gets its output from the other text. 0: the answer does not change. 1: it becomes the answer to the "
    "other text, measured by the difference of the logits of both answers."
)
OF_VECTORS = (
    "Each head in turn gets its output from the other text. 0: the sentence vector does not move. 1: it moves all the way, "
    "along the line to the other text's vector."
)


class OfferedToken(NamedTuple):
    number: int
    text: str
    share: float


def show_effects(real: RealHead) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        taken_away = menu("Taken away", state.TAKEN_AWAY, TAKEN_AWAY, look="buttons", label_visibility="collapsed")
        token = _choose_token(real.capture) if NEXT_TOKENS.is_met(real.capture.model) else None
    label, unit = OF_VECTOR if token is None else OF_TOKEN
    finding = _place_of_finding()
    with errors_shown():
        if taken_away == "heads":
            _show_heads(real, label, token, finding)
        else:
            _show_bars(real, taken_away, label, token, finding)
        st.caption(f"{WORDS[taken_away]} {unit.format(real.capture.model.sentence.in_words)}")


def _choose_token(capture: Capture) -> OfferedToken:
    assert capture.logits is not None
    numbers = most_probable(capture.logits, OFFERED)
    tokens = [OfferedToken(number, *token) for number, token in zip(numbers, capture.next_tokens(OFFERED), strict=True)]
    words = {str(number): f"{visible(text)}  {share:.1%}" for number, text, share in tokens}
    chosen = menu("Next token", state.NEXT_TOKEN, words, width=240)
    return next(token for token in tokens if str(token.number) == chosen)


def _show_heads(real: RealHead, label: str, token: OfferedToken | None, finding: DeltaGenerator) -> None:
    presenting.title(f"Which heads of {plain(str(real.request.model))} matter: {plain(label)}")
    asked = real.of_kind, "heads", None if token is None else token.number
    growing = results.effects(*asked)
    values = fill_grid(growing, asked, "Muting every head", label, real, signed=token is not None)
    direct, table = None, None
    # The heads of an encoder write nothing that the answer is read from: only other heads read it.
    if growing.done and real.kind != "encoder":
        table = contributions_of(real.of_kind, real.capture, asked[-1])
    if table is not None:
        result_of(heads_figure, table, "contribution", head=real.place)
        direct = table["contribution"].to_numpy().reshape(real.grid)
    result_of(heads_figure, growing, "effect", head=real.place)
    with finding.container(gap=None):
        _say_largest(growing, [f"Head {layer}.{head}" for layer, head in np.ndindex(values.shape)], "head", token)
    presenting.tell(_in_words(real, values, direct, token))
    listed, drawn = st.columns(2, gap="medium")
    with listed:
        show_strongest(values, label, {} if direct is None else {"direct": direct})
    if direct is not None and not presenting.is_on():
        with drawn:
            _show_direct(real, direct, values, label, OF_LOGIT if token else OF_COSINE)


def _say_largest(growing: Growing, names: Sequence[str], unit: str, token: OfferedToken | None) -> None:
    """Say what matters most of all that is measured so far. names: of each number, at the beginning of a sentence"""
    if (place := largest(np.abs(growing.values))) is None:
        return
    name = names[int(np.ravel_multi_index(place, growing.values.shape))]
    without = _after(float(growing.values[place]), token)
    presenting.finding(f"{name} matters most{_among(growing, unit)}: without it {without}.", level=4)


def _among(growing: Growing, unit: str) -> str:
    return "" if growing.done == growing.total else f" of {growing.done} measured {unit}s"


def _place_of_finding() -> DeltaGenerator:
    """Return the place of what will be found, which these words keep until then."""
    place = st.empty()
    place.markdown("#### Measuring", anchors=False)
    return place


def _after(effect: float, token: OfferedToken | None) -> str:
    if token is None:
        return f"the sentence vector turns by **{distance_in_words(effect)}** (1 − cosine)"
    before, after = (f"{share:.1%}" for share in (token.share, probability_after(token.share, effect)))
    if before == after:
        return f"the log probability of {quoted(token.text)} changes by **{small_number(effect)}** nats"
    return f"{quoted(token.text)} goes from {before} to **{after}**"


def _in_words(real: RealHead, effects: Grid, direct: Grid | None, token: OfferedToken | None) -> str:
    """What the chosen head does, and which head adds most by itself; "" while neither is known."""
    words, most = [], largest(np.abs(effects))
    if most != real.place and np.isfinite(effects[real.place]):
        words.append(f"Without head {real} {_after(effects[real.place], token)}.")
    if direct is not None and (own := largest(direct)) is not None:
        what = "the cosine of the sentence vector with itself" if token is None else "the token's logit"
        gave = f"adds most to {what}, {written(direct[own])}"
        more = "." if own == most else "; muting also counts what later layers make of a head."
        words.append(f"Directly, head {own[0]}.{own[1]}{' also' if own == most else ''} {gave}{more}")
    return " ".join(words).replace("**", "")


def _show_bars(
    real: RealHead,
    taken_away: Literal["layers", "tokens"],
    label: str,
    token: OfferedToken | None,
    finding: DeltaGenerator,
) -> None:
    asked = real.of_kind, taken_away, None if token is None else token.number
    growing = result(results.effects(*asked))
    if taken_away == "tokens":
        names, unit, axis, what = real.tokens[1], "token", "token that is hidden", "Hiding every token"
        called = list(map(quoted, all_placed(real.tokens[1])))
    else:
        names, unit, axis, what = range(growing.total), "layer", "layer that is muted", "Muting every layer"
        called = [f"Layer {layer}" for layer in names]
    title = f"{label}, for each {axis}"

    def draw(last: bool) -> None:
        chart = bars(tuple(map(str, names)), {label: growing.values}, y=label, x=axis, printed=growing.total <= PRINTED)
        show_chart(chart, "effects" if last else f"effects {growing.done}", f"{title}.", title=title)

    fill(growing, asked, what, draw, unit=unit)
    with finding.container(gap=None):
        _say_largest(growing, called, unit, token)
    if growing.done < growing.total:
        st.caption(f"A {unit} without a bar is not measured.")


# --- what heads contribute by themselves, beside what muting them does


def _show_direct(real: RealHead, direct: Grid, effects: Grid, label: str, what: str) -> None:
    """Draw each head by its direct contribution and by the effect of muting it.

    label  what the effects are
    what   what the contributions are: `OF_LOGIT` or `OF_COSINE`
    """
    title = f"{DIRECT} of every head, and the effect of muting it ({label})"
    chart = dots_against(direct, effects, names=(DIRECT, label), marked=real.place)
    show_chart(chart, "direct", f"{title}.", title=title)
    alike = rank_correlation(direct, effects)
    agreement = f" Rank correlation of the two: {alike:z.2f}.".replace("-", "−") if np.isfinite(alike) else ""
    st.caption(f"{what} {BY_ITSELF}{agreement}")


# --- heads get their outputs from another text, and the answer moves towards the answer to that text


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
    both, task = None, results.patching.task(real.of_kind, source)
    needs = 4 * real.capture.nbytes  # of both, what a continued pass keeps beside
    with problem, errors_shown():
        both = run(task, "Reading both texts", 2, unit="text", needs=needs)
    if both is not None:
        with errors_shown():
            _show_effects(real, source, both)


def _show_effects(real: RealHead, source: str, both: Patching) -> None:
    _show_answers(real, both)
    look = {"disabled": real.layer == 0, "help": "Path patching. The chosen head needs layers below it."}
    only = switch(f"Only through the chosen head, {real}", state.THROUGH_HEAD, **look)
    through = real.place if only and real.layer > 0 else None
    asked = real.of_kind, source, through
    growing = results.patch_effects(*asked)
    result_of(heads_figure, growing, "moved", head=real.place)
    finding = _place_of_finding()
    values = fill_grid(growing, asked, "Patching every head", LABEL, real, signed=True)
    what, caption = ("the sentence vector", OF_VECTORS) if both.answers is None else ("the answer", OF_ANSWERS)
    most = largest(values)
    with finding.container(gap=None):
        if most is not None:
            share = f"**{values[most]:.1%}** of the way".replace("-", "−")
            moves = f"Head {most[0]}.{most[1]} moves {what} most{_among(growing, 'head')}"
            presenting.finding(f"{moves}: {share}.", level=4)
        if most != real.place and np.isfinite(values[real.place]):
            moved = f"{values[real.place]:z.1%}".replace("-", "−")
            presenting.tell(f"Head {real} moves it {moved} of the way.")
    st.caption(caption)
    if through is not None:
        keep = f"Only the path through head {real} is measured: all other heads keep their outputs for this text, and only "
        st.caption(f"{keep}the output of {real} changes. No path leads to it from its own layer or from later ones.")
    show_strongest(values, LABEL)


def _show_answers(real: RealHead, both: Patching) -> None:
    if both.answers is None or both.probabilities is None:
        return
    names = token_texts(real.capture.model.tokenizer, both.answers)
    for title, shares in zip(("This text", "The other text"), both.probabilities, strict=True):
        words = ", ".join(f"{quoted(name)} **{share:.1%}**" for name, share in zip(names, shares, strict=True))
        presenting.tell(f"{title}: {words}")
