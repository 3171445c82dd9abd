"""Views of heads against the same thing done plainly on whole traces."""

from pathlib import Path

import numpy as np
import pytest

from core import capture, head_weights, load_model
from core.errors import InputError
from core.figures.pooling import pool
from core.heads.blocks import text_of
from core.heads.views import View, around, overview, shape, window
from core.models.words import merge, word_starts
from tests.conftest import TEXTS
from tests.core.tiny_models import tiny

TEXT = TEXTS[1] * 4
HEAD = (4, 7)


@pytest.fixture(scope="module")
def taken(smollm):
    return capture(smollm, TEXT)


def whole(taken, view, kind="self"):
    rows, columns = shape(taken, kind, view)
    return window(taken, kind, view, range(rows), range(columns))


def trace_of(taken):
    return taken.trace(*HEAD)


def test_plain_weights_are_those_of_the_trace(taken):
    trace = trace_of(taken)
    seen = whole(taken, View((HEAD,)))
    np.testing.assert_allclose(seen.values[trace.mask], trace.weights[trace.mask], atol=1e-6)
    assert np.isnan(seen.values[~trace.mask]).all()
    np.testing.assert_array_equal(seen.allowed, trace.mask)
    assert not seen.removed.any()


@pytest.mark.parametrize("quantity", ["raw", "scaled", "masked"])
def test_scores(taken, quantity):
    trace = trace_of(taken)
    seen = whole(taken, View((HEAD,), quantity))
    np.testing.assert_allclose(seen.values[trace.mask], getattr(trace, quantity)[trace.mask], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("quantity", ["weights", "raw"])
@pytest.mark.parametrize("most", [7, 50, 64])
def test_an_overview_loses_no_spike(taken, quantity, most):
    trace = trace_of(taken)
    expected = pool(np.where(trace.mask, getattr(trace, quantity), np.nan), most)
    seen = overview(taken, "self", View((HEAD,), quantity), most)
    assert (seen.row_block, seen.column_block) == (expected.row_block, expected.column_block)
    np.testing.assert_allclose(seen.values, expected.values, rtol=1e-5, atol=1e-4)


def test_value_weighted(taken):
    trace = trace_of(taken)
    lengths = np.linalg.norm(trace.value, axis=1)
    seen = whole(taken, View((HEAD,), "values"))
    np.testing.assert_allclose(np.nan_to_num(seen.values), trace.weights * lengths, atol=1e-5)


def test_norm_weighted_is_the_length_of_what_each_key_adds(taken):
    trace = trace_of(taken)
    W_O = head_weights(taken.model, *HEAD).W_O
    for query, key in ((10, 0), (40, 39), (60, 31)):
        added = trace.weights[query, key] * trace.value[key] @ W_O
        seen = window(taken, "self", View((HEAD,), "outputs"), range(query, query + 1), range(key, key + 1))
        assert seen.values[0, 0] == pytest.approx(np.linalg.norm(added), rel=1e-4)


def test_leaving_out_the_first_token(taken):
    trace = trace_of(taken)
    hidden = np.arange(trace.shape[1]) == 0
    seen = whole(taken, View((HEAD,), hidden=hidden))
    assert np.isnan(seen.values[:, 0]).all()
    np.testing.assert_allclose(seen.removed, trace.weights[:, 0], atol=1e-6)
    np.testing.assert_allclose(np.nan_to_num(seen.values[:, 1:]), trace.weights[:, 1:], atol=1e-6)
    renormalised = np.nan_to_num(whole(taken, View((HEAD,), hidden=hidden, renormalise=True)).values)
    np.testing.assert_allclose(renormalised[1:].sum(axis=1), 1, atol=1e-5)
    assert renormalised[0].sum() == 0  # nothing remains of the first row
    rest = trace.weights[:, 1:] / (1 - trace.weights[:, :1]).clip(1e-9)
    np.testing.assert_allclose(renormalised[1:, 1:], rest[1:], atol=1e-3)


def test_left_out_tokens_are_not_forbidden(taken):
    hidden = np.arange(len(taken.input_ids)) == 0
    seen = overview(taken, "self", View((HEAD,), hidden=hidden), max_cells=10**6)
    assert seen.allowed[:, 0].all()


@pytest.mark.parametrize("most", [10**6, 9])
def test_words(taken, most):
    trace = trace_of(taken)
    starts = word_starts(taken.model.tokenizer, taken.input_ids)
    assert 5 < len(starts) < len(taken.input_ids)
    merged = merge(trace.weights, starts, starts)
    allowed = np.logical_or.reduceat(np.logical_or.reduceat(trace.mask, starts, axis=0), starts, axis=1)
    expected = pool(np.where(allowed, merged, np.nan), most)
    seen = overview(taken, "self", View((HEAD,), query_starts=starts, key_starts=starts), most)
    np.testing.assert_allclose(seen.values, expected.values, atol=1e-6)
    if most > 100:
        np.testing.assert_allclose(np.nansum(seen.values, axis=1), 1, atol=1e-5)


def test_a_window_of_words_is_a_part_of_the_whole(taken):
    starts = word_starts(taken.model.tokenizer, taken.input_ids)
    view = View((HEAD,), query_starts=starts, key_starts=starts)
    part = window(taken, "self", view, range(6, 11), range(2, 9))
    np.testing.assert_allclose(part.values, whole(taken, view).values[6:11, 2:9], atol=1e-6)
    assert (part.rows, part.columns) == (6, 2)


def test_mean_of_heads(taken):
    heads = ((4, 7), (4, 8), (20, 1))
    expected = np.mean([taken.trace(*at).weights for at in heads], axis=0)
    np.testing.assert_allclose(np.nan_to_num(whole(taken, View(heads)).values), expected, atol=1e-6)


PEAK = Path("/proc/self/clear_refs")


def resident(which):
    """VmRSS (now) or VmHWM (at its peak since it was last cleared) of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{which}:"))


@pytest.mark.skipif(not PEAK.exists(), reason="only Linux tells the memory that a process took at its peak")
def test_the_mean_of_many_heads_takes_the_memory_of_one():
    """One head's rows of this text are 1 MB and more; those of all hundred would be over 100 MB."""
    taken = capture(load_model(tiny("BERT")), input_ids=np.arange(512) % 60)
    overview(taken, "self", View(((0, 0),)))
    PEAK.write_text("5")
    before = resident("VmRSS")
    overview(taken, "self", View(((0, 0),) * 100))
    assert resident("VmHWM") - before < 30e6


def test_left_out_and_removed_in_words(minilm):
    taken = capture(minilm, "Unbelievably good")
    text = text_of(taken, "self")
    starts = word_starts(minilm.tokenizer, taken.input_ids)
    trace = taken.trace(2, 5)
    view = View(((2, 5),), hidden=text.special, query_starts=starts, key_starts=starts)
    seen = whole(taken, view)
    removed = merge(trace.weights[:, [0, -1]].sum(axis=1, keepdims=True), starts, [0])[:, 0]
    np.testing.assert_allclose(seen.removed, removed, atol=1e-6)
    np.testing.assert_allclose(np.nansum(seen.values, axis=1) + seen.removed, 1, atol=1e-5)
    assert np.isnan(seen.values[:, [0, -1]]).all()


def test_cross_attention():
    taken = capture(load_model(tiny("BART")), input_ids=np.arange(3, 15))
    seen = overview(taken, "cross", View(((1, 2),)))
    np.testing.assert_allclose(seen.values, taken.trace(1, 2, "cross").weights, atol=1e-6)


def test_what_cannot_be_shown_is_refused(taken):
    with pytest.raises(InputError, match="No head"):
        overview(taken, "self", View(()))
    with pytest.raises(InputError, match="no head 9"):
        overview(taken, "self", View(((0, 9),)))
    with pytest.raises(InputError, match="no common score"):
        overview(taken, "self", View((HEAD,), "raw", key_starts=np.array([0])))


@pytest.mark.parametrize(
    ("place", "length", "expected"),
    [(0, 100, range(10)), (99, 100, range(90, 100)), (50, 100, range(45, 55)), (3, 6, range(6))],
)
def test_a_window_around_a_place(place, length, expected):
    assert around(place, length, 10) == expected
    assert place in around(place, length, 10)
