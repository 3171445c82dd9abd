"""What the tests of several modules of heads look at."""

import pytest

from core.heads.examples import LENGTH
from core.heads.probing import probe_heads


@pytest.fixture(scope="session")
def probed(smollm):
    """All heads of SmolLM2 on random tokens read twice, of half as many seeds as usual."""
    return probe_heads(smollm, LENGTH, seeds=(0, 1))
