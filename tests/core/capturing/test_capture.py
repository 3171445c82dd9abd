"""What is captured against transformers' own eager attention on the real models, and everything that can go wrong.

The architectures are in test_architectures.py.
"""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import transformers as t

from core import attend, capture, generate, load_model
from core.attention.masks import causal, grid
from core.capturing.certifying import Origin, certified_head
from core.errors import WeightsOnlyError
from core.models.calls import IMPLEMENTATIONS
from core.models.inputs import TooLongError
from tests.conftest import TEXTS, eager_attentions
from tests.core.passes import assert_eager_weights, certify, every_head, tiny_pass
from tests.core.tiny_models import (
    LEAVING_OUT,
    LOCAL_ENCODERS,
    MORE_READERS_AND_WRITERS,
    T5,
    eager,
    number_words,
    randomised,
    tiny,
)
from tests.refusals import refused


def test_an_encoder_decoder_reads_a_text_and_what_was_written(minilm):
    config = t.T5Config(**T5 | {"vocab_size": len(minilm.tokenizer)}, decoder_start_token_id=0)
    model = load_model(t.T5ForConditionalGeneration(config).eval(), tokenizer=minilm.tokenizer)
    taken = capture(model, "the cat sat", target="a cat")
    assert taken.tokens("encoder")[0] == ("[CLS]", "the", "cat", "sat", "[SEP]")
    assert taken.tokens("cross") == (("[PAD]", "a", "cat"), ("[CLS]", "the", "cat", "sat", "[SEP]"))
    assert taken.trace(0, 0, "cross").shape == (3, 5)
    assert taken.trace(0, 0, "decoder").shape == (3, 3)
    assert len(taken.next_tokens(3)) == 3


@pytest.mark.parametrize("text", TEXTS[1:])
@pytest.mark.parametrize("model", ["minilm", "smollm"])
def test_every_head_of_the_real_models_agrees_with_eager(model, text, request):
    model = request.getfixturevalue(model)
    taken = capture(model, text)
    expected = torch.cat(eager_attentions(model, taken).attentions).numpy()  # [layers, heads, queries, keys]
    assert expected.shape[:2] == (taken.layers(), taken.heads())
    assert max(np.abs(taken.trace(*at).weights - expected[at[:2]]).max() for at in every_head(taken)) < 2e-5


def test_capturing_changes_nothing(smollm):
    """On the very same weights: a copy of them lies elsewhere in memory, where torch may add up in another order."""
    network, ids = smollm.network, torch.tensor([smollm.tokenizer("The cat saw the other cat")["input_ids"]])

    def logits():
        with torch.inference_mode():
            return network(ids, use_cache=False, logits_to_keep=1).logits[0, -1].numpy()

    captured, outside = capture(smollm, input_ids=ids[0]).logits, logits()
    network.set_attn_implementation("sdpa")
    try:
        expected = logits()
    finally:
        network.set_attn_implementation(IMPLEMENTATIONS["sdpa"])
    np.testing.assert_array_equal(captured, expected)
    np.testing.assert_array_equal(outside, expected)  # outside a capture nothing is recorded, and nothing differs


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_what_the_watcher_raises_ends_the_pass(stop):
    network, ran = tiny("Llama"), []
    for number, layer in enumerate(network.model.layers):
        layer.register_forward_pre_hook(lambda *_, number=number: ran.append(number))
    model = load_model(network)

    def on_progress(_count):
        raise stop("enough")

    with pytest.raises(stop, match="enough"):
        capture(model, input_ids=[3, 4, 5], on_progress=on_progress)
    assert ran == [0]
    with torch.inference_mode():  # nobody records any more: the watcher would raise
        network(torch.tensor([[1, 2, 3]]))
    assert capture(model, input_ids=[3, 4, 5]).layers() == 2


def test_the_certificate_holds_and_breaks_when_the_scale_is_off_by_one_percent(minilm, smollm):
    for model in (minilm, smollm):
        taken = capture(model, TEXTS[0])
        for at in every_head(taken):
            good, trace = taken.certificate(*at), taken.trace(*at)
            assert good.holds
            assert good.difference < 2e-5
            assert good.cells == len(taken.input_ids) * trace.value.shape[1]
            off = trace.changed(scale=trace.scale * 1.01)
            assert not certify(off, taken.model_output(*at), model).holds, at


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma 2", "gpt-oss", "T5", "BART"])
def test_a_certificate_is_the_same_in_blocks_of_rows_and_in_one_sweep_with_the_overview(name, monkeypatch):
    monkeypatch.setattr("core.attention.rowwise.CELLS", 40)
    taken = tiny_pass(name)
    for kind in taken.kinds:
        trace, output = taken.trace(1, 2, kind), taken.model_output(1, 2, kind)
        whole, blocks = certify(trace, output, taken.model), taken.certificate(1, 2, kind)
        overview, swept = taken.certified_overview(1, 2, kind)
        for certificate in (blocks, swept):
            assert certificate.holds
            assert replace(certificate, rounding=0, difference=0) == replace(whole, rounding=0, difference=0)
            assert abs(whole.rounding - certificate.rounding) < 5
        expected = np.where(trace.mask, trace.weights, np.nan)
        np.testing.assert_allclose(overview.matrices["weights"].values, expected, atol=1e-6)
        broken = taken.head(1, 2, kind).changed(scale=trace.scale * 1.5)
        assert not certified_head(broken, output, taken.model, whole.mask)[1].holds
        calls = {kind: (taken.calls[kind][1].reshaped(scale=trace.scale * 1.5),)}
        assert not replace(taken, calls=calls).certificate(0, 2, kind).holds


