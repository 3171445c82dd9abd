"""The landing page in a real browser: what is drawn is what core computes, whatever is clicked."""

import re
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect

from core import capture, explain
from core.attention.masks import causal, grid
from core.attention.stages import BY_KEY, number
from core.figures.heatmaps.equation import TERMS
from core.figures.labels import visible
from tests.browser.driver import AS_IT_IS, EQUATION, STAGES
from tests.conftest import eager_attentions
from ui import state
from ui.views.sources.text_fields import SENTENCE
from ui.views.step_by_step.tour import STOPS, Stop

TWICE = "the cat saw the other cat"


@pytest.fixture(scope="session")
def opening(minilm):
    """What the app opens with, computed here."""
    return capture(minilm, SENTENCE)


def test_opening_shows_a_finished_picture_without_a_click(app, minilm, opening):
    trace, tokens = opening.trace(5, 11), list(opening.tokens()[0])
    app.shows_trace(trace).shows({AS_IT_IS: trace.weights}).is_well()
    eager = eager_attentions(minilm, opening).attentions[5][0, 11].numpy()
    np.testing.assert_allclose(trace.weights, eager, atol=1e-5)
    app.eventually(lambda: app.ticks(AS_IT_IS, "y"), tokens[::2])  # as many as fit without overlap
    app.eventually(lambda: app.ticks(AS_IT_IS, "x"), tokens)
    app.says("Agrees with the model: 512 output numbers", "Reads texts only.")
    app.has(state.QUERY, "it (10), suggested").has(state.KEY, "animal (2), suggested")
    app.never_says(minilm.revision).unfold("Provenance").says(minilm.revision)  # it is behind a click


def test_while_a_model_is_converted_the_first_screen_says_so(visit, smollm, tmp_path, monkeypatch, request):
    """Only this test finds progress of a real conversion that is below what a phone shows."""
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path))
    server = request.getfixturevalue("fresh_server")  # which has the cache only now
    app = visit(at=server.wait(), width=390, height=844)
    text = app.settled(app.widget(state.TEXT).bounding_box)
    app.choose(state.MODEL, "SmolLM2-135M-Instruct")
    words = app.page.get_by_text(re.compile("converting its weights, once: [0-9]+%"))
    expect(words).to_be_in_viewport()
    expect(app.page.get_by_role("progressbar")).to_be_in_viewport()
    app.eventually(app.widget(state.TEXT).bounding_box, text)  # it lies over the page, which does not move
    expect(words).to_have_count(0)
    app.shows_trace(capture(smollm, SENTENCE).trace(13, 8))
    assert len(list(tmp_path.glob("SmolLM2*/model.safetensors"))) == 1


def test_a_click_pins_a_cell_everywhere_and_explains_it(app, opening):
    trace, tokens = opening.trace(5, 11), opening.tokens()[0]
    app.shows({AS_IT_IS: trace.weights}).idle()
    app.click_cell(AS_IT_IS, 7, 13).pins(AS_IT_IS, 7, 13)
    app.has(state.QUERY, f"{tokens[7]} (7)").has(state.KEY, f"{tokens[13]} (13)")
    app.eventually(lambda: app.said, {"query": ["7"], "key": ["13"]})
    apart = {"Query": (7, None), "Key": (None, 13), "Value": (13, None), "Output": (7, None)}
    expected = {stage: apart.get(stage, (7, 13)) for stage in EQUATION}
    app.eventually(lambda: {stage: picture.pinned for stage, picture in app.equation().items()}, expected)
    cell = explain(trace, 7, 13)
    for figure in (cell.raw, cell.scaled, cell.masked, cell.exponential, cell.row_sum, cell.weight):
        expect(app.page.get_by_role("table").first).to_contain_text(number(figure))
    app.says(f"“{tokens[7]}” gives {cell.weight:.1%} of its attention to “{tokens[13]}”.")

    app.go("/step_by_step?stage=query").shows({AS_IT_IS: trace.query}).idle().click_cell(AS_IT_IS, 4, 20)
    app.eventually(lambda: app.place(state.QUERY), 4)
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


def test_a_stage_opens_by_click_by_key_and_by_link(app, opening):
    """Only this test finds keys that step beyond the ends, or a stage whose name and picture part."""
    trace = opening.trace(5, 11)
    opens(app, "weights", trace.weights)
    opens(app.click_stage("Raw scores"), "raw", trace.raw)
    for keys, stage in (
        (["ArrowRight"], "scaled"),
        (["ArrowRight"] * 8, "output"),  # not beyond the last
        (["ArrowLeft"] * 8 + ["ArrowRight"], "key"),
    ):
        for key in keys:
            app.page.keyboard.press(key)
        opens(app, stage, getattr(trace, stage))
    app.page.go_back()
    app.idle().eventually(lambda: app.here.count("stage="), lambda count: count <= 1)
    for link, stage in (("value", "value"), ("Raw+scores", "raw"), ("Q,+K,+V", "query")):
        opens(app.go(f"/step_by_step?stage={link}"), stage, getattr(trace, stage))


