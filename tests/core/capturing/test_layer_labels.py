"""What is said about layers, held against the masks that the layers really had; hybrid models of every make."""

import copy

import numpy as np
import pytest
import torch
import transformers as t

from core import capture, head_weights, load_model
from core.capturing.layer_labels import LayerLabel, layer_labels, missing_layers
from core.capturing.weights_only import NoAttentionError
from core.errors import InputError
from tests.core.passes import assert_eager_weights, every_head, tiny_model, tiny_pass
from tests.core.tiny_models import GROUPED, HYBRIDS, TWICE, WEIGHTS_ONLY, WITHOUT_WEIGHTS, eager, randomised, tiny

IDS = np.arange(3, 15)
# Of hybrid models the layers that have attention, and what is said of the first one that has none.
WITH_ATTENTION = {
    "Qwen3-Next": ((1, 3), "layer 0: linear attention (Qwen3NextGatedDeltaNet)"),
    "LFM2": ((1,), "layer 0: conv (Lfm2ShortConv)"),
    "Jamba": ((1, 3), "layer 0: linear attention (JambaMambaMixer)"),
    "Granite 4": ((1,), "layer 0: linear attention (GraniteMoeHybridMambaLayer)"),
    "Bamba": ((1,), "layer 0: linear attention (BambaMixer)"),
    "RecurrentGemma": ((2,), "layer 0: linear attention (RecurrentGemmaRecurrentBlock)"),
    "MiniMax": ((1, 3), "layer 0: linear attention (MiniMaxLightningAttention)"),
    "Nemotron-H": ((1,), "layer 0: linear attention (NemotronHMamba2Mixer)"),
    "OLMo hybrid": ((1, 3), "layer 0: linear attention (OlmoHybridGatedDeltaNet)"),
}


def words_of(model, kind=None, tokens=12):
    return [label.words for label in layer_labels(capture(model, input_ids=np.arange(3, 3 + tokens)), kind)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Qwen2", ["sliding window 4", ""]),
        ("Gemma 2", ["sliding window 4, soft cap 2", "soft cap 2"]),
        ("gpt-oss", ["sliding window 4, sinks", "sinks"]),
        ("ModernBERT", ["", "sliding window ±2"]),
        ("T5", ["position bias", "position bias"]),
    ],
)
def test_words(name, words):
    """The same for a text that is shorter than the window."""
    assert words_of(tiny_model(name), tokens=3) == words_of(tiny_model(name)) == words


def test_words_of_every_kind():
    t5 = tiny_model("T5")
    assert words_of(t5, "encoder") == words_of(t5, "decoder") == ["position bias", "position bias"]
    assert words_of(t5, "cross") == ["", ""]


@pytest.mark.parametrize(
    "name", ["Mistral", "Phi-3", "SmolLM3", "Qwen3", "Gemma 2", "Gemma 3", "gpt-oss", "ModernBERT", "RecurrentGemma"]
)
def test_the_window_is_how_far_the_mask_lets_a_query_look(name):
    model = load_model(randomised(HYBRIDS[name]())) if name in HYBRIDS else tiny_model(name)
    taken = capture(model, input_ids=IDS)
    for layer, label in enumerate(layer_labels(taken)):
        window = next((part for part in label.words.split(", ") if part.startswith("sliding window")), None)
        query, key = np.nonzero(taken.trace(layer, 0).mask)
        if window is None:
            assert (query - key).max() == 11
        elif "±" in window:
            assert np.abs(query - key).max() == int(window.rpartition("±")[2])
        else:
            assert (query - key).max() + 1 == int(window.rpartition(" ")[2])


@pytest.mark.parametrize("window_of_the_mask", [6, None])
def test_a_window_that_the_mask_contradicts_is_not_claimed(window_of_the_mask):
    """Mistral names its window in every call, whatever mask it was given."""
    network = tiny("Mistral")
    model = load_model(network)
    assert words_of(model) == ["sliding window 4"] * 2
    network.model.layers[1].self_attn.config = copy.deepcopy(network.config)
    network.config.sliding_window = window_of_the_mask
    assert words_of(model) == ["" if window_of_the_mask is None else "sliding window 6", ""]


