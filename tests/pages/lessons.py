"""What the tests of lessons read off a page without running it: the names of its parts, and how many words it says."""

import ast
from pathlib import Path

from ui.views.lesson import IN_A_MODEL

PAGES = Path(__file__).resolve().parent.parent.parent / "pages" / "learn"


def parts(page: Path) -> list[str]:
    """The names of a lesson's parts, in their order."""
    return [name for name, _ in _parts(page)]


def word_count(page: Path) -> int:
    """Words that its parts say, all together."""
    return sum(len(words.split()) for _, words in _parts(page))


def _parts(page: Path) -> list[tuple[str, str]]:
    tree = ast.parse(page.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Part"]
    return [
        (IN_A_MODEL if isinstance(call.args[0], ast.Name) else ast.literal_eval(call.args[0]), _literal(call.args[1]))
        for call in calls
    ]


def _literal(node: ast.expr) -> str:
    return str(ast.literal_eval(node))
