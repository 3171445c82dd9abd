"""An address copied from one session, opened as the very first request to a fresh server, shows the same."""

import numpy as np
import pytest

from core import capture
from ui import state

pytestmark = pytest.mark.browser
WIDGETS = (
    *(
        state.TEXT,
        state.PAIR,
        state.MODEL,
        state.LAYER,
        state.HEAD,
        state.SOURCE,
        state.SCALING,
        state.MASK,
    ),
    *(state.MASK_SIZE, state.QUERY, state.KEY, state.TOY_TEXT, state.QUERIES, state.KEYS, state.SEED),
    *state.OWN.values(),
)


def everything(app):
    pictures = app.equation()
    assert pictures is not None
    return app.values(WIDGETS), {name: picture.values for name, picture in pictures.items()}


def same(first, second):
    assert first[0] == second[0]
    for name, values in first[1].items():
        np.testing.assert_array_equal(values, second[1][name], err_msg=name)


def test_links_reproduce_each_session(visit, fresh_server, smollm):
    fresh = fresh_server()
    sessions = []

    app = visit()
    app.write(state.TEXT, "Grüße & Küsse: 100 %?\nA second line; a=b+c #1").idle()
    app.choose(state.MODEL, "SmolLM2-135M-Instruct").idle().choose(state.LAYER, 4).idle().choose(state.HEAD, 2).idle()
    app.choose(state.MASK, "Sliding window").idle().number(state.MASK_SIZE, 5).idle()
    app.click_stage("Masked").idle().click_cell("As it is", 5, 2).idle()
    taken = capture(smollm, "Grüße & Küsse: 100 %?\nA second line; a=b+c #1")
    found = app.equation()
    assert found is not None
    np.testing.assert_allclose(found["Value"].values, taken.trace(4, 2).value, rtol=1e-6)
    sessions.append((app.address, everything(app)))

    app = visit()
    app.press(state.SOURCE, "Random matrices").idle().number(state.QUERIES, 9).idle().switch(state.SCALING).idle()
    sessions.append((app.address, everything(app)))

    app = visit()
    app.press(state.SOURCE, "My own matrices").idle().write(state.OWN["value"], "1\n2\n3\n-4.5").idle()
    sessions.append((app.address, everything(app)))

    app = visit()
    app.write(state.PAIR, "Is it tired?").idle().choose(state.HEAD, 4).idle()
    sessions.append((app.address, everything(app)))

    fresh.wait()
    for address, expected in sessions:
        same(expected, everything(visit(address, at=fresh)))


def test_changing_and_going_back_leaves_a_right_address(visit):
    app = visit()
    app.choose(state.HEAD, 3).idle().choose(state.MODEL, "SmolLM2-135M-Instruct").idle()
    same(everything(app), everything(visit(app.address)))
    app.choose(state.MODEL, "all-MiniLM-L6-v2").idle()
    same(everything(app), everything(visit(app.address)))
    app.write(state.TEXT, "Hi there").idle().click_cell("As it is", 3, 1).idle()
    app.write(state.TEXT, "Now a somewhat longer sentence again").idle()
    same(everything(app), everything(visit(app.address)))


def test_another_page_is_a_first_request_too(visit, fresh_server, minilm):
    app = visit("/heads?head=2", at=fresh_server().wait())
    taken = capture(minilm, "The animal didn't cross the street because it was too tired.")
    app.shows_trace(taken.trace(5, 2))


def test_what_a_link_chose_goes_along_to_other_pages(visit, minilm):
    app = visit("/heads?layer=1&head=3&text=The+cat+saw+me")
    app.page.get_by_role("link", name="Step by step").click()
    app.until(lambda: "layer=1" in app.address, "the choices are not in the next page's address")
    app.idle().shows_trace(capture(minilm, "The cat saw me").trace(1, 3))
    same(everything(app), everything(visit(app.address)))
