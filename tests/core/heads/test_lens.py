"""The logit lens: against the norm and head of each architecture by hand, and at the end the model's own output."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from core import Edits, attention_weights, capture, load_model, logit_lens
from core.attention.trace import softmax
from core.capturing import continuing
from core.heads import lens as lens_module
from core.models.model import Model
from tests.core.tiny_models import CAUSAL_WEIGHTS, GPT2, GROUPED, number_words, randomised, tiny
from tests.refusals import refused

IDS = [5, 17, 8, 40, 17, 23]
FRANCE = "The capital of France is"


# What each architecture has after its last layer, as its own code says.
TAILS = {
    "Llama": lambda net, x: net.lm_head(net.model.norm(x)),
    "Gemma 2": lambda net, x: 30 * torch.tanh(net.lm_head(net.model.norm(x)) / 30),  # its soft cap
    "GPT-2": lambda net, x: net.lm_head(net.transformer.ln_f(x)),
    "GPT-BigCode": lambda net, x: net.lm_head(net.transformer.ln_f(x)),
    "Granite": lambda net, x: net.lm_head(net.model.norm(x)) / net.config.logits_scaling,
    "Cohere": lambda net, x: net.lm_head(net.model.norm(x)) * net.config.logit_scale,
    "T5": lambda net, x: net.lm_head(net.decoder.final_layer_norm(x) * 32**-0.5),
    "BART": lambda net, x: net.lm_head(x) + net.final_logits_bias,
}


def gemma3n() -> transformers.Gemma3nForCausalLM:
    """Has several streams side by side, which are averaged after the last layer."""
    config = {"layer_types": ["full_attention"] * 2, "activation_sparsity_pattern": [0.0] * 2}
    sizes = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 64, "laurel_rank": 4}
    config |= {"num_kv_shared_layers": 0, "altup_num_inputs": 2}
    return transformers.Gemma3nForCausalLM(transformers.Gemma3nTextConfig(**GROUPED, **config, **sizes))


def read(name: str) -> tuple[Model, dict]:
    big_code = transformers.GPTBigCodeConfig(**GPT2)
    network = randomised(transformers.GPTBigCodeForCausalLM(big_code)) if name == "GPT-BigCode" else tiny(name)
    if name == "Granite":
        network.config.logits_scaling = 4.0
    model = load_model(network)
    return model, {"input_ids": IDS} | ({"target": [9, 33, 12]} if model.is_encoder_decoder else {})


def by_layer(table, what: str = "probability") -> NDArray:
    """[layers, positions, ranks]"""
    layers, positions = table["layer"].max() + 1, table["position"].nunique()
    return table[what].to_numpy().reshape(layers, positions, -1)


def check(lens, logits: torch.Tensor, layer: int, rtol: float, chosen: int) -> None:
    """The lens of a layer has the best tokens of these logits [positions, vocabulary], and their probabilities."""
    tokens = by_layer(lens, "token")[layer]
    expected = softmax(logits.double().numpy())
    np.testing.assert_array_equal(tokens, np.argsort(-expected, axis=1, kind="stable")[:, : tokens.shape[1]])
    np.testing.assert_allclose(by_layer(lens)[layer], np.take_along_axis(expected, tokens, axis=1), rtol=rtol)
    own = expected[:, chosen, None]
    np.testing.assert_allclose(by_layer(lens.chosen)[layer], own, rtol=rtol)
    np.testing.assert_array_equal(by_layer(lens.chosen, "rank")[layer], 1 + (expected > own).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", TAILS)
def test_each_layer_through_the_tail_of_its_architecture(name):
    model, given = read(name)
    passed = capture(model, **given)
    lens = logit_lens(passed, 3, token=17)
    inputs = {"input_ids": torch.tensor([IDS])}
    if model.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([passed.target_ids])
    with torch.inference_mode():
        returned = model.network(**inputs, output_hidden_states=True)
        streams = (returned.decoder_hidden_states if model.is_encoder_decoder else returned.hidden_states)[:-1]
        for layer, stream in enumerate(streams):
            check(lens, TAILS[name](model.network, stream)[0], layer, 1e-4, chosen=17)
        # To the last bit: rounding in float32 would be 1e-7. Other logits at the last position than at all of them at once.
        output = returned.logits[0].clone()
        output[-1] = torch.from_numpy(passed.logits)
        check(lens, output, len(streams), 1e-13, chosen=17)
    assert by_layer(lens).shape == (len(streams) + 1, len(streams[0][0]), 3)


def test_a_real_model(smollm):
    passed = capture(smollm, FRANCE)
    told: list[int] = []
    lens = logit_lens(passed, 2, on_progress=told.append)
    assert told[-1] == 31 * 5 == len(lens.chosen)
    output = lens[(lens["layer"] == 30) & (lens["position"] == 4)]
    np.testing.assert_allclose(output["probability"], [share for _, share in passed.next_tokens(2)], rtol=1e-13)
    assert output["text"].tolist() == [" Paris", " the"]
    assert set(lens.chosen["text"]) == {" Paris"}
    ranks = {token: by_layer(logit_lens(passed, 1, token).chosen, "rank")[:, -1, 0] for token in (7042, 260)}
    for token, of_layers in ranks.items():  # " Paris" in the end, " the" never
        assert lens_module.ranks_first_after(logit_lens(passed, 1, token)) == np.flatnonzero(of_layers == 1).tolist()
    # As docs/lens.md says.
    assert by_layer(lens.chosen, "rank")[26:, 4, 0].tolist() == [113, 34, 7, 3, 1]
    np.testing.assert_allclose(by_layer(lens.chosen)[28:, 4, 0], [0.011, 0.070, 0.773], atol=0.0005)


@pytest.mark.parametrize("rows", [2, 5, 11])
def test_few_at_a_time_are_the_same(rows, monkeypatch):
    model, given = read("GPT-2")
    passed = capture(model, **given)
    at_once = logit_lens(passed, 2, positions=None)
    monkeypatch.setattr(lens_module, "MAX_BYTES", rows * 8 * 64)
    in_parts = logit_lens(passed, 2, positions=5)
    expected = at_once[at_once["position"] > 0]
    np.testing.assert_array_equal(in_parts[["layer", "position", "token"]], expected[["layer", "position", "token"]])
    np.testing.assert_allclose(in_parts["probability"], expected["probability"], rtol=1e-4)


def test_equal_logits_in_the_order_of_their_numbers():
    model, given = read("Llama")
    with torch.no_grad():
        model.network.lm_head.weight[::2] = model.network.lm_head.weight[0]
    lens = logit_lens(capture(model, **given), 64, token=6)
    for tokens, chosen in zip(by_layer(lens, "token")[2], by_layer(lens.chosen, "rank")[2], strict=True):
        even = np.flatnonzero(tokens % 2 == 0)
        assert tokens[even].tolist() == list(range(0, 64, 2))
        assert chosen == even[3] + 1


def test_an_edited_pass():
    """With other tokens, and continued from another pass."""
    model = load_model(tiny("Llama"), tokenizer=number_words())
    plain = capture(model, "5 17 8 40")
    mutes = Edits(mute_heads={(1, 0)})
    changed = capture(model, "5 17 8 40", edits=mutes | Edits(replace_tokens={2: "11"}), known=[plain])
    expected = capture(model, "5 17 11 40", edits=mutes)
    assert logit_lens(changed).equals(logit_lens(expected))
    assert not logit_lens(expected).equals(logit_lens(capture(model, "5 17 11 40")))


def test_what_has_no_lens(minilm, smollm, monkeypatch):
    def refuses(passed, field: str, words: str, **options) -> None:
        with refused(field, words):
            logit_lens(passed, **options)

    refuses(capture(minilm, FRANCE), "model", "all-MiniLM-L6-v2 has no language-model head")
    refuses(attention_weights(load_model(CAUSAL_WEIGHTS["GPT-J"]()), input_ids=IDS), "model", "GPTJForCausalLM")
    refuses(capture(load_model(gemma3n()), input_ids=IDS), "model", "does not follow from what its layers return")
    refuses(capture(smollm, FRANCE, components=True), "text", "kept nothing of its layers")
    passed = capture(smollm, FRANCE)
    refuses(replace(passed, logits=passed.logits * 1.0001), "model", "does not follow from what its layers return")
    refuses(passed, "token", "no token 49152", token=49152)
    refuses(passed, "k", "at least 1 token", k=0)
    refuses(passed, "positions", "at least 1 token", positions=0)
    refuses(passed, "positions", "more than 1,000,000 rows", k=10_000)
    monkeypatch.setattr(continuing, "MAX_BYTES", 1)
    refuses(capture(smollm, FRANCE), "text", "Try a shorter text")
