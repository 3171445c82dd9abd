"""The landing page in a real browser: what is drawn is what core computes, whatever is clicked."""

import re
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from core import capture, explain
from core.attention.masks import causal, grid
from core.attention.stages import BY_KEY, number
from core.figures.heatmaps.equation import TERMS
from core.figures.labels import visible
from tests.browser.driver import AS_IT_IS, PATIENCE, STAGES
from tests.conftest import eager_attentions
from ui import state
from ui.views.sources.passes import SENTENCE
from ui.views.step_by_step.tour import STOPS

TWICE, FRANCE = "the cat saw the other cat", "The capital of France is"


@pytest.fixture(scope="session")
def opening(minilm):
    """What the app opens with, computed here."""
    return capture(minilm, SENTENCE)


def test_opening_shows_a_finished_picture_without_a_click(app, minilm, opening):
    trace = opening.trace(5, 11)
    app.shows_trace(trace).shows({AS_IT_IS: trace.weights})
    eager = eager_attentions(minilm, opening).attentions[5][0, 11].numpy()
    np.testing.assert_allclose(app.picture(AS_IT_IS).values, eager, atol=1e-5)
    assert app.alerts() == []
    labels, tokens = app.tokens(AS_IT_IS, "y"), list(opening.tokens()[0])
    assert labels == tokens[::2]  # as many as fit without overlap
    assert app.tokens(AS_IT_IS, "x") == tokens
    said = app.page.locator("body").inner_text()
    assert "Agrees with the model: 512 output numbers" in said
    assert "Reads texts only." in said
    assert (app.value(state.QUERY), app.value(state.KEY)) == ("it (10), suggested", "animal (2), suggested")
    assert minilm.revision not in said  # it is behind a click
    app.unfold("Provenance").page.get_by_text(minilm.revision).wait_for()


def test_while_a_model_is_converted_the_first_screen_says_so(visit, smollm, tmp_path, monkeypatch, request):
    """Only this test finds progress of a real conversion that is below what a phone shows."""
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path))
    server = request.getfixturevalue("fresh_server")  # which has the cache only now
    app = visit(at=server.wait(), width=390, height=844)
    text = app.widget(state.TEXT).bounding_box()
    app.choose(state.MODEL, "SmolLM2-135M-Instruct")
    words = app.page.get_by_text(re.compile("converting its weights, once: [0-9]+%"))
    expect(words).to_be_in_viewport()
    bar = app.page.get_by_role("progressbar")
    expect(bar).to_be_in_viewport()
    assert app.widget(state.TEXT).bounding_box() == text  # it lies over the page, which does not move
    expect(words).to_have_count(0, timeout=PATIENCE * 1000)
    app.idle().shows_trace(capture(smollm, SENTENCE).trace(13, 8))
    assert len(list(tmp_path.glob("SmolLM2*/model.safetensors"))) == 1


def test_a_click_pins_a_cell_everywhere_and_explains_it(app, opening):
    trace = opening.trace(5, 11)
    app.shows({AS_IT_IS: trace.weights}).idle()
    app.click_cell(AS_IT_IS, 7, 13)
    app.until(lambda: app.picture(AS_IT_IS).pinned == (7, 13), "the clicked cell is not framed")
    app.idle()
    tokens = opening.tokens()[0]
    assert (app.value(state.QUERY), app.value(state.KEY)) == (f"{tokens[7]} (7)", f"{tokens[13]} (13)")
    assert "query=7" in app.address
    assert "key=13" in app.address
    drawn = app.equation()
    assert drawn is not None
    for stage, picture in drawn.items():
        expected = {"Query": (7, None), "Key": (None, 13), "Value": (13, None), "Output": (7, None)}
        assert picture.pinned == expected.get(stage, (7, 13)), stage
    cell = explain(trace, 7, 13)
    table = app.page.get_by_role("table").first.inner_text()
    for figure in (cell.raw, cell.scaled, cell.masked, cell.exponential, cell.row_sum, cell.weight):
        assert number(figure) in table
    assert (
        f"“{tokens[7]}” gives {cell.weight:.1%} of its attention to “{tokens[13]}”."
        in app.page.locator("body").inner_text()
    )

    app.go("/step_by_step?stage=query").click_cell(AS_IT_IS, 4, 20)
    app.until(lambda: app.place(state.QUERY) == 4, "the query is not pinned")
    assert "key=" not in app.address  # a column of the queries is no key


