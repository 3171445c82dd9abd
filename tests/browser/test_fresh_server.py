"""What a server shows that nobody has visited yet: a model is converted, and a link opens what another server has shown."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from core import capture
from core.heads.patterns import match_heads, pairs
from core.heads.views import HeadView, ViewMatrix
from tests.browser.addresses import SENTENCE
from tests.browser.driver import SLOW_BROWSER, SLOW_SERVER, App, Server
from ui import state

OF_HEADS = (
    *(state.TEXT, state.MODEL, state.HEAD_BOX, state.METRIC, state.LOOK_FOR, state.PAIRS, state.AT_LEAST),
    *(state.FROM_LAYER, state.TO_LAYER, state.ATLAS_BY, state.ORDER, state.SHOWN_AS, state.QUERY, state.KEY),
    *(state.DIRECTION, state.PINNED_TOKENS),
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this server keeps converted models: there are none."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def fresh_server(cache: Path) -> Iterator[Server]:
    """It gets ready while a test does something else; then `wait` for it. For a slow browser, which has to see what it does, it
    is slow as well."""
    with mock.patch.dict(os.environ, {"HEADLIGHT_CACHE": str(cache)}):
        server = Server(slow=max(SLOW_SERVER, SLOW_BROWSER))
    yield server
    server.stop()


def test_while_a_model_is_converted_the_first_screen_says_so(visit, smollm, fresh_server, cache):
    """Only this test finds progress of a real conversion that is below what a phone shows."""
    app = visit(at=fresh_server.wait(), width=390, height=844)
    text = app.settled(app.widget(state.TEXT).bounding_box)
    app.choose(state.MODEL, "SmolLM2-135M-Instruct")
    words = app.page.get_by_text(re.compile("converting its weights, once: [0-9]+%"))
    expect(words).to_be_in_viewport()
    expect(app.page.get_by_role("progressbar")).to_be_in_viewport()
    app.eventually(app.widget(state.TEXT).bounding_box, text)  # it lies over the page, which does not move
    expect(words).to_have_count(0)
    app.shows_trace(capture(smollm, SENTENCE).trace(13, 8))
    assert len(list(cache.glob("SmolLM2*/model.safetensors"))) == 1


def test_a_link_with_many_settings(visit, fresh_server, minilm):
    """On a server that has not shown it before. Only this test finds settings of Heads that get lost in a link together."""
    app = visit("/heads?metric=Match+with+a+pattern&pattern_of=Drawn+pairs")
    text = "Grüße: the cat saw the dog; 100 %?\nA second line & the end <b>"
    taken = capture(minilm, text)
    match = match_heads(taken, pairs([(7, 6), (9, 8)]))
    bound = float(np.quantile(match, 0.8).round(2))
    passes = (match >= bound) & (np.arange(6) <= 3)[:, None]
    assert 3 < passes.sum() < passes.size
    app.write(state.TEXT, text).write(state.PAIRS, "7-6, 9-8")
    app.unfold("Options").number(state.AT_LEAST, bound).number(state.TO_LAYER, 3).unfold("Options", fold=True)
    app.click_cell("atlas", 2, 5).pins("atlas", 2, 5).press(state.ORDER, "Lowest first")
    app.unfold("Numbers").toggle(state.LEAVE_OUT, "First token").switch(state.RENORMALISE)
    app.choose(state.MEAN_OF, "2.5").choose(state.MEAN_OF, "3.1").unfold("Numbers", fold=True)
    view = HeadView(heads=((2, 5), (3, 1)), left_out=frozenset({"first"}), renormalise=True)
    viewed = ViewMatrix(taken, "self", view)
    pictures = {"atlas": np.where(passes, match, np.nan), "head": viewed.overview().matrices["view"].values}
    app.shows(pictures).press(state.SHOWN_AS, "Text").idle().page.locator(".token").nth(6).click()
    app.eventually(lambda: app.said.get("pins"), ["6"])
    app.page.mouse.move(5, 5)
    shown = np.nan_to_num(viewed.window(*map(range, viewed.shape)).matrices["view"].values)
    app.choose_place(state.QUERY, 8).shades(shown[6]).says_in_address(query=8)
    app.unfold("Options")
    address, fields = app.settled(lambda: app.here), app.settled(lambda: app.fields(OF_HEADS))
    rows = app.settled(lambda: app.listed(state.RANKED))

    again = visit(address, at=fresh_server.wait()).shows({"atlas": pictures["atlas"]}).unfold("Options")
    again.eventually(lambda: again.fields(OF_HEADS), fields)
    again.idle().eventually(lambda: again.listed(state.RANKED), rows)
    again.shades(shown[6]).eventually(lambda: again.said, parse_qs(urlsplit(address).query))


WIDGETS = (
    *(state.TEXT, state.MODEL, state.HEAD_BOX, state.SOURCE, state.QUERY, state.KEY, state.TOY_TEXT, state.SEED),
    *(state.QUERIES, state.KEYS, *state.OWN.values()),
)


def everything(app: App) -> tuple[dict, dict]:
    """What fields and pictures show. Fields in popovers are seen in the pictures, which depend on them."""
    pictures = {name: np.nan_to_num(picture.values, nan=-1e9).tolist() for name, picture in app.equation().items()}
    return app.fields(WIDGETS), pictures


def shows_the_same(app: App, copy: App) -> None:
    """The copy goes to where this visitor is, and then shows all that this one shows."""
    address, expected = app.settled(lambda: app.here), app.settled(lambda: everything(app))
    copy.go(address).eventually(lambda: everything(copy), expected)


def test_links_reproduce_each_session(visit, fresh_server, minilm):
    """Only this test finds an address that leaves something out which only the first server remembers."""
    text = "Grüße & Küsse: 100 %?\nA second line; a=b+c #1"
    app, copy = visit(), visit("/softmax", at=fresh_server.wait())
    app.write(state.TEXT, text).choose(state.HEAD_BOX, "Head 4.2")
    app.choose(state.MASK, "Sliding window").number(state.MASK_SIZE, 5).idle().click_stage("Masked").idle()
    app.click_cell("As it is", 5, 2).pins("As it is", 5, 2)
    app.shows_trace(capture(minilm, text).trace(4, 2), stages=("Value",))
    shows_the_same(app, copy)
    app.go("/step_by_step").choose(state.SOURCE, "My own matrices").switch(state.SCALING)
    app.write(state.OWN["value"], "1\n2\n3\n-4.5").eventually(lambda: state.OWN["value"] in app.said)
    shows_the_same(app, copy)
