"""Many heads against torch's own multi-head attention, and the output as a sum, in toys and in real layers."""

from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core import capture
from core.heads.views import head_contributions, lengths
from core.lessons.many_heads import LayerWeights, fetch, many_heads, random_layer

D_MODEL = 24
COUNTS = (1, 2, 4, 8, 12)
SENTENCE = "The animal didn't cross the street because it was too tired."


@pytest.mark.parametrize("heads", COUNTS)
@pytest.mark.parametrize("masked", [False, True])
def test_torch_computes_the_same(heads, masked):
    x = np.random.default_rng(1).standard_normal((9, D_MODEL))
    weights = random_layer(D_MODEL, seed=2)
    mask = np.tri(9, dtype=bool) if masked else None
    ours = many_heads(x, weights, heads, mask=mask)
    theirs = torch.nn.MultiheadAttention(D_MODEL, heads, bias=False, dtype=torch.float64)
    theirs.in_proj_weight.data = torch.from_numpy(np.hstack([weights.W_Q, weights.W_K, weights.W_V]).T)
    theirs.out_proj.weight.data = torch.from_numpy(weights.W_O.T)
    forbidden = None if mask is None else torch.from_numpy(~mask)
    with torch.no_grad():
        output, attention = theirs(*[torch.from_numpy(x)] * 3, attn_mask=forbidden, average_attn_weights=False)
    assert np.abs(ours.output - output.numpy()).max() < 1e-12
    assert np.abs(np.stack([trace.weights for trace in ours.traces]) - attention.numpy()).max() < 1e-12
    assert (ours.parameters, ours.d_head) == (4 * D_MODEL**2, D_MODEL // heads)


@given(st.sampled_from(COUNTS), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_the_output_is_the_sum_of_the_heads(heads, words, seed):
    x = np.random.default_rng(seed).standard_normal((words, D_MODEL))
    many = many_heads(x, random_layer(D_MODEL, seed=seed), heads)
    assert many.difference < 1e-14
    np.testing.assert_allclose(many.contributions.sum(axis=0), many.joined @ many.weights.W_O, atol=1e-13)


@pytest.mark.parametrize("head", range(4))
def test_a_head_without_its_rows_of_W_O_adds_nothing(head):
    """Muting a head is removing its block of W_O; the other heads' parts stay as they are, bit for bit."""
    x = np.random.default_rng(4).standard_normal((6, D_MODEL))
    weights = random_layer(D_MODEL)
    W_O = weights.W_O.copy()
    W_O[6 * head : 6 * head + 6] = 0
    before = many_heads(x, weights, 4)
    after = many_heads(x, LayerWeights(weights.W_Q, weights.W_K, weights.W_V, W_O), 4)
    np.testing.assert_allclose(after.output, before.output - before.contributions[head], atol=1e-14)
    others = [other for other in range(4) if other != head]
    np.testing.assert_array_equal(after.contributions[others], before.contributions[others])


def test_lengths_of_heads_that_cancel():
    one = np.ones((1, 2, 3))
    length, along = lengths(np.concatenate([one, -one]))
    np.testing.assert_allclose(length, np.sqrt(3))
    np.testing.assert_array_equal(along, 0)


@given(st.floats(0, 1))
def test_leaning_to_one_word_loses_the_other(share):
    fetched = fetch(share)
    np.testing.assert_allclose(fetched.one_head.sum(axis=1), 1)
    assert fetched.apart(fetched.one_head) == pytest.approx(abs(2 * share - 1), abs=1e-9)
    assert fetched.one_head[0].max() <= max(share, 1 - share) + 1e-9
    np.testing.assert_array_equal(fetched.two_heads, [[1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("name", "module", "layers", "most"),
    [
        ("minilm", "encoder.layer.{}.attention.output.dense", (0, 5), 2e-6),
        ("smollm", "model.layers.{}.self_attn.o_proj", (0, 13, 29), 2e-5),
    ],
)
def test_the_sum_over_heads_and_the_bias_is_what_the_block_itself_returns(name, module, layers, most, request):
    model, returned = request.getfixturevalue(name), {}
    with ExitStack() as stack:
        for layer in layers:
            keep = partial(lambda layer, *of: returned.update({layer: of[-1][0].numpy()}), layer)
            part = model.network.get_submodule(module.format(layer))
            stack.callback(part.register_forward_hook(keep).remove)
        passed = capture(model, SENTENCE)
    assert returned.keys() == {*layers}
    for layer, output in returned.items():
        found = head_contributions(passed, layer)
        assert np.abs(found.total + found.bias - output).max() < most * max(1, np.abs(output).max())
        assert found.difference < 1e-12
        np.testing.assert_allclose(found.along.sum(axis=0), np.linalg.norm(found.total, axis=1), rtol=1e-9)
        assert found.lengths.shape == (passed.heads(), len(passed.input_ids))
