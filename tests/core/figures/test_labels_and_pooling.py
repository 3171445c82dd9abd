import html

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.figures.labels import escaped, thinned, visible
from core.figures.pooling import pool


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "·the"),
        ("the  ", "the··"),
        ("   ", "···"),
        ("\n\n", "⏎⏎"),
        ("a\tb", "a⇥b"),
        ("a b", "a b"),
        ("", "∅"),
        ("\u202eevil", "U+202Eevil"),
        ("\x00", "U+0000"),
        ("مرحبا", "مرحبا"),
        ("##ing", "##ing"),
    ],
)
def test_visible(token, shown):
    assert visible(token) == shown


@given(st.text(max_size=14))
def test_escaped_text_reads_as_the_visible_text_and_holds_no_markup(token):
    label = escaped(token)
    assert "<" not in label
    assert "$" not in label
    shown = visible(token)
    assert html.unescape(label) == (shown if len(shown) <= 14 else shown[:13] + "…")


@given(st.integers(1, 5_000), st.data())
def test_thinned_ticks_are_few_and_keep_the_pinned_one(count, data):
    keep = data.draw(st.integers(0, count - 1))
    places = thinned(count, keep, max_labels=40)
    assert keep in places
    assert len(places) <= 41
    assert places == sorted(set(places))
    assert min(np.diff(places), default=count) >= count / 40  # the kept one too has room beside it
    assert thinned(count, max_labels=40)[0] == 0


MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    elements=st.floats(-5, 5) | st.just(-np.inf) | st.just(np.nan),
)


@given(MATRICES, st.integers(1, 20))
def test_pooling_keeps_the_number_farthest_from_zero_of_every_block(values, most):
    pooled = pool(values, most)
    assert max(pooled.values.shape) <= most
    finite = np.where(np.isfinite(values), values, np.nan)
    for i in range(pooled.values.shape[0]):
        for j in range(pooled.values.shape[1]):
            block = finite[
                i * pooled.row_block : (i + 1) * pooled.row_block,
                j * pooled.column_block : (j + 1) * pooled.column_block,
            ]
            if np.isnan(block).all():
                assert np.isnan(pooled.values[i, j])
            else:
                assert abs(pooled.values[i, j]) == np.nanmax(np.abs(block))
                assert pooled.values[i, j] in block


@given(MATRICES)
def test_small_arrays_are_left_alone(values):
    pooled = pool(values, 64)
    assert pooled.exact
    np.testing.assert_array_equal(pooled.values, np.where(np.isfinite(values), values, np.nan))
    np.testing.assert_array_equal(pooled.rows, np.arange(values.shape[0]))
