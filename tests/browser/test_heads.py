"""The page Heads in a browser, worked by somebody who is in a hurry: all that it draws and says against core's own numbers."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from core import capture
from core.heads.metrics import head_metrics, standing_out
from core.heads.patterns import match_heads, pairs
from core.heads.views import HeadView, ViewMatrix, thumbnails
from tests.browser.addresses import SENTENCE
from tests.browser.driver import App
from ui import state

LAYERS, HEADS = 6, 12
LONG = "The quick brown fox jumps over the lazy dog, and nobody minds. " * 50  # about 700 tokens of SmolLM2


@pytest.fixture(scope="module")
def taken(minilm):
    return capture(minilm, SENTENCE)


def grid(table, column):
    return table[column].to_numpy(float).reshape(-1, table["head"].nunique())


def opens(app: App, pass_, layer: int, head: int) -> App:
    """That head is in the address, in the heading, framed in the atlas and drawn; the atlas is still there."""
    app.shows({"head": pass_.trace(layer, head).weights}).pins("atlas", layer, head)
    # The address does not name the layer and the head that a model opens with.
    shown = {state.LAYER: ["5"], state.HEAD: ["11"]}
    app.eventually(lambda: [int((shown | app.said)[part][0]) for part in shown], [layer, head])
    expect(app.page.get_by_role("heading", name=f"Layer {layer}, head {head}")).to_be_visible()
    return app.idle()


def lists(app: App, is_right: object = bool) -> list[list[str]]:
    """The rows in sight of the list of heads, once they are right."""
    return app.idle().eventually(lambda: app.listed(state.RANKED), is_right)


@pytest.mark.thorough
def test_heads_by_mouse_keys_and_list(go, taken):
    """Only this test finds clicks and keys that are lost, or change places, where they are faster than the page."""
    app = go("/heads?metric=sink")
    sink = grid(head_metrics(taken), "sink")
    opens(app.click_cell("atlas", 2, 3), taken, 2, 3).shows({"atlas": sink})

    for keys, place in (
        (["ArrowDown"] * 10, (5, 3)),
        (["ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowRight", *["ArrowRight"] * 4], (3, 5)),
        (["ArrowLeft"] * 8 + ["ArrowUp"] * 4 + ["ArrowRight"], (0, 1)),
    ):
        opens(app.keys(*keys), taken, *place)

    for layer, head in ((4, 4), (0, 2), (3, 9), (1, 1), (5, 0)):  # without waiting for any of them
        app.click_cell("atlas", layer, head)
    opens(app, taken, 5, 0)
    opens(app.keys("ArrowUp"), taken, 4, 0)

    order = np.argsort(-sink.ravel(), kind="stable")
    for name, row, place in (("Highest first", 2, order[2]), ("Lowest first", 1, order[::-1][1])):
        app.press(state.ORDER, name)
        layer, head = map(int, divmod(place, HEADS))
        lists(app, lambda rows, row=row, shown=[str(layer), str(head)]: rows[row][:2] == shown)
        opens(app.mark_row(state.RANKED, row), taken, layer, head)
    app.shows({"atlas": sink}).press_button(state.one_of(state.FINDING, 1))  # stands out by another metric
    opens(app, taken, *divmod([*standing_out(head_metrics(taken)).values()][1], HEADS))


@pytest.mark.thorough
def test_a_click_on_a_small_picture_and_keys_open_its_head(go, taken):
    app = go("/heads?metric=sink&by=Small+pictures&least=0.3")
    rows, width = thumbnails(taken).values.shape[2:]
    app.eventually(lambda: app.drawn("atlas").values.shape, (LAYERS * (rows + 1), HEADS * (width + 1)))
    across, down = app.settled(lambda: [place.tolist() for place in app.drawn("atlas").places])
    app.click_cell("atlas", down[1 * (rows + 1) + 9], across[7 * (width + 1) + 2])
    app.shows({"head": taken.trace(1, 7).weights}).says_in_address(layer=1, head=7).idle().keys("ArrowDown")
    app.shows({"head": taken.trace(2, 7).weights})


@pytest.mark.thorough
def test_pairs_are_drawn_on_the_picture(go, taken):
    """Only this test finds pairs that a click on the picture adds to a text field, and bad pairs that outlive it."""
    app = go("/heads?metric=Match+with+a+pattern&pattern_of=Drawn+pairs")

    def matches(*pattern: tuple[int, int]) -> None:
        app.shows({"atlas": match_heads(taken, pairs(pattern))}).idle()

    matches((7, 2))
    app.click_cell("head", 10, 3)
    matches((7, 2), (10, 3))
    app.click_cell("head", 7, 2)
    matches((10, 3))
    app.unfold("Options").write(state.PAIRS, "9-4, x-y").complains("“x-y” is not a pair")
    app.unfold("Options", fold=True).sent.clear()
    app.click_cell("head", 5, 5).eventually(lambda: app.sent)
    app.unfold("Options").has(state.PAIRS, "9-4, x-y").write(state.PAIRS, "10-2")
    matches((10, 2))


@pytest.mark.thorough
def test_the_text_itself(go, taken):
    """Only this test finds shades that are wrong once pins and directions were changed, or pointing that asks the server."""
    app = go("/heads?metric=sink&layer=3&head=2&as=Text")
    weights = taken.trace(3, 2).weights
    tokens = app.page.locator(".token")
    expect(tokens).to_have_count(16)
    app.idle().sent.clear()
    for place in (10, 0, 8):
        app.shades(weights[place], pointed=tokens.nth(place))
    assert app.idle().sent == []
    for pins in (["8"], ["8", "5"]):
        app.idle()
        tokens.nth(int(pins[-1])).click()
        app.eventually(lambda: app.said["pins"], pins)
    assert app.sent, "a click is a message, or the test does not see any"
    app.page.mouse.move(5, 5)
    app.shades(weights[[8, 5]].mean(axis=0))
    expect(app.page.locator(".token.pinned")).to_have_count(2)

    app.press(state.DIRECTION, "what attends to it")
    app.shades(weights[:, [8, 5]].mean(axis=1)).press(state.SHOWN_AS, "Lines")
    expect(app.page.get_by_role("listbox")).to_have_count(2)
    app.press(state.SHOWN_AS, "Heatmap").shows({"head": weights})

    def dotted() -> list[float]:
        frames = app.drawn("head").layout["shapes"]
        return sorted((frame["y0"] + frame["y1"]) / 2 for frame in frames if frame["line"].get("dash") == "dot")

    app.eventually(dotted, [5, 8])


@pytest.mark.thorough
def test_stopping_a_long_pass(go, smollm):
    """Only this test finds a Stop that does not reach a pass, or takes the text away."""
    app = go("/heads?metric=sink&model=SmolLM2-135M-Instruct&text=Hi")
    app.write(state.TEXT, LONG)
    run, stop = app.button("Run"), app.button("Stop")

    def begins() -> bool:
        if run.is_visible():
            run.click()
        return stop.is_visible()

    app.eventually(begins)
    app.says("Reading", "tokens: layer", "of 30")
    stop.click()
    app.says("was stopped").has(state.TEXT, LONG).click("Start again")
    expect(stop).to_be_visible()  # what was stopped had not gone on
    viewed = ViewMatrix(capture(smollm, LONG), "self", HeadView(heads=((13, 8),)))
    app.shows({"head": viewed.overview().matrices["view"].values}).says("Each drawn cell is the strongest of")

    def spans() -> list[int]:
        said = re.search(r"queries (\d+) to (\d+), keys (\d+) to (\d+)", app.page.locator("body").inner_text())
        return [int(number) for number in said.groups()] if said else []

    top, bottom, left, right = app.settled(spans)
    exact = viewed.window(range(top, bottom + 1), range(left, right + 1)).matrices["view"].values
    query, key = (round(at) for at in app.shows({"loupe": exact}).settled(lambda: app.drawn("loupe").pinned))
    app.says(f"gives {exact[query, key]:.1%} of its attention to").click_cell("loupe", 3, 2)
    app.eventually(lambda: (app.place(state.QUERY), app.place(state.KEY)), (top + 3, left + 2))
