"""What a model is given to read has to be something that it can read."""

from __future__ import annotations

import pytest
from transformers import BertConfig, BertModel

from core import capture, load_model
from core.capturing.weights_only import attention_weights
from core.errors import InputError
from core.models.inputs import image_size
from tests.core.tiny_models import WEIGHTS_ONLY, number_words, tiny


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_a_token_beyond_the_embeddings_is_refused(name: str) -> None:
    network = tiny(name)
    network.resize_token_embeddings(60)
    model = load_model(network, tokenizer=number_words())
    assert capture(model, "5 59").input_ids == (5, 59)
    with pytest.raises(InputError, match=r"tokens 0 to 59, and this text has token 60") as caught:
        capture(model, "5 60 61")
    assert caught.value.field == "model"


@pytest.mark.parametrize(("target", "start"), [("5 60", 1), ("5", 60), (None, 60), (None, -1)])
def test_a_token_beyond_the_decoders_embeddings_is_refused(target: str | None, start: int) -> None:
    network = tiny("BART")
    network.resize_token_embeddings(60)
    network.config.decoder_start_token_id = start
    model = load_model(network, tokenizer=number_words())
    with pytest.raises(InputError, match=f"tokens 0 to 59, and this text has token {60 if start > -1 else -1}"):
        capture(model, "5 6", target=target)


def test_a_token_beyond_the_embeddings_of_a_model_that_shows_its_weights_only() -> None:
    network = WEIGHTS_ONLY["GPT-J"]()
    network.resize_token_embeddings(60)
    with pytest.raises(InputError, match="this text has token 63"):
        attention_weights(load_model(network, tokenizer=number_words()), "63")


def test_a_model_that_wants_too_large_a_picture_is_refused() -> None:
    """Swin has no table of positions that would have to be as large."""
    network = tiny("ViT")
    network.config.image_size = 10**6
    with pytest.raises(InputError, match="1,000,000 × 1,000,000 pixels; at most 16 million"):
        image_size(load_model(network))


def test_a_pair_is_refused_where_the_model_cannot_tell_two_texts_apart(minilm) -> None:
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        type_vocab_size=1,
    )
    model = load_model(BertModel(config), tokenizer=minilm.tokenizer)
    assert capture(model, "The cat sat").layers() == 1
    with pytest.raises(InputError, match="takes one text, not a pair"):
        capture(model, "The cat sat", pair="and the dog ran")