CARD, RING = ".card", f".st-key-{state.TOUR_CARD} .ring"


def begin_tour(app):
    app.idle().widget(state.TOUR_START).get_by_role("button").click()
    return app


def at_stop(app, number, *words):
    """The tour is at this stop, and its card says these words."""
    expect(app.page.locator(f"{CARD} .place")).to_have_text(f"{number} of {len(STOPS)}")
    for part in words:
        expect(app.page.locator(f"{CARD} .words")).to_contain_text(part)
    return app.idle()


def test_the_tour_from_the_first_to_the_last_stop_by_keys_alone(visit, opening, smollm):
    """Only this test finds a stop whose words and picture part, or choices that the tour does not give back."""
    app = visit(f"/step_by_step?text={quote('My own words')}&stage=scaled&scaling=false")
    app.widget(state.TOUR_START).get_by_role("button").press("Enter")
    encoder, decoder = opening.trace(5, 11), capture(smollm, SENTENCE).trace(13, 8)
    cell = explain(encoder, 10, 2)
    said = {
        1: f"gives {cell.weight:.1%} of its attention",
        2: f"32 products add up to {number(cell.raw)}",
        3: f"{number(cell.raw)} becomes {number(cell.scaled)}",
        4: f"becomes a weight of {number(cell.weight)}",
        5: "the output of “it” is the sum",
        6: f"{int((~decoder.mask).sum())} of {decoder.mask.size} pairs are masked",
        7: "Now try it yourself",
    }
    for stop, (words, shown) in enumerate(zip(said.values(), STOPS, strict=True), start=1):
        trace = decoder if stop == 6 else encoder
        at_stop(app, stop, words).shows_trace(trace)
        opens(app, shown.stage, STAGES[BY_KEY[shown.stage].name](trace))
        app.page.keyboard.press("ArrowRight")
    expect(app.page.locator(CARD)).to_have_count(0)
    app.has(state.TEXT, "My own words")  # all is as it was before
    app.eventually(lambda: (app.said["stage"], app.said["scaling"]), (["scaled"], ["false"]))


def test_the_tour_is_left_in_the_middle_and_all_stays(visit, opening):
    """Only this test finds keys that are faster than the stops come."""
    app = begin_tour(visit())
    at_stop(app, 1)
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight", "ArrowRight"):  # without waiting
        app.page.keyboard.press(key)
    for stop in (5, 4):
        at_stop(app, stop).page.keyboard.press("ArrowLeft")
    at_stop(app, 3).page.keyboard.press("Escape")
    expect(app.page.locator(CARD)).to_have_count(0)
    opens(app, "scaled", opening.trace(5, 11).scaled)
    app.has(state.QUERY, "it (10)").has(state.KEY, "animal (2)").idle().click_cell(AS_IT_IS, 3, 4).pins(AS_IT_IS, 3, 4)
    app.eventually(lambda: app.place(state.QUERY), 3)


def test_the_tour_says_nothing_of_what_it_does_not_show(visit, opening):
    """Not of other matrices, not of a scale that is switched off, though its own words invite to that.
    Only this test finds words of the tour that speak of what a visitor has changed."""
    app = begin_tour(visit())
    for stop in (1, 2):
        at_stop(app, stop).page.keyboard.press("ArrowRight")
    at_stop(app, 3, "multiplied by 1").switch(state.SCALING)
    at_stop(app, 3, "You have changed what this stop shows").switch(state.SCALING)
    at_stop(app, 3, "multiplied by 1").click_cell(AS_IT_IS, 4, 3)
    cell = explain(opening.trace(5, 11), 4, 3)
    at_stop(app, 3, f"{number(cell.raw)} becomes {number(cell.scaled)}").choose(state.SOURCE, "My own matrices")
    at_stop(app, 3, "You have changed what this stop shows").page.get_by_role("button", name="Next →").click()
    at_stop(app, 4, "becomes a weight of")


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_the_card_stands_beside_its_outlined_subject_in_view(visit, width, height):
    """Only this test finds a card that covers what it speaks of, or speaks of something out of sight."""
    app = begin_tour(visit(width=width, height=height))

    def boxes(stop: Stop) -> list[dict[str, float]]:
        places = app.widget(stop.subject), app.page.locator(RING), app.page.locator(CARD)
        return [place.bounding_box() for place in places]

    def stand_well(found: list[dict[str, float]]) -> bool:
        subject, ring, card = found
        outlined = all(0 < subject[side] - ring[side] < 8 for side in ("x", "y"))
        larger = abs(ring["width"] - subject["width"]) + abs(ring["height"] - subject["height"])
        above = card["y"] + card["height"] <= subject["y"]
        beside = 0 <= max(distances(card, subject)) < 30 and above == (width < 640)  # and not on it
        return (
            outlined and larger < 20 and beside and card["y"] >= 50 and subject["y"] < height - 200
        )  # below the header

    for place, stop in enumerate(STOPS[:3], start=1):
        at_stop(app, place).eventually(lambda stop=stop: boxes(stop), stand_well)
        app.page.keyboard.press("ArrowRight")
    at_stop(app, 4).page.mouse.move(width / 2, height / 2)
    before, *_ = app.settled(lambda: boxes(STOPS[3]))
    app.page.mouse.wheel(0, 150)
    app.eventually(  # the ring follows its subject
        lambda: boxes(STOPS[3]), lambda found: found[0]["y"] != before["y"] and 0 < found[0]["y"] - found[1]["y"] < 8
    )


