"""Rotary bands of real and tiny models, checked by what rotation promises; and learned positions."""

import numpy as np
import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Lfm3Config,
    Lfm3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from core import capture, load_model
from core.lessons.word_order import bands, cosines, frequencies, learned_positions, rotary_of, rotate

TEXT = "The animal didn't cross the street because it was too tired."
TINY = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 50, "num_hidden_layers": 4}


def tiny(model_class, config):
    torch.manual_seed(0)
    config.pad_token_id = 0
    return load_model(model_class(config))


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
        rotary = rotary_of(passed, layer)
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


def test_smollm_rotates_as_read_from_it(smollm):
    rotary = rotary_of(capture(smollm, TEXT), 13)
    np.testing.assert_allclose(rotary.frequencies, frequencies(64, base=100_000), rtol=1e-6)
    np.testing.assert_array_equal(rotary.pairs, [(i, i + 32) for i in range(32)])
    assert rotary.wavelengths[0] == pytest.approx(2 * np.pi)
    assert check_on_one_token_repeated(smollm) == 30


def test_neighbouring_pairs():
    model = tiny(CohereForCausalLM, CohereConfig(**TINY))
    assert rotary_of(capture(model, input_ids=[1, 2]), 0).pairs[1].tolist() == [2, 3]
    assert check_on_one_token_repeated(model) == 4


def test_part_of_a_head():
    model = tiny(
        GPTNeoXForCausalLM,
        GPTNeoXConfig(
            **TINY, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
        ),
    )
    passed = capture(model, input_ids=[3, 1, 4, 1, 5])
    rotary = rotary_of(passed, 1)
    assert rotary.pairs.shape == (4, 2)
    assert check_on_one_token_repeated(model) == 4
    trace = passed.trace(1, 2)
    found = bands(trace.query[4], trace.key[1], 3, rotary)
    assert found.unrotated != 0
    assert found.score == pytest.approx(trace.raw[4, 1], abs=1e-5)
    assert found.score_at([3])[0] == pytest.approx(found.score)


def test_layers_with_their_own_rotation():
    model = tiny(
        Gemma3ForCausalLM,
        Gemma3TextConfig(
            **TINY,
            head_dim=16,
            num_key_value_heads=2,
            sliding_window=64,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
    )
    passed = capture(model, input_ids=[1, 2, 3])
    near, far = rotary_of(passed, 0), rotary_of(passed, 1)
    assert far.wavelengths[-1] > 10 * near.wavelengths[-1]
    assert check_on_one_token_repeated(model) == 4


def test_layers_of_a_hybrid_with_their_own_rotation():
    """Its first layer has no attention: the capture's layers 0 and 1 are its layers 1 and 2."""
    bases = {"sliding_attention": 1e4, "full_attention": 1e6}
    model = tiny(
        Lfm3ForCausalLM,
        Lfm3Config(
            **TINY | {"num_hidden_layers": 3},
            head_dim=16,
            num_key_value_heads=2,
            sliding_window=8,
            layer_types=["conv", *bases],
            bos_token_id=1,
            eos_token_id=2,
            rope_parameters={name: {"rope_type": "default", "rope_theta": base} for name, base in bases.items()},
        ),
    )
    passed = capture(model, input_ids=[1, 2, 3])
    for layer, base in enumerate(bases.values()):
        rotary = rotary_of(passed, layer)
        assert rotary is not None
        np.testing.assert_allclose(rotary.frequencies, frequencies(16, base=base), rtol=1e-6)


def test_layers_without_rotation():
    model = tiny(SmolLM3ForCausalLM, SmolLM3Config(**TINY, num_key_value_heads=2, no_rope_layers=[1, 0, 1, 0]))
    assert check_on_one_token_repeated(model) == 2


def test_bands_add_up_to_the_raw_score(smollm):
    passed = capture(smollm, TEXT)
    for layer, head in ((0, 0), (13, 8), (29, 4)):
        trace, rotary = passed.trace(layer, head), rotary_of(passed, layer)
        for query, key in ((8, 1), (12, 0), (5, 5)):
            found = bands(trace.query[query], trace.key[key], query - key, rotary)
            assert found.parts.sum() == pytest.approx(float(trace.query[query] @ trace.key[key]), abs=1e-3)
            assert found.score == pytest.approx(trace.raw[query, key], abs=1e-3)
            assert found.unrotated == 0


def test_a_score_at_another_distance_is_what_rotation_makes_of_the_same_vectors(smollm):
    trace = capture(smollm, TEXT).trace(13, 8)
    found = bands(trace.query[8], trace.key[1], 7, rotary_of(capture(smollm, TEXT), 13))
    plain_query = rotate(trace.query[8:9], [-8], base=100_000)
    plain_key = rotate(trace.key[1:2], [-1], base=100_000)
    distances, scores = found.by_distance(40)
    for distance in distances:
        expected = float((rotate(plain_query, [distance], base=100_000) @ plain_key.T)[0, 0])
        assert scores[distance] == pytest.approx(expected, abs=1e-3)
    assert found.at_distance_0.sum() == pytest.approx(scores[0])
    assert scores[7] == pytest.approx(found.score)
    backwards, _ = bands(trace.query[1], trace.key[8], -7, rotary_of(capture(smollm, TEXT), 13)).by_distance(9)
    assert backwards[-1] == -9


def test_slow_bands_hardly_turn_and_fast_ones_do(smollm):
    trace = capture(smollm, TEXT).trace(13, 8)
    rotary = rotary_of(capture(smollm, TEXT), 13)
    found = bands(trace.query[8], trace.key[1], 7, rotary)
    change = np.abs(found.parts - found.at_distance_0)
    lengths = [np.hypot(*vector[rotary.pairs.T]) for vector in (trace.query[8], trace.key[1])]
    # An angle of ω · 7 moves a product of these lengths by no more than its arc; slow bands get no further.
    assert np.all(change <= lengths[0] * lengths[1] * rotary.frequencies * 7 + 1e-9)
    assert change[found.wavelengths > 7000].max() < 0.3 < 1 < change[found.wavelengths < 20].max()


def test_a_model_that_learned_its_positions(minilm):
    passed = capture(minilm, TEXT)
    assert rotary_of(passed, 0) is None
    learned = learned_positions(minilm)
    assert learned.shape == (512, 384)
    theirs = torch.nn.functional.cosine_similarity(
        torch.from_numpy(learned[:20, None]), torch.from_numpy(learned[None, :20]), dim=-1
    )
    np.testing.assert_allclose(cosines(learned[:20]), theirs.numpy(), atol=1e-12)


def test_a_rotary_model_learned_no_position_vectors(smollm):
    assert learned_positions(smollm) is None
