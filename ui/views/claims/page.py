"""The page Claims: sentences about heads and their verdicts, as the passages come; one of them is looked at closely."""

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Model, check_claims
from core.capturing.costs import kept_bytes
from core.claims.checking import ClaimCheck
from core.claims.claim import ANY, EXAMPLE, MOST_CLAIMS, Claim, read_claims
from core.claims.consequences import MUTED, PATCHED, muting, patching, says_what
from core.claims.examples import MOST_PASSAGES, ClaimExample, claim_examples, for_testing
from core.claims.terms import CONDITIONS, KEYS
from core.claims.verdicts import RULE, sentence, share_of
from core.figures.plots.lines import intervals
from core.heads.examples import LANGUAGE_MODEL
from core.models.passages import passages_of
from core.units import counted, listed
from ui import links, presenting, shown, state
from ui.cache import MEMORY
from ui.calls import expression, result_of
from ui.components.token_view import shade_legend, shaded_text
from ui.controls.fields import menu, text_area
from ui.markdown import errors_shown, plain, quoted
from ui.progress import fill, run
from ui.requests import ModelChoice
from ui.views.charts import show_chart, table
from ui.views.claims import results
from ui.views.claims.results import OneClaim, Texts
from ui.views.numbers import of_table
from ui.views.sources.models import NEXT_TOKENS, QUERIES_AND_KEYS, TEXTS, missing
from ui.views.sources.text_fields import choose_model, read_model, typed_passages

OF_ANY_MODEL = f"""\
{ANY}: when not the token is the first, looks at the previous token, at least 0.4
{ANY}: when not the token is the first, looks at the first token, at least 0.4
{ANY}: when the token occurred before, looks at its occurrences, at least 0.3
{ANY}: when the token occurred before, looks at the tokens after its occurrences, at least 0.3"""
OPENINGS = {
    LANGUAGE_MODEL: f"""\
16.0: when not the token is the first, looks at the previous token, at least 0.4
17.3: when the token occurred before, looks at the tokens after its occurrences, at least 0.2
17.3: when the token occurred before, looks at its occurrences, at least 0.2
{ANY}: when the token occurred before, looks at its occurrences, at least 0.3"""
}
READ = {"some": "Some prose", "included": "All that come along, with annotated sentences", "own": "Your own"}
SAID = ("holds", "does not hold", "cannot be said")
PICTURE = "claims"
EXAMPLES = {"clearest": "Clearest examples", "counter": "Counter-examples"}
SHOWN, NAMED = 3, 3  # examples; keys of each that are named
EFFECTS = "what it does"
SHARES = ("share", "low", "high", "recall", "precision", "chance", "base_rate", "null", "looking")
COUNTS = ("queries", "passages", "rank", "heads")


def show_claims() -> None:
    answer, place, controls = st.container(gap=None), st.empty(), st.container(horizontal=True)
    written, problem = st.container(), st.container(gap="xxsmall")
    with controls:
        with st.container(width=250):
            choice = ModelChoice(choose_model(problem))
        texts = _choose_texts()
        st.button("Known claims", key=state.KNOWN_CLAIMS, on_click=lambda: links.put_all(results.known_address()))
        _show_words()
    with written:
        lines = _field(choice.name)
    with errors_shown(problem):
        claims = read_claims(lines)
        network = read_model(choice, place, problem, problem, QUERIES_AND_KEYS, TEXTS)
        if network is not None:
            MEMORY.check(2 * kept_bytes(network, results.most_tokens()))
            _show(choice, network, claims, texts, answer)


def _field(model: str) -> str:
    """The field for claims. Until somebody edits it, it opens with claims about the chosen model."""
    opening = OPENINGS.get(model, OF_ANY_MODEL)
    if st.session_state.get(state.CLAIMS) in {OF_ANY_MODEL, *OPENINGS.values()} - {opening}:
        st.session_state[state.CLAIMS] = opening
    look = {"height": 122, "label_visibility": "collapsed", "placeholder": EXAMPLE}
    return text_area(f"Claims, a line each, at most {MOST_CLAIMS}", state.CLAIMS, opening, **look)


def _choose_texts() -> Texts:
    with st.popover("Texts", icon=":material/notes:"):
        read = menu("Tested on", state.CHECKED_ON, READ)
        texts = Texts(0, typed_passages(300)) if read == "own" else Texts(results.SOME if read == "some" else None)
        st.caption("For a whole corpus: `python -m core.claims check`.")
    return texts


def _show_words() -> None:
    """List what a claim may say."""
    with st.popover("Words"):
        st.markdown(f"`{EXAMPLE}`")
        for heading, terms in (("Conditions", CONDITIONS), ("Keys", KEYS)):
            table([heading, "Definition"], [[plain(term.name), plain(term.words)] for term in terms])
        st.caption("q is the query’s position, k the key’s. Join words by and, or, not and brackets.")


# --- all claims


def _show(choice: ModelChoice, network: Model, claims: tuple[Claim, ...], texts: Texts, answer: DeltaGenerator) -> None:
    check = results.checking(choice, claims, texts)
    every, one = st.columns([1, 1], gap="medium")
    with every:
        found = _test(check, claims, (choice, claims, texts), answer)
    if found is None:
        return
    result_of(
        check_claims, network, [str(claim) for claim in claims], texts.written(), max_tokens=results.most_tokens()
    )
    best = _most_clearly(found)
    with answer:
        _say_finding(found, claims, best)
    with every:
        _list(found)
    with one:
        names = {place: f"{place + 1} · {name}" for place, name in enumerate(_names(found, claims))}
        chosen = menu("Claim", state.CLAIM, names, opening=best, label_visibility="collapsed")
        row = found.iloc[chosen].to_dict()
        if not row["queries"]:  # no head has been chosen for "any head"
            st.caption(plain(sentence(row)), help=RULE)
            return
        layer, head = map(int, str(row["head"]).split("."))
        of = OneClaim(choice, texts, claims[chosen], (layer, head))
        rank = f"rank {row['rank']:.0f} of {row['heads']}"
        st.caption(plain(f"{row['verdict'].capitalize()}: {share_of(row)}, {rank}"), help=RULE)
        _show_examples(of, network)
    with every, presenting.aside():
        _show_effects(of, network)


