"""How the next token is chosen, against the definitions written out."""

import numpy as np
import pytest

from core.capturing.sampling import Sampling, at_temperatures, most_probable

LOGITS = np.log([0.4, 0.05, 0.3, 0.15, 0.1])


def test_temperature_divides_the_logits():
    for temperature in (0.2, 1.0, 3.0):
        powers = np.exp(LOGITS) ** (1 / temperature)
        np.testing.assert_allclose(Sampling(temperature).probabilities(LOGITS), powers / powers.sum(), rtol=1e-12)
    halved = np.array([0.09, 0.16]) / 0.285
    np.testing.assert_allclose(at_temperatures(LOGITS, [2, 0], [1.0, 0.5]), [[0.3, 0.4], halved], rtol=1e-12)


def test_greedy_takes_the_first_of_the_most_probable():
    logits = [0.0, 2.0, 2.0]
    assert Sampling().draw(logits, 0) == 1
    np.testing.assert_array_equal(Sampling().probabilities(logits), [0, 1, 0])


@pytest.mark.parametrize("k", [0, 1, 4, 39, 40, 50])
def test_the_most_probable_are_those_of_a_full_sort(k):
    logits = np.random.default_rng(k).integers(0, 6, 40).astype(np.float32)  # most of them equal others
    assert most_probable(logits, k) == np.argsort(-logits, kind="stable")[:k].tolist()


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ({"top_k": 2}, [4 / 7, 0, 3 / 7, 0, 0]),
        ({"top_p": 0.75}, np.array([40, 0, 30, 15, 0]) / 85),  # 0.4 + 0.3 is less than 0.75, with 0.15 it is more
        ({"top_p": 1.0}, np.exp(LOGITS)),
        ({"top_k": 2, "top_p": 0.5}, [1, 0, 0, 0, 0]),  # of the two that are left 4/7 is enough
    ],
)
def test_top_k_and_top_p_cut_the_rest_off(cut, expected):
    np.testing.assert_allclose(Sampling(1.0, **cut).probabilities(LOGITS), expected, rtol=1e-12)


@pytest.mark.thorough
def test_drawn_as_often_as_probable():
    sampling = Sampling(1.0, top_k=3)
    draws = np.bincount([sampling.draw(LOGITS, step) for step in range(4000)], minlength=5) / 4000
    expected = sampling.probabilities(LOGITS)
    assert (draws[expected == 0] == 0).all()
    assert np.abs(draws - expected).max() < 4 * np.sqrt(0.25 / 4000)


@pytest.mark.parametrize("tokens", [(), (1,)])
def test_what_is_forbidden_is_never_drawn(tokens):
    logits = LOGITS.copy()
    logits[[0, *tokens]] = -np.inf
    assert not {Sampling(5.0).draw(logits, step) for step in range(200)} & {0, *tokens}
