"""Masks against drawings made by hand and against the ones transformers builds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from transformers.masking_utils import causal_mask_function, sdpa_mask, sliding_window_causal_mask_function

from core.attention import masks as m
from tests.refusals import refused


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (m.everything, "1111 1111 1111"),
        (m.causal, "1000 1100 1110"),
        (m.sliding_window(1), "1000 0100 0010"),
        (m.sliding_window(2), "1100 1110 0111"),
        (m.both(m.causal, m.sliding_window(2)), "1000 1100 0110"),
        (m.prefix(2), "1100 1100 1100"),
        (m.either(m.causal, m.prefix(2)), "1100 1100 1110"),
        (m.block(1), "1000 0100 0010"),
        (m.block(2), "1100 1100 0011"),
        (m.both(m.causal, m.block(2)), "1000 1100 0010"),
        (m.padding([True, True, False, True]), "1101 1101 1101"),
        (m.both(m.causal, m.padding([False, True, True, True])), "0000 0100 0110"),
    ],
)
def test_drawings(predicate, expected):
    drawn = np.array([[cell == "1" for cell in row] for row in expected.split()])
    np.testing.assert_array_equal(m.grid(predicate, 3, 4), drawn)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_causal_and_window_are_those_of_transformers(length):
    def theirs(function):
        options = {"allow_is_causal_skip": False, "device": torch.device("cpu")}
        return sdpa_mask(1, length, length, mask_function=function, **options)[0, 0].numpy()

    np.testing.assert_array_equal(m.grid(m.causal, length, length), theirs(causal_mask_function))
    window = m.both(m.causal, m.sliding_window(3))
    np.testing.assert_array_equal(m.grid(window, length, length), theirs(sliding_window_causal_mask_function(3)))


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        (m.everything, "none"),
        (m.causal, "causal"),
        (m.padding(np.arange(8) < 6), "padding"),
        (m.both(m.causal, m.sliding_window(3)), "causal, sliding window of 3"),
        (m.sliding_window(3), "sliding window of 3 to each side"),
        (m.either(m.causal, m.prefix(3)), "causal with an open prefix of 3"),
        (m.block(4), "blocks of 4"),
        (m.both(m.causal, m.padding(np.arange(8) != 2)), "custom"),
        (lambda query, key: (query + key) % 2 == 0, "custom"),
        (m.padding(np.arange(8) >= 3), "padding"),
        (m.padding((np.arange(8) >= 2) & (np.arange(8) < 6)), "padding"),
        (m.padding(np.arange(8) % 2 == 0), "custom"),
        (m.padding(np.zeros(8)), "nothing allowed"),
        (m.both(m.causal, m.padding(np.zeros(8))), "nothing allowed"),
    ],
)
def test_describe_knows_its_own_masks(predicate, words):
    assert m.describe(m.grid(predicate, 8, 8)) == words


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: m.sliding_window(0), "window is 0"),
        (lambda: m.prefix(-1), "prefix is -1"),
        (lambda: m.block(0), "block is 0"),
        *(
            (lambda text=text: m.from_rows(text, 3, 3), words)
            for text, words in {
                "": "1 rows of 0; it needs 3 of 3",
                "100/110": "2 rows of 3",
                "100/110/11": "3 rows of 2, 3",
                "100/1a0/111": "only 0 and 1",
                "١٠٠/110/111": "only 0 and 1",
            }.items()
        ),
    ],
)
def test_what_is_no_mask_is_refused(make, words):
    with refused("mask", words):
        make()


@given(arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_a_mask_survives_the_address(mask):
    np.testing.assert_array_equal(m.from_rows(m.to_rows(mask), *mask.shape), mask)
