"""What somebody sees who opens a page and touches nothing: a finding and its picture, on a laptop and on a phone."""

from __future__ import annotations

import pytest

# Where the first picture of a page is, which fields stand before it, and how many words before or beside it. A field counts
# once, whatever it is made of; the buttons at the top right, which are the same on every page, don't.
_FIRST_SCREEN = """
() => {
    const main = document.querySelector("[data-testid=stMain]");
    const box = (element) => {
        const { top, bottom, width, height } = element.getBoundingClientRect();
        return width > 2 && height > 2 && getComputedStyle(element).visibility !== "hidden" ? { top, bottom } : null;
    };
    const pictures = [...main.querySelectorAll(".js-plotly-plot, .st-key-token_view, [data-testid=stImage]")].map(box);
    const [first] = pictures.filter(Boolean).sort((one, other) => one.top - other.top);
    const fields = [...main.querySelectorAll(".stElementContainer:not(.st-key-actions *)")].filter((element) =>
        element.querySelector("button:not([data-testid=stTooltipIcon] *), input, textarea, a[href]")
        && !element.querySelector(".js-plotly-plot") && box(element)?.top < first.top);
    const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    let words = 0;
    while (texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        const place = range.getBoundingClientRect();
        const isSeen = place.width > 2 && place.bottom > 0 && place.top < first.bottom;
        const isOurs = !texts.currentNode.parentElement.closest(
            ".js-plotly-plot, .katex, .st-key-token_view, .st-key-actions, style, script");
        if (isSeen && isOurs) words += (texts.currentNode.textContent.match(/[\\p{L}\\p{N}]\\S*/gu) || []).length;
    }
    return { top: first.top, bottom: first.bottom, fields: fields.map((field) => field.innerText), words };
}
"""
PAGES = ("step_by_step", "heads", "what_if", "generation")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_on_its_picture(visit, page):
    app = visit(f"/{page}", width=1280, height=720)
    seen = app.page.evaluate(_FIRST_SCREEN)
    assert seen["bottom"] <= 720, f"the first picture ends at {seen['bottom']:.0f}"
    assert len(seen["fields"]) <= 12, f"before the first picture: {seen['fields']}"
    assert seen["words"] <= 70


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_on_a_finding_on_a_phone(visit, page):
    app = visit(f"/{page}", width=390, height=844)
    finding = app.page.locator("[data-testid=stMain] h3, [data-testid=stMain] button").filter(has_text="%").first
    place = finding.bounding_box()
    assert place is not None
    assert place["y"] + place["height"] <= 844, "the first screen has no number"
    seen = app.page.evaluate(_FIRST_SCREEN)
    assert seen["top"] < 844, "the first screen has no picture"
    assert app.page.evaluate("document.documentElement.scrollWidth") <= 390
