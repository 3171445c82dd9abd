"""What the pages ask of a model: every text is read once, whatever is looked at afterwards; long work asks first."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from core import capture, logit_attribution
from core.attention.rowwise import strongest_cell
from core.claims import known
from core.heads.metrics import head_metrics, most_telling
from core.heads.patterns import blocks, columns, diagonal, match_heads
from core.heads.probing import probe_heads
from core.heads.views import HeadView, ViewMatrix
from core.models import tokens
from core.models.words import word_starts
from tests.core.tiny_models import number_words, tiny
from tests.pages import app as pages
from tests.pages.app import address, drawn, fields, figure, go, has, links, new, part, ran, texts, words
from ui import state
from ui.cache import Store
from ui.requests import ModelChoice, TextRequest
from ui.views.sources import models
from ui.views.sources.passes import captured, probe

MODEL = pages.MINILM


@pytest.fixture
def passes():
    """Tells how often the network has run since the last time somebody asked."""
    seen = []

    def count():
        found = len(seen)
        seen.clear()
        return found

    handle = models.load(MODEL).network.register_forward_pre_hook(lambda *_: seen.append(1))
    yield count
    handle.remove()


@pytest.fixture
def atlas() -> AppTest:
    return go(new(), "heads")


def checked(app: AppTest) -> AppTest:
    assert not app.error, app.error
    return app


def choose(app: AppTest, key: str, value: object) -> AppTest:
    return checked(pages.choose(app, key, value))


@pytest.mark.parametrize("page", ["heads", "step_by_step"])
def test_another_head_writes_no_token_again(atlas, page, monkeypatch):
    """A text of 4,096 tokens would take longer than its picture."""
    app = choose(go(atlas, page), state.HEAD_BOX, "1.1")
    asked = []
    monkeypatch.setattr(tokens, "_spelling", lambda *_: asked.append(1))
    choose(app, state.HEAD_BOX, "1.2")
    assert not asked


def test_a_text_is_read_once_and_the_probe_runs_once(atlas, passes, monkeypatch):
    passes()
    first, second = "A text for the counter.", "Another one for the counter."
    for text in (first, second):
        choose(atlas, state.TEXT, text)
        assert passes() == 1, text

    for key, value in (
        *((state.METRIC, "entropy"), (state.HEAD_BOX, "2.3"), (state.ATLAS_BY, "Small pictures")),
        *((state.METRIC, "pattern"), (state.LOOK_FOR, "Blocks"), (state.AT_LEAST, 0.1)),
        *((state.SHOWN_AS, "Text"), (state.SHOWN_AS, "Lines"), (state.SHOWN_AS, "Heatmap")),
        *((state.QUANTITY, "Weights × value × W_O"), (state.QUANTITY, "Scaled scores"), (state.QUANTITY, "Weights")),
        *((state.LEAVE_OUT, ["First token"]), (state.RENORMALISE, True), (state.BY_WORD, True)),
        *((state.MEAN_OF, ["0.1", "5.2"]), (state.METRIC, "self"), (state.QUERY, 2)),
    ):
        choose(atlas, key, value)
        assert passes() == 0, (key, value)

    monkeypatch.setattr(probe, "store", Store(4))  # another test may have asked already
    choose(atlas, state.METRIC, "induction")
    assert passes() == 8
    for metric in ("entropy", "duplicate"):
        choose(atlas, state.METRIC, metric)
    for page in ("step_by_step", "heads"):
        go(atlas, page)
        assert atlas.get_by_key(state.TEXT).value == second
    choose(atlas, state.TEXT, first)
    assert passes() == 0


def test_a_pass_of_another_page_is_not_shown_beyond_the_limit_of_this_one(passes):
    """The atlas shows any length, the pages with the stages of a head do not."""

    def page(max_tokens):
        from ui.views.sources.text_fields import choose_text

        choose_text(max_tokens=max_tokens)

    said = {state.MODEL: MODEL, state.TEXT: "attention " * 60}
    passes()
    assert not part(page, None, **said).error
    assert "The text has 62 tokens; at most 50 can be read" in texts(part(page, 50, **said).error)
    assert passes() == 1


def by_link(said: dict[str, str | list[str]]) -> AppTest:
    return checked(go(new(), "heads", **said))


def places(app: AppTest) -> dict[str, list[str]]:
    return {key: address(app, key) for key in (state.QUERY, state.KEY)}


def finding(app: AppTest) -> list[Any]:
    """The button that names the head which gives most to the chosen key."""
    return [button for button in app.button if "gives most" in button.label]


def test_what_cannot_be_drawn_of_a_blank_text_stays_in_the_address():
    """Not so the places of the old text."""
    stays = {state.METRIC: ["entropy"], state.LAYER: ["2"]}
    app = by_link({**stays, state.QUERY: ["2"]})
    for text in (" ", "  ", "A text again"):
        app.get_by_key(state.TEXT).set_value(text).run()
        assert bool(app.error) == text.isspace()
        assert app.session_state[state.ADDRESS] == {state.TEXT: [text], **stays}


# --- all heads by one pair of tokens

SENTENCE = "The animal didn't cross the street because it was too tired."
IT_AT_ANIMAL = {state.METRIC: "pair", state.QUERY: "10", state.KEY: "2"}
SMOLLM = {state.MODEL: pages.SMOLLM}


def test_heads_are_ranked_by_what_they_contribute_to_the_next_token():
    text = "The capital of France is"
    app = by_link(SMOLLM | {state.METRIC: "contribution", state.TEXT: text, state.LAYER: "23", state.HEAD: "4"})
    taken = capture(models.load(ModelChoice(SMOLLM[state.MODEL])), text, components=True)
    attribution = logit_attribution(taken, against="mean").query("role == 'head'")
    expected = attribution.pivot(index="layer", columns="head", values="contribution")
    np.testing.assert_allclose(drawn(app, "atlas"), expected, rtol=1e-4, atol=1e-6)
    assert "adds to the logit of “·Paris”, the most probable next token (77.3%)" in words(app)
    assert app.dataframe[0].value.iloc[0][["layer", "head"]].tolist() == [23, 4]
    offered = choose(app, state.MODEL, MODEL).get_by_key(state.METRIC).options
    assert not any("next token" in option for option in offered)


def test_heads_are_ranked_by_the_pair_of_tokens_in_the_address():
    """Each number is the weight of that head's own trace; the finding names the largest and opens its head."""
    app = by_link(IT_AT_ANIMAL | {state.LAYER: "0", state.HEAD: "2"})
    taken = captured(TextRequest(ModelChoice(MODEL), SENTENCE))
    expected = [[taken.trace(layer, head).weights[10, 2] for head in range(12)] for layer in range(6)]
    np.testing.assert_allclose(drawn(app, "atlas"), expected, rtol=1e-4, atol=1e-7)
    assert "The weight that “it (10)” gives to “animal (2)” in each head." in words(app)
    assert app.dataframe[0].value.iloc[0][["layer", "head"]].tolist() == [3, 1]
    (button,) = finding(app)
    assert button.label == "**3.1** gives most from “it” to “animal” (67.7%)"
    button.click()
    checked(ran(app))
    assert app.get_by_key(state.HEAD_BOX).value == "3.1"
    boxes = {box.key: box for box in app.selectbox}
    chosen = [boxes[key].options[int(boxes[key].value)] for key in (state.QUERY, state.KEY)]
    assert chosen == ["it (10)", "animal (2)"]


