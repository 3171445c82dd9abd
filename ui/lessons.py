"""The lessons in the order in which they are read."""

from __future__ import annotations

from pathlib import Path

PAGES = Path(__file__).parent.parent / "pages"
LESSONS = {
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
    return PAGES / "learn" / f"{lesson}.py"


def after(title: str) -> tuple[Path, str]:
    """The page that follows the lesson of this title, and its own title: the next lesson, or where all stages are seen."""
    titles = list(LESSONS.values())
    place = titles.index(title) + 1
    if place == len(titles):
        return PAGES / "step_by_step.py", "Step by step"
    return file(list(LESSONS)[place]), titles[place]
