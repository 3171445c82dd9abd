"""The page "Claims": its verdicts, its examples and what a head does are what core gives for the same model and texts."""

import re
from itertools import pairwise

import numpy as np
import pytest

from core import check_claims, load_model
from core.claims import consequences
from core.claims.checking import MAX_TOKENS
from core.claims.claim import Claim
from core.claims.consequences import muting, patching, says_what
from core.claims.examples import claim_examples
from core.claims.known import included_texts, known_claims
from core.claims.verdicts import sentence
from core.models.passages import passages_of
from tests.browser.driver import array
from tests.core.tiny_models import tiny
from tests.pages.app import MINILM, choose, figure, opened, press, saved, words
from tests.ui.sharing.test_as_python import View, run_lines
from ui import state
from ui.views.claims import results
from ui.views.claims.page import EFFECTS, OF_ANY_MODEL, OPENINGS, PICTURE, SHOWN

SOME = 18
LINES = """\
# two of one head
16.0: when not the token is the first, looks at the previous token, at least 0.4
16.0: when not the token is the first, looks at itself, at least 0.2"""
NAMES = "Ann Tom Eve Max Ida Leo Mia Ben Zoe Kim Jon Sue Ray Ann Mia Tom Ben Eve Kim Max Sue"
# Passages with 8 and more in the half for testing.
OWN = "\n\n".join(
    f"{name} gave {other} the red book, and {other} gave {name} the blue one."
    for name, other in pairwise(NAMES.split())
)