def test_the_suggested_pair_stays_while_other_heads_are_opened():
    """Each head suggests another pair: without a choice, opening the best head would rank by its own pair."""
    app = by_link({state.METRIC: "pair", state.LAYER: "0", state.HEAD: "2"})
    first, ranked = places(app), drawn(app, "atlas")
    assert all(first.values())
    choose(app, state.HEAD_BOX, "3.4")
    assert places(app) == first
    np.testing.assert_array_equal(drawn(app, "atlas"), ranked)
    choose(choose(app, state.METRIC, "sink"), state.METRIC, "pair")
    assert places(app) == first


def test_a_pair_that_is_masked_is_said_to_be_and_is_never_a_zero():
    app = by_link(IT_AT_ANIMAL | SMOLLM | {state.QUERY: "2", state.KEY: "7"})
    assert "may not look at" in words(app)
    assert "this pair is masked. A query of this model does not look at later tokens." in words(app)
    assert not finding(app)
    atlas = figure(app, "atlas")
    assert np.isnan(atlas.values).all()
    assert atlas.forbidden.all()
    assert "masked" in {trace.get("name") for trace in atlas.data}


def test_a_pair_is_one_of_tokens_not_of_words():
    app = by_link(IT_AT_ANIMAL | {state.BY_WORD: "true"})
    assert "Switch off “Words instead of tokens”." in words(app)
    assert not has(app, "atlas")
    choose(app, state.BY_WORD, False)
    assert finding(app)[0].label.startswith("**3.1** gives most")