def _test(check: ClaimCheck, claims: tuple[Claim, ...], job: tuple, answer: DeltaGenerator) -> pd.DataFrame | None:
    """Test, and draw the verdicts as they come. Return them; None while no passage is read."""
    found = None

    def draw(last: bool) -> None:
        nonlocal found
        found = check.table()
        part = "" if check.done == check.total else f", {check.done} of {check.total} passages"
        name = PICTURE if last else f"{PICTURE} {check.done}"
        _draw(found, claims, name, f"What the claims’ keys get{part}")

    with answer:
        waits = st.empty()
        waits.markdown("### Testing the claims", anchors=False)
    fill(check, job, "Testing the claims", draw, unit="passage", done="read")
    waits.empty()
    return found


def _names(found: pd.DataFrame, claims: tuple[Claim, ...]) -> list[str]:
    any_head = [" (any head)" if claim.place is None else "" for claim in claims]
    return [f"{row}{any_}: {claim.keys}" for row, any_, claim in zip(found["head"], any_head, claims, strict=True)]


def _draw(found: pd.DataFrame, claims: tuple[Claim, ...], name: str, title: str) -> None:
    verdict = found["verdict"].to_numpy()
    groups = {said.capitalize(): np.flatnonzero(verdict == said).tolist() for said in SAID if (verdict == said).any()}
    ends = found["low"], found["share"], found["high"]
    marks = {"Least share": [claim.least for claim in claims], "Chance": found["null"].to_numpy()}
    of = "attention, or of queries" if any(claim.is_about_writing for claim in claims) else "attention"
    look: dict[str, Any] = {"x": f"Share of {of}", "form": ".1%", "marks": marks, "limits": (0, 1.02)}
    chart = intervals(_names(found, claims), groups, ends, **look)
    chart.layout["xaxis"]["tickformat"] = ".0%"
    show_chart(chart, name, f"{title}, with intervals, beside the least share and chance.", title=title)


def _most_clearly(found: pd.DataFrame) -> int:
    """The claim that holds most clearly, or where none does, the first that can be judged."""
    order = [SAID.index(said) for said in found["verdict"]]
    above = (found["low"] - found["null"]).fillna(0).to_numpy()
    return min(range(len(found)), key=lambda row: (order[row], -above[row] if order[row] == 0 else row))


def _say_finding(found: pd.DataFrame, claims: tuple[Claim, ...], best: int) -> None:
    row = found.iloc[best].to_dict()
    words, share = plain(sentence(row, claims[best].keys)), plain(f"{row['share']:.1%}")
    presenting.finding(words.replace(share, f"**{share}**", 1))
    held = [*found["verdict"]].count("holds")
    read = f"{counted(row['queries'], 'query')} in {counted(row['passages'], 'passage')} for testing"
    presenting.tell(
        f"{read}; {held} of {counted(len(found), 'claim')} {'holds' if 1 in (held, len(found)) else 'hold'}."
    )


def _list(found: pd.DataFrame) -> None:
    listed = found[["head", "verdict", "claim", "queries", "passages", *SHARES[:7], "rank", "null", "looking"]]
    columns: dict[str, Any] = {
        name: st.column_config.NumberColumn(name.replace("_", " "), format="percent") for name in SHARES
    }
    columns["claim"] = st.column_config.TextColumn(width="medium")
    st.dataframe(listed, hide_index=True, column_config=columns, height=min(36 * len(listed) + 38, 250))
    st.caption("One row a claim; all numbers but “looking” are from the half for testing.", help=RULE)
    names = [f"{claim} → {head}: {said}" for claim, head, said in found[["claim", "head", "verdict"]].to_numpy()]
    numbers = [*COUNTS, *SHARES]
    values = found[numbers].to_numpy(np.float64)
    shown.now().lists["Verdicts"] = of_table("verdicts", "Verdicts", values, ("claim", names), ("number", numbers))


# --- one claim


def _show_examples(of: OneClaim, network: Model) -> None:
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
            if of.claim.is_about_writing:
                st.markdown(_written_in_words(example))
            elif example.keys.sum() > 1 or not example.keys[example.weights.argmax()]:  # else the text above says it
                st.markdown(_in_words(example))


def _given(of: OneClaim, network: Model) -> tuple[Any, ...]:
    """What the functions of core are given, for "As Python"."""
    return network, of.claim, of.place, expression(passages_of, [network], of.texts.written(), results.most_tokens())


def _in_words(example: ClaimExample) -> str:
    at = np.flatnonzero(example.keys)
    strongest = at[np.argsort(-example.weights[at], kind="stable")]
    names = list(dict.fromkeys(quoted(example.tokens[key]) for key in strongest))
    return f"{quoted(example.tokens[example.query])} gives **{example.share:.0%}** to {listed(names, NAMED)}"


def _written_in_words(example: ClaimExample) -> str:
    looks = f"{quoted(example.tokens[example.query])} looks at {quoted(example.tokens[int(example.keys.argmax())])}"
    return f"{looks}, which the head {'**writes**' if example.share else 'does **not** write'}"


def _show_effects(of: OneClaim, network: Model) -> None:
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
