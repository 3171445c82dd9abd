"""Self- and cross-attention: who gives queries, keys and values, and what that means for shapes, masks and changes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.attention.sources import split_words
from core.errors import InputError
from core.lessons.many_heads import random_layer
from core.lessons.self_and_cross import (
    BLOCKS,
    MAX_WORDS,
    cross,
    crossing,
    other_keys,
    query_changes,
    read_and_write,
)

READ, INSTEAD, WRITTEN = "Le chat est sur le tapis.", "Il pleut.", "The cat is on"
TEXTS = st.lists(st.sampled_from(("le", "chat", "cat", "on", ".")), min_size=1, max_size=6).map(" ".join)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6))
def test_torch_computes_the_same(queries, keys):
    rng = np.random.default_rng(queries * 10 + keys)
    x, y = rng.standard_normal((queries, 8)), rng.standard_normal((keys, 8))
    weights = random_layer(8, seed=4)
    query, key, value = (torch.from_numpy(a @ b) for a, b in ((x, weights.W_Q), (y, weights.W_K), (y, weights.W_V)))
    theirs = torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]
    trace = cross(x, y, weights)
    assert trace.weights.shape == (queries, keys)
    assert trace.output.shape == (queries, 8)
    np.testing.assert_allclose(trace.output, theirs.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("place", "shape", "masked"), [("encoder", (7, 7), False), ("decoder", (4, 4), True), ("cross", (4, 7), False)]
)
def test_who_gives_what(place, shape, masked):
    one = crossing(place, READ, WRITTEN)
    texts = {"read": split_words(READ), "written": split_words(WRITTEN)}
    assert one.query_tokens == texts[one.block.query_text]
    assert one.key_tokens == texts[one.block.key_text]
    assert one.trace.weights.shape == shape
    assert one.trace.value.shape[0] == one.trace.key.shape[0] == shape[1]
    assert one.trace.output.shape[0] == shape[0]
    assert one.block.causal == masked
    np.testing.assert_array_equal(one.trace.mask, np.tri(*shape, dtype=bool) if masked else np.ones(shape, dtype=bool))
    np.testing.assert_allclose(one.trace.weights.sum(axis=1), 1)


def test_the_blocks_share_no_weights():
    queries = [crossing(place, READ, READ).trace.query for place in BLOCKS]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(queries[one] - queries[other]).max() > 0.1


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_another_text_to_read_changes_no_query(read, instead, written):
    found = other_keys(read, instead, written)
    assert found.query_change == 0
    np.testing.assert_array_equal(found.before.trace.query, found.after.trace.query)
    assert found.before.trace.output.shape == found.after.trace.output.shape
    np.testing.assert_array_equal(found.before.trace.weights.shape, (len(written.split()), len(read.split())))
    np.testing.assert_array_equal(found.after.trace.weights.shape, (len(written.split()), len(instead.split())))


def test_another_text_to_read_changes_the_output():
    assert other_keys(READ, INSTEAD, WRITTEN).output_change > 1


@pytest.mark.parametrize(
    ("texts", "field"), [((" ", "a", "b"), "read"), (("a", "", "b"), "instead"), (("a", "b", "\n"), "written")]
)
def test_blank_texts_are_named(texts, field):
    with pytest.raises(InputError, match="blank") as caught:
        other_keys(*texts)
    assert caught.value.field == field


# --- the small untrained encoder-decoder: wired like BART, and captured like any other model


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
