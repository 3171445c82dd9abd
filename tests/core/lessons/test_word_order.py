"""Positions against closed forms, transformers' own code, and the property each encoding is there for."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from transformers import Lfm3Config, Lfm3ForCausalLM
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from core import attend, capture, load_model, softmax
from core.attention.masks import causal, grid
from core.lessons import word_order as lesson
from tests.core.tiny_models import GROUPED, tiny

WIDTHS = st.integers(1, 64).map(lambda half: 2 * half)
VECTORS = arrays(np.float64, (2, 64), elements=st.floats(-4, 4, width=32))


@given(WIDTHS, st.integers(2, 80))
def test_dot_products_of_sinusoids_depend_on_distance_only(width, count):
    encodings, scores = lesson.sinusoidal(count, width), lesson.sinusoid_scores(count, width)
    angles = np.arange(count)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)  # as in the paper
    np.testing.assert_allclose(encodings[:, 0::2], np.sin(angles), atol=1e-12)
    np.testing.assert_allclose(encodings[:, 1::2], np.cos(angles), atol=1e-12)
    assert lesson.diagonal_spread(scores) < 1e-12
    closed_form = np.cos(lesson.relative_positions(count)[..., None] * lesson.frequencies(width)).sum(axis=-1)
    np.testing.assert_allclose(scores, closed_form, atol=1e-12)


@given(WIDTHS, st.integers(0, 300), st.integers(0, 700))
def test_one_matrix_moves_every_position(width, k, position):
    moved = lesson.shift(position, k, width)
    assert moved.residual < 1e-12
    np.testing.assert_allclose(moved.moved, lesson.sinusoidal(position + k + 1, width)[-1], atol=1e-12)
    np.testing.assert_array_equal(moved.target, lesson.sinusoidal(position + k + 1, width)[-1])


@given(VECTORS, st.integers(-500, 500), st.integers(-500, 500), st.integers(-2000, 2000))
def test_rotated_scores_depend_on_distance_only(vectors, query_at, key_at, later):
    query, key = vectors[:1], vectors[1:]
    here = attend(lesson.rotate(query, [query_at]), lesson.rotate(key, [key_at]), key).raw
    there = attend(lesson.rotate(query, [query_at + later]), lesson.rotate(key, [key_at + later]), key).raw
    np.testing.assert_allclose(here, there, atol=1e-9)


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
        near = 200 * 6e-8 * np.abs(ours).max()
        turned = lesson.rotate(ours, np.arange(positions), base=100_000)
        np.testing.assert_allclose(turned, rotated[0, 0].numpy(), atol=near)


def test_the_rotary_experiment():
    found = lesson.rotary_scores(width=64, count=64, shift=1000)
    assert 0 < found.difference < 1e-11
    assert np.ptp(found.here) > 10
    assert found.here[0] == found.here.max()


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20, 112])
def test_alibi_slopes_against_bloom(heads):
    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)[:, 0, 1].numpy()
    np.testing.assert_allclose(lesson.alibi_slopes(heads), theirs, rtol=1e-6)


def test_alibi_alone():
    np.testing.assert_array_equal(lesson.alibi_bias(3, 0.5), [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]])
    trace = lesson.alibi_head(6, heads=8, head=1)
    np.testing.assert_array_equal(trace.mask, grid(causal, 6, 6))
    np.testing.assert_allclose(trace.weights[5], softmax(-0.25 * np.arange(5, -1, -1.0)), atol=1e-15)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (64, 128), (32, 256), (16, 20), (32, 1000)])
def test_buckets_against_t5(bidirectional, buckets, farthest):
    offsets = np.arange(-2500, 2501)
    theirs = T5Attention._relative_position_bucket(torch.from_numpy(offsets), bidirectional, buckets, farthest)
    ours = lesson.t5_buckets(offsets, bidirectional=bidirectional, buckets=buckets, farthest=farthest)
    np.testing.assert_array_equal(ours, theirs.numpy())


@given(st.lists(st.sampled_from(["the", "dog", "bites", "man", "."]), min_size=1, max_size=12), st.integers(0, 9999))
def test_without_positions_outputs_move_along(words, seed):
    read = lesson.shuffle(" ".join(words), seed=seed)
    assert read.difference < 1e-12
    assert [read.tokens[place] for place in read.order] == list(read.shuffled_tokens)
    np.testing.assert_allclose(read.after.weights, read.before.weights[np.ix_(read.order, read.order)], atol=1e-12)


@pytest.mark.parametrize("source", [name for name in lesson.ORDER_FROM if name != "Nothing"])
def test_each_source_of_order_is_seen(source):
    assert lesson.shuffle("the dog bites the man", source, seed=29).difference > 0.05
    # Words that are all the same leave nothing to tell apart, whatever the order.
    assert lesson.shuffle("dog dog dog dog", source, seed=1).difference < 1e-12


def test_the_opening_shuffle():
    assert " ".join(lesson.shuffle("the dog bites the man", seed=29).shuffled_tokens) == "the man bites the dog"


TEXT = "The animal didn't cross the street because it was too tired."


def turned_back(vectors, rotary):
    """Undo the rotation of captured queries [n, d_k] of positions 0 to n - 1."""
    first, second = rotary.pairs.T
    angles = np.outer(np.arange(len(vectors)), rotary.frequencies)
    pairs = (vectors[:, first] + 1j * vectors[:, second]) * np.exp(-1j * angles)
    result = vectors.astype(np.float64).copy()
    result[:, first], result[:, second] = pairs.real, pairs.imag
    return result


def check_on_one_token_repeated(model):
    """One token over and over: before rotation, every position has the same query and key in every layer."""
    passed = capture(model, input_ids=[7] * 24)
    rotated = 0
    for layer in range(passed.layers()):
        rotary = lesson.rotary_of(passed, layer)
        trace = passed.trace(layer, 0)
        size = np.abs(trace.query).max()
        if rotary is None:
            np.testing.assert_allclose(trace.query, trace.query[:1].repeat(24, 0), atol=2e-4 * size)
            continue
        rotated += 1
        assert np.ptp(trace.query, axis=0).max() > 0.05 * size  # it does turn
        for vectors in (trace.query, trace.key):
            back = turned_back(vectors, rotary)
            np.testing.assert_allclose(back, back[:1].repeat(24, 0), atol=2e-4 * np.abs(vectors).max())
    return rotated


@pytest.fixture(scope="module")
def passed(smollm):
    return capture(smollm, TEXT)


def test_smollm_rotates_as_read_from_it(smollm, passed):
    rotary = lesson.rotary_of(passed, 13)
    np.testing.assert_allclose(rotary.frequencies, lesson.frequencies(64, base=100_000), rtol=1e-6)
    np.testing.assert_array_equal(rotary.pairs, [(i, i + 32) for i in range(32)])
    assert rotary.wavelengths[0] == pytest.approx(2 * np.pi)
    assert check_on_one_token_repeated(smollm) == 30


@pytest.mark.parametrize(
    ("name", "rotated"),
    [("Cohere", 2), ("GPT-NeoX", 2), ("Gemma 3", 2), ("SmolLM3", 1)],  # the last has a layer without
)
def test_layers_rotate_as_read_from_them(name, rotated):
    assert check_on_one_token_repeated(load_model(tiny(name))) == rotated


def test_part_of_a_head():
    passed = capture(load_model(tiny("GPT-NeoX")), input_ids=[3, 1, 4, 1, 5])
    rotary = lesson.rotary_of(passed, 1)
    assert rotary.pairs.shape == (1, 2)
    trace = passed.trace(1, 2)
    found = lesson.bands(trace.query[4], trace.key[1], 3, rotary)
    assert found.unrotated != 0
    assert found.score == pytest.approx(trace.raw[4, 1], abs=1e-5)
    assert found.score_at([3])[0] == pytest.approx(found.score)


def test_layers_of_a_hybrid_with_their_own_rotation():
    """Its first layer has no attention: the capture's layers 0 and 1 are its layers 1 and 2."""
    bases = {"sliding_attention": 1e4, "full_attention": 1e6}
    config = Lfm3Config(
        **GROUPED | {"num_hidden_layers": 3},
        sliding_window=8,
        layer_types=["conv", *bases],
        rope_parameters={name: {"rope_type": "default", "rope_theta": base} for name, base in bases.items()},
    )
    model = load_model(Lfm3ForCausalLM(config))
    passed = capture(model, input_ids=[1, 2, 3])
    for layer, base in enumerate(bases.values()):
        rotary = lesson.rotary_of(passed, layer)
        assert rotary is not None
        np.testing.assert_allclose(rotary.frequencies, lesson.frequencies(8, base=base), rtol=1e-6)


