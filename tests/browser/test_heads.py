"""The page Heads in a browser, worked by somebody who is in a hurry: all that it draws and says against core's own numbers."""

from __future__ import annotations

import os
import re
import time
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from core import capture
from core.attention.strongest import strongest_cell
from core.figures.labels import all_placed
from core.heads.metrics import head_metrics, most_telling, standing_out
from core.heads.patterns import match_heads, pairs
from core.heads.thumbnails import thumbnails
from core.heads.views import HeadView, ViewMatrix
from tests.browser.driver import App
from ui import state
from ui.views.sources.passes import SENTENCE

LAYERS, HEADS = 6, 12
LONG = "The quick brown fox jumps over the lazy dog, and nobody minds. " * 50  # about 700 tokens of SmolLM2


@pytest.fixture(scope="module")
def taken(minilm):
    return capture(minilm, SENTENCE)


def grid(table, column):
    return table[column].to_numpy(float).reshape(-1, table["head"].nunique())


def head_of(app: App) -> tuple[int, int]:
    """Layer and head in the address, which does not name those that a model opens with."""
    asked = parse_qs(urlsplit(app.address).query)
    return int(asked.get(state.LAYER, ["5"])[0]), int(asked.get(state.HEAD, ["11"])[0])


def opens(app: App, pass_, layer: int, head: int) -> None:
    """That head is in the address, in the heading, framed in the atlas and drawn; the atlas is still there."""
    app.shows({"head": pass_.trace(layer, head).weights}).idle()
    assert head_of(app) == (layer, head)
    assert app.picture("atlas").pinned == (layer, head)
    assert app.page.get_by_role("heading", name=f"Layer {layer}, head {head}").is_visible()


def unfolded(app: App) -> App:
    """With the fields beside the menu in sight; a click elsewhere folds them up."""
    if not app.widget(state.AT_LEAST).count():
        app.unfold("Options")
        app.until(lambda: app.widget(state.AT_LEAST).count() == 1, "the fields do not unfold")
    return app.idle()


def listed(app: App) -> list[list[str]]:
    """The rows in sight of the list of heads."""
    app.until(lambda: bool(app.rows(state.RANKED)), "the list is empty")
    return app.idle().rows(state.RANKED)


def says(app: App, *words: str) -> None:
    """All of these words are somewhere on the page."""

    def missing() -> list[str]:
        text = app.page.locator("body").inner_text()
        return [part for part in words if part not in text]

    app.until(lambda: not missing(), lambda: f"nobody says {missing()}")


def test_a_finished_atlas_without_a_click(visit, taken):
    app = visit("/heads", height=720)
    table = head_metrics(taken)
    name = most_telling(table)
    (layer, head), *others = [divmod(row, 12) for row in standing_out(table).values()]
    app.shows({"atlas": grid(table, name), "head": taken.trace(layer, head).weights})
    assert parse_qs(urlsplit(app.address).query) == {state.LAYER: [str(layer)], state.HEAD: [str(head)]}
    places = [app.widget(state.picture(picture)).bounding_box() for picture in ("atlas", "head")]
    assert len({place["y"] for place in places}) == 1, "the pictures begin at different heights"
    assert all(place["y"] + place["height"] * 0.8 < 720 for place in places), "the first screen does not show them"
    says(app, "0.2 mostly the previous token (100%)")
    strongest = table.sort_values(name, ascending=False, kind="stable")
    for row, (_, expected) in zip(listed(app)[:5], strongest.iterrows(), strict=False):
        assert row[:2] == [f"{expected.layer:.0f}", f"{expected['head']:.0f}"]
        assert float(row[2]) == pytest.approx(expected[name], abs=1e-5)
        assert float(row[3]) == pytest.approx(expected[f"{name}_spread"], abs=1e-5)
    says(app, "72 heads")
    app.page.locator(
        f".st-key-{state.one_of(state.FINDING, 1)} button"
    ).click()  # a head that stands out by another metric
    opens(app, taken, *others[0])