# --- what is drawn


def test_what_is_shown():
    """Only this test finds switches that are right one by one and draw wrong numbers one after the other."""
    text = "The cat saw the dog; the untangled dog saw the cat!"
    app = by_link({state.METRIC: "sink", state.TEXT: text, state.LAYER: "3", state.HEAD: "5"})
    model = models.load(MODEL)
    taken = capture(model, text)
    tokens = len(taken.input_ids)
    assert len(word_starts(model.tokenizer, taken.input_ids)) < tokens

    def shows(*notes: str, **options: Any) -> NDArray:
        expected = ViewMatrix(taken, "self", HeadView(**({"heads": ((3, 5),)} | options))).overview()
        view = expected.matrices["view"].values
        np.testing.assert_allclose(drawn(app, "head"), view, rtol=1e-5, atol=1e-5 * np.nanmax(np.abs(view)))
        assert [note for note in notes if note not in words(app)] == []
        return expected.row_numbers["removed"]

    def left_out(count: int, removed: NDArray) -> tuple[str, str]:
        shares = f"{removed.mean():.1%} on average, {removed.min():.1%} to {removed.max():.1%}"
        return f"{count} of {tokens} tokens are left out as keys", shares

    first, both = frozenset({"first"}), frozenset({"first", "special"})
    fields(app, **{state.LEAVE_OUT: ["first"]})
    removed = shows(left_out=first)
    shows(*left_out(1, removed), left_out=first)
    np.testing.assert_allclose(removed, taken.trace(3, 5).weights[:, 0], rtol=1e-5)
    fields(app, **{state.LEAVE_OUT: ["first", "special"]})
    shows(*left_out(2, shows(left_out=both)), "the rest is as it was", left_out=both)
    fields(app, **{state.RENORMALISE: True})
    whole = {"left_out": both, "renormalise": True}
    shows(*left_out(2, shows(**whole)), "what remains of each row is scaled to sum to 1", **whole)
    fields(app, **{state.BY_WORD: True})
    shows("averaged over them as queries", **whole, by_word=True)
    fields(app, **{state.LEAVE_OUT: []})
    shows(by_word=True)
    assert "left out as keys" not in words(app)
    fields(app, **{state.BY_WORD: False})
    for word, quantity in (("value-weighted", "values"), ("output-weighted", "outputs"), ("raw", "raw")):
        fields(app, **{state.QUANTITY: word})
        shows(quantity=quantity)
    fields(app, **{state.QUANTITY: "weights", state.MEAN_OF: ["2.3", "4.1"]})
    shows("Mean of 2 heads: 2.3, 4.1", heads=((2, 3), (4, 1)))


def test_each_kind_of_pattern_is_looked_for():
    app = by_link({state.METRIC: "pattern"})
    taken = capture(models.load(MODEL), SENTENCE)
    for values, pattern in (
        ({}, diagonal(1)),
        ({state.BACK: -1}, diagonal(-1)),
        ({state.LOOK_FOR: "stripes"}, columns([0, 1])),
        ({state.STRIPES: "2, 15"}, columns([2, 15])),
        ({state.LOOK_FOR: "blocks"}, blocks(4)),
        ({state.BLOCK_LENGTH: 3}, blocks(3)),
    ):
        np.testing.assert_allclose(
            drawn(fields(app, **values), "atlas"), match_heads(taken, pattern), rtol=1e-5, err_msg=str(values)
        )


def of_list(app: AppTest) -> dict[tuple[int, int], str]:
    """What the list of heads says of each, where it says anything of known claims."""
    listed = app.dataframe[0].value
    return dict(zip(zip(listed["layer"], listed["head"], strict=True), listed["known claims"], strict=True))