def test_bands_add_up_to_the_raw_score(passed):
    for layer, head in ((0, 0), (13, 8), (29, 4)):
        trace, rotary = passed.trace(layer, head), lesson.rotary_of(passed, layer)
        for query, key in ((8, 1), (12, 0), (5, 5)):
            found = lesson.bands(trace.query[query], trace.key[key], query - key, rotary)
            assert found.parts.sum() == pytest.approx(float(trace.query[query] @ trace.key[key]), abs=1e-3)
            assert found.score == pytest.approx(trace.raw[query, key], abs=1e-3)
            assert found.unrotated == 0


def test_a_score_at_another_distance_is_what_rotation_makes_of_the_same_vectors(passed):
    trace = passed.trace(13, 8)
    found = lesson.bands(trace.query[8], trace.key[1], 7, lesson.rotary_of(passed, 13))
    plain_query = lesson.rotate(trace.query[8:9], [-8], base=100_000)
    plain_key = lesson.rotate(trace.key[1:2], [-1], base=100_000)
    distances, scores = found.by_distance(40)
    for distance in distances:
        expected = float((lesson.rotate(plain_query, [distance], base=100_000) @ plain_key.T)[0, 0])
        assert scores[distance] == pytest.approx(expected, abs=1e-3)
    assert found.at_distance_0.sum() == pytest.approx(scores[0])
    assert scores[7] == pytest.approx(found.score)
    backwards, _ = lesson.bands(trace.query[1], trace.key[8], -7, lesson.rotary_of(passed, 13)).by_distance(9)
    assert backwards[-1] == -9


def test_positions_are_learned_or_rotary(minilm, smollm):
    assert lesson.learned_positions(smollm) is None
    assert lesson.rotary_of(capture(minilm, TEXT), 0) is None
    learned = lesson.learned_positions(minilm)
    assert learned.shape == (512, 384)
    some = torch.from_numpy(learned[:20])
    theirs = torch.nn.functional.cosine_similarity(some[:, None], some[None], dim=-1)
    np.testing.assert_allclose(lesson.cosines(learned[:20]), theirs.numpy(), atol=1e-12)