def test_chunks():
    config = t.Llama4TextConfig(
        **GROUPED,
        attention_chunk_size=4,
        intermediate_size_mlp=48,
        num_local_experts=2,
        layer_types=["chunked_attention", "full_attention"],
    )
    taken = capture(load_model(randomised(t.Llama4ForCausalLM(config))), input_ids=IDS)
    assert [label.words for label in layer_labels(taken)] == ["chunks of 4", ""]
    assert taken.trace(0, 0).mask.sum(axis=1).tolist() == [1, 2, 3, 4] * 3


def test_a_layer_with_attention_and_something_else_is_called_hybrid():
    config = t.FalconH1Config(**GROUPED, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=4)
    model = load_model(randomised(t.FalconH1ForCausalLM(config)))
    assert layer_labels(capture(model, input_ids=IDS)) == (LayerLabel(0, "hybrid"), LayerLabel(1, "hybrid"))
    assert missing_layers(model) == ()


@pytest.mark.parametrize("name", HYBRIDS)
def test_hybrid_models(name):
    """Matrices and captures mean the same layer. (Qwen3-Next gates its queries, so its matrices are refused.)"""
    attending, first = WITH_ATTENTION[name]
    network = randomised(HYBRIDS[name]())
    model = load_model(network)
    taken = capture(model, input_ids=IDS)
    labels = layer_labels(taken)
    assert tuple(label.number for label in labels) == attending
    assert {label.words for label in labels} == {"sliding window 4" if name == "RecurrentGemma" else ""}
    assert taken.layers() == len(attending) == model.attention_calls
    assert all(taken.certificate(*at).holds for at in every_head(taken))
    missing = missing_layers(model)
    assert missing[0] == first
    if name == "Nemotron-H":
        assert missing[1:] == ("layer 2: moe (NemotronHMoE)",)
    numbers = {int(words.split(":")[0].removeprefix("layer ")) for words in missing}
    assert numbers | set(attending) == set(range(network.config.num_hidden_layers))
    assert not numbers & set(attending)
    if name != "Qwen3-Next":
        for layer, call in enumerate(taken.each_layer()):
            expected = call.module.q_proj.weight[8:16].T.detach().numpy()
            np.testing.assert_array_equal(head_weights(model, layer, 1).W_Q, expected)
        with pytest.raises(InputError, match=f"from 0 to {len(attending) - 1}"):
            head_weights(model, len(attending), 0)


@pytest.mark.parametrize("name", [name for name in WITHOUT_WEIGHTS if name in ("Mamba", "RWKV", "FNet")])
def test_without_any_attention_every_layer_is_missing(name):
    model = load_model(WITHOUT_WEIGHTS[name]())
    expected = {"Mamba": "linear attention (MambaMixer)", "RWKV": "RwkvSelfAttention", "FNet": "FNetFourierTransform"}
    assert missing_layers(model) == tuple(f"layer {number}: {expected[name]}" for number in range(2))
    with pytest.raises(NoAttentionError):
        capture(model, input_ids=IDS)


@pytest.mark.parametrize("name", TWICE)
def test_a_layer_with_two_attentions_is_called_as_in_transformers(name):
    """DiffLlama attends twice in a layer with the same weights, which it returns once; LongCat has two modules, which count."""
    taken = tiny_pass(name)
    layers = taken.model.network.config.num_hidden_layers
    assert [label.number for label in layer_labels(taken)] == list(range(layers)) == list(range(taken.layers()))
    assert taken.model.attention_calls == layers
    assert_eager_weights(taken, eager(taken.model.network, input_ids=torch.tensor([taken.input_ids])))
    assert all(taken.certificate(*at).holds for at in every_head(taken))


def test_nothing_is_missing_where_there_is_attention(minilm, smollm):
    assert missing_layers(minilm) == missing_layers(smollm) == ()
    for network in (tiny("ALBERT"), tiny("BART").model, WEIGHTS_ONLY["GPT-Neo"]()):
        assert missing_layers(load_model(network)) == ()
    assert layer_labels(capture(smollm, "Hello")) == tuple(LayerLabel(number, "") for number in range(30))
    assert [label.number for label in layer_labels(tiny_pass("ALBERT"))] == [0, 1, 2, 3]
