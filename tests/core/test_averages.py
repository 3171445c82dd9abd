"""Means and their standard errors, worked out by hand."""

import numpy as np

from core.averages import log_mean_and_error, mean_and_error


def test_means_and_their_errors():
    mean, error = mean_and_error([[1, 10], [2, 10], [6, 10]])
    np.testing.assert_allclose(mean, [3, 10])
    np.testing.assert_allclose(error, [np.sqrt((4 + 1 + 9) / 2 / 3), 0])
    np.testing.assert_array_equal(mean_and_error([[4.0, 5.0]]), [[4, 5], [np.nan, np.nan]])  # a single repeat has none
    np.testing.assert_allclose(log_mean_and_error([1.0, 100.0]), (1, 1))
