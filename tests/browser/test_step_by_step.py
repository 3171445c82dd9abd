"""Step by step in a browser: clicks and keys, the tour, and what is drawn of it all."""

from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import expect

from core import capture, explain
from core.attention.stages import BY_KEY, number
from core.figures.heatmaps.side_by_side import TERMS
from core.figures.labels import visible
from tests.browser.addresses import SENTENCE
from tests.browser.driver import AS_IT_IS, EQUATION
from ui import state
from ui.views.step_by_step.tour import STOPS, TourStop

TWICE = "the cat saw the other cat"


@pytest.fixture(scope="session")
def opening(minilm):
    """What the app opens with, computed here."""
    return capture(minilm, SENTENCE).trace(5, 11)


def test_a_click_pins_a_cell_everywhere_and_explains_it(app, opening):
    app.shows({AS_IT_IS: opening.weights}).idle()
    app.click_cell(AS_IT_IS, 7, 13).pins(AS_IT_IS, 7, 13).eventually(lambda: app.said, {"query": ["7"], "key": ["13"]})
    app.eventually(lambda: (app.place(state.QUERY), app.place(state.KEY)), (7, 13))
    apart = {"Query": (7, None), "Key": (None, 13), "Value": (13, None), "Output": (7, None)}
    expected = {stage: apart.get(stage, (7, 13)) for stage in EQUATION}
    app.eventually(lambda: {stage: picture.pinned for stage, picture in app.equation().items()}, expected)
    cell = explain(opening, 7, 13)
    for figure in (cell.raw, cell.scaled, cell.masked, cell.exponential, cell.row_sum, cell.weight):
        expect(app.page.get_by_role("table").first).to_contain_text(number(figure))
    app.go("/step_by_step?stage=query").shows({AS_IT_IS: opening.query}).idle().click_cell(AS_IT_IS, 4, 20)
    app.eventually(lambda: app.said, {"stage": ["query"], "query": ["4"]})  # a column of the queries is no key


def opens(app, stage, values):
    """The stage is open: drawn large, named above the picture and in the address, bold in the equation."""
    app.shows({AS_IT_IS: values}).eventually(lambda: app.said.get(state.STAGE, ["weights"]), [stage])
    expect(app.page.get_by_text(BY_KEY[stage].sentence)).to_have_count(1)

    def bold() -> list[str]:
        names = [note["text"] for note in app.drawn("equation").layout["annotations"]]
        return [name for name in names if "<b>" in name]

    app.eventually(bold, [f"<b>{TERMS[stage].name}</b>"])
    return app.idle()


@pytest.mark.thorough
def test_a_stage_opens_by_click_by_key_and_by_link(app, opening):
    """Only this test finds keys that step beyond the ends, or a stage whose name and picture part."""
    opens(app, "weights", opening.weights)
    opens(app.click_stage("Raw scores"), "raw", opening.raw)
    for keys, stage in (
        (["ArrowRight"], "scaled"),
        (["ArrowRight"] * 8, "output"),  # not beyond the last
        (["ArrowLeft"] * 8 + ["ArrowRight"], "key"),
    ):
        opens(app.keys(*keys), stage, getattr(opening, stage))
    opens(app.go("/step_by_step?stage=Raw+scores"), "raw", opening.raw)  # as older links say it


CARD, RING = ".card", f".st-key-{state.TOUR_CARD} .ring"


def at_stop(app, place):
    """The tour is at this stop: its card says so, what the stop shows is drawn."""
    expect(app.page.locator(f"{CARD} .place")).to_have_text(f"{place} of {len(STOPS)}")
    expect(app.page.locator(f"{CARD} .words")).not_to_be_empty()
    return app.idle()


