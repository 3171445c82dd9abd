"""Tokens as running text, shaded: what components that show them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from streamlit.components.v2 import component

from core.figures.labels import visible

_HERE = Path(__file__)


def token_component(file: Path) -> Any:
    """The component whose style and script lie beside this file, behind those that all of this kind share."""

    def text(ending: str) -> str:
        return "\n".join(one.with_suffix(ending).read_text(encoding="utf-8") for one in (_HERE, file))

    return component(f"headlight_{file.stem}", css=text(".css"), js=text(".js"))


def spelled(tokens: Sequence[str], start: int) -> dict[str, Any]:
    """What the browser needs to write the tokens as running text.

    text    each token with its blanks made visible
    quiet   how many characters at its start only stand for a blank or for "joins the token before"
    before  what goes between it and the token before: nothing, a place where the line may break, or a space
    after   whether a line ends with it
    """
    marks_spaces = any(token.startswith(" ") for token in tokens)
    return {
        "start": int(start),
        "text": [visible(token) for token in tokens],
        "quiet": [_quiet(token, marks_spaces) for token in tokens],
        "before": "".join(_before(token, marks_spaces) for token in tokens),
        "after": "".join("n" if "\n" in token else "." for token in tokens),
    }


def _quiet(token: str, marks_spaces: bool) -> int:
    if _continues(token, marks_spaces):
        return 2
    return len(token) - len(token.lstrip(" ")) if token.strip() else 0


def _before(token: str, marks_spaces: bool) -> Literal["j", "b", "s"]:
    """j(oin), b(reak) or s(pace). Vocabularies that write " the" say where words begin; the others say where they go on."""
    if token.startswith(" "):
        return "b"
    return "j" if marks_spaces or _continues(token, marks_spaces) else "s"


def _continues(token: str, marks_spaces: bool) -> bool:
    """Whether this is the second or a later piece of a word in WordPiece's spelling: "##ing"."""
    return not marks_spaces and token.startswith("##") and len(token) > 2
