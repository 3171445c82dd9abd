"""Means worked out by hand, and sums that do not depend on their order, against fractions."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.averages import ExactSum, log_mean_and_error, mean_and_error, mean_and_spread

TINY = st.integers(1, 80).map(lambda power: 2.0**-power)
NUMBERS = st.floats(-1e6, 1e6) | st.floats(0, 1) | TINY | TINY.map(lambda tiny: 1 - tiny) | TINY.map(lambda tiny: -tiny)


def summed(numbers, parts=1):
    """[columns, count] added in so many parts, these merged from the last to the first."""
    found = []
    for part in range(parts):
        found.append(ExactSum.zeros(len(numbers)))
        for column in numbers.T[part::parts]:
            found[-1].add(column)
    while len(found) > 1:
        found[-2].merge(found.pop())
    return found[0]


def cut(number):
    """What of a number is added: the multiple of 2^-62 that is next to it towards 0."""
    return Fraction(math.trunc(Fraction(number) * 2**62), 2**62)


@settings(max_examples=40)
@given(st.lists(NUMBERS, min_size=1), st.randoms(use_true_random=False))
@example([-(2.0**-60)], random.Random(0))
def test_any_order_and_parts_give_the_same_bits(row, chance):
    numbers = np.array([row, row[::-1]])
    whole = summed(numbers)
    assert whole.exact().tolist() == [sum(map(cut, numbers[0]))] * 2
    assert ((whole.part >= 0) & (whole.part < 2**62)).all()
    np.testing.assert_allclose(whole.values, float(sum(map(cut, numbers[0]))), rtol=2.0**-52, atol=0)
    # What is cut off is less than 2^-62 of each.
    np.testing.assert_allclose(whole.values, math.fsum(numbers[0]), rtol=1e-15, atol=numbers.shape[1] * 2.0**-62)
    for parts in (2, 3, 7):
        shuffled = numbers[:, chance.sample(range(numbers.shape[1]), numbers.shape[1])]
        other = summed(shuffled, parts)
        np.testing.assert_array_equal(other.whole, whole.whole)
        np.testing.assert_array_equal(other.part, whole.part)
        assert other.values.tobytes() == whole.values.tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_mean_and_spread(seed):
    """Rounded once, from fractions; where the numbers hardly differ too, which floating point loses."""
    chance = np.random.default_rng(seed)
    numbers = np.stack([chance.random(500), 1e6 + 1e-3 * chance.random(500), np.full(500, 0.1)])
    squares = numbers**2
    mean, spread = mean_and_spread(np.full(3, 500), summed(numbers), summed(squares))
    for place in range(3):
        one = sum(map(cut, numbers[place])) / 500
        two = sum(map(cut, squares[place])) / 500
        assert mean[place] == float(one)
        assert spread[place] == math.sqrt(max(two - one**2, 0))
    np.testing.assert_allclose(mean, numbers.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(spread[0], numbers[0].std(), rtol=1e-12)


def test_means_and_their_errors():
    mean, error = mean_and_error([[1, 10], [2, 10], [6, 10]])
    np.testing.assert_allclose(mean, [3, 10])
    np.testing.assert_allclose(error, [np.sqrt((4 + 1 + 9) / 2 / 3), 0])
    np.testing.assert_array_equal(mean_and_error([[4.0, 5.0]]), [[4, 5], [np.nan, np.nan]])  # a single repeat has none
    np.testing.assert_allclose(log_mean_and_error([1.0, 100.0]), (1, 1))
