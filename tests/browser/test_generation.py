"""A date is typed, the model writes it, and the alignment of its digits is read off the picture."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import expect

from core import generate, load_model
from ui import state

DATE = "Sat 21 Nov 1987"


def test_the_digits_of_a_year_look_at_the_year_that_was_typed(visit):
    app = visit("/generation?model=written-dates")
    app.write(state.TEXT, DATE)
    app.page.get_by_text("Every step").click()
    written = generate(load_model("written-dates"), DATE)
    assert written.text.startswith("1987-11-21")
    last = written.capture_of(-1)
    weights = last.trace(0, 0, "cross").weights  # the start token's row writes the first character
    app.shows({"row": weights})
    picture = app.picture("row")
    for step, digit in enumerate("1987"):
        key = int(np.argmax(picture.values[step]))
        assert (DATE[key], key) == (digit, DATE.index("1987") + step)

    def says(*parts: str) -> None:
        said = app.page.get_by_test_id("stMarkdown").filter(has_text="is written after")
        app.until(lambda: all(part in said.inner_text() for part in parts), lambda: said.inner_text())

    app.click_cell("row", 3, DATE.index("9"))  # a row is a step
    says("“7” is written after “8”", f"{weights[3, DATE.index('9')]:.1%}", "to “9”")
    assert "step=4" in app.idle().address
    line = app.widget(state.ARROWS).locator(".keys")
    line.focus()
    for _ in range(2):
        line.press("ArrowRight")
    says("“1” is written after “-”")

    app.page.get_by_text("Text", exact=True).last.click()
    tokens = app.page.locator(".token")
    app.until(lambda: tokens.count() > 20, "the text is not there")
    assert app.page.locator(".token.written").all_inner_texts()[:10] == list("1987-11-21")
    tokens.nth(2).click()  # <s> 1 9: who has written "9" now writes "8"
    says("“8” is written after “9”")

    again = visit(f"/generation?{app.idle().address.partition('?')[2]}")
    assert again.page.get_by_test_id("stMarkdown").filter(has_text="“8” is written after “9”").count()


def test_writing_can_be_stopped_and_gone_on_with(visit):
    app = visit("/generation?model=SmolLM2-135M-Instruct&new=2&text=Once+upon+a+time")
    app.page.get_by_role("button", name="How it writes").click()
    more = app.widget(state.NEW_TOKENS).get_by_role("spinbutton")
    more.fill("200")
    more.press("Enter")
    app.page.get_by_role("button", name="Stop").click(timeout=60_000)
    note = app.page.get_by_text("of 200 written. Continue?")
    note.wait_for(timeout=60_000)

    def stopped() -> int:
        return int(note.inner_text().split()[0])

    def room_for_progress() -> float:
        """How far the growing text stands below the line of fields."""
        fields, text = (
            app.page.locator(one).bounding_box()
            for one in ("[data-testid=stPopoverButton]:has-text('writes')", ".stCode")
        )
        return text["y"] - fields["y"] - fields["height"]

    written = app.page.locator(".token.written")
    app.until(lambda: written.count() == stopped(), lambda: f"{written.count()} of {stopped()} tokens are shown")
    assert 0 < (first := stopped()) < 200
    app.page.get_by_role("button", name="Continue").click()
    stop = app.page.get_by_role("button", name="Stop")
    stop.wait_for(timeout=60_000)
    assert room_for_progress() < 30  # none: it lies over the page
    expect(stop).to_be_in_viewport()
    stop.click(timeout=60_000)
    note.wait_for(timeout=60_000)
    assert stopped() > first
