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
    """The cases that the quick depth leaves out of tests with more than CASES."""
    cases = defaultdict(list)
    for test in tests:
        if not test.nodeid.startswith(EVERY_CASE) and test.get_closest_marker("thorough") is None:
            cases[test.nodeid.partition("[")[0]].append(test)
    return [case for many in cases.values() for place, case in enumerate(many) if place not in spread(len(many))]


def spread(number: int) -> set[int]:
    """Which of so many cases are quick: CASES of them, evenly from the first to the last one, or all."""
    return {place * (number - 1) // (CASES - 1) for place in range(CASES)}