def test_heads_by_mouse_keys_and_list(visit, taken):
    """Only this test finds clicks and keys that are lost, or change places, where they are faster than the page."""
    app = visit("/heads?metric=sink")
    sink = grid(head_metrics(taken), "sink")
    opens(app.click_cell("atlas", 2, 3), taken, 2, 3)
    app.shows({"atlas": sink})
    keys = app.page.keyboard
    keys.press("ArrowRight")
    opens(app, taken, 2, 4)
    keys.press("ArrowUp")
    opens(app, taken, 1, 4)
    for _ in range(10):
        keys.press("ArrowDown")
    opens(app, taken, 5, 4)
    for key in ("ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowRight", *["ArrowRight"] * 4):
        keys.press(key)
    opens(app, taken, 3, 6)
    for key in ["ArrowLeft"] * 8 + ["ArrowUp"] * 4 + ["ArrowRight"]:
        keys.press(key)
    opens(app, taken, 0, 1)

    for layer, head in ((4, 4), (0, 2), (3, 9), (1, 1), (5, 0)):  # without waiting for any of them
        app.click_cell("atlas", layer, head)
    opens(app, taken, 5, 0)
    keys.press("ArrowUp")
    opens(app, taken, 4, 0)

    order = np.argsort(-sink.ravel(), kind="stable")
    listed(app)
    opens(app.mark_row(state.RANKED, 2), taken, *map(int, divmod(order[2], HEADS)))
    app.press(state.ORDER, "Lowest first").idle()
    listed(app)
    opens(app.mark_row(state.RANKED, 1), taken, *map(int, divmod(order[::-1][1], HEADS)))
    app.shows({"atlas": sink})


def test_small_pictures(visit, taken):
    app = visit("/heads?metric=sink&by=Small+pictures&least=0.3")
    small = thumbnails(taken).values
    rows, width = small.shape[2:]
    drawn = app.picture("atlas")
    cells = drawn.values.reshape(LAYERS, rows + 1, HEADS, width + 1).transpose(0, 2, 1, 3)
    passes = grid(head_metrics(taken), "sink") >= 0.3
    assert 0 < passes.sum() < passes.size
    levels = np.where(np.isnan(small), 1, np.round(2 + 253 * np.sqrt(small)))
    levels[~passes] = 1
    np.testing.assert_array_equal(cells[:, :, :rows, :width], levels)
    assert not cells[:, :, rows].any()
    assert not cells[..., width].any()
    across, down = drawn.places
    app.click_cell("atlas", down[1 * (rows + 1) + 9], across[7 * (width + 1) + 2])
    app.shows({"head": taken.trace(1, 7).weights}).idle()
    assert head_of(app) == (1, 7)
    app.page.keyboard.press("ArrowDown")
    app.shows({"head": taken.trace(2, 7).weights})


def test_patterns(visit, taken):
    """Only this test finds pairs that a click on the picture adds to a text field, and bad pairs that outlive it."""
    app = visit("/heads?metric=Match+with+a+pattern&pattern_of=Drawn+pairs")

    def matches(pattern):
        app.shows({"atlas": match_heads(taken, pattern)})

    matches(pairs([(7, 2)]))
    unfolded(app).write(state.PAIRS, "7-2, 9 -> 4")
    matches(pairs([(7, 2), (9, 4)]))
    app.unfold("Options").click_cell("head", 10, 3)
    matches(pairs([(7, 2), (9, 4), (10, 3)]))
    app.idle().click_cell("head", 7, 2)
    matches(pairs([(9, 4), (10, 3)]))
    assert app.idle().value(state.PAIRS) == "9-4, 10-3"
    says(app, "Shown here: drawn pairs.")

    bad = {
        (state.PAIRS, "9-4, x-y"): "“x-y” is no pair",
        (state.PAIRS, "99-98"): "No query of this text has a choice",
    }
    unfolded(app).number(state.AT_LEAST, 0.2).idle().unfold("Options")
    for (field, text), complaint in bad.items():
        app.write(field, text)
        app.until(lambda complaint=complaint: any(complaint in alert for alert in app.alerts()), complaint)
        app.idle()
        assert app.value(field) == text
        assert app.picture("head").values.shape == (16, 16)
    app.write(state.PAIRS, "9-4, x-y").idle().click_cell("head", 5, 5).idle()
    assert app.value(state.PAIRS) == "9-4, x-y"
    app.write(state.PAIRS, "10-2")
    found = match_heads(taken, pairs([(10, 2)]))
    app.shows({"atlas": np.where(found >= 0.2, found, np.nan)})
    assert float(unfolded(app).value(state.AT_LEAST)) == 0.2


