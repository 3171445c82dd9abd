"""What cannot be used is said beside its field, nothing typed is lost, and good input works again."""

from urllib.parse import quote

import numpy as np
from playwright.sync_api import expect

from core import capture
from tests.browser.addresses import SENTENCE
from tests.browser.driver import AS_IT_IS
from ui import state


def test_a_model_that_cannot_be_had(go, minilm):
    app = go("/step_by_step")
    box = app.widget(state.MODEL).get_by_role("combobox")
    box.fill("nobody/no-such-model")
    box.press("Enter")
    app.complains("nobody/no-such-model")
    app.has(state.MODEL, "nobody/no-such-model").has(state.TEXT, SENTENCE)
    app.choose(state.MODEL, "all-MiniLM-L6-v2").shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 11).weights})


def test_addresses_are_shown_as_typed_and_are_no_links(go):
    addresses = "http://example.com/x HTTPS://example.com/?a=b&c=d www.example.com me@example.org mailto:me@example.org"
    app = go(f"/step_by_step?model={quote(addresses)}").complains(repr(addresses))
    expect(app.page.get_by_role("alert").locator("a, img")).to_have_count(0)


def test_matrices_that_do_not_fit(go):
    """One after the other on one page, as somebody makes mistakes: each is said, kept, and gone once it is corrected.
    Only this test finds typed text that a message takes away."""
    app = go("/step_by_step?source=My+own+matrices")
    before = {AS_IT_IS: np.array(app.settled(lambda: app.drawn(AS_IT_IS).values.tolist()))}
    given = app.settled(lambda: app.fields(state.OWN.values()))
    for field, text, words in (("value", "1, two", ["two"]), ("mask", "1, 0", ["(1, 2)", "(3, 4)"])):
        key = state.OWN[field]
        app.write(key, text).complains(*words).has(key, text)
        app.write(key, "" if field == "mask" else given[key]).shows(before).is_well()
