"""One claim: examples of it, and what its head does where it speaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from core import Model
from core.claims.consequences import MUTED, PATCHED, muting, patching, says_what
from core.claims.examples import MOST_PASSAGES, ClaimExample, claim_examples, for_testing
from core.figures.plots.intervals import intervals
from core.units import listed
from ui import presenting, state
from ui.calls import result_of
from ui.components.token_view import shade_legend, shaded_text
from ui.controls.fields import menu
from ui.markdown import plain, quoted
from ui.progress import run
from ui.views.charts import show_chart
from ui.views.claims import results
from ui.views.claims.results import OneClaim
from ui.views.numbers import of_table
from ui.views.sources.models import NEXT_TOKENS, missing

EXAMPLES = {"clearest": "Clearest examples", "counter": "Counter-examples"}
SHOWN, NAMED = 3, 3  # examples; keys of each that are named
EFFECTS = "what it does"


def show_examples(of: OneClaim, network: Model) -> None:
    """Show the queries with the largest or the smallest shares as shaded text."""
    result_of(claim_examples, *_given(of, network))
    count = len(for_testing(results.passages(of.model, of.texts), MOST_PASSAGES))
    if not count or (found := run(results.examples.task(of), "Looking for examples", count, unit="passage")) is None:
        return
    which = menu("Examples", state.CLAIM_EXAMPLES, EXAMPLES, look="buttons", label_visibility="collapsed")
    examples = found[which == "counter"][:SHOWN]
    if not examples:
        st.info("No passage has a query that the claim speaks of.")
        return
    limit = max(float(example.weights.max()) for example in examples)
    with presenting.aside():
        shade_legend(limit, key=state.SHADES)
        for number, example in enumerate(examples):
            key = state.one_of(state.SHADED, number)
            shaded_text(example.tokens, example.weights, example.query, limit=limit, key=key)
            if example.keys.sum() > 1 or not example.keys[example.weights.argmax()]:  # else the text above says it
                st.markdown(_in_words(example))


def _given(of: OneClaim, network: Model) -> tuple[Any, ...]:
    """What the functions of core are given, for "As Python"."""
    return network, of.claim, of.place, results.passages_written(network, of.texts)


def _in_words(example: ClaimExample) -> str:
    at = np.flatnonzero(example.keys)
    strongest = at[np.argsort(-example.weights[at], kind="stable")]
    names = list(dict.fromkeys(quoted(example.tokens[key]) for key in strongest))
    return f"{quoted(example.tokens[example.query])} gives **{example.share:.0%}** to {listed(names, NAMED)}"


def show_effects(of: OneClaim, network: Model) -> None:
    """Show what muting and patching the head change, with their errors."""
    st.markdown("**What the head does where the claim speaks**")
    if (lacking := missing(network, NEXT_TOKENS)) is not None:
        st.caption(f"Its losses are not known: {plain(lacking)}")
        return
    passages = results.passages(of.model, of.texts)
    tasks = (results.muted.task(of), "Muting the head", MUTED), (results.patched.task(of), "Patching it", 4 * PATCHED)
    tables = []
    for task, what, most in tasks:
        if (found := run(task, what, max(1, len(for_testing(passages, most))), unit="passage")) is None:
            return
        tables.append(found)
    muted, patched = tables
    result_of(muting, *_given(of, network))
    result_of(patching, *_given(of, network))
    st.markdown(says_what(muted, patched))
    names = [f"Muted: {where}" for where in muted["where"]]
    names += [f"Patched: {changed} changed" for changed in patched["changed"]]
    values = np.concatenate([one[["change", "error"]].to_numpy(np.float64) for one in tables])
    change, error = values.T
    ends, groups = (change - 2 * error, change, change + 2 * error), {"Muted": [0, 1], "Patched": [2, 3]}
    chart = intervals(names, groups, ends, x="Change of the loss (nats a token)", form=".3f")
    layer, head = of.place
    title = f"What head {layer}.{head} does where the claim speaks"
    numbers = of_table("effects", title, values, ("change", names), ("number", ["change", "error"]))
    show_chart(chart, EFFECTS, f"{title}, with two standard errors to each side.", title=title, numbers=numbers)
    st.caption(
        f"{muted['tokens'].sum():,} tokens of {muted['passages'].max()} passages are read with and without the head. "
        f"Patched: its output comes from a copy with other tokens, for {patched['queries'].max()} queries. "
        "Lines reach two standard errors to each side."
    )
