"""The few lines of Python that compute what a page shows, for a notebook: the calls that the page has recorded (`ui.calls`)."""

from __future__ import annotations

import streamlit as st

from ui.calls import Expression
from ui.shown import PageContents

WIDE = 88  # characters of an import in one line


def show_as_python(shown: PageContents) -> None:
    """Show the lines with a button that copies them, or say that there are none."""
    lines = lines_of(shown)
    if lines is None:
        st.caption("There is no Python for what this page shows now.")
    else:
        st.code(lines, language="python")
        st.caption("To install `headlight`, run `pip install .` in Headlight's own folder.")


def lines_of(shown: PageContents) -> str | None:
    """Return a program whose last lines give what the page shows; None if there is none."""
    recorded = shown.recorded
    if not recorded.results:
        return None
    program = Program(recorded.files)
    results = list(dict.fromkeys(program.source(result) for result in recorded.results))
    return "\n".join([*program.import_lines(), "", *program.variables, *([""] if program.variables else []), *results])


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