def test_heads_by_a_pair_that_a_click_chooses(visit, taken):
    """Only this test finds boxes that move with the menu and lose what a click has chosen."""
    app = visit("/heads?layer=5&head=11")

    def ranked_by(query, key):
        every = [[taken.trace(layer, head).weights[query, key] for head in range(HEADS)] for layer in range(LAYERS)]
        app.shows({"atlas": np.array(every)}).idle()
        tokens = all_placed(taken.tokens()[0])
        assert (app.value(state.QUERY), app.value(state.KEY)) == (tokens[query], tokens[key])
        layer, head = np.unravel_index(np.argmax(every), (LAYERS, HEADS))
        says(app, f"{layer}.{head} looks hardest from “{taken.tokens()[0][query]}” to “{taken.tokens()[0][key]}”")

    app.choose(state.METRIC, "Your choice: From token to token")
    ranked_by(10, 2)
    says(app, "3.1 looks hardest from “it” to “animal” (67.7%)")
    app.click_cell("atlas", 2, 3)
    ranked_by(10, 2)
    app.click_cell("head", 7, 4)
    ranked_by(7, 4)
    app.choose_place(state.KEY, 2)
    ranked_by(7, 2)
    again = visit(app.address)
    app = again
    ranked_by(7, 2)
    assert (again.place(state.QUERY), head_of(again)) == (7, (2, 3))


def shades(app: App) -> np.ndarray:
    """How strong the background of every token is, 1 the strongest."""
    found = app.page.locator(".token").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    parts = [[float(part) for part in re.findall(r"[\d.]+", colour)] for colour in found]
    opacity = np.array([part[3] if len(part) == 4 else 1.0 for part in parts])
    return opacity / opacity.max()


def shades_as(app: App, weights: np.ndarray) -> None:
    app.until(
        lambda: np.allclose(shades(app), weights / weights.max(), atol=0.02),
        "the tokens have other shades than weights",
    )


def test_the_text_itself(visit, taken):
    """Only this test finds shades that are wrong once pins and directions were changed, or pointing that asks the server."""
    app = visit("/heads?metric=sink&layer=3&head=2&as=Text")
    weights = taken.trace(3, 2).weights
    tokens = app.page.locator(".token")
    app.until(lambda: tokens.count() == 16, "the text is not there")
    tokens.nth(10).hover()
    shades_as(app, weights[10])
    app.idle().sent.clear()
    for place in (3, 4, 12, 0, 15, 8):
        tokens.nth(place).hover()
        shades_as(app, weights[place])
    app.idle()
    assert app.sent == []
    for place in (8, 5):
        tokens.nth(place).click()
        app.idle()
    assert app.sent, "a click is a message, or the test does not see any"
    assert parse_qs(urlsplit(app.address).query)["pins"] == ["8", "5"]
    app.page.mouse.move(5, 5)
    shades_as(app, weights[[8, 5]].mean(axis=0))
    app.open(app.address)
    app.page.mouse.move(5, 5)
    shades_as(app, weights[[8, 5]].mean(axis=0))
    assert len(app.page.locator(".token.pinned").all()) == 2

    app.press(state.DIRECTION, "what attends to it").idle()
    shades_as(app, weights[:, [8, 5]].mean(axis=1))
    app.press(state.SHOWN_AS, "Lines").idle().sent.clear()
    lines = app.page.get_by_role("listbox")
    assert lines.count() == 2
    for place in (1, 9):
        lines.nth(1).locator(".token").nth(place).hover()
        app.idle()
    assert app.sent == []
    app.press(state.SHOWN_AS, "Heatmap").idle()
    app.shows({"head": weights})
    dotted = [frame for frame in app.picture("head").layout["shapes"] if frame["line"].get("dash") == "dot"]
    assert sorted((frame["y0"] + frame["y1"]) / 2 for frame in dotted) == [5, 8]
    shapes = app.picture("head").layout["shapes"]
    assert app.open(app.address).picture("head").layout["shapes"] == shapes


