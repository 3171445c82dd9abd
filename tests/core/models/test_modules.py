"""Which kind of attention a module computes, by its name alone."""

import pytest

from core.models.modules import kind_of


@pytest.mark.parametrize(
    ("name", "of_both", "of_any_other"),
    [
        ("model.encoder.layers.0.self_attn", "encoder", "self"),  # BART
        ("model.decoder.layers.0.self_attn", "decoder", "self"),  # and OPT, which has no encoder
        ("model.decoder.layers.0.encoder_attn", "cross", "cross"),
        ("encoder.block.0.layer.0.SelfAttention", "encoder", "self"),  # T5
        ("decoder.block.0.layer.1.EncDecAttention", "cross", "cross"),
        ("decoder.layers.0.cross_attention", "cross", "cross"),
        ("decoder.layers.0.cross_attn.k_proj.weight", "cross", "cross"),
        ("decoder.bert.encoder.layer.0.crossattention.self", "cross", "cross"),  # put together from two BERTs
        ("decoder.bert.encoder.layer.0.attention.self", "decoder", "self"),
        ("text_decoder.layers.0.self_attn", "decoder", "self"),
        ("text_encoder.layers.0.self_attn", "encoder", "self"),
        ("shared", "encoder", "self"),
        ("transformer.h.0.crossattention", "cross", "cross"),  # GPT-2 beside an encoder that is not part of it
    ],
)
def test_the_kind_of_a_module(name, of_both, of_any_other):
    assert kind_of(name, is_encoder_decoder=True) == of_both
    assert kind_of(name, is_encoder_decoder=False) == of_any_other
