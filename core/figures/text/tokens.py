"""What a browser needs to write tokens as running text, and where its scripts are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ..labels import visible

# Each stands for a script and a style: tokens that shade, and the view with pointing, pinning and lines.
TOKENS, TEXT_VIEW = Path(__file__).with_suffix(""), Path(__file__).with_name("text_view")


def spelled(tokens: Sequence[str], start: int) -> dict[str, Any]:
    """Return what the browser needs to write the tokens as running text.

    text    each token with its blanks made visible
    quiet   the number of characters at its start that only stand for a blank or for "joins the previous token"
    before  what separates it from the previous token: "j" nothing, "b" a possible line break, "s" a space
    after   "n" if the token ends a line, otherwise "."
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
    """Return j(oin), b(reak) or s(pace). Vocabularies that write " the" mark the start of words, others their continuation."""
    if token.startswith(" "):
        return "b"
    return "j" if marks_spaces or _continues(token, marks_spaces) else "s"


def _continues(token: str, marks_spaces: bool) -> bool:
    """Return whether this is the second or a later piece of a word in WordPiece's spelling: "##ing"."""
    return not marks_spaces and token.startswith("##") and len(token) > 2


def joined(tokens: Sequence[str], block: int) -> list[str]:
    """Return the text of every `block` tokens as one."""
    if block == 1:
        return list(tokens)
    marks_spaces = any(token.startswith(" ") for token in tokens)
    texts = []
    for first in range(0, len(tokens), block):
        text, *others = tokens[first : first + block]
        for token in others:
            is_apart = _before(token, marks_spaces) == "s"
            text += f" {token}" if is_apart else token[2:] if _continues(token, marks_spaces) else token
        texts.append(text)
    return texts