@pytest.mark.thorough
def test_the_card_stands_beside_its_outlined_subject_in_view_and_all_stays_when_it_is_left(go, opening):
    """Only this test finds a card that covers what it speaks of, or speaks of something out of sight, keys that are faster than
    the stops come, or choices that the tour does not give back at its end."""
    app = go(f"/step_by_step?text={quote('My own words')}&stage=scaled&scaling=false")
    app.widget(state.TOUR_START).get_by_role("button").press("Enter")
    at_stop(app, 1).keys(*["ArrowRight"] * len(STOPS))
    expect(app.page.locator(CARD)).to_have_count(0)
    app.has(state.TEXT, "My own words").says_in_address(stage="scaled", scaling="false")  # all is as it was before

    def boxes(stop: TourStop) -> list[dict[str, float]]:
        places = app.widget(stop.subject), app.page.locator(RING), app.page.locator(CARD)
        return [place.bounding_box() for place in places]

    def stand_well(found: list[dict[str, float]]) -> bool:
        subject, ring, card = found
        outlined = all(0 < subject[side] - ring[side] < 8 for side in ("x", "y"))
        larger = abs(ring["width"] - subject["width"]) + abs(ring["height"] - subject["height"])
        above = card["y"] + card["height"] <= subject["y"]
        beside = 0 <= max(distances(card, subject)) < 30 and above == (width < 640)  # and not on it
        in_view = card["y"] >= 50 and subject["y"] < height - 200  # below the header
        return outlined and larger < 20 and beside and in_view

    for width, height in ((390, 844), (1280, 720)):
        app.page.set_viewport_size({"width": width, "height": height})
        app.press_button(state.TOUR_START)
        for place, stop in enumerate(STOPS[:3], start=1):
            at_stop(app, place).eventually(lambda stop=stop: boxes(stop), stand_well)
            app.keys("ArrowRight")
        at_stop(app, 4)
        if width < 640:
            app.keys("Escape")
    app.page.mouse.move(width / 2, height / 2)
    before, *_ = app.settled(lambda: boxes(STOPS[3]))
    app.page.mouse.wheel(0, 150)
    app.eventually(  # the ring follows its subject
        lambda: boxes(STOPS[3]), lambda found: found[0]["y"] != before["y"] and 0 < found[0]["y"] - found[1]["y"] < 8
    )
    at_stop(app.keys("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"), 3).keys("Escape")
    expect(app.page.locator(CARD)).to_have_count(0)
    opens(app, "scaled", opening.scaled)
    app.has(state.QUERY, "it (10)").has(state.KEY, "animal (2)")
    # A click in the instant in which a chart is replaced hits nothing.
    app.eventually(lambda: app.idle().click_cell(AS_IT_IS, 3, 4).idle().drawn(AS_IT_IS).pinned, (3, 4))


def distances(one, other):
    """How far two boxes are apart, across and down; below 0 where they overlap."""
    return [
        max(one[side] - (other[side] + other[length]), other[side] - (one[side] + one[length]))
        for side, length in (("x", "width"), ("y", "height"))
    ]


STRANGE = "<b>x</b> $y$ *a* :smile: `q` <img src=x onerror=alert(1)> مرحبا"


@pytest.mark.thorough
def test_token_text_is_data(go, smollm):
    """Only this test finds a place on the page that takes a token for markup."""
    taken = capture(smollm, STRANGE)
    tokens = taken.tokens()[0]
    every = {visible(token) for token in tokens}
    key, query = (next(place for place, token in enumerate(tokens) if letter in token) for letter in "<*")
    said = {state.MODEL: "SmolLM2-135M-Instruct", state.TEXT: STRANGE, state.QUERY: query, state.KEY: key}
    app = go(f"/step_by_step?{urlencode(said)}").shows_trace(taken.trace(13, 8))
    for place in (query, key):
        expect(app.page.get_by_text("of its attention to")).to_contain_text(tokens[place].strip())
    app.eventually(lambda: app.ticks(AS_IT_IS, "y"), lambda labels: set(labels) <= every and "<" in "".join(labels))
    expect(app.page.locator("img[src=x]")).to_have_count(0)
    # Any dialog, script error or stray request fails in `visit`.


def test_a_stage_and_a_text_are_reached_on_a_phone(app, opening, minilm):
    app.page.set_viewport_size({"width": 390, "height": 844})
    app.shows_trace(opening)
    line = app.widget(state.EQUATION)
    app.eventually(lambda: line.evaluate("line => line.scrollWidth > 2 * line.clientWidth"))
    opens(app.idle().click_stage("Output"), "output", opening.output)  # brought into sight, and opened
    app.widget(state.TEXT).get_by_role("textbox").fill(TWICE)
    app.widget(state.APPLY).get_by_role("button", name="Apply", exact=True).click()
    app.shows_trace(capture(minilm, TWICE).trace(5, 11))


# Presses P as soon as two sentences were shown, one after the other: a stage passes in seconds, and in a slow browser nobody
# else would see it in time.
PAUSES = """
([first, second]) => {
    const main = document.querySelector(".stMain");
    new MutationObserver(() => {
        window.hasBegun ||= main.textContent.includes(first);
        if (!window.hasBegun || window.isPaused || !main.textContent.includes(second)) return;
        window.isPaused = true;
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "p", bubbles: true, cancelable: true }));
    }).observe(main, { subtree: true, childList: true, characterData: true });
}
"""


@pytest.mark.thorough
def test_the_equation_plays_without_the_server_and_stays_where_it_is_paused(go, minilm):
    go("/softmax").page.emulate_media(reduced_motion="no-preference")
    app = go("/step_by_step")
    stage = app.page.get_by_text("Every query meets every key")
    app.button("Play the equation").hover()
    before = len(app.idle().sent)  # coming near, the browser asks for frames
    app.page.evaluate(PAUSES, ["What each position looks for.", "Every query meets every key"])
    app.button("Play the equation").click()
    app.eventually(lambda: app.page.evaluate("window.isPaused === true"))
    assert len(app.sent) <= before + 1  # where it was paused
    expect(stage).to_be_visible()
    app.shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 11).raw})
    app.says_in_address(stage="raw").idle()
    expect(stage).to_be_visible()
    app.page.get_by_role("button", name="One step back").click()
    app.says_in_address(stage="query").page.emulate_media(reduced_motion="reduce")
