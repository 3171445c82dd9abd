"""Sums that do not depend on their order, against fractions."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from core.corpus.sums import ExactSum, mean_and_spread

KINDS = {
    "shares": lambda chance: chance.random(),
    "tiny": lambda chance: chance.random() * 2.0 ** -chance.randint(0, 80),
    "of either sign": lambda chance: chance.uniform(-1, 1) * 10 ** chance.randint(0, 6),
    "whole": lambda chance: float(chance.randint(-5, 5)),
    "just below one": lambda chance: 1 - 2.0 ** -chance.randint(1, 53),
    "just below none": lambda chance: -(2.0 ** -chance.randint(1, 62)),
}


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_any_order_and_parts_give_the_same_bits(kind, seed):
    chance = random.Random(f"{kind} {seed}")
    numbers = np.array([[KINDS[kind](chance) for _ in range(chance.randint(1, 200))]] * 2)
    numbers[1] = numbers[1, ::-1]
    whole = summed(numbers)
    assert whole.exact().tolist() == [sum(map(cut, numbers[0]))] * 2
    assert ((whole.part >= 0) & (whole.part < 2**62)).all()
    # What is cut off is less than 2^-62 of each.
    np.testing.assert_allclose(whole.values, math.fsum(numbers[0]), rtol=1e-15, atol=numbers.shape[1] * 2.0**-62)
    for parts in (2, 3, 7):
        shuffled = numbers[:, chance.sample(range(numbers.shape[1]), numbers.shape[1])]
        other = summed(shuffled, parts)
        np.testing.assert_array_equal(other.whole, whole.whole)
        np.testing.assert_array_equal(other.part, whole.part)
        assert other.values.tobytes() == whole.values.tobytes()


def test_what_floating_point_loses():
    numbers = np.array([[1e9, 2.0**-40, -1e9]])
    assert numbers.sum() != 2.0**-40
    assert summed(numbers).values.tolist() == [2.0**-40]


def test_sums_in_an_array():
    found = ExactSum.zeros(2, 3)
    found.add(np.arange(6).reshape(2, 3) / 7)
    found.add(np.ones((2, 3)))
    np.testing.assert_allclose(found.values, np.arange(6).reshape(2, 3) / 7 + 1, rtol=1e-15)


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


def test_a_variance_is_taken_before_anything_is_rounded():
    """Of whole numbers nothing is ever rounded: 10^6 and 10^6 + 1 have a spread of exactly 1/2, however many there are."""
    count = 10**6
    total, squares = ExactSum.zeros(1), ExactSum.zeros(1)
    one, two = 10**6, 10**6 + 1
    total.add([float(count // 2 * (one + two))])
    squares.whole += count // 2 * (one**2 + two**2)
    mean, spread = mean_and_spread(np.array([count]), total, squares)
    assert (mean.tolist(), spread.tolist()) == ([10**6 + 0.5], [0.5])


def test_of_no_numbers_there_is_no_mean():
    mean, spread = mean_and_spread(np.array([0, 1]), ExactSum.zeros(2), ExactSum.zeros(2))
    np.testing.assert_array_equal(mean, [np.nan, 0])
    np.testing.assert_array_equal(spread, [np.nan, 0])