def test_each_head_says_at_once_which_known_claims_hold(minilm):
    rows = known.measured(minilm.revision)
    rows = rows[rows["verdict"] == "holds"]
    expected = {}
    for name, head, share, low, high in rows[["name", "head", "share", "low", "high"]].to_numpy():
        place = tuple(map(int, head.split(".")))
        expected.setdefault(place, []).append(f"{name} {share:.1%} ({low:.1%} to {high:.1%})")
    assert (0, 2) in expected
    assert max(map(len, expected.values())) > 1
    app = go(new(), "heads", layer="0", head="2")
    assert of_list(app) == {place: "; ".join(expected.get(place, [])) for place in np.ndindex(6, 12)}
    assert f"holds: {expected[0, 2][0]}" in words(app)
    trace = next(trace for trace in figure(app, "atlas").data if trace["type"] == "heatmap")
    for place in np.ndindex(6, 12):
        assert trace["customdata"][place[0]][place[1]] == "".join(f"<br>{one}" for one in expected.get(place, []))
    assert "%{customdata}" in trace["hovertemplate"]
    best = rows[rows["name"] == "special tokens"].nlargest(1, "share").iloc[0]
    assert f"special tokens {best['head']} ({best['share']:.0%})" in words(app)
    assert "holds: " not in words(go(new(), "heads", layer="5", head="11"))


def test_what_is_published_of_heads_stands_on_the_page(tmp_path):
    """Of GPT-2 small, which is known by its name as in the command; of others it says whose the numbers are."""
    tiny("GPT-2").save_pretrained(tmp_path / "gpt2")
    number_words().save_pretrained(tmp_path / "gpt2")
    said = words(go(new(), "heads", model=str(tmp_path / "gpt2"), text="5 17 8 5"))
    assert (
        "Published: induction 5.5 .932, 6.9 .913, 7.10 .910, 5.1 .908, 7.2 .833 on 50 random tokens read twice; "
        in said
    )
    assert "previous token 4.11 (Wang et al. 2023)" in said
    app = go(new(), "heads")
    assert "Published" not in words(app)
    (known_heads,) = [one for one in app.caption if one.value.startswith("Known heads")]
    assert "Nothing is published of these heads; the numbers are ours." in known_heads.help


@pytest.mark.thorough
def test_a_model_that_was_not_tested_says_how_and_then_what_was_found(claims_of_few_texts):
    app = go(new(), "heads", layer="0", head="2")
    assert "known claims" not in app.dataframe[0].value
    assert "holds: " not in words(app)
    (link,) = links(app, label="Test the known claims")
    assert link[state.CLAIMS] == ["\n".join(map(str, known.known_claims()))]
    assert link[state.CHECKED_ON] == ["included"]
    check = claims_of_few_texts(MODEL)
    tested = go(new(), "claims", **{name: words[0] for name, words in link.items()})
    assert f"of {len(known.known_claims())} claims" in words(tested).replace("**", "")
    app = ran(app)
    assert not links(app, label="Test the known claims")
    row = known.by_head(check.sums).set_index(["head", "name"]).loc[("0.2", "previous token")]
    assert row["verdict"] == "holds"
    share = f"previous token {row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%})"
    assert f"holds: {share}" in words(app)
    assert of_list(app)[0, 2] == share


