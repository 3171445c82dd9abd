"""Which kind of attention a module computes, by its name alone."""

import pytest

from core.models.modules import kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.encoder.layers.0.self_attn", "encoder"),  # BART
        ("model.decoder.layers.0.self_attn", "decoder"),
        ("model.decoder.layers.0.encoder_attn", "cross"),
        ("encoder.block.0.layer.0.SelfAttention", "encoder"),  # T5
        ("decoder.block.0.layer.1.EncDecAttention", "cross"),
        ("decoder.layers.0.cross_attention", "cross"),
        ("decoder.layers.0.cross_attn.k_proj.weight", "cross"),
        ("decoder.bert.encoder.layer.0.crossattention.self", "cross"),  # an encoder-decoder put together from two BERTs
        ("decoder.bert.encoder.layer.0.attention.self", "decoder"),
        ("text_decoder.layers.0.self_attn", "decoder"),
        ("text_encoder.layers.0.self_attn", "encoder"),
        ("shared", "encoder"),
    ],
)
def test_in_a_model_of_both(name, kind):
    assert kind_of(name, is_encoder_decoder=True) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.layers.3.self_attn", "self"),
        ("bert.encoder.layer.0.attention.self", "self"),
        ("model.decoder.layers.0.self_attn", "self"),  # OPT, which has no encoder
        ("transformer.h.0.crossattention", "cross"),  # GPT-2 beside an encoder that is not part of it
    ],
)
def test_in_any_other_model(name, kind):
    assert kind_of(name, is_encoder_decoder=False) == kind
