"""What cannot be used is said beside its field, nothing typed is lost, and good input works again."""

import pytest
from playwright.sync_api import expect

from core import capture
from tests.browser.addresses import SENTENCE
from tests.browser.driver import AS_IT_IS
from ui import state

ADDRESSES = "http://example.com/x HTTPS://example.com/?a=b&c=d www.example.com me@example.org mailto:me@example.org"


@pytest.mark.thorough
def test_a_model_that_cannot_be_had_is_shown_as_typed_and_is_no_link(go, minilm):
    app = go("/step_by_step")
    box = app.widget(state.MODEL).get_by_role("combobox")
    box.fill(ADDRESSES)
    box.press("Enter")
    app.complains(repr(ADDRESSES))
    expect(app.page.get_by_role("alert").locator("a, img")).to_have_count(0)
    app.has(state.MODEL, ADDRESSES).has(state.TEXT, SENTENCE)
    app.choose(state.MODEL, "all-MiniLM-L6-v2").shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 11).weights})
