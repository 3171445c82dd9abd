"""What a model has written is walked through by clicks and keys, and writing is stopped."""

import pytest
from playwright.sync_api import expect

from core import generate, load_model
from ui import state

DATE = "Sat 21 Nov 1987"


def test_a_step_is_chosen_by_cell_key_and_token(go):
    app = go("/generation?model=written-dates")
    app.write(state.TEXT, DATE)
    app.page.get_by_text("Every step").click()
    written = generate(load_model("written-dates"), DATE)
    assert written.text.startswith("1987-11-21")
    weights = written.capture_of(-1).trace(0, 0, "cross").weights  # the start token's row writes the first character
    app.shows({"row": weights})

    said = app.page.get_by_test_id("stMarkdown").filter(has_text="is written after")
    app.click_cell("row", 3, DATE.index("9"))  # a row is a step
    for part in ("“7” is written after “8”", f"{weights[3, DATE.index('9')]:.1%}", "to “9”"):
        expect(said).to_contain_text(part)
    app.says_in_address(step=4).idle().widget(state.ARROWS).locator(".keys").focus()
    app.keys("ArrowRight", "ArrowRight")
    expect(said).to_contain_text("“1” is written after “-”")

    app.idle().page.get_by_text("Text", exact=True).last.click()
    app.eventually(lambda: app.page.locator(".token.written").all_inner_texts()[:10], list("1987-11-21"))
    app.idle().page.locator(".token").nth(2).click()  # <s> 1 9: who has written "9" now writes "8"
    expect(said).to_contain_text("“8” is written after “9”")


@pytest.mark.thorough
def test_writing_can_be_stopped_and_gone_on_with(go):
    app = go("/generation?model=SmolLM2-135M-Instruct&new=2&text=Once+upon+a+time")
    app.unfold("How it writes").number(state.NEW_TOKENS, 100)
    note = app.page.get_by_text("of 100 written. Continue?")
    stop, written = app.button("Stop"), app.page.locator(".token.written")

    def stopped() -> int:
        """How many tokens are written, and shown."""
        stop.click()
        expect(note).to_be_visible()
        return app.eventually(lambda: int(note.inner_text().split()[0]), lambda count: count == written.count())

    first = then = stopped()
    assert 0 < first < 100
    app.click("Continue")

    def room_for_progress() -> float:
        """How far the growing text stands below the line of fields."""
        fields, text = (
            app.page.locator(one).bounding_box()
            for one in ("[data-testid=stPopoverButton]:has-text('writes')", ".stCode")
        )
        return text["y"] - fields["y"] - fields["height"]

    for seen in (stop, app.page.get_by_role("progressbar")):
        expect(seen).to_be_in_viewport()
    app.eventually(room_for_progress, lambda room: room < 30)  # none: it lies over the page
    for _ in range(10):  # Stop may come before the next token
        then = stopped()
        if then > first:
            break
        app.click("Continue")
    assert then > first
