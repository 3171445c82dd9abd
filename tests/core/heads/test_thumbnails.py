"""Small pictures of all heads against pooling each head's whole matrix."""

import numpy as np
import pytest

from core import capture
from core.attention.pooling import pool
from core.heads.views import thumbnails
from tests.conftest import TEXTS
from tests.core.passes import every_head, tiny_pass


def expected(taken, layer, head, kind, side):
    trace = taken.trace(layer, head, kind)
    return pool(trace.weights, side, trace.mask)


@pytest.mark.parametrize("side", [5, 12, 24])
@pytest.mark.parametrize("name", ["BERT", "Mistral", "BART", "gpt-oss"])
def test_every_head_of_every_kind(name, side):
    taken = tiny_pass(name)
    drawn = {kind: thumbnails(taken, kind, side=side) for kind in taken.kinds}
    for layer, head, kind in every_head(taken):
        small, whole = drawn[kind], expected(taken, layer, head, kind, side)
        np.testing.assert_allclose(small.values[layer, head], whole.values, atol=1e-6)
        np.testing.assert_array_equal(small.allowed[layer, head], whole.allowed)
        assert (small.row_block, small.column_block) == (whole.row_block, whole.column_block)


def test_a_longer_text_of_a_real_model(smollm):
    taken = capture(smollm, TEXTS[1] * 10)
    seen = []
    small = thumbnails(taken, on_progress=seen.append)
    assert seen == list(range(1, 31))
    assert small.values.shape[:2] == (30, 9)
    assert max(small.values.shape[2:]) <= 24
    for at in ((0, 0), (13, 8), (29, 5)):
        np.testing.assert_allclose(small.values[at], expected(taken, *at, "self", 24).values, atol=1e-6)
