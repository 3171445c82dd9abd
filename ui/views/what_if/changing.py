"""The changes of a What if: their list, one head before and after them, and their effect on the model's answer."""

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from core import Capture, InputError
from core.capturing.answers import NextToken, movers, vectors
from core.capturing.calls.head_places import Place
from core.capturing.edits.edits import Edits
from core.capturing.edits.kinds import Mute
from core.capturing.edits.lines import edits_of, lines_of
from core.figures.labels import all_placed, visible
from core.figures.plots.bars import bars, share_bars
from core.heads.comparing import Alignment
from core.units import distance_in_words
from ui import links, presenting, shown, state
from ui.calls import result, result_of
from ui.components import pin
from ui.controls.fields import label_again, switch
from ui.markdown import errors_shown, plain, quoted
from ui.progress import run
from ui.requests import GeneratedTarget
from ui.views.certificates import check_head
from ui.views.charts import show_chart
from ui.views.grid_of_heads import choose, choose_clicked, show_grid_of_heads, walk_through_heads
from ui.views.head_links import link_to_why_word
from ui.views.sources import passes
from ui.views.sources.heads import RealHead
from ui.views.sources.models import NEXT_TOKENS
from ui.views.sources.reading import run_pass
from ui.views.what_if import edit_list, results
from ui.views.what_if.comparing import DIVERGENCE, TwoHeads, show_pictures

NAMES = ("As it is", "Changed")
NOTHING_YET = "Nothing is changed yet. Mute a head, replace a token or choose another change, and see what comes of it."
OFFERED = "Of all heads, the one that matters most by the gradient of the answer, and what comes of muting it."
HEIGHT = 330
LABELLED = 256  # tokens with a bar each
CLICKED = 128  # tokens of a text that can be clicked; of a longer one they are chosen from a box


def show_changing(real: RealHead) -> None:
    """Show what the model does with the changes on the list, the list, and the chosen head before and after them."""
    pin.listen(lambda cell: _clicked(real, cell))  # before the pictures: whoever sees one may click at once
    answer = st.container(gap=None)  # no gap where progress comes and goes
    outcome, changes = st.columns([7, 5], gap="medium")
    region, pictures = st.container(), st.container()
    with changes:
        listing = st.container(key=state.EDITS_LIST, gap="xsmall")
        with listing:
            edits = edit_list.shown_edits(real.capture)
        controls = st.container(gap="xsmall")
    head = f"Layer {real.layer}, head {real.head} of {real.request.model}"
    with answer:
        switched_on = ", ".join(line.words for line in edit_list.lines() if line.is_on)
        presenting.title(plain(f"{head}: {switched_on}" if edits else head))
        changed = _changed(real, edits) if edits else real
    cell, predicts = (0, 0), NEXT_TOKENS.is_met(real.capture.model)
    if changed is not None:
        with answer:
            _answer(real, changed, predicts=predicts)
        with outcome:
            (_show_next_tokens if predicts else _show_turns)(real, changed)
        with outcome if changed is real and not predicts else pictures:
            cell = _show_before_and_after(real, changed)
    with controls:
        edit_list.choose_new_edit(real, cell)
        _show_tokens(real)
    with region:
        writes_next = predicts and real.kind == real.capture.kinds[0]
        edit_list.choose_region(changed or real, real.shape[0] - 1 if writes_next else cell[0])
    presenting.walk_through(real.place, real.grid, choose)
    if changed is None or presenting.is_on():
        return
    if changed is not real:
        _show_changed_heads(real, changed)
    elif not edit_list.lines():
        with listing:
            _suggest(real, predicts=predicts)
    if predicts:
        show_continuations(real, changed)


def _answer(real: RealHead, changed: RealHead, *, predicts: bool) -> None:
    """Say in one line what comes of the changes, and record it."""
    words, more = _outcome(real, changed, predicts=predicts)
    if words:
        with presenting.told("number"):
            shown.say(f"### {words}", anchors=False, help=None if presenting.is_on() else more)
    _say_if_all_are_muted(changed.capture)
    for capture in (real.capture,) if changed is real else (real.capture, changed.capture):
        if predicts:
            result_of(capture.next_tokens, 5)
        else:
            result(capture.vectors)


@errors_shown()
def _changed(real: RealHead, edits: Edits) -> RealHead | None:
    """Return the same head in the edited pass; None where the computation was stopped."""
    request = replace(real.request, edits=edits)
    capture = run_pass(request, real.capture.model, near=st.session_state.get(state.CHANGED_BEFORE))
    if capture is None:
        return None
    st.session_state[state.CHANGED_BEFORE] = request
    return replace(real, request=request)


def _suggest(real: RealHead, *, predicts: bool) -> None:
    """Offer to mute the head that matters most by the gradient of the answer, with what comes of that."""
    answers = predicts or real.capture.vectors is not None
    if not answers or real.request.image is not None or len(real.capture.input_ids) > LABELLED:
        return
    task = results.suspect.task(real.of_kind)
    place = run(task, "Looking for a head to mute", 1, unit="pass", needs=2 * real.capture.nbytes)
    if place is None:
        return
    (line,) = lines_of(Edits(mute_heads={Place(*place, real.named_kind)}))
    if (muted := _changed(real, edits_of(line))) is not None:
        label = f"Try: {line} ({plain(_in_short(real, muted, predicts=predicts))})"
        named = {"key": state.button("try", hash(line)), "on_click": edit_list.add, "args": (line,)}
        st.button(label, icon=":material/lightbulb:", help=OFFERED, **named)