@pytest.mark.thorough
def test_metrics_on_the_text_and_on_random_tokens():
    """Only this test finds an atlas, a list and sentences that do not speak of the same measurement."""
    app, model = by_link({state.METRIC: "distance"}), models.load(MODEL)
    on_text, probe = head_metrics(capture(model, SENTENCE)), probe_heads(model)

    def shows(table: pd.DataFrame, name: str, passes: Any = True) -> NDArray[np.bool_]:
        """The expected numbers in the atlas, blank where a head does not pass; which heads these are."""
        numbers = table.pivot(index="layer", columns="head", values=name).to_numpy()
        np.testing.assert_allclose(drawn(app, "atlas"), np.where(passes, numbers, np.nan), rtol=1e-5)
        return numbers

    shows(on_text, "distance")
    fields(app, **{state.METRIC: "duplicate"})
    shows(probe, "duplicate")
    assert app.get_by_key(state.MEASURED_ON).value == "usual"
    copying = f"{int(probe['is_duplicate'].sum())} of 72 do"
    for said in ("standard error", copying, "Shown here: on random tokens, read twice."):
        assert said in words(app)
    fields(app, **{state.MEASURED_ON: "text"})
    shows(on_text, "duplicate")
    assert "Shown here: on this text." in words(app)
    fields(app, **{state.MEASURED_ON: "random", state.METRIC: "entropy"})
    entropy = shows(probe, "entropy")

    bound = float(np.median(entropy).round(2))
    fields(app, **{state.AT_LEAST: bound, state.FROM_LAYER: 1, state.TO_LAYER: 3})
    passes = (entropy >= bound) & np.isin(np.arange(6), (1, 2, 3))[:, None]
    assert 0 < passes.sum() < passes.size
    shows(probe, "entropy", passes)
    np.testing.assert_array_equal(figure(app, "atlas").forbidden, ~passes)
    assert f"{passes.sum()} of 72 heads" in words(app)
    assert f"Shown here: on random tokens, read twice, at least {bound:g}, from layer 1, to layer 3." in words(app)
    fields(app, **{state.ORDER: "lowest"})
    assert app.dataframe[0].value.iloc[:, 2].tolist() == pytest.approx(sorted(entropy[passes]), abs=1e-5)
    fields(app, **{state.AT_LEAST: 99.0})
    assert "No head passes" in words(app)
    assert figure(app, "atlas").forbidden.all()
    fields(app, **{state.AT_LEAST: None, state.FROM_LAYER: None, state.TO_LAYER: None})
    shows(probe, "entropy")


def test_an_address_nobody_would_write():
    places = {state.LAYER: "999", state.HEAD: "-1", state.QUERY: "999", state.KEY: "-2"}
    places |= {state.PINNED_TOKENS: ["999", "abc"]}
    filters = {state.AT_LEAST: "nan", state.FROM_LAYER: "-3", state.TO_LAYER: "abc", state.MEAN_OF: "99.99"}
    menus = {state.METRIC: "<b>", state.MEASURED_ON: "x", state.ORDER: "y", state.ATLAS_BY: "z", state.KIND: "cross"}
    shown = {state.SHOWN_AS: "On the picture", state.QUANTITY: "Nothing", state.LEAVE_OUT: "All", state.PAIRS: "x"}
    app = by_link(places | filters | menus | shown | {state.LOOK_FOR: "1"})
    taken = capture(models.load(MODEL), SENTENCE)
    table = head_metrics(taken)
    numbers = table.pivot(index="layer", columns="head", values=most_telling(table))
    np.testing.assert_allclose(drawn(app, "atlas"), numbers, rtol=1e-5)
    np.testing.assert_allclose(drawn(app, "head"), taken.trace(5, 11).weights, rtol=1e-5)
    assert len(app.warning) == 1
    said = texts(app.warning)
    assert "The link asks for something that is not available: Attention “cross”; Layer “999”" in said


def test_from_a_head_to_its_steps_and_back():
    """With text and pair, also the pair of tokens that is shown because it is the strongest, whatever was chosen there before.
    Only this test finds a link from page to page that loses what it was made from."""
    text, second = "Grüße: 100 % & <b>\nA second line", "Ein Ärger?"
    app = go(go(new(), "step_by_step", **{state.SOURCE: "own"}), "heads", **{state.TEXT: text, state.PAIR: second})
    choose(app, state.HEAD_BOX, "3.4")
    trace = capture(models.load(MODEL), text, pair=second).trace(3, 4)
    (said,) = links(app, label="All stages")
    go(app, "step_by_step", **said)
    np.testing.assert_allclose(drawn(app, "As it is"), trace.weights, rtol=1e-5, atol=1e-7)
    chosen = {state.TEXT: text, state.PAIR: second, state.LAYER: "3", state.HEAD: "4"}
    strongest = map(str, strongest_cell(trace.weights))
    expected = chosen | dict(zip((state.QUERY, state.KEY), strongest, strict=True))
    assert app.session_state[state.ADDRESS] == {name: [word] for name, word in expected.items()}
    fields(app, **{state.QUERY: 5, state.KEY: 1})
    (said,) = links(app, label="All heads of this model")
    go(app, "heads", **said)
    expected = chosen | {state.QUERY: "5", state.KEY: "1"}
    assert {name: address(app, name) for name in expected} == {name: [word] for name, word in expected.items()}
    np.testing.assert_allclose(drawn(app, "head"), trace.weights, rtol=1e-5, atol=1e-7)