def distances(one, other):
    """How far two boxes are apart, across and down; below 0 where they overlap."""
    return [
        max(one[side] - (other[side] + other[length]), other[side] - (one[side] + one[length]))
        for side, length in (("x", "width"), ("y", "height"))
    ]


def test_fast_clicks_leave_one_cell_pinned_and_the_page_alive(app, opening):
    """Only this test finds a page that dies of clicks which interrupt its runs."""
    app.shows({AS_IT_IS: opening.trace(5, 11).weights}).idle()
    clicked = [(place + 3, 14 - place) for place in range(6)]
    for cell in clicked:
        app.click_cell(AS_IT_IS, *cell)
    # A click in the instant in which a chart is replaced hits nothing; those that arrive never mix.
    pinned = app.eventually(lambda: app.drawn(AS_IT_IS).pinned, lambda cell: cell in clicked)
    pinned = app.settled(lambda: app.drawn(AS_IT_IS).pinned)
    assert pinned in clicked
    app.eventually(lambda: (app.place(state.QUERY), app.place(state.KEY)), pinned)
    app.click_cell(AS_IT_IS, 2, 9).pins(AS_IT_IS, 2, 9)


STRANGE = "<b>x</b> $y$ *a* :smile: `q` <img src=x onerror=alert(1)> مرحبا"


def test_token_text_is_data(app, smollm):
    """Only this test finds a place on the page that takes a token for markup."""
    app.choose(state.MODEL, "SmolLM2-135M-Instruct").write(state.TEXT, STRANGE)
    taken = capture(smollm, STRANGE)
    app.shows_trace(taken.trace(13, 8))
    tokens = taken.tokens()[0]
    every = {visible(token) for token in tokens}
    app.eventually(lambda: app.ticks(AS_IT_IS, "y"), lambda labels: set(labels) <= every and "<" in "".join(labels))
    places = [next(place for place, token in enumerate(tokens) if letter in token) for letter in "<$*`"]
    for key, query in (places[:2], places[2:]):  # of which none looks ahead
        app.choose_place(state.QUERY, query).choose_place(state.KEY, key)
        for place in (query, key):
            expect(app.page.get_by_text("of its attention to")).to_contain_text(tokens[place].strip())
    expect(app.page.locator("img[src=x]")).to_have_count(0)
    # Any dialog, script error or stray request fails in `visit`.


def test_fits_a_phone(visit, opening, minilm):
    app = visit(width=390, height=844)
    app.shows_trace(opening.trace(5, 11))
    app.eventually(lambda: app.page.evaluate("document.documentElement.scrollWidth"), lambda width: width <= 390)
    line = app.widget(state.EQUATION)
    app.eventually(lambda: line.evaluate("line => line.scrollWidth > 2 * line.clientWidth"))
    app.idle().click_stage("Output")  # brought into sight, and opened
    opens(app, "output", opening.trace(5, 11).output)
    app.widget(state.TEXT).get_by_role("textbox").fill(TWICE)
    app.widget(state.APPLY).get_by_role("button", name="Apply", exact=True).click()
    app.shows_trace(capture(minilm, TWICE).trace(5, 11))


# How far the labels below the columns of each picture are apart, at right angles to the way they run, less what a line of
# their letters needs; null while a picture has another size than its place on the page.
_ROOM_BETWEEN_LABELS = """
() => [...document.querySelectorAll("[class*=st-key-picture_] .js-plotly-plot")].map((chart) => {
    if (!chart._fullLayout || Math.abs(chart._fullLayout.width - chart.clientWidth) > 1) return null;
    const labels = [...chart.querySelectorAll(".xtick text")].map((label) => {
        const { left, right } = label.getBoundingClientRect();
        const angle = (label.getAttribute("transform").match(/rotate.(-?[0-9]+)/) || ["", "0"])[1];
        return { left, right, slant: Math.abs(Math.sin(angle * Math.PI / 180)), size: parseFloat(label.style.fontSize) };
    });
    labels.sort((one, other) => one.right - other.right);
    const room = labels.slice(1).map(({ left, right, slant, size }, place) =>
        slant ? (right - labels[place].right) * slant - 0.95 * size : left - labels[place].right);
    return Math.min(...room, 1000);
})
"""


def test_labels_below_columns_do_not_overlap(visit, opening):
    trace = opening.trace(5, 11)
    app = visit("/step_by_step?mask=Causal&query=7&key=11", height=720)
    app.shows_trace(trace.changed(mask=grid(causal, *trace.shape)))
    for width in (1280, 1024, 390):
        app.page.set_viewport_size({"width": width, "height": 720})
        app.idle().eventually(lambda: app.page.evaluate(_ROOM_BETWEEN_LABELS), lambda room: min(room) >= 0)
