"""HTML pages that hold all that they show: their policy forbids loading anything, from wherever."""

import html
from pathlib import Path
from string import Template

_PAGE = Template(Path(__file__).with_suffix(".html").read_text("utf-8"))


def standalone(title: str, style: str, body: str) -> str:
    """Return a page. The title is any text; style and body are CSS and HTML."""
    return _PAGE.substitute(title=html.escape(title), style=style, body=body)
