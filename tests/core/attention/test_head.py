"""A head swept some rows at a time against its whole trace, and against `pool` of the whole trace's arrays."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.attention import rowwise
from core.attention.head import Head
from core.attention.masks import both, causal, grid, sliding_window
from core.attention.rowwise import pool, strongest_cell
from core.attention.stages import STAGES
from core.attention.trace import WEIGHINGS, Instead, attend
from tests.core.attention.test_matrix_files import at_most
from tests.refusals import refused

SCORES = ("raw", "scaled", "masked", "weights", "output")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """So that even these texts come in many blocks."""
    monkeypatch.setattr(rowwise, "CELLS", 100)


def random_trace(rng, queries, keys, *, size=2.0, masked=0.5, bias=False, scale=None, softcap=None, sinks=None):
    d_k, d_v = rng.integers(1, 9, size=2)
    query, key, value = (rng.normal(size=shape) * size for shape in ((queries, d_k), (keys, d_k), (keys, d_v)))
    mask = rng.random((queries, keys)) >= masked
    mask[rng.random(queries) < 0.1] = False  # rows that may attend to nothing
    added = rng.normal(size=(queries, keys)) if bias else None
    return attend(query, key, value, mask=mask, bias=added, scale=scale, softcap=softcap, sinks=sinks)


@st.composite
def traces(draw, most=60, sizes=(2.0,)):
    """Heads of up to `most` queries and keys with every extra that a trace can have, fully masked rows among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    queries, keys = draw(st.integers(1, most)), draw(st.integers(1, most))
    return random_trace(
        rng,
        queries,
        queries if draw(st.booleans()) else keys,
        size=draw(st.sampled_from(sizes)),
        masked=draw(st.sampled_from([0.0, 0.3, 0.9, 1.0])),
        bias=draw(st.booleans()),
        scale=draw(st.none() | st.floats(-2, 2)),
        softcap=draw(st.none() | st.floats(0.5, 20)),
        sinks=draw(st.none() | st.floats(-3, 3)),
    )


def drawn_whole(stage, trace, max_cells):
    """The stage as `core.figures.heatmaps.views` draws it from a whole trace."""
    values = stage.values(trace)
    values = values.astype(float) if stage.scale == "permission" else values
    return pool(values, max_cells, trace.mask if stage.after_mask else None)


