"""What is said about layers, held against the masks that the layers really had; hybrid models of every make."""

import copy

import numpy as np
import pytest
import transformers as t

from core import capture, head_weights, load_model
from core.capturing.layer_labels import LayerLabel, layer_labels, missing_layers
from core.capturing.weights_only import NoAttentionError
from core.errors import InputError
from tests.core.tiny_models import DECODER, GROUPED, SEQ2SEQ, SMALL, WEIGHTS_ONLY, WITHOUT_WEIGHTS, randomised, tiny

IDS = np.arange(3, 15)
FOUR = {"num_hidden_layers": 4}
THREE = {"num_hidden_layers": 3}
DELTA = {
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1}
LOCAL_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4}

# Each with the layers that have attention and what is said of the first one that has none.
HYBRIDS = {
    "Qwen3-Next": (
        lambda: t.Qwen3NextForCausalLM(
            t.Qwen3NextConfig(
                **GROUPED | FOUR | DELTA | EXPERTS, moe_intermediate_size=16, shared_expert_intermediate_size=16
            )
        ),
        (1, 3),
        "layer 0: linear attention (Qwen3NextGatedDeltaNet)",
    ),
    "LFM2": (
        lambda: t.Lfm2ForCausalLM(t.Lfm2Config(**GROUPED | THREE, layer_types=["conv", "full_attention", "conv"])),
        (1,),
        "layer 0: conv (Lfm2ShortConv)",
    ),
    "Jamba": (
        lambda: t.JambaForCausalLM(
            t.JambaConfig(
                **DECODER | FOUR | EXPERTS,
                num_key_value_heads=2,
                attn_layer_period=2,
                attn_layer_offset=1,
                expert_layer_period=2,
                expert_layer_offset=1,
                use_mamba_kernels=False,
                mamba_d_state=4,
                mamba_dt_rank=4,
            )
        ),
        (1, 3),
        "layer 0: linear attention (JambaMambaMixer)",
    ),
    "Granite 4": (
        lambda: t.GraniteMoeHybridForCausalLM(
            t.GraniteMoeHybridConfig(
                **DECODER | THREE | LOCAL_EXPERTS | MAMBA,
                num_key_value_heads=2,
                layer_types=["mamba", "attention", "mamba"],
                shared_intermediate_size=16,
            )
        ),
        (1,),
        "layer 0: linear attention (GraniteMoeHybridMambaLayer)",
    ),
    "Bamba": (
        lambda: t.BambaForCausalLM(
            t.BambaConfig(**DECODER | THREE | MAMBA, num_key_value_heads=2, attn_layer_indices=[1])
        ),
        (1,),
        "layer 0: linear attention (BambaMixer)",
    ),
    "RecurrentGemma": (
        lambda: t.RecurrentGemmaForCausalLM(
            t.RecurrentGemmaConfig(**SMALL | THREE, lru_width=32, attention_window_size=4)
        ),
        (2,),
        "layer 0: linear attention (RecurrentGemmaRecurrentBlock)",
    ),
    "MiniMax": (
        lambda: t.MiniMaxForCausalLM(
            t.MiniMaxConfig(**GROUPED | FOUR | LOCAL_EXPERTS, layer_types=DELTA["layer_types"], block_size=4)
        ),
        (1, 3),
        "layer 0: linear attention (MiniMaxLightningAttention)",
    ),
    "Nemotron-H": (
        lambda: t.NemotronHForCausalLM(
            t.NemotronHConfig(**GROUPED | THREE, layers_block_type=["mamba", "attention", "moe"])
        ),
        (1,),
        "layer 0: linear attention (NemotronHMamba2Mixer)",
    ),
    "OLMo hybrid": (
        lambda: t.OlmoHybridForCausalLM(t.OlmoHybridConfig(**DECODER | FOUR | DELTA, num_key_value_heads=2)),
        (1, 3),
        "layer 0: linear attention (OlmoHybridGatedDeltaNet)",
    ),
}


def words_of(name, kind=None, tokens=12):
    taken = capture(load_model(tiny(name)), input_ids=np.arange(3, 3 + tokens))
    return [label.words for label in layer_labels(taken, kind)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("BERT", ["", ""]),
        ("ALBERT", ["", "", "", ""]),
        ("Llama", ["", ""]),
        ("Mistral", ["sliding window 4", "sliding window 4"]),
        ("Phi-3", ["sliding window 4", "sliding window 4"]),
        ("Qwen2", ["sliding window 4", ""]),
        ("Gemma 2", ["sliding window 4, soft cap 2", "soft cap 2"]),
        ("gpt-oss", ["sliding window 4, sinks", "sinks"]),
        ("ModernBERT", ["", "sliding window ±2"]),
        ("T5", ["position bias", "position bias"]),
        ("BART", ["", ""]),
    ],
)
@pytest.mark.parametrize("tokens", [3, 12])
def test_words(name, words, tokens):
    """The same for a text that is shorter than the window."""
    assert words_of(name, tokens=tokens) == words


def test_words_of_every_kind():
    assert words_of("T5", "encoder") == words_of("T5", "decoder") == ["position bias", "position bias"]
    assert words_of("T5", "cross") == ["", ""]
    with pytest.raises(InputError, match="no self attention"):
        words_of("T5", "self")


