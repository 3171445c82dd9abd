"""Which tests belong to the quick depth; the others are thorough, and run with `python check.py --all`."""

from collections import defaultdict
from collections.abc import Container, Iterable
from typing import Any

import pytest

thorough = pytest.mark.thorough
# Architectures that differ most: the first of each kind, and one whose layers have sinks, windows and experts.
QUICK = ("BERT", "Llama", "T5", "gpt-oss", "ViT")
CASES = 5  # of a test that has more, the quick depth runs so many
# Where each case is a page, or a file of the project, and none can stand for another.
EVERY_CASE = ("tests/browser/", "tests/test_")


def sampled(cases: Iterable[Any], quick: Container[Any] = QUICK) -> list[Any]:
    """Arguments for `pytest.mark.parametrize`: all but the quick cases are thorough."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else [case]), marks=() if case in quick else thorough)
        for case in cases
    ]


def left_out(tests: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Cases of tests that have more than CASES which the quick depth leaves out. What it keeps lies evenly among them, with the
    first and the last one."""
    cases = defaultdict(list)
    for test in tests:
        if not test.nodeid.startswith(EVERY_CASE) and test.get_closest_marker("thorough") is None:
            cases[test.nodeid.partition("[")[0]].append(test)
    found = []
    for many in cases.values():
        kept = {place * (len(many) - 1) // (CASES - 1) for place in range(CASES)}
        found += [case for place, case in enumerate(many) if place not in kept]
    return found
