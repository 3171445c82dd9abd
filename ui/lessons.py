"""The lessons, in the order of the menu: their files, their titles, and the page after each."""

from __future__ import annotations

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


def file(lesson: str) -> Path:
    """Return the file of a lesson's page."""
    return PAGES / "learn" / f"{lesson}.py"


def after(title: str) -> tuple[Path, str]:
    """Return the page after the lesson with this title, and that page's title: the next lesson, or Step by step."""
    titles = list(LESSONS.values())
    index = titles.index(title) + 1
    if index == len(titles):
        return PAGES / "step_by_step.py", "Step by step"
    return file(list(LESSONS)[index]), titles[index]
