"""The few lines of Python that compute what a page shows, also as a notebook: the calls that it has recorded (`ui.calls`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from core.exporting.documents import to_notebook
from ui import state
from ui.calls import Expression
from ui.progress import for_its_visitor
from ui.sharing.provenance import about, file_name
from ui.shown import PageContents

NOTEBOOK = "application/x-ipynb+json"
WIDE = 88  # characters of an import in one line


def show_as_python(shown: PageContents) -> None:
    """Show the lines with buttons that copy them and save them as a notebook, or say that there are none."""
    cells = cells_of(shown)
    if not cells:
        st.caption("There is no Python for what this page shows now.")
        return
    st.code(in_one(cells), language="python")
    facts = about(shown)
    files = list(shown.recorded.files.values())
    make = for_its_visitor(partial(to_notebook, cells, shown.title, facts, files=files))
    name, icon = file_name(facts, shown.title, ".ipynb"), ":material/book_2:"
    st.download_button("Notebook", make, name, NOTEBOOK, key=state.SAVE_NOTEBOOK, icon=icon, on_click="ignore")
    st.caption(
        "The notebook first installs `headlight`. Put it into Headlight's own folder, or name that in its first cell."
    )


def cells_of(shown: PageContents) -> list[str]:
    """Return a program in parts: its opening, and a line for each result that the page shows; [] if there is none."""
    recorded = shown.recorded
    if not recorded.results:
        return []
    program = Program(recorded.files)
    results = list(dict.fromkeys(program.source(result) for result in recorded.results))
    opening = [*program.import_lines(), *([""] if program.variables else []), *program.variables]
    return ["\n".join(opening), *results]


def in_one(cells: Sequence[str]) -> str:
    """Return the parts of a program as one text."""
    opening, *results = cells
    return "\n".join([opening, "", *results])


class Program:
    """Lines of Python. A value that has a name is computed once, however often it is used.

    files      the names of uploaded files by their contents
    variables  the lines that compute the values with names
    """

    def __init__(self, files: dict[bytes, str]) -> None:
        self.variables: list[str] = []
        self._files = files
        self._imports: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}  # by the source of what they hold

    def import_lines(self) -> list[str]:
        """Return the imports of all names in the lines: of the standard library, of numpy, of headlight."""
        homes = sorted(self._imports, key=lambda home: (home.startswith("headlight"), home != "pathlib", home))
        return [_import(home, sorted(self._imports[home])) for home in homes]

    def source(self, part: str | bytes | Expression) -> str:
        """Return an expression or a part of one as Python, after adding the variables that it uses."""
        if isinstance(part, bytes):
            return repr(self._files.get(part, "file"))
        if isinstance(part, str):
            return part
        for home, name in part.imports:
            self._imports.setdefault(home, set()).add(name)
        source = "".join(map(self.source, part.parts))
        return self._variable(part.name, source) if part.name else source

    def _variable(self, name: str, source: str) -> str:
        if source not in self._names:
            alike = sum(other.partition("_")[0] == name for other in self._names.values())
            self._names[source] = f"{name}_{alike + 1}" if alike else name
            self.variables.append(f"{self._names[source]} = {source}")
        return self._names[source]


def _import(home: str, names: list[str]) -> str:
    if home == "numpy":
        return "import numpy as np"
    line = f"from {home} import {', '.join(names)}"
    return line if len(line) <= WIDE else "\n".join([f"from {home} import (", *(f"    {name}," for name in names), ")"])