def _in_short(real: RealHead, muted: RealHead, *, predicts: bool) -> str:
    if not predicts:
        return f"turns by {distance_in_words(vectors(real.capture, muted.capture).sentence)}"
    before, after = _texts(real, muted)
    if after not in ("", before):
        return f"writes “{after}”"
    moved = _moved(real, muted)
    token = int(moved.before.argmax())
    return f"{moved.before[token]:.1%} → {moved.after[token]:.1%}"


# --- clicks


def _clicked(real: RealHead, cell: pin.Cell) -> None:
    """A click on the grid of changed heads chooses one; on a cell it chooses the pair, or paints it; on an image a region."""
    if choose_clicked(cell, real.grid) or edit_list.choose_drawn_region(real, cell):
        return
    pin.pin(cell)
    pair = pin.place_in(cell, "query", "key", real.shape)
    if pair is not None and st.session_state.get(state.PAINTING):
        edit_list.paint(Place(*real.place, real.named_kind), *pair)


def _show_tokens(real: RealHead) -> None:
    """The text, whose tokens can be clicked to be replaced or hidden; what a decoder has written is given as it is."""
    if not real.capture.input_ids or real.kind in ("decoder", "vision"):
        return
    tokens = real.tokens[1]
    places = np.flatnonzero(np.isnan(real.capture.image_boxes(real.kind)[:, 0])).tolist()
    if links.local_value(state.TOKEN_AT, None) not in places:
        st.session_state[state.TOKEN_AT] = None
    links.local_value(state.NEW_TOKEN, "")
    label, key = "Replace a token", state.TOKEN_AT
    line = st.container(key=state.TOKEN_LINE, horizontal=True, vertical_alignment="center", gap="small")
    if len(places) <= CLICKED:
        words = [plain(visible(token)) for token in tokens]
        at = st.pills(label, places, key=key, format_func=words.__getitem__, label_visibility="collapsed")
    else:
        label_again(key)
        look = {"format_func": all_placed(tokens).__getitem__, "width": 220, "label_visibility": "collapsed"}
        at = st.selectbox(label, places, index=None, key=key, **look)
    with line:
        if at is None:
            st.markdown(f":small[{label}]")
            return
        instead = f"instead of {visible(tokens[at])} ({at})"
        word = st.text_input("Another token", key=state.NEW_TOKEN, placeholder=instead, label_visibility="collapsed")

        def replace_it() -> None:
            edit_list.replace_token(at, st.session_state[state.NEW_TOKEN].strip())

        st.button("Replace", key=state.button("replace", 0), disabled=not word.strip(), on_click=replace_it)
        if mask := getattr(real.capture.model.tokenizer, "mask_token", None):
            st.button("Mask", key=state.button("mask", 0), on_click=edit_list.replace_token, args=(at, mask))
        hiding = {"key": state.button("hide", 0), "on_click": edit_list.hide_token, "args": (at, real.capture.kinds)}
        st.button("Hide", help=edit_list.HIDDEN, **hiding)


# --- before and after


def _show_before_and_after(real: RealHead, changed: RealHead) -> tuple[int, int]:
    """Show the head's weights before and after, their difference, and the certificate; return the chosen (query, key)."""
    queries, keys = map(Alignment.same, real.shape)  # a replaced token has the same position as the original
    two = TwoHeads(real, changed, queries, keys, NAMES, "Changed − as it is")
    if changed is not real:
        shown.now().beside[NAMES[1]] = changed.of
        two.record()
    if (overview := two.overview()) is None:
        return 0, 0
    # An audience sees what comes of the changes, in full size.
    says_nothing = changed is not real and two.is_same(overview)
    with presenting.aside() if says_nothing else nullcontext():
        cell = show_pictures(two, overview, is_one_text=True)
    if passes.head(changed.of).edited(range(1)).output is not None:
        st.caption("The output of this head is replaced: it still looks there, but nothing of it arrives.")
    elif changed is real:
        st.caption(NOTHING_YET)
    elif two.is_same(overview):
        st.caption("The changes do not reach this head: it looks where it looked before.")
    check_head(changed.of, "the model" if changed is real else "the changed pass")
    return cell


# --- the answer


def _outcome(real: RealHead, changed: RealHead, *, predicts: bool) -> tuple[str, str | None]:
    """Say what comes of the changes, and give more about it; "" where nothing can be said."""
    if not predicts:
        return _turned(real, changed)
    before, after = _texts(real, changed)
    if not after:
        return _next_token(real, changed)
    if changed is real or before == after:
        return f"The model {'writes' if changed is real else 'still writes'} **{quoted(before)}**", None
    return f"The model writes {quoted(before)} → **{quoted(after)}**", None


