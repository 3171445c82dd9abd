"""Pairs of texts: whose token is whose, against the tokenizer; shares against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from core import capture
from core.heads.views import crossing_shares, pair_ranges, pair_shares, pair_sides
from tests.refusals import refused


def test_shares_of_a_small_pair():
    sides = np.array([-1, 0, -1, 1, 1, -1])
    weights = np.zeros((6, 6))
    weights[1] = [0.1, 0.2, 0.1, 0.3, 0.2, 0.1]
    weights[3] = [0, 1, 0, 0, 0, 0]
    weights[4] = [0, 0, 0, 0.5, 0.5, 0]
    first, second = pair_shares(weights, sides)
    assert (first.own, first.other, first.special) == pytest.approx((0.2, 0.5, 0.3))
    assert (second.own, second.other, second.special) == pytest.approx((0.5, 0.5, 0))


class TestRealPairs:
    FIRST, SECOND = "The cat sat on the mat.", "A kitten is sitting on a rug."

    @pytest.fixture
    def passed(self, minilm):
        return capture(minilm, self.FIRST, pair=self.SECOND)

    def test_the_sides_are_those_of_the_texts(self, minilm, passed):
        tokens, sides = np.array(passed.tokens()[0]), pair_sides(passed)
        for side, text in enumerate((self.FIRST, self.SECOND)):
            assert tokens[sides == side].tolist() == minilm.tokenizer.tokenize(text)
        assert tokens[sides == -1].tolist() == ["[CLS]", "[SEP]", "[SEP]"]
        assert pair_ranges(passed) == (range(1, 8), range(9, 17))
        assert pair_ranges(capture(minilm, self.FIRST)) is None

    def test_shares_add_up_and_words_of_a_kind_find_each_other(self, passed):
        sides = pair_sides(passed)
        weights = passed.trace(1, 1).weights
        for shares in pair_shares(weights, sides):
            assert shares.own + shares.other + shares.special == pytest.approx(1, abs=1e-6)
        tokens = passed.tokens()[0]
        across = np.where(sides == 1, weights, 0)
        assert tokens[across[tokens.index("cat")].argmax()] == "kitten"
        assert tokens[across[tokens.index("mat")].argmax()] == "rug"
        assert weights[tokens.index("cat"), tokens.index("kitten")] == pytest.approx(0.60, abs=0.01)

    def test_the_last_layer_crosses_most(self, passed):
        shares = crossing_shares(passed, pair_sides(passed))
        assert shares.shape == (6, 12)
        assert shares.mean(axis=1).argmax() == 5

    def test_a_blank_second_text_is_named(self, minilm):
        with refused("pair", "second text is blank"):
            pair_sides(capture(minilm, self.FIRST, pair=" "))
