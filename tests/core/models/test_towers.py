"""Models of two towers, of which the text's is opened, and models that need more than a text, which are refused."""

import numpy as np
import pytest
import torch
import transformers as t

from core import attention_weights, capture, load_model
from core.errors import WeightsOnlyError
from core.models.loading import load_outline
from tests.core import tiny_models as tiny
from tests.core.models.folders import refusal
from tests.core.passes import assert_eager_weights, every_head
from tests.refusals import refused

READ = np.random.default_rng(1).integers(3, 64, 12)


def whole_in_eager(network):
    """What the two towers' own method gives for the text, with all its attention weights."""
    with torch.inference_mode():
        return tiny.twin_of(network).get_text_features(input_ids=torch.from_numpy(READ)[None], output_attentions=True)


def opened(network, folder):
    network.save_pretrained(folder)
    for model in (load_model(folder), load_model(network)):
        assert model.tower_of == type(network).__name__
        yield model
    outline = load_outline(folder)
    assert (type(outline.network), outline.tower_of) == (type(network.text_model), type(network).__name__)


@pytest.mark.parametrize("name", tiny.TWO_TOWERS)
def test_the_text_tower_does_what_it_does_in_the_whole_model(name, tmp_path):
    network = tiny.randomised(tiny.TWO_TOWERS[name]())
    expected = whole_in_eager(network)
    for model in opened(network, tmp_path):
        assert type(model.network) is type(network.text_model)
        assert model.captures
        taken = capture(model, input_ids=READ)
        assert (taken.layers(), taken.heads()) == (2, 4)
        assert_eager_weights(taken, expected, atol=5e-6)
        assert all(taken.certificate(*at).holds for at in every_head(taken))
        np.testing.assert_allclose(taken.vectors, expected.last_hidden_state[0].numpy(), rtol=0, atol=1e-4)
        with refused("input_ids", "whole numbers from 0 to 63,"):  # OWL-ViT does not say where its embeddings are
            capture(model, input_ids=[64])


@pytest.mark.parametrize("name", tiny.TOWERS_WITH_WEIGHTS)
def test_a_text_tower_that_exposes_its_weights_gives_those_of_the_whole_model(name, tmp_path):
    network = tiny.randomised(tiny.TOWERS_WITH_WEIGHTS[name]())
    expected = whole_in_eager(network).attentions
    for model in opened(network, tmp_path):
        with pytest.raises(WeightsOnlyError):
            capture(model, input_ids=READ)
        exposed = attention_weights(model, input_ids=READ)
        for layer, heads in enumerate(expected):
            ours = np.stack([exposed.weights(layer, head) for head in range(4)])
            np.testing.assert_allclose(ours, heads[0].numpy(), rtol=0, atol=5e-6)


BESIDE = {
    "ViLT": (lambda: t.ViltModel(t.ViltConfig(**tiny.SMALL, image_size=12, patch_size=4)), "cannot read a text alone"),
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


def test_what_is_seen_only_with_the_weights_is_said_too():
    """Nothing in the class says that X-MOD cannot read before a language is chosen."""
    network = tiny.randomised(t.XmodModel(t.XmodConfig(**tiny.SMALL, languages=["en_XX"])))
    model = load_model(network, tokenizer=tiny.number_words())
    with refused("model", r"XmodModel cannot read a text alone: .*Input language unknown"):
        capture(model, "3 4")
    network.set_default_language("en_XX")
    assert capture(model, "3 4").shape() == (2, 2)


def test_a_decoder_begins_as_the_configuration_of_texts_says():
    seen = {"depths": [1], "embed_dim": [16], "num_heads": [2], "num_groups": [2], "window_size": 2}
    seen |= {"patch_size": [4], "patch_stride": [4], "patch_padding": [1], "patch_prenorm": [False]}
    seen |= {"projection_dim": 32}
    text = t.BartConfig(**tiny.SEQ2SEQ).to_dict()
    network = t.Florence2ForConditionalGeneration(t.Florence2Config(text_config=text, vision_config=seen))
    taken = capture(load_model(tiny.randomised(network)), input_ids=READ)
    assert taken.target_ids == (tiny.SEQ2SEQ["decoder_start_token_id"],)