def opens(app, stage, values):
    """The stage is open: drawn large, named above the picture and in the address, bold in the equation."""
    app.shows({AS_IT_IS: values}).idle()
    assert app.page.get_by_text(BY_KEY[stage].sentence).count() == 1
    assert parse_qs(urlsplit(app.address).query).get(state.STAGE, ["weights"]) == [stage]
    names = [note["text"] for note in app.picture("equation").layout["annotations"]]
    assert [name for name in names if "<b>" in name] == [f"<b>{TERMS[stage].name}</b>"]


def test_a_stage_opens_by_click_by_key_and_by_link(app, opening):
    """Only this test finds keys that step beyond the ends, or a stage whose name and picture part."""
    trace = opening.trace(5, 11)
    opens(app, "weights", trace.weights)
    opens(app.click_stage("Raw scores"), "raw", trace.raw)
    app.page.keyboard.press("ArrowRight")
    opens(app, "scaled", trace.scaled)
    for _ in range(8):  # not beyond the last
        app.page.keyboard.press("ArrowRight")
    opens(app, "output", trace.output)
    for key in ["ArrowLeft"] * 8 + ["ArrowRight"]:
        app.page.keyboard.press(key)
    opens(app, "key", trace.key)
    app.page.go_back()
    app.idle()
    assert state.STAGE not in parse_qs(urlsplit(app.address).query) or app.address.count("stage=") == 1
    opens(app.go("/step_by_step?stage=value"), "value", trace.value)
    opens(app.go("/step_by_step?stage=Raw+scores"), "raw", trace.raw)
    opens(app.go("/step_by_step?stage=Q,+K,+V"), "query", trace.query)


