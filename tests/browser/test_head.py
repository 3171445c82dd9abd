"""The card in a browser: a click on its picture asks about another pair, and its Markdown is saved with what it says."""

from __future__ import annotations

import pytest

from ui import state


@pytest.mark.thorough
def test_a_click_asks_about_another_pair_and_the_card_is_saved(go):
    app = go("/head").says("Head 5.11 gives 67.3% from “it” to “animal”")
    app.click_cell("head", 12, 1).says("from “too” to “the”")
    app.eventually(lambda: "query=12" in app.page.url and "key=1" in app.page.url)
    app.says("In general")
    app.widget(state.SHARE).get_by_role("button").click()
    with app.page.expect_download() as download:
        app.page.get_by_role("dialog").get_by_role("button", name="Markdown").click()
    text = download.value.path().read_text()
    assert text.startswith("# Head 5.11 of all-MiniLM-L6-v2\n")
    for line in ("Known claims", "In general", "Here", "Reads", "Writes", "Muted", "Like it"):
        assert f"\n- {line}: " in text
    assert "- text: The animal" in text
