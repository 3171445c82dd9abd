"""Which heads matter, and patching, as a page shows them: filled in as the numbers come, stopped, and gone on with."""

import numpy as np
import pytest

from core import Edits, capture, direct_contributions, head_effects, load_model
from core.figures.chart import written
from core.heads.effects import patch_effects
from tests.browser.driver import array
from tests.core.tiny_models import tiny
from tests.pages.app import choose, drawn, figure, part, press, saved, words
from ui import progress, state

NUMBERS = "5 17 8 40 17"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine is, all is worked out."""
    monkeypatch.setattr(progress, "LONG", 1e9)


@pytest.fixture
def hurried(monkeypatch):
    """From when it is called, work stops and asks after its first piece."""

    def hurry():
        monkeypatch.setattr(progress, "LONG", 0.0)
        monkeypatch.setattr(progress, "TRIAL", 0.0)

    return hurry


def page(text, model, view):
    from ui import shown
    from ui.requests import ModelChoice, TextRequest
    from ui.views.sources.heads import choose_head
    from ui.views.what_if.effects import show_effects, show_patching

    shown.begin("", "what_if")
    request = TextRequest(ModelChoice(model), text)
    import streamlit as st

    real = choose_head(request, st.container())
    {"effects": show_effects, "patching": show_patching, "kept": show_effects}[view](real)
    if view == "kept":
        picture = shown.now().pictures["atlas"]
        (table,) = picture.numbers.make()
        st.session_state["kept"] = picture.title, table.values


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a model that predicts the next of some numbers: all of its heads are muted in a moment."""
    return saved(tmp_path_factory.mktemp("small"), tiny("Llama"))


def test_each_head_muted_for_the_chosen_next_token(small, hurried):
    app, model = part(page, NUMBERS, small, "effects", layer="1", head="2"), load_model(small)
    passed = capture(model, NUMBERS, components=True)
    muted = dict(capture(model, NUMBERS, edits=Edits(mute_heads={(1, 2)})).next_tokens(64))
    (token, before) = passed.next_tokens(1)[0]
    both = head_effects(model, NUMBERS).merge(direct_contributions(passed))
    of_heads = both.set_index(["layer", "head"])
    said = words(app)
    most = of_heads["effect"].abs().idxmax()
    without = dict(capture(model, NUMBERS, edits=Edits(mute_heads={most})).next_tokens(64))[token]
    name = "{}.{}".format(*most)
    assert f"Head {name} matters most: without it “{token}” goes from {before:.1%} to **{without:.1%}**" in said
    assert f"Without head 1.2 “{token}” goes from {before:.1%} to {muted[token]:.1%}." in said
    own, gave = "{}.{}".format(*of_heads["contribution"].idxmax()), written(of_heads["contribution"].max())
    told = f"Directly, head {own} {'also ' if own == name else ''}adds most"
    assert f"{told} to the token's logit, {gave}" in said
    rank = both["contribution"].corr(both["effect"], method="spearman")
    assert f"Rank correlation of the two: {rank:.2f}.".replace("-", "−") in said
    (table,) = app.dataframe
    assert tuple(table.value.iloc[0][["layer", "head"]]) == tuple(
        both.loc[both["effect"].abs().idxmax(), ["layer", "head"]]
    )
    dots = figure(app, "direct").data[0]
    drawn = {
        tuple(head): (x, y) for head, x, y in zip(dots["customdata"], array(dots["x"]), array(dots["y"]), strict=True)
    }
    for layer, head, effect, contribution in both.itertuples(index=False):
        assert drawn[layer, head] == pytest.approx((contribution, effect), abs=1e-6)
    tokens = app.get_by_key(state.NEXT_TOKEN)
    assert len(tokens.options) == 20
    assert token in tokens.options[0]
    hurried()
    choose(app, state.NEXT_TOKEN, tokens.options[1])
    assert f"“{token}” goes from" not in words(app)


def test_patching_two_texts(small, hurried):
    app = part(page, NUMBERS, small, "patching", layer="1", head="2")
    assert "Type another text" in words(app)
    choose(app, state.SOURCE_TEXT, f"{NUMBERS} 3 4")
    assert "has 5, the other one 7" in app.error[0].value
    choose(app, state.SOURCE_TEXT, "9 17 8 40 2")
    assert not app.error
    model = load_model(small)
    ((answer, share),) = capture(model, "9 17 8 40 2").next_tokens(1)
    assert f"“{answer}” **{share:.1%}**" in words(app).partition("The other text: ")[2].partition("\n")[0]
    moved = patch_effects(model, NUMBERS, "9 17 8 40 2").set_index(["layer", "head"])["moved"]
    name, most = "{}.{}".format(*moved.idxmax()), moved.max()
    assert f"Head {name} moves the answer most: **{most:.1%}** of the way." in words(app)
    assert f"Head 1.2 moves it {moved[1, 2]:.1%} of the way".replace("-", "−") in words(app)
    hurried()
    choose(app, state.THROUGH_HEAD, True)
    assert "Only the path through head 1.2 is measured" in words(app)
    assert app.dataframe[0].value["layer"].max() < 1


def test_long_work_asks_after_a_moment(hurried, monkeypatch):
    hurried()
    monkeypatch.setattr("core.capturing.branching.BATCH_TOKENS", 1)
    app = part(page, "A text that nobody has read yet.", "all-MiniLM-L6-v2", "kept")
    assert "10 of 72 measured. Continue? It takes about" in words(app)
    some, is_open = drawn(app, "atlas"), grey(app)
    assert np.isfinite(some).sum() == 10
    title, table = app.session_state["kept"]  # a file with it does not pass for a finished map either
    assert title == "All heads by 1 − cosine, 10 of 72 measured"
    assert np.isfinite(table).sum() == 10
    assert list(is_open) == ["not measured"]
    np.testing.assert_array_equal(is_open["not measured"], np.isnan(some))
    assert "The 10 strongest of the 10 heads that are measured" in words(app)
    assert "stopped" not in words(app)  # nobody has stopped anything
    whole = drawn(press(app, "Continue"), "atlas")
    assert np.isfinite(whole).all()
    assert not grey(app)
    np.testing.assert_array_equal(whole[np.isfinite(some)], some[np.isfinite(some)])
    assert "The 30 strongest. Mark a row" in words(app)


def grey(app):
    """By their name in the legend: the heads that are drawn grey."""
    chart = figure(app, "atlas")
    return {trace["name"]: chart.forbidden for trace in chart.data if trace["type"] == "scatter" and trace.get("name")}