def test_a_row_that_may_attend_to_nothing_is_left_out():
    rng = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(4, 8, generator=rng) for _ in range(3))
    mask = grid(causal, 4, 4)
    mask[2] = False
    attention = torch.nn.functional.scaled_dot_product_attention
    expected = attention(query[None], key[None], value[None], torch.from_numpy(mask)[None], scale=0.3)[0].numpy()
    expected[2] = 99  # what an implementation puts there is its own affair
    trace = attend(query.numpy(), key.numpy(), value.numpy(), mask=mask, scale=0.3)
    certificate = certify(trace, expected, Origin("m", "r", "float32", "self", 0, 0))
    assert certificate.holds
    assert (certificate.left_out, certificate.cells) == (1, 24)


def test_an_argument_nobody_knows_is_named():
    network = tiny("BERT")
    model = load_model(network)
    attention = network.encoder.layer[0].attention.self
    original = attention.forward
    attention.forward = lambda *given, **options: original(*given, **options, relative_twist=torch.ones(1))
    with pytest.raises(WeightsOnlyError, match="relative_twist"):
        capture(model, input_ids=[3, 4, 5])


@pytest.mark.parametrize(
    ("ask", "field", "words"),
    [
        *((partial(capture, text=text), "text", "blank") for text in (" \n", None)),
        *((partial(capture, input_ids=ids), "input_ids", "from 0 to 30,521") for ids in ([], [-1], [30_522], [0.5])),
        (lambda model: capture(model, "Hello").layer_call(6), "layer", "no layer 6"),
        (lambda model: capture(model, "Hello").trace(-1, 0), "layer", "no layer -1"),
        (lambda model: capture(model, "Hello").trace(0, 12), "head", "no head 12"),
        (lambda model: capture(model, "Hello").trace(0, 0, "cross"), "kind", "no cross attention, only self"),
        (lambda model: capture(model, "Hello").next_tokens(), "model", "no language-model head"),
    ],
)
def test_what_is_not_there_is_refused(ask, field, words, minilm):
    with refused(field, words):
        ask(minilm)


def test_too_long_text_says_count_and_limit_and_can_be_cut(minilm):
    text = "word " * 600
    with pytest.raises(TooLongError, match=r"602 tokens; at most 512 can be read") as caught:
        capture(minilm, text)
    assert (caught.value.count, caught.value.limit) == (602, 512)
    taken = capture(minilm, text, truncate=True)
    assert len(taken.input_ids) == 512
    assert taken.tokens()[0][-1] == "[SEP]"
    with pytest.raises(TooLongError, match="at most 100 can be read"):
        capture(minilm, text, max_tokens=100)


@pytest.mark.parametrize(
    ("name", "words"), [("DeepSeek V4", "15 keys where it reads 12"), ("T5Gemma 2", "16 keys where it")]
)
def test_keys_that_are_not_one_for_each_token_are_refused(name, words):
    model = load_model(tiny(name))
    for read in (capture, generate):
        with refused("model", words):
            read(model, input_ids=range(4, 16), **{"target": [3, 4, 5]} if model.is_encoder_decoder else {})


@pytest.mark.parametrize("name", LEAVING_OUT)
def test_nothing_is_left_out_that_the_network_computes_by_itself(name):
    """Gemma 4 leaves out queries where only the last logits are asked for; DeepSeek V3.2 the choice of keys."""
    network = tiny(name)
    expected = eager(network, input_ids=torch.tensor([READ]))
    taken = capture(load_model(network), input_ids=READ)
    assert_eager_weights(taken, expected)
    np.testing.assert_allclose(taken.logits, expected.logits[0, -1], rtol=0, atol=1e-4)
    assert taken.trace(1, 0).mask.sum(axis=1).max() == (3 if name == "DeepSeek V3.2" else len(READ))


def test_a_decoder_that_no_token_begins_is_refused():
    with refused("model", r"does not say with which token its decoder begins.*decoder_start_token_id"):
        capture(load_model(t.T5ForConditionalGeneration(t.T5Config(**T5))), input_ids=READ)


READ, WRITTEN = [5, 17, 8, 5, 17, 8, 9, 41], [9, 31, 9]


@pytest.mark.parametrize("name", MORE_READERS_AND_WRITERS)
def test_weights_are_those_of_its_own_eager_code_and_it_writes(name):
    """In a copy that never knew our attention."""
    network = randomised(MORE_READERS_AND_WRITERS[name]())
    own = copy.deepcopy(network)
    model = load_model(network, tokenizer=number_words())
    taken = capture(model, input_ids=READ, target=WRITTEN)
    expected = eager(own, input_ids=torch.tensor([READ]), decoder_input_ids=torch.tensor([taken.target_ids]))
    assert taken.kinds == (("decoder", "cross") if name in LOCAL_ENCODERS else ("encoder", "decoder", "cross"))
    assert_eager_weights(taken, expected)
    np.testing.assert_allclose(taken.logits, expected.logits[0, -1], rtol=0, atol=1e-4)
    with torch.inference_mode():
        alone = own.generate(torch.tensor([READ]), do_sample=False, num_beams=1, max_new_tokens=3)
    assert generate(model, input_ids=READ, new_tokens=3).token_ids == tuple(alone[0, 1:].tolist())