def _texts(real: RealHead, changed: RealHead) -> tuple[str, str]:
    """What the model writes by itself, and with the changes; "" where it is not asked to write, or a change is not
    possible in the text that it starts with."""
    texts = ["", ""]
    if isinstance(real.request.target, GeneratedTarget):
        for place, head in enumerate((real, changed)):
            with suppress(InputError):
                task = passes.generated.task(head.request)
                written = run(task, "Writing", GeneratedTarget().max_tokens, unit="token")
                texts[place] = "" if written is None else real.capture.model.text_of(written.ids)
    return texts[0], texts[1]


def _next_token(real: RealHead, changed: RealHead) -> tuple[str, str | None]:
    """Say how the probability of the next token has changed, and by how much the distribution has."""
    moved = _moved(real, changed)
    token = int(moved.before.argmax())
    words = f"{quoted(real.capture.next_tokens(1)[0][0])} comes next: **{moved.before[token]:.1%}**"
    if changed is real:
        return words, None
    words += f" → **{moved.after[token]:.1%}**"
    best, share = changed.capture.next_tokens(1)[0]
    if int(moved.after.argmax()) != token:
        words += f"; now {quoted(best)} is first with {share:.1%}"
    return words, f"Kullback-Leibler divergence of all next tokens: {distance_in_words(moved.divergence)} nats."


def _turned(real: RealHead, changed: RealHead) -> tuple[str, str | None]:
    """Say how far the vectors have turned; "" if the pass has none."""
    if real.capture.vectors is None or changed is real:
        return "", None
    moved = vectors(real.capture, changed.capture)
    of_sentence, of_tokens = distance_in_words(moved.sentence), distance_in_words(float(moved.tokens.max()))
    words = f"The sentence vector turns by **{of_sentence}** (1 − cosine), single tokens by up to **{of_tokens}**"
    return words, "0 for the same direction, 2 for the opposite one."


def _say_if_all_are_muted(capture: Capture) -> None:
    """That is allowed; no information then passes from one token to another."""
    first = capture.kinds[0]
    muted = [edit.at for edit in capture.edits.each if isinstance(edit, Mute)]
    if muted and all(
        any(place.covers(kind, layer, head, first) for place in muted)
        for kind in capture.kinds
        for layer, head in np.ndindex(capture.layers(kind), capture.heads(kind))
    ):
        st.caption("All heads are muted, so no token receives anything from another token.")


def _moved(real: RealHead, changed: RealHead) -> NextToken:
    return results.moved(real.request, changed.request, before=real.capture, after=changed.capture)


def _show_next_tokens(real: RealHead, changed: RealHead) -> None:
    table = movers(_moved(real, changed), real.capture)
    if table["change"].to_numpy().any():
        st.markdown("**Next tokens** that changed most")
        groups = {name: table[name].to_numpy() for name in ("before", "after")}
        alt = "Bars: the probabilities of the next tokens before and after."
    else:
        st.markdown("**Next tokens**, the most probable ones")
        groups = {"probability": table["before"].to_numpy()}
        alt = "Bars: the most probable next tokens."
    show_chart(share_bars(table["token"].tolist(), groups), "outcome", alt, title="What comes of it")
    link_to_why_word(real.request, real.request.text, real.capture.next_tokens(1)[0][0])


def _show_turns(real: RealHead, changed: RealHead) -> None:
    before, after = real.capture, changed.capture
    if after is before or before.vectors is None or len(before.vectors) > LABELLED:
        return
    st.markdown("**How far each token's vector has turned**, 1 − cosine")
    read = before.tokens(before.kinds[-1])[0]  # of an encoder-decoder, what the decoder has written
    chart = bars(read, {"1 − cosine": vectors(before, after).tokens}, y="1 − cosine", printed=False)
    alt = "Bars: how far the final vector of each token has turned."
    show_chart(chart, "outcome", alt, title="What comes of it")


def _show_changed_heads(real: RealHead, changed: RealHead) -> None:
    st.markdown("**Heads whose attention changed**", help=DIVERGENCE)
    task = results.head_changes.task(real.of_kind, changed.of_kind)
    if (values := run(task, "Comparing every head", real.grid[0])) is None:
        return
    named: dict[str, Any] = {"title": "How much each head changed", "numbers": "mean Jensen-Shannon divergence"}
    alt = "How much each head's attention changed"
    show_grid_of_heads(values, "divergence", real.place, alt=alt, height=HEIGHT, **named)
    walk_through_heads(real.place, real.grid)


def show_continuations(real: RealHead, changed: RealHead) -> None:
    words = f"Continue the text: {results.NEW_TOKENS} tokens, always the most probable one"
    if not switch(words, state.WRITES_ON):
        return
    heads = [real] if changed is real else [real, changed]
    for column, name, head in zip(st.columns(2), NAMES, heads, strict=False):
        with column:
            written = run(results.continuation.task(head.request), "Writing", results.NEW_TOKENS, unit="token")
            if written is not None:
                st.caption(name)
                st.code(real.capture.model.text_of(written), language=None, wrap_lines=True)
