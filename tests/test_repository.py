"""The files that contributors and GitHub expect: they agree with the code, with the requirements and with each other."""

from __future__ import annotations

import re
import tomllib

import yaml

import core
from tests.source_files import ROOT
from tests.test_requirements import DEV, pins

WORKFLOW = ROOT / ".github/workflows/check.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def steps() -> list[dict]:
    return yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["check"]["steps"]


def test_pre_commit_runs_the_ruff_that_check_py_runs() -> None:
    (repository,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert repository["rev"] == f"v{pins(DEV.read_text('utf-8'))['ruff']}"


def test_github_runs_check_py_and_nothing_else() -> None:
    assert [step["run"] for step in steps() if "run" in step] == ["python check.py"]


def test_github_checks_the_oldest_python_that_is_promised() -> None:
    (python,) = (step["with"]["python-version"] for step in steps() if "python-version" in step.get("with", {}))
    assert PROJECT["project"]["requires-python"] == f">={python}"


def test_every_action_is_pinned_to_a_commit() -> None:
    """A tag can be moved to other code."""
    uses = [line for line in WORKFLOW.read_text("utf-8").splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_the_citation_has_the_keys_of_its_format_and_the_version_of_the_code() -> None:
    """The required keys of Citation File Format 1.2.0: https://github.com/citation-file-format/citation-file-format"""
    citation = yaml.safe_load(read("CITATION.cff"))
    assert {"authors", "cff-version", "message", "title"} <= citation.keys()
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", core.__version__)
    assert citation["license"] == PROJECT["project"]["license"]


def test_contributing_gives_the_order_of_the_packages_as_the_contract_does() -> None:
    contracts = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
    layers = [re.split(r" [|:] ", layer) for layer in reversed(contracts["story"]["layers"])]
    packages = [sorted(name for name in layer if (ROOT / "core" / name).is_dir()) for layer in layers]
    (order,) = re.findall(r"^\*\*(attention .+)\*\*$", read("CONTRIBUTING.md"), re.M)
    assert [sorted(names.split(", ")) for names in order.split(" → ")] == [layer for layer in packages if layer]
