"""Clicks on "What changed": the grid opens a head, the pictures of a passage a cell; both stand in the address."""

import pytest
from playwright.sync_api import expect


@pytest.mark.thorough
def test_a_click_opens_a_head_and_then_a_cell_of_it(go):
    def heading(layer: int, head: int) -> None:
        expect(app.page.get_by_role("heading", name=f"Layer {layer}, head {head}", exact=True)).to_be_visible()

    app = go("/what_changed?texts=The old bridge was closed.")
    app.click_cell("changed heads", 3, 2)
    heading(3, 2)
    app.click_cell("compared first", 4, 2)
    expect(app.page.get_by_text("“was” → “old”: Base")).to_be_visible()
    app.eventually(lambda: "key_place=2" in app.page.url)
    app.page.reload()
    heading(3, 2)
    expect(app.page.get_by_text("“was” → “old”: Base")).to_be_visible()
