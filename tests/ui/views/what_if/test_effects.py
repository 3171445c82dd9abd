"""Which heads matter, and patching, as a page shows them: filled in as the numbers come, stopped, and gone on with."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from core import Edits, capture, direct_contributions, head_effects, load_model
from core.figures.chart import written
from core.heads.effects import patch_effects
from tests.browser.driver import array
from tests.core.tiny_models import tiny
from tests.pages.app import FRANCE, choose, drawn, figure, part, press, ran, saved, words
from ui import progress, state
from ui.views.what_if.edit_list import HIDDEN

NUMBERS = "5 17 8 40 17"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, all is worked out."""
    monkeypatch.setattr(progress, "LONG", 1e9)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called, work stops and asks after its first piece."""

    def hurry() -> None:
        monkeypatch.setattr(progress, "LONG", 0.0)
        monkeypatch.setattr(progress, "TRIAL", 0.0)

    return hurry


def page(text: str, model: str, view: str) -> None:
    from ui import shown
    from ui.requests import ModelChoice, TextRequest
    from ui.views.sources import passes
    from ui.views.sources.heads import choose_head
    from ui.views.what_if.effects import show_effects, show_patching

    shown.begin("", "what_if")
    request = TextRequest(ModelChoice(model), text)
    capture = passes.captured(request)
    import streamlit as st

    real = choose_head(request, capture, st.container())
    {"effects": show_effects, "patching": show_patching, "kept": show_effects}[view](real)
    if view == "kept":
        picture = shown.now().pictures["atlas"]
        (table,) = picture.numbers.make()
        st.session_state["kept"] = picture.title, table.values


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model that predicts the next of some numbers: all of its heads are muted in a moment."""
    return saved(tmp_path_factory.mktemp("small"), tiny("Llama"))


def test_each_head_muted_for_the_chosen_next_token(small: str, hurried: Callable[[], None]) -> None:
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


def test_layers_and_tokens_as_bars() -> None:
    app = part(page, FRANCE, "all-MiniLM-L6-v2", "effects", taken="layers")
    (bars,) = figure(app, "effects").data
    assert len(bars["x"]) == 6
    app = choose(app, state.TAKEN_AWAY, "tokens")
    (bars,) = figure(app, "effects").data
    assert bars["customdata"][1:5] == ["the", "capital", "of", "france"]
    assert f"Each token is hidden in turn. {HIDDEN}" in words(app)
    assert "1 − cosine" in words(app)


def test_patching_two_texts(small: str, hurried: Callable[[], None]) -> None:
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


def half_way() -> None:
    """Three pieces; after the second the page runs again once, because of the Stop button or of something else."""
    from functools import partial

    import streamlit as st

    from ui import progress
    from ui.progress import Growing

    if "growing" not in st.session_state:

        def work(place: int) -> list[float]:
            st.session_state["worked"] = [*st.session_state.get("worked", []), place]
            return [float(place)]

        st.session_state["growing"] = Growing((3,), lambda: (([at], partial(work, at)) for at in range(3)), nbytes=1)
    growing = st.session_state["growing"]

    def draw(last: bool) -> None:
        st.text(f"{growing.done} {last}")
        if growing.done == 2 and not last and "over" not in st.session_state:
            st.session_state["over"] = True
            if st.session_state.get("stops", True):
                progress._wish("job", progress._Halt())
            st.rerun()

    progress.FILLED = -1.0
    progress.fill(growing, "job", "The work", draw, unit="layer")


def test_stop_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FILLED", progress.FILLED)  # the page changes it
    app = ran(AppTest.from_function(half_way))
    assert [text.value for text in app.text] == ["2 True"]
    assert [info.value for info in app.info] == ["2 of 3 measured. Continue?"]
    press(app, "Continue")
    assert [text.value for text in app.text] == ["3 True"]
    assert not app.info
    assert app.session_state.worked == [0, 1, 2]


def test_what_is_interrupted_by_something_else_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FILLED", progress.FILLED)
    app = AppTest.from_function(half_way)
    app.session_state["stops"] = False
    ran(app)
    assert [text.value for text in app.text] == ["3 True"]
    assert app.session_state.over
    assert not app.info
    assert app.session_state.worked == [0, 1, 2]  # each of them once


def test_long_work_asks_after_a_moment(hurried: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
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
    ran(app)
    assert "10 of 72 measured. Continue? It takes about" in words(app)
    assert "stopped" not in words(app)  # nobody has stopped anything
    press(app, "Continue")
    whole = drawn(app, "atlas")
    assert np.isfinite(whole).all()
    assert not grey(app)
    np.testing.assert_array_equal(whole[np.isfinite(some)], some[np.isfinite(some)])
    assert "Continue?" not in words(app)
    assert "The 30 strongest. Mark a row" in words(app)


def grey(app: AppTest) -> dict[str, NDArray]:
    """By their name in the legend: the heads that are drawn grey."""
    chart = figure(app, "atlas")
    return {trace["name"]: chart.forbidden for trace in chart.data if trace["type"] == "scatter" and trace.get("name")}
