"""An address copied from one session shows the same to another, on a server that has not shown it before."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from core import capture
from core.attention.masks import MASKS
from core.heads.patterns import match_heads, pairs
from core.heads.views import HeadView, ViewMatrix
from tests.browser.addresses import drawn_by
from tests.browser.driver import AS_IT_IS, CHANGED, Server
from tests.browser.test_heads import listed, shades_as, unfolded
from ui import state
from ui.views.sources.passes import SENTENCE

WIDGETS = (
    *(
        state.TEXT,
        state.MODEL,
        state.HEAD_BOX,
        state.SOURCE,
    ),
    *(state.QUERY, state.KEY, state.TOY_TEXT, state.QUERIES, state.KEYS, state.SEED),
    *state.OWN.values(),
)

OF_HEADS = (
    *(state.TEXT, state.MODEL, state.HEAD_BOX, state.METRIC, state.LOOK_FOR, state.PAIRS, state.AT_LEAST),
    *(state.FROM_LAYER, state.TO_LAYER, state.ATLAS_BY, state.ORDER, state.SHOWN_AS, state.QUERY, state.KEY),
    *(state.DIRECTION, state.PINNED_TOKENS),
)


def everything(app):
    """What fields and pictures show. Fields in popovers are seen in the pictures, which depend on them."""
    app.picture("equation")  # waits until it is there
    pictures = app.equation()
    assert pictures is not None
    return app.values(WIDGETS), {name: picture.values for name, picture in pictures.items()}


def same(first, app):
    """Wait until the page shows what was found on another: on a busy machine a field may be empty for a moment."""
    fields, pictures = first
    app.until(lambda: app.values(WIDGETS) == fields, lambda: f"{app.values(WIDGETS)} is not {fields}")
    found = everything(app)[1]
    for name, values in pictures.items():
        np.testing.assert_array_equal(values, found[name], err_msg=name)


@pytest.fixture(scope="module")
def other_server():
    """It gets ready while a test does something else; then `wait` for it."""
    server = Server()
    yield server
    server.stop()


def test_links_reproduce_each_session(visit, other_server, smollm):
    """Only this test finds an address that leaves something out which only the first server remembers."""
    sessions = []

    app = visit()
    app.write(state.TEXT, "Grüße & Küsse: 100 %?\nA second line; a=b+c #1").idle()
    app.choose(state.MODEL, "SmolLM2-135M-Instruct").idle().choose(state.HEAD_BOX, "Head 4.2").idle()
    app.choose(state.MASK, "Sliding window").idle().number(state.MASK_SIZE, 5).idle()
    app.click_stage("Masked").idle().click_cell("As it is", 5, 2).idle()
    taken = capture(smollm, "Grüße & Küsse: 100 %?\nA second line; a=b+c #1")
    app.shows_trace(taken.trace(4, 2), stages=("Value",))
    sessions.append((app.address, everything(app)))

    app.go("/step_by_step").choose(state.SOURCE, "My own matrices").idle().switch(state.SCALING).idle().write(
        state.OWN["value"], "1\n2\n3\n-4.5"
    ).idle()
    sessions.append((app.address, everything(app)))

    (address, expected), (other_address, other_expected) = sessions
    again = visit(address, at=other_server.wait())
    same(expected, again)
    same(other_expected, again.go(other_address))


def test_a_link_with_many_settings(visit, other_server, smollm):
    """Only this test finds settings of Heads that are right one by one and get lost in a link together."""
    app = visit("/heads?model=SmolLM2-135M-Instruct&metric=Match+with+a+pattern&pattern_of=Drawn+pairs")
    text = "Grüße: the cat saw the dog; 100 %?\nA second line & the end <b>"
    app.write(state.TEXT, text).idle()
    taken = capture(smollm, text)
    match = match_heads(taken, pairs([(7, 2), (9, 4)]))
    bound = float(np.quantile(match, 0.8).round(2))
    passes = (match >= bound) & (np.arange(30) <= 20)[:, None]
    assert 3 < passes.sum() < passes.size
    app.write(state.PAIRS, "7-2, 9-4").idle()
    unfolded(app).number(state.AT_LEAST, bound).idle()
    app.number(state.TO_LAYER, 20).idle().unfold("Options")
    app.click_cell("atlas", 4, 2).idle().press(state.ORDER, "Lowest first").idle()
    app.unfold("Numbers").toggle(state.LEAVE_OUT, "First token").idle().switch(state.RENORMALISE).idle()
    app.choose(state.MEAN_OF, "4.2").idle().choose(state.MEAN_OF, "7.1").idle().unfold("Numbers").idle()
    view = HeadView(heads=((4, 2), (7, 1)), left_out=frozenset({"first"}), renormalise=True)
    viewed = ViewMatrix(taken, "self", view)
    pictures = {"atlas": np.where(passes, match, np.nan), "head": viewed.overview().matrices["view"].values}
    app.shows(pictures).idle().press(state.SHOWN_AS, "Text").idle()
    token = app.page.locator(".token").nth(6)
    app.until(token.is_visible, "the text is not there")
    token.click()
    app.until(lambda: "pins=6" in app.address, "the token is not pinned")
    app.idle().page.mouse.move(5, 5)
    app.choose_place(state.QUERY, 8).idle()
    shown = np.nan_to_num(viewed.window(*map(range, viewed.shape)).matrices["view"].values)
    shades_as(app, shown[6])
    reading = app.address, unfolded(app).values(OF_HEADS), listed(app)

    again = visit(reading[0], at=other_server.wait()).shows({"atlas": pictures["atlas"]})
    assert unfolded(again.idle()).values(OF_HEADS) == reading[1]
    assert listed(again) == reading[2]
    shades_as(again, shown[6])
    assert parse_qs(urlsplit(again.address).query) == parse_qs(urlsplit(reading[0]).query)


def test_changing_and_going_back_leaves_a_right_address(visit):
    """Only this test finds an address that still says what a change of model or text has taken away."""
    app = visit()
    app.choose(state.HEAD_BOX, "Head 5.3").idle().choose(state.MODEL, "SmolLM2-135M-Instruct").idle()
    app.choose(state.MODEL, "all-MiniLM-L6-v2").idle()
    copy = visit(app.address)
    same(everything(app), copy)
    app.write(state.TEXT, "Hi there").idle().click_cell("As it is", 3, 1).idle()
    app.write(state.TEXT, "Now a somewhat longer sentence again").idle()
    same(everything(app), copy.go(app.address))


def test_what_a_link_chose_goes_along_to_other_pages(visit, minilm):
    app = visit("/heads?layer=1&head=3&text=The+cat+saw+me")
    app.page.get_by_role("link", name="Step by step").click()
    app.until(lambda: "layer=1" in app.address, "the choices are not in the next page's address")
    app.idle().shows_trace(capture(minilm, "The cat saw me").trace(1, 3))
    same(everything(app), visit(app.address))


def test_links_from_before_open_what_they_meant(visit, minilm):
    taken = capture(minilm, SENTENCE)
    app = visit("/?layer=1&head=3&stage=raw&embed=true")  # when Step by step was the first page
    app.shows_trace(taken.trace(1, 3)).shows({AS_IT_IS: taken.trace(1, 3).raw}).idle()
    assert urlsplit(app.address).path == "/step_by_step"
    assert parse_qs(urlsplit(app.address).query).get("embed") == ["true"]
    assert not app.alerts()

    app.open("/step_by_step?layer=1&head=3&stage=Raw+scores&mask=Causal+window&size=2&scaling=false")
    trace = taken.trace(1, 3)
    changed = trace.changed(scale=1.0, mask=MASKS["causal-window"].grid(2, *trace.shape))
    app.shows_trace(changed).shows({AS_IT_IS: trace.raw, CHANGED: changed.raw}).idle()
    assert parse_qs(urlsplit(app.address).query)["mask"] == ["causal-window"]
    assert not app.alerts()

    app.open("/atlas?layer=2&head=3&metric=Mean+distance&what=Weights+%C3%97+value&without=First+token")
    view = HeadView(heads=((2, 3),), quantity="values", left_out=frozenset({"first"}))
    app.shows({"head": ViewMatrix(taken, "self", view).overview().matrices["view"].values}).idle()
    said = parse_qs(urlsplit(app.address).query)
    assert urlsplit(app.address).path == "/heads"
    expected = {"metric": "distance", "what": "value-weighted", "without": "first", "layer": "2", "head": "3"}
    assert {name: words[0] for name, words in said.items()} == expected
    assert not app.alerts()


def test_what_a_link_asks_for_in_vain_is_said_and_the_rest_is_shown(visit, minilm):
    app = visit(f"/step_by_step?stage=scaled&mask=%3Cb%3Ebogus&layer=77&head=2&source={'x' * 500}")
    app.shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 2).scaled}).idle()
    (alert,) = app.alerts()
    for words in ("Mask “<b>bogus”", "Layer “77”, which must be from 0 to 5", "Where the numbers come from “xxx"):
        assert words in alert
    assert len(alert) < 400
    assert parse_qs(urlsplit(app.address).query).keys() == {state.STAGE, state.HEAD}


def test_going_back_takes_choices_back(visit):
    app = visit()
    app.choose(state.SOURCE, "Random matrices").idle().click_stage("Masked").idle().choose(state.MASK, "Causal").idle()
    assert parse_qs(urlsplit(app.address).query) == {"source": ["random"], "stage": ["masked"], "mask": ["causal"]}
    for expected in ({"source": ["random"], "stage": ["masked"]}, {"source": ["random"]}):
        app.page.go_back()
        app.until(lambda expected=expected: parse_qs(urlsplit(app.address).query) == expected, f"not {expected}")
        app.idle()
    assert app.reached(state.MASK).value(state.MASK) == "Mask as given"


def test_a_choice_in_a_closed_popover_does_not_come_back_with_the_next_click(visit):
    app = visit("/step_by_step?source=random&stage=masked").idle().choose(state.MASK, "Causal").idle()
    app.page.keyboard.press("Escape")
    app.until(lambda: not app.widget(state.MASK).count(), "the popover stays open")
    app.page.go_back()
    app.until(lambda: "mask" not in parse_qs(urlsplit(app.address).query), "it does not go back")
    app.idle().click_cell(AS_IT_IS, 1, 3).idle()
    app.until(lambda: parse_qs(urlsplit(app.address).query).get("key") == ["3"], "no cell was chosen")
    assert "mask" not in parse_qs(urlsplit(app.address).query)
    assert not app.page.get_by_test_id("stPopoverBody").count()


VIEWS = (
    "/heads?metric=induction&model=SmolLM2-135M-Instruct&layer=18&head=6",
    "/what_if?model=SmolLM2-135M-Instruct&text=The+capital+of+France+is&layer=23&head=4&edit=mute+23.4",
    "/heads?metric=sink&layer=0&head=2",
)


def test_wherever_one_goes_in_the_history_the_page_shows_its_address(visit):
    """Pages share fields, and one visit to a view is one entry. Only the browser has this history."""
    app = visit(VIEWS[0]).shows(drawn_by(VIEWS[0]))
    entries = app.page.evaluate("history.length")
    for view in VIEWS[1:]:
        app.go(view).shows(drawn_by(view))
        assert said(app) == said_by(view)
    assert app.page.evaluate("history.length") == entries + 2
    app.page.get_by_role("link", name="Step by step").click()
    app.until(lambda: "/step_by_step?" in app.address, "the page does not open")
    steps = app.idle().address
    assert app.page.evaluate("history.length") == entries + 3
    for act, view in ((app.page.go_back, VIEWS[2]), (app.page.go_back, VIEWS[1]), (app.page.go_back, VIEWS[0])):
        act()
        app.until(lambda view=view: said(app) == said_by(view), lambda view=view: f"not {view}")
        app.idle().shows(drawn_by(view))
        assert not app.alerts()
    for _ in range(3):
        app.page.go_forward()  # faster than the pages come
    app.until(lambda: app.address == steps, "forward leads elsewhere")
    app.idle().shows(drawn_by(steps))


def said(app):
    return said_by(app.address)


def said_by(address):
    """All but what the page opens with."""
    found = parse_qs(urlsplit(address).query)
    return {name: words for name, words in found.items() if (name, words) != ("metric", ["induction"])}


def test_a_click_beside_going_back_does_not_part_page_and_address(visit):
    """Then Streamlit runs the page for the click alone. Only a browser does both at once."""
    app = visit("/step_by_step?source=random&seed=1")
    app.go("/step_by_step?source=random&seed=2&stage=raw")
    for _ in range(2):
        app.page.evaluate("history.back(); document.querySelector('.st-key-tables input').click()")
        app.page.wait_for_timeout(200)
        app.idle().shows(drawn_by(app.address))
        app.go("/step_by_step?source=random&seed=3&stage=scaled").shows(drawn_by(app.address))