@pytest.fixture(scope="module")
def verdicts(minilm):
    """On fewer of the included texts, as the page now has them too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "SOME", SOME)
        yield check_claims(minilm, OF_ANY_MODEL.splitlines(), included_texts()[:SOME])


def said(app) -> str:
    return words(app).replace("**", "")


def of_the_picture(app, name: str) -> dict[str, list[float]]:
    """By the names of its groups and marks: the numbers."""
    return {trace["name"]: array(trace["x"]).tolist() for trace in figure(app, name).data}


@pytest.mark.thorough
def test_every_claim_has_the_numbers_of_core(minilm, verdicts):
    app = opened("claims")
    best = verdicts.iloc[0]
    assert best["verdict"] == "holds"
    assert sentence(best, "the previous token") in said(app)
    queries = f"{best['queries']:,} queries in {best['passages']} passages for testing;"
    assert f"{queries} {(verdicts['verdict'] == 'holds').sum()} of 4 claims hold." in said(app)
    drawn = of_the_picture(app, PICTURE)
    for verdict, rows in verdicts.groupby("verdict"):
        np.testing.assert_allclose(drawn[str(verdict).capitalize()], rows["share"], rtol=1e-6)
    np.testing.assert_allclose(drawn["Chance"], verdicts["null"], rtol=1e-6)
    assert drawn["Least share"] == [0.4, 0.4, 0.3, 0.3]
    for trace in figure(app, PICTURE).data:
        if "error_x" in trace:
            rows = verdicts[verdicts["verdict"] == trace["name"].lower()]
            np.testing.assert_allclose(array(trace["error_x"]["array"]), rows["high"] - rows["share"], atol=1e-9)
            np.testing.assert_allclose(array(trace["error_x"]["arrayminus"]), rows["share"] - rows["low"], atol=1e-9)
    assert "Its losses are not known: all-MiniLM-L6-v2 predicts no next token." in said(app)
    claim = Claim.read(OF_ANY_MODEL.splitlines()[1])
    passages = passages_of([minilm], included_texts()[:SOME], MAX_TOKENS)
    layer, head = map(int, verdicts["head"][1].split("."))
    app = opened("claims", claim="1")
    both = claim_examples(minilm, claim, (layer, head), passages)
    for which, found in zip(("clearest", "counter"), both, strict=True):
        app = choose(app, state.CLAIM_EXAMPLES, which)
        # Where its only key has the largest weight, the shaded text itself says so.
        others = [one for one in found[:SHOWN] if not one.keys[one.weights.argmax()]]
        assert re.findall(r"” gives (\d+%) to ", said(app)) == [f"{example.share:.0%}" for example in others]
        assert bool(others) == (which == "counter")


def test_a_claim_that_is_chosen_speaks_of_these_claims_only():
    own = {state.CHECKED_ON: "own", state.TEXTS: OWN, state.CLAIMS: OF_ANY_MODEL}
    app = opened("claims", claim="1", **own)
    assert app.selectbox(key=state.CLAIM).value == 1
    assert app.session_state[state.ADDRESS][state.CLAIM] == ["1"]
    app = choose(app, state.CLAIMS, "\n".join(OF_ANY_MODEL.splitlines()[1:3]))
    assert app.selectbox(key=state.CLAIM).value == 0
    assert state.CLAIM not in app.session_state[state.ADDRESS]


def test_what_a_head_does_has_the_numbers_of_core(monkeypatch, tmp_path):
    monkeypatch.setattr(consequences, "MUTED", 3)  # passages: each is read several times
    monkeypatch.setattr(consequences, "PATCHED", 3)
    texts = [" ".join(map(str, (5 + place, 17, 8 + place, 5 + place, 40, 17, 3 + place))) for place in range(20)]
    own = {state.CHECKED_ON: "own", state.TEXTS: "\n\n".join(texts), state.CLAIMS: LINES.replace("16.0", "1.2")}
    model = load_model(saved(tmp_path, tiny("Llama")))
    app = opened("claims", model=str(tmp_path), **own)
    claim = Claim.read(own[state.CLAIMS].splitlines()[1])
    assert sentence(check_claims(model, [claim], texts).iloc[0], "the previous token") in said(app)
    passages = passages_of([model], texts, MAX_TOKENS)
    muted, patched = (of(model, claim, (1, 2), passages) for of in (muting, patching))
    drawn = of_the_picture(app, EFFECTS)
    np.testing.assert_allclose(drawn["Muted"], muted["change"], atol=1e-9)
    np.testing.assert_allclose(drawn["Patched"], patched["change"], atol=1e-9)
    assert np.abs(drawn["Patched"]).min() > 0
    error = array(figure(app, EFFECTS).data[0]["error_x"]["array"])
    np.testing.assert_allclose(error, 2 * muted["error"], atol=1e-9)
    assert says_what(muted, patched) in said(app)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("16.0: looks at itself, at least 0.2\n\nno claim", "Line 3: “no claim” is not a claim."),
        (
            "16.0: looks at the moon, at least 0.2",
            "Line 1: “the moon” has “the moon” where a set of keys should stand.",
        ),
        ("16.0: looks at itself, at least 0.2", "there is no head 16.0; they run from 0.0 to 5.11"),
        ("0.0: looks at its nsubj, at least 0.2", "Test it on a .conllu file."),
        ("", "There is no claim in it."),
    ],
)
def test_a_claim_that_cannot_be_read_is_said_below_the_field(lines, why):
    assert why in said(opened("claims", claims=lines or "#"))


def test_no_text_and_too_many_are_said():
    own = {state.CHECKED_ON: "own"}
    assert "no text" in said(opened("claims", texts=" \n\n ", **own))
    assert "100,001 characters; this page reads at most 100,000" in said(opened("claims", texts="a" * 100_001, **own))


def test_too_few_passages_say_nothing():
    """Nor is there an interval of one group of passages."""
    app = opened("claims", checked_on="own", texts="One text alone, and nothing after it.\n\nThe other is for testing.")
    assert "Cannot be said: " in said(app)
    assert "rank 1 of 72" in said(app)
    assert "nan" not in said(app)
    assert "0 of 4 claims hold" in said(app)


def test_a_claim_that_speaks_of_nothing_says_so_and_has_no_examples():
    nothing = 'any head: when the token is one of "zebra", looks at itself, at least 0.5'
    lines = f"0.2: looks at the previous token, at least 0.5\n{nothing}"
    app = opened("claims", **{state.CLAIMS: lines, state.CLAIM: "1", state.CHECKED_ON: "own", state.TEXTS: OWN})
    assert "Cannot be said: 0 queries in 0 passages speak of it." in said(app)
    assert "rank" not in said(app)
    assert "rank 1 of 72" in said(choose(app, state.CLAIM, "1 · 0.2: the previous token"))


def test_the_field_opens_with_claims_about_the_chosen_model(monkeypatch, tmp_path):
    model = saved(tmp_path, tiny("Llama"))
    monkeypatch.setitem(OPENINGS, model, LINES)
    app = opened("claims", checked_on="own", texts="5 17 8")
    for chosen, opening in ((MINILM, OF_ANY_MODEL), (model, LINES), (MINILM, OF_ANY_MODEL)):
        assert choose(app, state.MODEL, chosen).text_area(key=state.CLAIMS).value == opening
    app = choose(app, state.CLAIMS, OF_ANY_MODEL.splitlines()[0])
    assert choose(app, state.MODEL, model).text_area(key=state.CLAIMS).value == OF_ANY_MODEL.splitlines()[0]


@pytest.mark.thorough
def test_its_lines_give_the_same_numbers(verdicts, tmp_path):
    lines = View("claims").lines
    table, examples = run_lines(lines, tmp_path)["results"]
    assert table.equals(verdicts)
    assert len(examples[0]) == 10


@pytest.mark.thorough
@pytest.mark.usefixtures("claims_of_few_texts")
def test_the_known_claims_fill_the_field(monkeypatch):
    monkeypatch.setattr(results, "included_texts", lambda: included_texts()[:2])
    app = press(opened("claims", checked_on="own", texts=OWN, claims=LINES.replace("16.0", "1.0")), "Known claims")
    assert app.text_area(key=state.CLAIMS).value == "\n".join(map(str, known_claims()))
    assert app.selectbox(key=state.CHECKED_ON).value == "included"