@settings(max_examples=60, deadline=None)
@given(traces(), st.integers(1, 70))
def test_the_overview_pools_every_stage_of_the_whole_trace(trace, max_cells):
    seen = []
    overview = Head.of(trace).overview(max_cells, watch=lambda rows, part: seen.append((rows, part.weights)))
    assert [row for rows, _ in seen for row in rows] == list(range(len(trace.query)))
    for rows, weights in seen:  # of the keys up to the last that one of these queries may attend to
        reached = weights.shape[1]
        np.testing.assert_allclose(weights, trace.weights[rows.start : rows.stop, :reached], atol=1e-14)
        assert not trace.mask[rows.start : rows.stop, reached:].any()
    assert list(overview.matrices) == [stage.key for stage in STAGES]
    for stage in STAGES:
        ours, expected = overview.matrices[stage.key], drawn_whole(stage, trace, max_cells)
        np.testing.assert_allclose(ours.values, expected.values, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(ours.allowed, expected.allowed)
        assert ours.values.dtype == expected.values.dtype
        for name in ("shape", "row_block", "column_block"):
            assert getattr(ours, name) == getattr(expected, name)
    np.testing.assert_allclose(overview.row_numbers["output"], trace.output, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(overview.row_numbers["forbidden"], np.sum(~trace.mask, axis=1))


def test_rows_and_changes_that_cannot_be_are_refused():
    trace = random_trace(np.random.default_rng(0), 9, 7)
    head = Head.of(trace)
    for rows in (range(3, 3), range(5, 2), range(-1, 3), range(8, 10), range(0, 9, 2)):
        for part in (trace.rows, head.trace):
            with refused("queries", "from 0 to 8"):
                part(rows)
    for one in (trace, head):
        with refused("mask", "mask has the shape"):
            one.changed(mask=np.ones((5, 5)))
        with refused("scale", "scale is nan"):
            one.changed(scale=np.nan)


@pytest.mark.parametrize(("queries", "keys"), [(37, 37), (20, 53), (53, 20)])
def test_a_window_has_the_exact_numbers(queries, keys):
    trace = random_trace(np.random.default_rng(1), queries, keys, bias=True, softcap=4.0, sinks=0.3)
    one = Head.of(trace)
    for stage in STAGES:
        whole = drawn_whole(stage, trace, 10**6)
        rows, columns = (range(length // 3, length // 3 + length // 2) for length in whole.shape)
        part = one.window(stage.key, rows, columns)
        inside = slice(rows.start, rows.stop), slice(columns.start, columns.stop)
        np.testing.assert_allclose(part.values, whole.values[inside], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(part.allowed, whole.allowed[inside])
        assert part.exact
        assert part.shape == (len(rows), len(columns))
        assert part.start == (rows.start, columns.start)
    with refused("columns", f"columns.*from 0 to {keys - 1}"):
        one.window("raw", range(3), range(keys - 1, keys + 1))


def test_cells_that_are_not_there_are_refused():
    head = Head.of(random_trace(np.random.default_rng(0), 9, 7))
    for ask in (lambda: head.explain(9, 0), lambda: head.sum_of(9)):
        with refused("cell", "queries run from 0 to 8"):
            ask()
    with refused("cell", "keys from 0 to 6"):
        head.explain(0, -1)


@st.composite
def edits(draw, queries, keys, d_v):
    """What an edit puts in the place of weighing, weights and output: rows of NaN stay as they are."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def some(width):
        return np.where(rng.random((queries, 1)) < 0.5, np.nan, rng.random((queries, width)))

    return Instead(
        draw(st.sampled_from(list(WEIGHINGS))),
        some(keys) if draw(st.booleans()) else None,
        some(d_v) if draw(st.booleans()) else None,
    )


@settings(max_examples=40, deadline=None)
@given(traces(), st.none() | st.floats(-2, 2), st.booleans(), st.data())
def test_changed_is_what_it_is_of_a_trace(trace, scale, with_mask, data):
    """And both are what `attend` makes of the changed inputs, with the edit that there was before."""
    trace = replace(trace, instead=data.draw(edits(*trace.shape, trace.value.shape[1])))
    predicate = both(causal, sliding_window(5)) if with_mask else None
    array = None if predicate is None else grid(predicate, *trace.shape)
    inputs = {name: getattr(trace, name) for name in ("query", "key", "value", "bias", "softcap", "sinks")}
    mask, scaled = trace.mask if array is None else array, trace.scale if scale is None else scale
    expected = replace(attend(**inputs, mask=mask, scale=scaled), instead=trace.instead)
    for mask in (predicate, array):
        changed, other = trace.changed(scale=scale, mask=mask), Head.of(trace).changed(scale=scale, mask=mask)
        assert changed.scale == other.scale == expected.scale
        for stage in (*SCORES, "mask"):
            whole = getattr(expected, stage)
            np.testing.assert_array_equal(getattr(changed, stage), whole)
            parts = np.concatenate([getattr(other.trace(rows), stage) for rows in other.blocks()])
            np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(traces(), st.integers(3, 20))
def test_the_strongest_pair_is_the_traces_or_the_largest_weight_of_its_cell(trace, max_cells):
    """Of a short text the trace's, or one whose weight differs by rounding: a tiny scale makes a row's almost equal."""
    one = Head.of(trace)
    found, expected = one.strongest(one.overview(60)), strongest_cell(trace.weights)
    np.testing.assert_allclose(trace.weights[found], trace.weights[expected], rtol=1e-12)
    overview = one.overview(max_cells)
    query, key = one.strongest(overview)
    pooled = overview.matrices["weights"]
    block = np.ix_(*pooled.block(query // pooled.row_block, key // pooled.column_block))
    assert trace.weights[query, key] == pytest.approx(trace.weights[block].max(), abs=1e-12)


def test_memory_stays_far_below_one_square_array(monkeypatch):
    monkeypatch.undo()
    rng, length = np.random.default_rng(5), 2_048
    # Its mask and its bias are of one number.
    trace = attend(*(rng.normal(size=(length, 64)).astype(np.float32) for _ in range(3)))
    one = Head.of(trace).changed(mask=causal)
    with at_most(length * length * 4 / 2):
        overview = one.overview()
        query, key = one.strongest(overview)
        one.explain(query, key)
        one.window("weights", range(1000, 1064), range(900, 964))
    whole = trace.changed(mask=grid(causal, length, length))
    expected = pool(whole.weights, 256, whole.mask).values
    np.testing.assert_allclose(overview.matrices["weights"].values, expected, rtol=1e-4, atol=1e-6)
