"""The small untrained encoder-decoder: wired like BART, and captured like any other model."""

import numpy as np
import pytest
import torch

from core.errors import InputError
from core.lessons.self_and_cross import MAX_WORDS, query_changes, read_and_write

READ, INSTEAD, WRITTEN = "Le chat est sur le tapis.", "Il pleut.", "The cat is on"


@pytest.fixture(scope="module")
def passed():
    return read_and_write(READ, WRITTEN)


def test_three_kinds_of_attention_and_their_shapes(passed):
    assert passed.kinds == ("encoder", "decoder", "cross")
    shapes = {kind: passed.trace(0, 0, kind).shape for kind in passed.kinds}
    assert shapes == {"encoder": (7, 7), "decoder": (5, 5), "cross": (5, 7)}
    assert passed.tokens("cross") == (
        ("<start>", "The", "cat", "is", "on"),
        ("Le", "chat", "est", "sur", "le", "tapis", "."),
    )


def test_only_the_decoders_first_block_is_masked(passed):
    for kind in passed.kinds:
        for layer in range(passed.layers(kind)):
            mask = passed.trace(layer, 0, kind).mask
            expected = np.tri(5, dtype=bool) if kind == "decoder" else np.ones_like(mask)
            np.testing.assert_array_equal(mask, expected)


def test_it_agrees_with_the_network(passed):
    eager = passed.model.network
    eager.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            found = eager(
                input_ids=torch.tensor([passed.input_ids]),
                decoder_input_ids=torch.tensor([passed.target_ids]),
                output_attentions=True,
            )
    finally:
        eager.set_attn_implementation("headlight")
    theirs = {"encoder": found.encoder_attentions, "decoder": found.decoder_attentions, "cross": found.cross_attentions}
    for kind, layers in theirs.items():
        assert max(passed.agreement(layer, kind) for layer in range(2)) < 1e-6
        for layer, weights in enumerate(layers):
            for head in range(passed.heads(kind)):
                ours = passed.trace(layer, head, kind).weights
                np.testing.assert_allclose(ours, weights[0, head].numpy(), atol=1e-6)


def test_another_text_reaches_the_queries_only_from_the_second_layer_on(passed):
    changes = query_changes(passed, read_and_write(INSTEAD, WRITTEN))
    assert changes[0] == 0
    assert changes[1] > 0.1


def test_the_same_texts_give_the_same_numbers(passed):
    again = read_and_write(READ, WRITTEN)
    np.testing.assert_allclose(
        again.trace(1, 3, "cross").weights, passed.trace(1, 3, "cross").weights, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("text", ["", "   ", "a " * (MAX_WORDS + 1)])
@pytest.mark.parametrize("field", ["read", "written"])
def test_texts_that_cannot_be_used_are_named(text, field):
    with pytest.raises(InputError) as caught:
        read_and_write(**{"read": READ, "written": WRITTEN} | {field: text})
    assert caught.value.field == field


def test_the_longest_texts_fit():
    longest = " ".join(f"w{number}" for number in range(MAX_WORDS))
    passed = read_and_write(longest.replace("w", "v"), longest)
    assert passed.trace(1, 0, "cross").shape == (MAX_WORDS + 1, MAX_WORDS)
