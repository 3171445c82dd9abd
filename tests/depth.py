"""Which of many cases belong to the quick depth; the others are thorough, and run with `python check.py --all`."""

from collections.abc import Container, Iterable
from typing import Any

import pytest

thorough = pytest.mark.thorough
# Architectures that differ most: the first of each kind, and one whose layers have sinks, windows and experts.
QUICK = ("BERT", "GPT-2", "Llama", "T5", "gpt-oss", "ViT")


def sampled(cases: Iterable[Any], quick: Container[Any] = QUICK) -> list[Any]:
    """Arguments for `pytest.mark.parametrize`: all but the quick cases are thorough."""
    return [_case(case, case in quick) for case in cases]


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """The same, where the first of so many cases is quick."""
    return [_case(case, at % number == 0) for at, case in enumerate(cases)]


def _case(case: Any, is_quick: bool) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=() if is_quick else thorough)
