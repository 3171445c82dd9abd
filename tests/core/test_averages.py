"""Means and their standard errors, worked out by hand."""

from __future__ import annotations

import numpy as np

from core.averages import log_mean_and_error, mean_and_error


def test_the_mean_and_its_error():
    mean, error = mean_and_error([[1, 10], [2, 10], [6, 10]])
    np.testing.assert_allclose(mean, [3, 10])
    np.testing.assert_allclose(error, [np.sqrt((4 + 1 + 9) / 2 / 3), 0])


def test_a_single_repeat_has_no_error():
    mean, error = mean_and_error([[4.0, 5.0]])
    np.testing.assert_array_equal(mean, [4, 5])
    assert np.isnan(error).all()
    assert error.shape == (2,)


def test_logarithms():
    mean, error = log_mean_and_error([1.0, 100.0])
    np.testing.assert_allclose((mean, error), (1, 1))
