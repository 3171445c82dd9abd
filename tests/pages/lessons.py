"""Lessons without a browser: opening a part, everything it says, and what is written in the file of its page."""

import ast
from pathlib import Path

from streamlit.testing.v1 import AppTest

from tests.pages.app import ran
from ui import state

PAGES = Path(__file__).resolve().parent.parent.parent / "pages" / "learn"
LESSONS = sorted(page.stem for page in PAGES.glob("*.py"))


def open_lesson(lesson: str, part: str, **knobs: str) -> AppTest:
    """The page after a first run with this part and these knobs in its address, in which nothing was raised."""
    page = AppTest.from_file(str(PAGES / f"{lesson}.py"))
    page.query_params.update({state.PART: part} | knobs)
    return ran(page)


def said(page: AppTest) -> str:
    """Everything written on the page; tables are Markdown as well."""
    return "\n".join(one.value for one in page.markdown)


def rows(page: AppTest) -> dict[str, list[str]]:
    """The rows of the page's tables: what each begins with -> its other cells."""
    cells = [line.strip("|").split("|") for line in said(page).splitlines() if line.startswith("|")]
    return {first.strip().replace("\N{NO-BREAK SPACE}", " "): [cell.strip() for cell in rest] for first, *rest in cells}


def parts(lesson: str) -> dict[str, str]:
    """The sentences of a lesson's parts, by the words that stand for them in an address."""
    tree = ast.parse((PAGES / f"{lesson}.py").read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(tree):
        for call in getattr(node, "decorator_list", []):
            # Only the experiment in a real model can be declared without its word and its name.
            *word, words = call.args
            found[ast.literal_eval(word[0]) if word else "model"] = ast.literal_eval(words)
    return found
