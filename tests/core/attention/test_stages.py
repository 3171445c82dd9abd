"""The formulas say the numbers of the trace, and the numbers read as people write them."""

import numpy as np
import pytest

from core.attention import formulas
from core.attention.head import Head
from core.attention.rowwise import strongest_cell
from core.attention.stages import number
from core.attention.trace import attend


@pytest.fixture
def trace():
    rng = np.random.default_rng(5)
    return attend(*(rng.normal(size=(5, 64)) for _ in range(3)), mask=np.tri(5))


def formula(name, trace, cell):
    head = Head.of(trace)
    return formulas.formula(name, head, head.overview(), head.explain(*cell))


def test_live_numbers(trace):
    raw, scaled = trace.raw[3, 1], trace.scaled[3, 1]
    assert f"= {raw:.4g}" in formula("raw", trace, (3, 1))
    assert r"\sqrt{64}} = 0.125" in formula("scaled", trace, (3, 1))
    assert f"0.125 = {scaled:.4g}" in formula("scaled", trace, (3, 1))
    assert r"= {-\infty}" in formula("mask", trace, (1, 3))
    assert r"(10 \text{ of } 25" in formula("mask", trace, (1, 3))
    assert f"= {trace.weights[3, 1]:.4g}" in formula("weights", trace, (3, 1))
    terms = np.sort(np.exp(trace.masked[3, :4] - trace.masked[3, :4].max()))[::-1]  # the first is 1
    largest = " + ".join(f"{term:.4g}" for term in terms[:3])
    assert rf"{{{largest} + \dots}} = " in formula("weights", trace, (3, 1))
    assert rf"}}{{{terms.sum():.4g}}} = " in formula("weights", trace, (3, 1))
    assert r"5 \times 64" in formula("output", trace, (3, 1))
    unscaled = formula("scaled", trace.changed(scale=1.0), (3, 1))
    assert "sqrt" not in unscaled
    assert r"\text{scale} = 1" in unscaled
    assert "nothing" in formula("weights", trace.changed(mask=np.zeros((5, 5))), (0, 0))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.125, "0.125"), (-3.14159, "−3.142"), (-np.inf, "−∞"), (1e-7, "1e−7"), (123456.0, "1.235e+5"), (0, "0")],
)
def test_numbers_for_people(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("rows", "pair"),
    [
        # All looks at the first token: what lies between the ends has no weight, and its first cell is even masked.
        ([[1, 0, 0, 0], [1, 0, 0, 0], [0.9, 1e-9, 0.1, 0], [0.999, 0, 0.001, 0]], (1, 0)),
        # Nothing but the diagonal: then that.
        ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], (0, 0)),
        # The last query is where the next token is chosen.
        ([[1, 0, 0, 0], [0.9, 0.1, 0, 0], [0.7, 0.3, 0, 0], [0.1, 0, 0.9, 0]], (3, 2)),
        # A small weight is one.
        ([[1, 0, 0, 0], [1, 0, 0, 0], [0.97, 0.03, 0, 0], [1, 0, 0, 0]], (2, 1)),
    ],
)
def test_the_strongest_pair_has_weight(rows, pair):
    """In a causal head with these weights, as far as a softmax gives them."""
    trace = attend(np.log(np.maximum(rows, 1e-300)), np.eye(4), np.eye(4), mask=np.tri(4), scale=1.0)
    assert strongest_cell(trace.weights) == pair
    assert trace.mask[pair]
