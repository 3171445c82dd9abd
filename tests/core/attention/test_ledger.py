"""The ledger of a cell against the trace it explains, on random cells, and every step against its own arithmetic."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.attention.ledger import explain, lines, sum_of
from core.attention.trace import attend
from tests.core.attention.test_head import traces

TRACES = traces(12, sizes=(0.01, 0.1, 1.0, 10.0))


@settings(max_examples=150, deadline=None)
@given(TRACES, st.data())
def test_the_ledger_recomputes_its_cell(trace, data):
    query, key = (data.draw(st.integers(0, length - 1)) for length in trace.shape)
    cell = explain(trace, query, key)

    def same(ours, theirs, size=1.0):
        assert ours == theirs or abs(ours - theirs) <= 1e-12 * max(1.0, abs(theirs), size)

    same(cell.raw, trace.raw[query, key], np.abs(cell.products).sum())
    same(cell.scaled, trace.scaled[query, key], np.abs(cell.products).sum())
    same(cell.masked, trace.masked[query, key], np.abs(cell.products).sum())
    same(cell.weight, trace.weights[query, key])
    assert cell.allowed == trace.mask[query, key]
    # Each line of the ledger is what its own words say.
    assert cell.raw == math.fsum(cell.products)
    assert cell.scaled == cell.raw * cell.scale
    assert cell.masked == (cell.capped + cell.bias if cell.allowed else -math.inf)
    assert cell.shifted == cell.masked - cell.row_maximum
    assert cell.exponential == math.exp(cell.shifted)
    assert cell.weight == (cell.exponential / cell.row_sum if cell.row_sum else 0)
    np.testing.assert_array_equal(cell.contribution, cell.weight * trace.value[key])
    if not cell.allowed:
        assert cell.weight == 0


@settings(max_examples=80, deadline=None)
@given(TRACES, st.integers(0, 15), st.data())
def test_an_output_is_the_sum_of_its_terms(trace, most, data):
    query = data.draw(st.integers(0, len(trace.query) - 1))
    found = sum_of(trace, query, most)
    weights, allowed = trace.weights[query], trace.mask[query]
    assert len(found.keys) == min(most, allowed.sum())
    assert len(found.keys) + found.rest_count == allowed.sum()
    assert allowed[list(found.keys)].all()
    np.testing.assert_allclose(found.weights, weights[list(found.keys)], atol=1e-12)
    assert (np.diff(found.weights) <= 0).all()
    others = np.delete(weights, list(found.keys))
    assert found.rest_weight == pytest.approx(others.sum(), abs=1e-12)
    assert others.max(initial=0) <= found.weights.min(initial=1) + 1e-12
    size = max(1, np.abs(trace.value).max())
    np.testing.assert_allclose(found.terms, found.weights[:, None] * trace.value[list(found.keys)])
    np.testing.assert_allclose(found.terms.sum(axis=0) + found.rest_term, found.total, atol=1e-12 * size)
    np.testing.assert_allclose(found.total, trace.output[query], atol=1e-12 * size)


def test_the_lines_of_a_cell_worked_out_by_hand():
    """Scores 14 and 10 with the scale 1/2, as weights 0.881 and 0.119; the second key is masked for the first query."""
    mask = [[True, False], [True, True]]
    trace = attend([[2.0], [2.0]], [[7.0], [5.0]], [[3.0], [4.0]], scale=0.5, bias=np.zeros((2, 2)), mask=mask)
    assert lines(explain(trace, 1, 1), has_bias=True) == [
        ("q · k, sum of 1 products", "10"),
        ("× scale", "× 0.5 = 5"),
        ("+ bias", "0"),
        ("+ mask", "+ 0 = 5"),
        ("− row maximum", "− (7) = −2"),
        ("e to that power", "0.1353"),
        ("÷ row sum", "÷ 1.135"),
        ("= weight", "0.1192"),
        ("× value", "length 4 → 0.4768"),
    ]
    masked = dict(lines(explain(trace, 0, 1), has_bias=False))
    assert masked["+ mask"] == "+ (−∞) = −∞"
    assert "+ bias" not in masked
    assert dict(lines(explain(attend([[2.0]], [[7.0]], [[3.0]], softcap=50.0), 0, 0), has_bias=False))["soft cap 50"]
