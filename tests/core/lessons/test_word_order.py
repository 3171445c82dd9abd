"""Positions against closed forms, transformers' own code, and the property each encoding is there for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from core.attention.masks import causal, grid
from core.attention.trace import attend, softmax
from core.errors import InputError
from core.lessons.word_order import (
    ORDER_FROM,
    alibi_bias,
    alibi_head,
    alibi_slopes,
    diagonal_spread,
    frequencies,
    relative_positions,
    rotary_scores,
    rotate,
    shift,
    shift_map,
    shuffle,
    sinusoid_scores,
    sinusoidal,
    t5_buckets,
)

WIDTHS = st.integers(1, 64).map(lambda half: 2 * half)
VECTORS = arrays(np.float64, (2, 64), elements=st.floats(-4, 4, width=32))


# --- sinusoids


def test_sinusoids_as_in_the_paper():
    encodings = sinusoidal(50, 512)
    for position, dimension in ((0, 0), (1, 0), (7, 101), (49, 510), (49, 511)):
        angle = position / 10_000 ** (2 * (dimension // 2) / 512)
        expected = np.cos(angle) if dimension % 2 else np.sin(angle)
        assert encodings[position, dimension] == pytest.approx(expected, abs=1e-15)


@settings(deadline=None)  # a busy machine is no failure
@given(WIDTHS, st.integers(2, 80))
def test_dot_products_of_sinusoids_depend_on_distance_only(width, count):
    scores = sinusoid_scores(count, width)
    assert diagonal_spread(scores) < 1e-12
    closed_form = np.cos(relative_positions(count)[..., None] * frequencies(width)).sum(axis=-1)
    np.testing.assert_allclose(scores, closed_form, atol=1e-12)


def test_the_spread_sees_what_does_not_depend_on_distance():
    assert diagonal_spread(np.array([[1.0, 2.0], [3.0, 1.5]])) == 0.5
    assert diagonal_spread(sinusoidal(8, 8)) > 0.1


@settings(deadline=None)  # a busy machine is no failure
@given(WIDTHS, st.integers(0, 300), st.integers(0, 700))
def test_one_matrix_moves_every_position(width, k, position):
    moved = shift(position, k, width)
    assert moved.residual < 1e-12
    np.testing.assert_allclose(moved.moved, sinusoidal(position + k + 1, width)[-1], atol=1e-12)
    np.testing.assert_array_equal(moved.target, sinusoidal(position + k + 1, width)[-1])


def test_the_matrix_itself():
    np.testing.assert_allclose(shift_map(3, 16) @ shift_map(4, 16), shift_map(7, 16), atol=1e-15)
    np.testing.assert_allclose(shift_map(5, 16) @ shift_map(5, 16).T, np.eye(16), atol=1e-15)
    # Found without knowing it, by least squares from the encodings alone:
    encodings = sinusoidal(400, 8)
    fitted, *_ = np.linalg.lstsq(encodings[:-5], encodings[5:], rcond=None)
    np.testing.assert_allclose(fitted.T, shift_map(5, 8), atol=1e-9)


# --- rotary


@settings(deadline=None)  # a busy machine is no failure
@given(VECTORS, st.integers(-500, 500), st.integers(-500, 500), st.integers(-2000, 2000))
def test_rotated_scores_depend_on_distance_only(vectors, query_at, key_at, later):
    query, key = vectors[:1], vectors[1:]
    here = attend(rotate(query, [query_at]), rotate(key, [key_at]), key).raw
    there = attend(rotate(query, [query_at + later]), rotate(key, [key_at + later]), key).raw
    np.testing.assert_allclose(here, there, atol=1e-9)


@settings(deadline=None)  # a busy machine is no failure
@given(VECTORS, st.integers(-500, 500))
def test_rotation_keeps_lengths_and_can_be_undone(vectors, position):
    turned = rotate(vectors, [position] * 2)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(vectors, axis=1), atol=1e-12)
    np.testing.assert_allclose(rotate(turned, [-position] * 2), vectors, atol=1e-12)


def test_rotation_against_llama_with_the_settings_of_smollm(smollm):
    config = smollm.network.config
    assert config.rope_parameters["rope_theta"] == 100_000
    positions, width = 200, config.head_dim
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, positions, width))
    embedding = LlamaRotaryEmbedding(config)
    cosine, sine = embedding(torch.zeros(1, dtype=torch.float64), torch.arange(positions)[None])
    pair = (torch.from_numpy(part)[None, None] for part in (query, key))
    theirs = apply_rotary_pos_emb(*pair, cosine, sine)
    for ours, rotated in zip((query, key), theirs, strict=True):
        # Llama keeps its angles in float32: position 199 is off by about 199 times one rounding error.
        np.testing.assert_allclose(
            rotate(ours, np.arange(positions), base=100_000),
            rotated[0, 0].numpy(),
            atol=200 * 6e-8 * np.abs(ours).max(),
        )


def test_the_rotary_experiment():
    found = rotary_scores(width=64, count=64, shift=1000)
    assert 0 < found.difference < 1e-11
    assert np.ptp(found.here) > 10
    assert found.here[0] == found.here.max()


# --- biases


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20, 112])
def test_alibi_slopes_against_bloom(heads):
    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)[:, 0, 1].numpy()
    np.testing.assert_allclose(alibi_slopes(heads), theirs, rtol=1e-6)


def test_alibi_slopes_of_the_paper():
    np.testing.assert_array_equal(alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    np.testing.assert_array_equal(alibi_slopes(16), 2.0 ** (-np.arange(1, 17) / 2))


def test_alibi_alone():
    np.testing.assert_array_equal(alibi_bias(3, 0.5), [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]])
    trace = alibi_head(6, heads=8, head=1)
    np.testing.assert_array_equal(trace.mask, grid(causal, 6, 6))
    np.testing.assert_allclose(trace.weights[5], softmax(-0.25 * np.arange(5, -1, -1.0)), atol=1e-15)
    with pytest.raises(InputError, match="head 8") as caught:
        alibi_head(6, heads=8, head=8)
    assert caught.value.field == "head"


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (64, 128), (32, 256), (16, 20), (32, 1000)])
def test_buckets_against_t5(bidirectional, buckets, farthest):
    offsets = np.arange(-2500, 2501)
    theirs = T5Attention._relative_position_bucket(torch.from_numpy(offsets), bidirectional, buckets, farthest)
    ours = t5_buckets(offsets, bidirectional=bidirectional, buckets=buckets, farthest=farthest)
    np.testing.assert_array_equal(ours, theirs.numpy())


# --- order


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.sampled_from(["the", "dog", "bites", "man", "."]), min_size=1, max_size=12), st.integers(0, 9999))
def test_without_positions_outputs_move_along(words, seed):
    read = shuffle(" ".join(words), seed=seed)
    assert read.difference < 1e-12
    assert [read.tokens[place] for place in read.order] == list(read.shuffled_tokens)
    np.testing.assert_allclose(read.after.weights, read.before.weights[np.ix_(read.order, read.order)], atol=1e-12)


@pytest.mark.parametrize("source", [name for name in ORDER_FROM if name != "Nothing"])
def test_each_source_of_order_is_seen(source):
    assert shuffle("the dog bites the man", source, seed=29).difference > 0.05
    # Words that are all the same leave nothing to tell apart, whatever the order.
    assert shuffle("dog dog dog dog", source, seed=1).difference < 1e-12


def test_the_opening_shuffle():
    assert " ".join(shuffle("the dog bites the man", seed=29).shuffled_tokens) == "the man bites the dog"


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: sinusoidal(4, 7), "width"),
        (lambda: rotate(np.ones((1, 3)), [0]), "width"),
        (lambda: frequencies(4, base=1), "base"),
        (lambda: alibi_slopes(0), "heads"),
        (lambda: shuffle("a b", "Weather"), "order_from"),
        (lambda: shuffle("   "), "text"),
    ],
)
def test_what_cannot_be_used_is_named(call, field):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.field == field