@pytest.mark.parametrize(
    "name", ["Mistral", "Phi-3", "SmolLM3", "Qwen3", "Gemma 2", "Gemma 3", "gpt-oss", "ModernBERT"]
)
def test_the_window_is_how_far_the_mask_lets_a_query_look(name):
    taken = capture(load_model(tiny(name)), input_ids=IDS)
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
    assert [label.words for label in layer_labels(capture(model, input_ids=IDS))] == ["sliding window 4"] * 2
    network.model.layers[1].self_attn.config = copy.deepcopy(network.config)
    network.config.sliding_window = window_of_the_mask
    first = "" if window_of_the_mask is None else "sliding window 6"
    assert [label.words for label in layer_labels(capture(model, input_ids=IDS))] == [first, ""]


def test_every_pass_through_shared_layers_has_its_number():
    taken = capture(load_model(tiny("ALBERT")), input_ids=IDS)
    assert [label.number for label in layer_labels(taken)] == [0, 1, 2, 3]


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
    make, attending, first = HYBRIDS[name]
    network = randomised(make())
    model = load_model(network)
    taken = capture(model, input_ids=IDS)
    assert tuple(label.number for label in layer_labels(taken)) == attending
    assert taken.layers() == len(attending) == model.attention_calls
    assert all(taken.certificate(layer, head).holds for layer in range(taken.layers()) for head in range(taken.heads()))
    missing = missing_layers(model)
    assert missing[0] == first
    numbers = {int(words.split(":")[0].removeprefix("layer ")) for words in missing}
    assert numbers | set(attending) == set(range(network.config.num_hidden_layers))
    assert not numbers & set(attending)


def test_words_of_a_hybrid_model():
    make, _, _ = HYBRIDS["RecurrentGemma"]
    taken = capture(load_model(randomised(make())), input_ids=IDS)
    assert layer_labels(taken) == (LayerLabel(2, "sliding window 4"),)
    query, key = np.nonzero(taken.trace(0, 0).mask)
    assert (query - key).max() + 1 == 4


def test_what_is_missing_says_what_is_there_instead():
    make, _, _ = HYBRIDS["Nemotron-H"]
    assert missing_layers(load_model(make())) == (
        "layer 0: linear attention (NemotronHMamba2Mixer)",
        "layer 2: moe (NemotronHMoE)",
    )


@pytest.mark.parametrize("name", [name for name in HYBRIDS if name not in ("Qwen3-Next",)])
def test_matrices_and_captures_mean_the_same_layer(name):
    """Qwen3-Next gates its queries, so its matrices are refused."""
    make, _, _ = HYBRIDS[name]
    network = randomised(make())
    model = load_model(network)
    calls = capture(model, input_ids=IDS).calls["self"]
    for layer, call in enumerate(calls):
        expected = call.module.q_proj.weight[8:16].T.detach().numpy()
        np.testing.assert_array_equal(head_weights(model, layer, 1).W_Q, expected)
    with pytest.raises(InputError, match=f"from 0 to {len(calls) - 1}"):
        head_weights(model, len(calls), 0)


def test_matrices_of_a_model_that_reads_pictures_too_are_those_of_the_text():
    config = t.Gemma3Config(
        text_config=GROUPED | {"query_pre_attn_scalar": 64},
        vision_config={key: size for key, size in SMALL.items() if key != "vocab_size"}
        | {"num_hidden_layers": 3, "image_size": 8, "patch_size": 4},
        mm_tokens_per_image=4,
        image_token_index=60,
        boi_token_index=61,
        eoi_token_index=62,
    )
    model = load_model(randomised(t.Gemma3ForConditionalGeneration(config)))
    taken = capture(model, input_ids=IDS)
    assert (taken.layers(), model.attention_calls) == (2, 2)
    assert [label.number for label in layer_labels(taken)] == [0, 1]
    expected = taken.calls["self"][0].module.q_proj.weight[8:16].T.detach().numpy()
    np.testing.assert_array_equal(head_weights(model, 0, 1).W_Q, expected)
    assert missing_layers(model) == ()


def test_an_encoder_decoder_put_together_from_two_models():
    encoder = t.BertModel(t.BertConfig(**SMALL))
    decoder = t.BertLMHeadModel(t.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True))
    network = t.EncoderDecoderModel(encoder=encoder, decoder=decoder)
    network.config.decoder_start_token_id = 0
    model = load_model(randomised(network))
    taken = capture(model, input_ids=IDS)
    assert {kind: taken.layers(kind) for kind in taken.kinds} == {"encoder": 2, "decoder": 2, "cross": 2}
    assert model.attention_calls == 6


@pytest.mark.parametrize("name", [name for name in WITHOUT_WEIGHTS if name in ("Mamba", "RWKV", "FNet")])
def test_without_any_attention_every_layer_is_missing(name):
    model = load_model(WITHOUT_WEIGHTS[name]())
    expected = {"Mamba": "linear attention (MambaMixer)", "RWKV": "RwkvSelfAttention", "FNet": "FNetFourierTransform"}
    assert missing_layers(model) == tuple(f"layer {number}: {expected[name]}" for number in range(2))
    with pytest.raises(NoAttentionError):
        capture(model, input_ids=IDS)


def test_nothing_is_missing_where_there_is_attention(minilm, smollm):
    assert missing_layers(minilm) == missing_layers(smollm) == ()
    assert missing_layers(load_model(tiny("ALBERT"))) == ()
    assert missing_layers(load_model(t.BartModel(t.BartConfig(**SEQ2SEQ)))) == ()
    assert missing_layers(load_model(WEIGHTS_ONLY["GPT-J"]())) == ()


def test_real_models_have_plain_layers(smollm):
    assert layer_labels(capture(smollm, "Hello")) == tuple(LayerLabel(number, "") for number in range(30))
