"""The examples of docs/attribution.md run, and give the numbers beside them."""

import ast
import re
import runpy
from pathlib import Path

import pytest

from core.capturing.rounding import OF_SUMS

DOC = (Path(__file__).parent.parent / "docs" / "attribution.md").read_text(encoding="utf-8")


def test_examples_give_what_stands_beside_them(tmp_path):
    """A line with a comment is an expression with its value."""
    lines = [line.partition("  # ") for line in re.findall(r"^    (\S.*)$", DOC, re.MULTILINE)]
    stated = [(code, ast.literal_eval(comment)) for code, _, comment in lines if comment]
    assert len(stated) == 11
    script = tmp_path / "examples.py"
    script.write_text(
        "\n".join(["found = []", *(f"found += [{code}]" if comment else code for code, _, comment in lines)])
    )
    found = runpy.run_path(str(script))["found"]
    for (code, expected), value in zip(stated, found, strict=True):
        assert value == pytest.approx(expected, abs=0.006), code


def test_limits_are_those_of_the_certificates():
    stated = re.findall(r"^\| (\w+) \|.*\| ([\d.]+) \|$", DOC, re.MULTILINE)
    assert len(stated) == 2
    limits = {str(dtype).removeprefix("torch."): limit for dtype, limit in OF_SUMS.items()}
    assert {name: float(limit) for name, limit in stated} == {name: limits[name] for name, _ in stated}
