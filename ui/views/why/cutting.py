"""Cuts of hops of a path: what was predicted of them, and what came of it."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.capturing.edits.edits import every
from core.capturing.sampling import next_probabilities
from core.heads.paths import CutEffect, Path, cut_effect
from ui import presenting, state
from ui.controls.fields import menu_of_several, text_line
from ui.markdown import errors_shown, quoted
from ui.views.sources.models import MAX_TOKENS
from ui.views.sources.reading import run_pass
from ui.views.why import results
from ui.views.why.view import View, signed


def choose_cuts(path: Path) -> None:
    names = {
        str(number): _cut_in_words(path, number) for number, stop in enumerate(path.stops) if stop.hop.side != "score"
    }
    if names and menu_of_several("Cut", state.CUTS, names, width="content"):
        label = "As in another text"
        text_line(label, state.CUT_TO, width=230, placeholder="Nothing, or a text of as many tokens")


def _cut_in_words(path: Path, number: int) -> str:
    hop = path.stops[number].hop
    if hop.side == "answer":
        return f"mute {hop.component}"
    return f"{hop.component} from the {hop.side} of {path.stops[number - 1].hop.component}"


def say_cuts(view: View) -> None:
    """What was predicted of the chosen cuts, and what the model then does."""
    chosen = [int(word) for word in st.session_state.get(state.CUTS) or [] if word.isdecimal()]
    cuts = [number for number in chosen if (view.path.answer is None) <= number < len(view.path.stops)]
    if not cuts:
        return
    other = (st.session_state.get(state.CUT_TO) or "").strip() or None
    edited = replace(view.of.text, edits=every(view.path.cut(number, other) for number in cuts))
    after = None
    with errors_shown():
        after = run_pass(edited, view.capture.model, MAX_TOKENS, components=True)
    if after is None:
        return
    answer_after = 0.0 if view.path.answer is None else results.number_after(view.of, edited)
    told = [_cut_in_numbers(view, number, cut_effect(view.path, number, after, answer_after), other) for number in cuts]
    if view.of.token is not None:
        shares = [
            next_probabilities(one.logits)[view.of.token] for one in (view.capture, after) if one.logits is not None
        ]
        told.append(f"{quoted(view.texts[0])} comes next: {' → '.join(f'{share:.1%}' for share in shares)}.")
    presenting.tell(" ".join(told))


def _cut_in_numbers(view: View, number: int, effect: CutEffect, other: str | None) -> str:
    hop = view.path.stops[number].hop
    where = f" in the {hop.side} of {view.path.stops[number - 1].hop.component}" if number else ""
    said = f"Without {hop.component}{where}" if other is None else f"With {hop.component} as in {quoted(other)}{where}"
    what = "its score" if number else "the cosine" if view.of.token is None else "the difference"
    change = f"{said} {what} goes {signed(effect.before)} → **{signed(effect.after)}**"
    return f"{change}." if effect.predicted is None else f"{change}; predicted {signed(effect.predicted)}."