def seconds_of_work(server) -> float:
    """Processor time that the server has used so far."""
    with open(f"/proc/{server.process_id}/stat") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_stopping_a_long_pass(visit, server, smollm):
    """Only this test finds a pass that the server goes on with after Stop."""
    app = visit("/heads?metric=sink&model=SmolLM2-135M-Instruct&text=Hi")
    field = app.widget(state.TEXT).get_by_role("textbox")
    field.fill(LONG)
    field.press("Control+Enter")
    run, stop = (app.page.get_by_role("button", name=name, exact=True) for name in ("Run", "Stop"))

    def wait_for(button):
        app.until(button.is_visible, "there is no such button", patience=60)

    app.until(lambda: run.is_visible() or stop.is_visible(), "it neither asks nor shows progress", patience=60)
    if run.is_visible():
        says(app, "tokens: reading them and measuring every head takes")
        run.click()
    wait_for(stop)
    says(app, "Reading", "tokens: layer", "of 30")
    stop.click()
    says(app, "was stopped")
    app.idle()
    before = seconds_of_work(server)
    time.sleep(1)
    assert seconds_of_work(server) - before < 0.33
    assert app.value(state.TEXT) == LONG
    app.page.get_by_role("button", name="Start again").click()
    wait_for(stop)
    taken = capture(smollm, LONG)
    viewed = ViewMatrix(taken, "self", HeadView(heads=((13, 8),)))
    app.until(lambda: app.pictures(["head"])["head"] is not None, "it does not finish", patience=90)
    app.shows({"head": viewed.overview().matrices["view"].values})
    says(app, "Each drawn cell is the strongest of")
    query, key = (round(at) for at in app.idle().picture("loupe").pinned)
    rows = re.search(r"queries (\d+) to (\d+), keys (\d+) to (\d+)", app.page.locator("body").inner_text())
    assert rows is not None
    top, bottom, left, right = map(int, rows.groups())
    exact = viewed.window(range(top, bottom + 1), range(left, right + 1)).matrices["view"]
    app.shows({"loupe": exact.values})
    says(app, f"gives {exact.values[query, key]:.1%} of its attention to")
    app.click_cell("loupe", 3, 2).idle()
    assert (app.place(state.QUERY), app.place(state.KEY)) == (top + 3, left + 2)


def test_bad_input(visit, minilm):
    app = visit("/heads?layer=2&head=3&metric=Entropy&least=0.5&pins=4&what=Raw+scores")
    address = app.address

    def complains(*words):
        app.until(lambda: any(all(word in alert for word in words) for alert in app.alerts()), f"nobody says {words}")

    app.write(state.TEXT, "  \n ")
    complains("blank")
    app.idle().write(state.TEXT, "word " * 600)
    complains("602 tokens", "at most 512")
    assert app.idle().value(state.TEXT) == "word " * 600
    app.switch(state.TRUNCATE).idle()
    taken = capture(minilm, "word " * 600, truncate=True)
    raw = ViewMatrix(taken, "self", HeadView(heads=((2, 3),), quantity="raw"))
    app.shows({"head": raw.overview().matrices["view"].values})
    entropy = grid(head_metrics(taken), "entropy")
    app.shows({"atlas": np.where(entropy >= 0.5, entropy, np.nan)})
    app.write(state.TEXT, SENTENCE).idle()
    app.shows({"head": capture(minilm, SENTENCE).trace(2, 3).raw})
    said, meant = (parse_qs(urlsplit(one).query) for one in (app.address, address))
    assert said | {"cut": []} == {name: words for name, words in meant.items() if name != "pins"} | {"cut": []}


