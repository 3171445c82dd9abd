"""An address copied from one session shows the same to another, on a server that has not shown it before."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from core import capture
from core.attention.masks import MASKS
from core.heads.patterns import match_heads, pairs
from core.heads.views import HeadView, ViewMatrix
from tests.browser.addresses import drawn_by
from tests.browser.driver import AS_IT_IS, CHANGED, App, Server, troubles
from tests.browser.test_heads import lists, shades_as
from ui import state
from ui.views.sources.text_fields import SENTENCE

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


def everything(app: App) -> tuple[dict, dict]:
    """What fields and pictures show. Fields in popovers are seen in the pictures, which depend on them."""
    pictures = {name: np.nan_to_num(picture.values, nan=-1e9).tolist() for name, picture in app.equation().items()}
    return app.fields(WIDGETS), pictures


@pytest.fixture(scope="module")
def other_server():
    """It gets ready while a test does something else; then `wait` for it."""
    server = Server()
    yield server
    server.stop()


def test_links_reproduce_each_session(visit, other_server, smollm):
    """Only this test finds an address that leaves something out which only the first server remembers."""
    text, sessions = "Grüße & Küsse: 100 %?\nA second line; a=b+c #1", []
    app = visit()
    app.write(state.TEXT, text).choose(state.MODEL, "SmolLM2-135M-Instruct").choose(state.HEAD_BOX, "Head 4.2")
    app.choose(state.MASK, "Sliding window").number(state.MASK_SIZE, 5).idle().click_stage("Masked").idle()
    app.click_cell("As it is", 5, 2).pins("As it is", 5, 2)
    app.shows_trace(capture(smollm, text).trace(4, 2), stages=("Value",))
    sessions.append((app.settled(lambda: app.here), app.settled(lambda: everything(app))))

    app.go("/step_by_step").choose(state.SOURCE, "My own matrices").switch(state.SCALING)
    app.write(state.OWN["value"], "1\n2\n3\n-4.5").eventually(lambda: state.OWN["value"] in app.said)
    sessions.append((app.settled(lambda: app.here), app.settled(lambda: everything(app))))

    (address, expected), (other_address, other_expected) = sessions
    again = visit(address, at=other_server.wait())
    again.eventually(lambda: everything(again), expected)
    again.go(other_address).eventually(lambda: everything(again), other_expected)


def test_a_link_with_many_settings(visit, other_server, smollm):
    """Only this test finds settings of Heads that are right one by one and get lost in a link together."""
    app = visit("/heads?model=SmolLM2-135M-Instruct&metric=Match+with+a+pattern&pattern_of=Drawn+pairs")
    text = "Grüße: the cat saw the dog; 100 %?\nA second line & the end <b>"
    taken = capture(smollm, text)
    match = match_heads(taken, pairs([(7, 2), (9, 4)]))
    bound = float(np.quantile(match, 0.8).round(2))
    passes = (match >= bound) & (np.arange(30) <= 20)[:, None]
    assert 3 < passes.sum() < passes.size
    app.write(state.TEXT, text).write(state.PAIRS, "7-2, 9-4")
    app.unfold("Options").number(state.AT_LEAST, bound).number(state.TO_LAYER, 20).unfold("Options", fold=True)
    app.click_cell("atlas", 4, 2).pins("atlas", 4, 2).press(state.ORDER, "Lowest first")
    app.unfold("Numbers").toggle(state.LEAVE_OUT, "First token").switch(state.RENORMALISE)
    app.choose(state.MEAN_OF, "4.2").choose(state.MEAN_OF, "7.1").unfold("Numbers", fold=True)
    view = HeadView(heads=((4, 2), (7, 1)), left_out=frozenset({"first"}), renormalise=True)
    viewed = ViewMatrix(taken, "self", view)
    pictures = {"atlas": np.where(passes, match, np.nan), "head": viewed.overview().matrices["view"].values}
    app.shows(pictures).press(state.SHOWN_AS, "Text").idle().page.locator(".token").nth(6).click()
    app.eventually(lambda: app.said.get("pins"), ["6"])
    app.page.mouse.move(5, 5)
    shown = np.nan_to_num(viewed.window(*map(range, viewed.shape)).matrices["view"].values)
    shades_as(app.choose_place(state.QUERY, 8), shown[6]).eventually(lambda: app.said.get("query"), ["8"])
    app.unfold("Options")
    address, fields = app.settled(lambda: app.here), app.settled(lambda: app.fields(OF_HEADS))
    rows = lists(app)

    again = visit(address, at=other_server.wait()).shows({"atlas": pictures["atlas"]}).unfold("Options")
    again.eventually(lambda: again.fields(OF_HEADS), fields)
    lists(again, rows)
    shades_as(again, shown[6]).eventually(lambda: again.said, parse_qs(urlsplit(address).query))


def test_changing_and_going_back_leaves_a_right_address(visit):
    """Only this test finds an address that still says what a change of model or text has taken away."""
    app = visit()
    app.choose(state.HEAD_BOX, "Head 5.3").choose(state.MODEL, "SmolLM2-135M-Instruct")
    app.choose(state.MODEL, "all-MiniLM-L6-v2").has(state.MODEL, "all-MiniLM-L6-v2")
    expected = app.settled(lambda: everything(app))
    copy = visit(app.settled(lambda: app.here))
    copy.eventually(lambda: everything(copy), expected)
    app.write(state.TEXT, "Hi there").idle().click_cell("As it is", 3, 1).pins("As it is", 3, 1)
    app.write(state.TEXT, "Now a somewhat longer sentence again")
    app.eventually(lambda: app.said.get("text"), ["Now a somewhat longer sentence again"])
    expected = app.settled(lambda: everything(app))
    copy.go(app.settled(lambda: app.here)).eventually(lambda: everything(copy), expected)


def test_what_a_link_chose_goes_along_to_other_pages(visit, minilm):
    app = visit("/heads?layer=1&head=3&text=The+cat+saw+me").follow("Step by step", "/step_by_step")
    app.shows_trace(capture(minilm, "The cat saw me").trace(1, 3)).eventually(lambda: app.said.get("layer"), ["1"])
    expected, copy = app.settled(lambda: everything(app)), visit(app.settled(lambda: app.here))
    copy.eventually(lambda: everything(copy), expected)


def test_links_from_before_open_what_they_meant(visit, minilm):
    taken = capture(minilm, SENTENCE)
    app = visit("/?layer=1&head=3&stage=raw&embed=true")  # when Step by step was the first page
    app.shows_trace(taken.trace(1, 3)).shows({AS_IT_IS: taken.trace(1, 3).raw}).reaches("/step_by_step").is_well()
    app.eventually(lambda: app.said.get("embed"), ["true"])

    app.open("/step_by_step?layer=1&head=3&stage=Raw+scores&mask=Causal+window&size=2&scaling=false")
    trace = taken.trace(1, 3)
    changed = trace.changed(scale=1.0, mask=MASKS["causal-window"].grid(2, *trace.shape))
    app.shows_trace(changed).shows({AS_IT_IS: trace.raw, CHANGED: changed.raw}).is_well()
    app.eventually(lambda: app.said["mask"], ["causal-window"])

    app.open("/atlas?layer=2&head=3&metric=Mean+distance&what=Weights+%C3%97+value&without=First+token")
    view = HeadView(heads=((2, 3),), quantity="values", left_out=frozenset({"first"}))
    app.shows({"head": ViewMatrix(taken, "self", view).overview().matrices["view"].values}).reaches("/heads").is_well()
    expected = {"metric": "distance", "what": "value-weighted", "without": "first", "layer": "2", "head": "3"}
    app.eventually(lambda: {name: words[0] for name, words in app.said.items()}, expected)


def test_what_a_link_asks_for_in_vain_is_said_and_the_rest_is_shown(visit, minilm):
    app = visit(f"/step_by_step?stage=scaled&mask=%3Cb%3Ebogus&layer=77&head=2&source={'x' * 500}")
    app.shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 2).scaled})
    words = ("Mask “<b>bogus”", "Layer “77”, which must be from 0 to 5", "Where the numbers come from “xxx")
    app.complains(*words).eventually(app.alerts, lambda alerts: len(alerts) == 1 and len(alerts[0]) < 400)
    app.eventually(lambda: app.said.keys(), {state.STAGE, state.HEAD})


def test_going_back_takes_choices_back(visit):
    app = visit()
    app.choose(state.SOURCE, "Random matrices").idle().click_stage("Masked").idle().choose(state.MASK, "Causal")
    choices = {"source": ["random"], "stage": ["masked"], "mask": ["causal"]}
    app.eventually(lambda: app.said, choices)
    for taken_back in ("mask", "stage"):
        app.idle().page.go_back()
        choices.pop(taken_back)
        app.eventually(lambda: app.said, choices)
    app.idle().has(state.MASK, "Mask as given")


def test_a_choice_in_a_closed_popover_does_not_come_back_with_the_next_click(visit):
    app = visit("/step_by_step?source=random&stage=masked").choose(state.MASK, "Causal").idle()
    app.page.keyboard.press("Escape")
    expect(app.widget(state.MASK)).to_have_count(0)
    app.page.go_back()
    app.eventually(lambda: "mask" in app.said, False)
    app.idle().click_cell(AS_IT_IS, 1, 3).pins(AS_IT_IS, 1, 3)
    app.eventually(lambda: (app.said.get("key"), app.said.get("mask")), (["3"], None))
    expect(app.page.get_by_test_id("stPopoverBody")).to_have_count(0)


VIEWS = (
    "/heads?metric=previous&layer=3&head=6",
    "/what_if?model=SmolLM2-135M-Instruct&text=The+capital+of+France+is&layer=23&head=4&edit=mute+23.4",
    "/heads?metric=sink&layer=0&head=2",
)


def said_by(address: str) -> dict[str, list[str]]:
    """All but what the page opens with."""
    found = parse_qs(urlsplit(address).query)
    return {name: words for name, words in found.items() if (name, words) != ("metric", ["previous"])}


def test_wherever_one_goes_in_the_history_the_page_shows_its_address(visit):
    """Pages share fields, and one visit to a view is one entry. Only the browser has this history."""
    app = visit(VIEWS[0]).shows(drawn_by(VIEWS[0]))
    entries = app.settled(lambda: app.page.evaluate("history.length"))

    def stands_at(address: str, further: int) -> App:
        """The page and its address, after so many entries more."""
        app.eventually(lambda: said_by(app.here), said_by(address))
        app.shows(drawn_by(address)).is_well().eventually(
            lambda: app.page.evaluate("history.length"), entries + further
        )
        return app

    for further, view in enumerate(VIEWS[1:], 1):
        app.go(view)
        stands_at(view, further)
    steps = app.follow("Step by step", "/step_by_step").settled(lambda: app.here)
    for view in reversed(VIEWS):
        app.page.go_back()
        stands_at(view, 3)
    for _ in range(3):
        app.page.go_forward()  # faster than the pages come
    app.eventually(lambda: app.here, steps)
    stands_at(steps, 3)


def test_a_click_beside_going_back_does_not_part_page_and_address(visit):
    """Then Streamlit runs the page for the click alone. Only a browser does both at once."""
    first, *others = (f"/step_by_step?source=random&seed={seed}" for seed in ("1", "2&stage=raw", "3&stage=scaled"))
    app = visit(first)

    def wrong() -> dict[str, str]:
        expected = drawn_by(app.here)
        return troubles(app.pictures(expected), expected)

    for other in others:
        app.go(other).shows(drawn_by(other)).idle()
        app.page.evaluate("history.back(); document.querySelector('.st-key-tables input').click()")
        app.eventually(lambda: app.here, lambda here, other=other: here != other)
        app.idle().eventually(wrong, {})


def test_a_new_text_drops_a_question_and_back_leads_to_it_again(visit):
    app = visit("/why?text=The+capital+of+France+is&answer=+Paris&than=+Rome&cuts=0")
    app.says("Without 23.4 the difference goes").follow("What if", "/what_if").says("comes next: 77.3%")
    app.write(state.TEXT, "The thief who stole the").says("“·latest” comes next")
    app.follow("Why", "/why").says("The logit of “·latest” is")
    for key in (state.ANSWER, state.RATHER_THAN):
        expect(app.widget(key).locator("input")).to_have_value("")
    for _ in range(3):
        app.idle().page.go_back()
    app.says("The logit of “·Paris” is 7.31 above that of “·Rome”", "Without 23.4 the difference goes")


def test_an_uploaded_pass_is_asked_for_again_after_a_reload(visit, tmp_path, minilm):
    taken = capture(minilm, "The dog saw the cat.")
    taken.save(tmp_path / "mine.safetensors")
    app = visit("/heads?model=mine.safetensors&layer=2&head=3&query=3&key=2")
    missing = "If you uploaded it in an earlier visit, upload it again"
    gives = f"“saw” gives {taken.trace(2, 3).weights[3, 2]:.1%} of its attention to “dog”"
    for _ in range(2):
        app.says(missing).upload(state.RECORDED, tmp_path / "mine.safetensors").says(gives).never_says(missing)
        app.page.reload()
