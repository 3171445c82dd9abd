"""Models of two towers, of which the text's is opened, and models that need more than a text, which are refused."""

import numpy as np
import pytest
import torch
import transformers as t

from core import attention_weights, capture, head_weights, load_model, probe_heads
from core.errors import WeightsOnlyError
from core.models.loading import load_outline
from tests.core import tiny_models as tiny
from tests.core.models.folders import refusal
from tests.refusals import refused

READ = np.random.default_rng(1).integers(3, 64, 12)


def whole_in_eager(network):
    """What the two towers' own method gives for the text, with all its attention weights: [layers][heads, tokens, tokens]."""
    twin = tiny.twin_of(network)
    with torch.inference_mode():
        given = twin.get_text_features(input_ids=torch.from_numpy(READ)[None], output_attentions=True)
    return given.last_hidden_state[0].numpy(), [layer[0].numpy() for layer in given.attentions]


def opened(network, folder):
    """The text tower, of a saved model and of one in memory."""
    network.save_pretrained(folder)
    for model in (load_model(folder), load_model(network)):
        assert model.tower_of == type(network).__name__
        yield model
    outline = load_outline(folder)
    assert (type(outline.network), outline.tower_of) == (type(network.text_model), type(network).__name__)


@pytest.mark.parametrize("name", tiny.TWO_TOWERS)
def test_the_text_tower_does_what_it_does_in_the_whole_model(name, tmp_path):
    network = tiny.randomised(tiny.TWO_TOWERS[name]())
    expected_vectors, expected = whole_in_eager(network)
    for model in opened(network, tmp_path):
        assert type(model.network) is type(network.text_model)
        assert model.captures
        taken = capture(model, input_ids=READ)
        assert (taken.layers(), taken.heads()) == (2, 4)
        for layer, heads in enumerate(expected):
            for head, weights in enumerate(heads):
                np.testing.assert_allclose(taken.trace(layer, head).weights, weights, rtol=0, atol=5e-6)
                assert taken.certificate(layer, head).holds
        np.testing.assert_allclose(taken.vectors, expected_vectors, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", tiny.TOWERS_WITH_WEIGHTS)
def test_a_text_tower_that_exposes_its_weights_gives_those_of_the_whole_model(name, tmp_path):
    network = tiny.randomised(tiny.TOWERS_WITH_WEIGHTS[name]())
    _, expected = whole_in_eager(network)
    for model in opened(network, tmp_path):
        with pytest.raises(WeightsOnlyError):
            capture(model, input_ids=READ)
        exposed = attention_weights(model, input_ids=READ)
        for layer, heads in enumerate(expected):
            ours = np.stack([exposed.weights(layer, head) for head in range(4)])
            np.testing.assert_allclose(ours, heads, rtol=0, atol=5e-6)


def test_what_else_is_asked_of_a_text_tower():
    """OWL-ViT's does not say where its embeddings are."""
    model = load_model(tiny.randomised(tiny.TWO_TOWERS["OWL-ViT"]()))
    with refused("input_ids", "whole numbers from 0 to 63,"):
        capture(model, input_ids=[64])
    assert len(probe_heads(model, length=8, seeds=(0,))) == 2 * 4
    (w_q, *_), module = head_weights(model, 1, 2), model.network.encoder.layers[1].self_attn
    np.testing.assert_array_equal(w_q, module.q_proj.weight[16:24].T.detach().numpy())


def test_other_models_are_all_that_there_is(minilm, smollm, tmp_path):
    assert (minilm.tower_of, smollm.tower_of) == (None, None)
    tiny.randomised(tiny.TWO_TOWERS["CLIP"]()).text_model.save_pretrained(tmp_path)
    assert load_model(tmp_path).tower_of is None


# --- what needs more than a text

QUESTIONS = {"hidden_size": 32, "num_attention_heads": 4, "vocab_size": 64, "intermediate_size": 48}
QUESTIONS |= {"l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 16}


def _blip_2():
    text = t.OPTConfig(**tiny.FALCON, ffn_dim=48, word_embed_proj_dim=32).to_dict()
    return t.Blip2Model(t.Blip2Config(text_config=text, vision_config=tiny.VIT, qformer_config=tiny.SMALL))


BESIDE = {
    "ViLT": (lambda: t.ViltModel(t.ViltConfig(**tiny.SMALL, image_size=12, patch_size=4)), "cannot read a text alone"),
    "LXMERT": (lambda: t.LxmertModel(t.LxmertConfig(**QUESTIONS)), "cannot read a text alone"),
    "BLIP-2": (_blip_2, "cannot read a text alone"),
    "BLIP, captions": (
        lambda: t.BlipForConditionalGeneration(t.BlipConfig(text_config=tiny.TEXT_TOWER, vision_config=tiny.VIT)),
        "reads images together with texts, and neither alone",
    ),
    "VideoMAE": (lambda: t.VideoMAEModel(t.VideoMAEConfig(**tiny.VIT, num_frames=2)), "reads video, not texts"),
    "Informer": (lambda: t.InformerModel(t.InformerConfig(prediction_length=2)), "reads time, not texts"),
}


@pytest.mark.parametrize(("make", "why"), BESIDE.values(), ids=BESIDE)
def test_what_needs_more_than_a_text_is_refused_before_its_weights_are_looked_for(make, why, tmp_path):
    with torch.device("meta"):
        network = make()
    network.config.architectures = [type(network).__name__]
    network.config.save_pretrained(tmp_path)
    said = f"is a {type(network).__name__}, which {why}"
    assert said in refusal(tmp_path)
    with refused("model", said):
        load_outline(tmp_path)


def test_models_that_read_a_text_alone_too_are_opened(tmp_path):
    text, vision = t.LlamaConfig(**tiny.SMALL).to_dict(), t.CLIPVisionConfig(**tiny.VIT).to_dict()
    network = tiny.randomised(t.LlavaForConditionalGeneration(t.LlavaConfig(text_config=text, vision_config=vision)))
    network.save_pretrained(tmp_path)
    assert capture(load_model(tmp_path), input_ids=READ).shape() == (12, 12)


def test_what_is_seen_only_with_the_weights_is_said_too():
    """Nothing in the class says that X-MOD cannot read before a language is chosen."""
    network = tiny.randomised(t.XmodModel(t.XmodConfig(**tiny.SMALL, languages=["en_XX"])))
    model = load_model(network, tokenizer=tiny.number_words())
    with refused("model", r"XmodModel cannot read a text alone: .*Input language unknown"):
        capture(model, "3 4")
    network.set_default_language("en_XX")
    assert capture(model, "3 4").shape() == (2, 2)


def test_what_a_listener_raises_is_not_taken_for_the_models_own():
    def disturb(done: int) -> None:
        raise LookupError(f"at {done}")

    model = load_model(tiny.randomised(tiny.TWO_TOWERS["CLIP"]()))
    with pytest.raises(LookupError, match="at 1"):
        capture(model, input_ids=READ, on_progress=disturb)


def test_a_decoder_begins_as_the_configuration_of_texts_says():
    seen = {"depths": [1], "embed_dim": [16], "num_heads": [2], "num_groups": [2], "window_size": 2}
    seen |= {"patch_size": [4], "patch_stride": [4], "patch_padding": [1], "patch_prenorm": [False]}
    seen |= {"projection_dim": 32}
    text = t.BartConfig(**tiny.SEQ2SEQ).to_dict()
    network = t.Florence2ForConditionalGeneration(t.Florence2Config(text_config=text, vision_config=seen))
    taken = capture(load_model(tiny.randomised(network)), input_ids=READ)
    assert taken.target_ids == (tiny.SEQ2SEQ["decoder_start_token_id"],)