def test_fields_stay_in_the_address(visit):
    """Also while they are folded up: they are there in every run of the page.
    Only this test finds a folded field that drops out."""
    app = visit("/heads?metric=sink&text=Read+for+the+first+time&to_layer=4")
    for metric in ("Spread: Entropy", "Repetition: Induction", "Your choice: Match with a pattern", "Position: Itself"):
        app.choose(state.METRIC, metric).idle()
        assert "to_layer=4" in app.address, metric
    unfolded(app).press(state.ATLAS_BY, "Small pictures").idle().number(state.AT_LEAST, 0.2).idle()
    app.until(lambda: "least=0.2" in app.address, "the address does not know the field")
    app.choose(state.METRIC, "Spread: Entropy").idle()
    assert {"least=0.2", "to_layer=4", "by=pictures"} <= set(app.address.partition("?")[2].split("&"))


def test_from_a_head_to_its_steps_and_back(visit, minilm):
    """With text and pair, also the pair that is shown because it is the strongest, whatever was chosen there before.
    Only this test finds a link from page to page that loses what it was made from."""
    app = visit("/step_by_step?source=own")
    app.page.get_by_role("link", name="Heads", exact=True).click()
    app.until(lambda: "/heads" in app.address, "Heads does not open")
    text, pair = "Grüße: 100 % & <b>\nA second line", "Ein Ärger?"
    app.idle().write(state.TEXT, text).idle().write(state.PAIR, pair).idle()
    trace = capture(minilm, text, pair=pair).trace(3, 4)
    app.click_cell("atlas", 3, 4).shows({"head": trace.weights}).idle()
    app.page.get_by_test_id("stPageLink").get_by_role("link", name="All stages").click()
    app.until(lambda: "/heads" not in app.address, "Step by step does not open")
    app.idle()
    query, key = strongest_cell(trace.weights)
    tokens = all_placed(capture(minilm, text, pair=pair).tokens()[0])
    shown = {state.TEXT: text, state.HEAD_BOX: "Head 3.4", state.QUERY: tokens[query], state.KEY: tokens[key]}
    assert app.values([state.SOURCE, *shown]) == {state.SOURCE: "A real head"} | shown
    expected = {state.TEXT: text, state.PAIR: pair, state.LAYER: "3", state.HEAD: "4"}
    expected |= {state.QUERY: str(query), state.KEY: str(key)}
    assert parse_qs(urlsplit(app.address).query) == {name: [value] for name, value in expected.items()}
    app.shows_trace(trace).idle()
    app.click_stage("Raw scores").idle().click_cell("As it is", 5, 1).idle()
    app.page.get_by_role("link", name="All heads of this model").click()
    app.until(lambda: "/heads" in app.address, "Heads does not open")
    app.shows({"head": trace.weights}).idle()
    assert app.picture("atlas").pinned == (3, 4)
    shown |= {state.QUERY: tokens[5], state.KEY: tokens[1]}
    assert app.values(shown) == shown
    assert app.reached(state.PAIR).value(state.PAIR) == pair


def test_a_phone(visit):
    app = visit("/heads", width=390, height=800)
    widths = """() => [document.documentElement, document.querySelector("[data-testid=stMain]")]
        .map(one => one.scrollWidth - one.clientWidth)"""
    assert app.page.evaluate(widths) == [0, 0]
    for key, name in ((state.ATLAS_BY, "Small pictures"), (state.SHOWN_AS, "Lines")):
        if key == state.ATLAS_BY:
            unfolded(app)
            assert app.page.evaluate(widths) == [0, 0]
        app.press(key, name).idle()
        assert app.page.evaluate(widths) == [0, 0], name
    right = app.page.evaluate(
        "Math.max(...[...document.querySelectorAll('[class*=st-key-]')].map(one => one.getBoundingClientRect().right))"
    )
    assert right <= 390
