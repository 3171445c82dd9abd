"""What is known of one head, in lines, and the same as Markdown, for a model card."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .documents import About

# What Markdown reads as markup within a line and where one begins, and what makes links of addresses.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~$&!@#]|^[^\w\s]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


@dataclass(frozen=True)
class CardLine:
    """One thing that is known of a head. All of it is plain text, in which tokens stand as they are.

    about     what it is about, such as "Muted"
    number    with its unit, and its interval where there is one; "" where there is no number
    says      the words after the number
    measured  what it was measured on: how many queries, passages or tokens, and which half of the passages
    """

    about: str
    number: str
    says: str
    measured: str = ""


def to_markdown(title: str, lines: Iterable[CardLine], about: About) -> str:
    """The lines below a heading, and where their numbers come from."""
    written = [f"# {_escaped(title)}", ""]
    for line in lines:
        number = f" **{_escaped(line.number)}**" if line.number else ""
        measured = f" ({_escaped(line.measured)})" if line.measured else ""
        written.append(f"- {_escaped(line.about)}:{number} {_escaped(line.says)}{measured}")
    facts = [f"- {_escaped(name)}: {_escaped(text)}" for name, text in about.items()]
    return "\n".join([*written, "", "## Where these numbers come from", "", *facts, ""])


def _escaped(text: str) -> str:
    """In one line, with nothing in it that Markdown or HTML would read."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
