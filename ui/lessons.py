"""The lessons, in the order of the menu: their titles, the page after each, and the files of all pages."""

from pathlib import Path

PAGES = Path(__file__).parent.parent / "pages"
LESSONS = {
    "query_key_value": "Query, key, value",
    "softmax": "Softmax",
    "scaling": "Why 1/√d_k",
    "masking": "Masks",
    "many_heads": "Many heads",
    "self_and_cross": "Self and cross",
    "word_order": "Word order",
    "long_range": "Long range",
    "blocks": "In blocks",
}


def file(page: str) -> Path:
    """Return the file of a page or a lesson, by its name in addresses."""
    return PAGES / ("learn" if page in LESSONS else "") / f"{page}.py"


def after(title: str) -> tuple[Path, str]:
    """Return the page after the lesson with this title, and that page's title: the next lesson, or Step by step."""
    titles = list(LESSONS.values())
    index = titles.index(title) + 1
    if index == len(titles):
        return file("step_by_step"), "Step by step"
    return file(list(LESSONS)[index]), titles[index]