def test_the_output_is_said_to_be_a_sum_over_all_keys(visit, opening):
    trace = opening.trace(5, 11)
    app = visit("/step_by_step?stage=output&query=6&key=2")
    app.shows({AS_IT_IS: trace.output}).idle()
    table = app.page.get_by_role("table").filter(has_text="further keys")
    cells = table.get_by_role("row").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.innerText))"
    )
    rows = [row for row in cells if row[0] not in ("key", "")]
    weights, terms = trace.weights[6].astype(float), trace.weights[6, :, None].astype(float) * trace.value
    largest = np.argsort(-weights)[:8]
    shown = np.array([[float(cell.replace("−", "-")) for cell in row[1:]] for row in rows])
    rest = np.delete(terms, largest, axis=0).sum(axis=0)
    expected = np.vstack([terms[largest], rest, trace.output[6]])[:, : shown.shape[1] - 1]
    np.testing.assert_allclose(shown[:, 1:], expected, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(shown[:, 0], [*weights[largest], np.delete(weights, largest).sum(), 1], rtol=2e-3)
    assert [row[0] for row in rows[-2:]] == ["8\u00a0further\u00a0keys", "sum"]


def test_what_is_changed_is_told_from_what_the_model_computed(visit):
    app = visit("/step_by_step?model=SmolLM2-135M-Instruct&scaling=false")
    text = app.page.locator("body").inner_text()
    assert "As it is: scale 0.125" in text
    assert "Changed: scale 1" in text
    assert "This speaks of the original" in text
    assert "Of the original: the change above does not reach the rest of the model." in text
    app.switch(state.SCALING).idle()
    assert "the original" not in app.page.locator("body").inner_text()


CARD, RING = ".card", f".st-key-{state.TOUR_CARD} .ring"


def at_stop(app, number):
    app.until(
        lambda: app.page.locator(f"{CARD} .place").all_inner_texts() == [f"{number} of {len(STOPS)}"],
        f"it is not stop {number}",
        patience=60,
    )
    return app.idle().page.locator(f"{CARD} .words").inner_text()


def test_the_tour_from_the_first_to_the_last_stop_by_keys_alone(visit, opening, smollm):
    """Only this test finds a stop whose words and picture part, or choices that the tour does not give back."""
    app = visit(f"/step_by_step?text={quote('My own words')}&stage=scaled&scaling=false")
    button = app.widget(state.TOUR_START).get_by_role("button")
    button.focus()
    app.page.keyboard.press("Enter")
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
        assert words in at_stop(app, stop)
        trace = decoder if stop == 6 else encoder
        app.shows_trace(trace)
        opens(app, shown.stage, STAGES[BY_KEY[shown.stage].name](trace))
        app.page.keyboard.press("ArrowRight")
    app.until(lambda: app.page.locator(CARD).count() == 0, "the card stays")
    app.idle()
    assert app.value(state.TEXT) == "My own words"  # all is as it was before
    assert "stage=scaled" in app.address
    assert "scaling=false" in app.address


def test_the_tour_is_left_in_the_middle_and_all_stays(visit, opening):
    """Only this test finds keys that are faster than the stops come."""
    app = visit()
    app.widget(state.TOUR_START).get_by_role("button").click()
    at_stop(app, 1)
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight", "ArrowRight"):  # without waiting
        app.page.keyboard.press(key)
    at_stop(app, 5)
    app.page.keyboard.press("ArrowLeft")
    at_stop(app, 4)
    app.page.keyboard.press("ArrowLeft")
    at_stop(app, 3)
    app.page.keyboard.press("Escape")
    app.until(lambda: app.page.locator(CARD).count() == 0, "the card stays")
    opens(app, "scaled", opening.trace(5, 11).scaled)
    assert (app.value(state.QUERY), app.value(state.KEY)) == ("it (10)", "animal (2)")
    app.click_cell(AS_IT_IS, 3, 4).idle()
    assert app.place(state.QUERY) == 3


def test_the_tour_says_nothing_of_what_it_does_not_show(visit, opening):
    """Not of other matrices, not of a scale that is switched off, though its own words invite to that.
    Only this test finds words of the tour that speak of what a visitor has changed."""
    app = visit()
    app.widget(state.TOUR_START).get_by_role("button").click()
    for stop in (2, 3):
        at_stop(app, stop - 1)
        app.page.keyboard.press("ArrowRight")
    assert "multiplied by 1" in at_stop(app, 3)
    app.switch(state.SCALING).idle()
    assert "You have changed what this stop shows" in at_stop(app, 3)
    app.switch(state.SCALING).idle().click_cell(AS_IT_IS, 4, 3).idle()
    cell = explain(opening.trace(5, 11), 4, 3)
    assert f"{number(cell.raw)} becomes {number(cell.scaled)}" in at_stop(app, 3)
    app.choose(state.SOURCE, "My own matrices").idle()
    assert "You have changed what this stop shows" in at_stop(app, 3)
    app.page.get_by_role("button", name="Next →").click()
    assert "becomes a weight of" in at_stop(app, 4)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_the_card_stands_beside_its_outlined_subject_in_view(visit, width, height):
    """Only this test finds a card that covers what it speaks of, or speaks of something out of sight."""
    app = visit(width=width, height=height)
    app.widget(state.TOUR_START).get_by_role("button").click()
    for place, stop in enumerate(STOPS[:3], start=1):
        at_stop(app, place)
        subject, ring = app.widget(stop.subject).bounding_box(), app.page.locator(RING).bounding_box()
        card = app.page.locator(CARD).bounding_box()
        for side in ("x", "y"):
            assert 0 < subject[side] - ring[side] < 8
        assert abs(ring["width"] - subject["width"]) + abs(ring["height"] - subject["height"]) < 20
        gaps = distances(card, subject)
        assert 0 <= max(gaps) < 30, gaps  # beside it, and not on it
        above = card["y"] + card["height"] <= subject["y"]
        assert above == (width < 640)
        assert card["y"] >= 50  # not below the header
        assert subject["y"] < height - 200
        app.page.keyboard.press("ArrowRight")
    at_stop(app, 4)
    app.page.mouse.move(width / 2, height / 2)
    app.page.mouse.wheel(0, 150)
    app.until(
        lambda: 0 < app.widget(STOPS[3].subject).bounding_box()["y"] - app.page.locator(RING).bounding_box()["y"] < 8,
        "the ring does not follow its subject",
    )


def distances(one, other):
    """How far two boxes are apart, across and down; below 0 where they overlap."""
    return [
        max(one[side] - (other[side] + other[length]), other[side] - (one[side] + one[length]))
        for side, length in (("x", "width"), ("y", "height"))
    ]


def test_a_mask_that_does_not_fit_is_said_also_while_its_field_is_folded_away(visit, opening):
    app = visit("/step_by_step?mask=own&grid=1,0")
    app.shows_trace(opening.trace(5, 11)).idle()
    (alert,) = app.page.get_by_role("alert").all()
    assert "(1, 2)" in alert.inner_text()
    button = app.page.get_by_test_id("stPopoverButton").filter(has_text="Scale and mask").bounding_box()
    said = alert.bounding_box()
    assert button is not None
    assert said is not None
    assert 0 <= said["y"] - (button["y"] + button["height"]) < 40


def test_fast_clicks_leave_one_cell_pinned_and_the_page_alive(app, opening):
    """Only this test finds a page that dies of clicks which interrupt its runs."""
    app.shows({AS_IT_IS: opening.trace(5, 11).weights}).idle()
    clicked = [(place + 3, 14 - place) for place in range(6)]
    for cell in clicked:
        app.click_cell(AS_IT_IS, *cell)
    app.until(lambda: "query=" in app.address, "no click has arrived")
    app.idle(0.6)
    # A click in the instant in which a chart is replaced hits nothing; those that arrive never mix.
    pinned = app.picture(AS_IT_IS).pinned
    assert pinned in clicked
    assert (app.place(state.QUERY), app.place(state.KEY)) == pinned
    app.click_cell(AS_IT_IS, 2, 9)
    app.until(lambda: app.picture(AS_IT_IS).pinned == (2, 9), "a click after the burst is not the one that is framed")


STRANGE = "<b>x</b> $y$ *a* :smile: `q` <img src=x onerror=alert(1)> مرحبا"


def test_token_text_is_data(app, smollm):
    """Only this test finds a place on the page that takes a token for markup."""
    app.choose(state.MODEL, "SmolLM2-135M-Instruct").idle()
    app.write(state.TEXT, STRANGE)
    taken = capture(smollm, STRANGE)
    app.shows_trace(taken.trace(13, 8)).idle()
    labels = app.tokens(AS_IT_IS, "y")
    assert set(labels) <= {visible(token) for token in taken.tokens()[0]}
    assert "<" in "".join(labels)
    tokens = taken.tokens()[0]
    places = [next(place for place, token in enumerate(tokens) if letter in token) for letter in "<$*`"]
    for key, query in (places[:2], places[2:]):  # of which none looks ahead
        app.choose_place(state.QUERY, query).idle().choose_place(state.KEY, key).idle()
        said = app.page.get_by_text("of its attention to").inner_text()
        assert tokens[query].strip() in said
        assert tokens[key].strip() in said
    assert app.page.locator("img[src=x]").count() == 0
    # Any dialog, script error or stray request fails in `visit`.


def test_fits_a_phone(visit, opening, minilm):
    app = visit(width=390, height=844)
    app.shows_trace(opening.trace(5, 11))
    assert app.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    line = app.widget(state.EQUATION)
    assert line.evaluate("line => line.scrollWidth > 2 * line.clientWidth")
    app.click_stage("Output")  # brought into sight, and opened
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
    room: list[float | None] = []

    def all_fit() -> bool:
        room[:] = app.page.evaluate(_ROOM_BETWEEN_LABELS)
        return all(least is not None and least >= 0 for least in room)

    for width in (1280, 1024, 390):
        app.page.set_viewport_size({"width": width, "height": 720})
        app.idle().until(all_fit, lambda: f"labels overlap in a window {app.page.viewport_size} in size: {room}")
