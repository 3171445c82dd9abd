"""What a model is given to read has to be something that it can read."""

from itertools import product

import numpy as np
import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split
from transformers import BertConfig, BertModel, PreTrainedModel

from core import Edits, Model, capture, load_model
from core.capturing.weights_only import attention_weights
from core.models.inputs import TooLongError, image_size, read_token_numbers
from tests.core.tiny_models import EVERY, SMALL, TINY, number_words, tiny
from tests.refusals import refused


def narrow(network: PreTrainedModel) -> Model:
    """With embeddings for the tokens 0 to 59 only."""
    network.resize_token_embeddings(60)
    return load_model(network, tokenizer=number_words())


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5", "GPT-J"])
def test_a_token_beyond_the_embeddings_is_refused(name):
    model = narrow(EVERY[name]())
    read = capture if name in TINY else attention_weights
    assert read(model, "5 59").input_ids == (5, 59)
    with refused("model", r"tokens 0 to 59, and this text has token 60"):
        read(model, "5 60 61")


@pytest.mark.parametrize(("target", "start"), [("5 60", 1), ("5", 60), (None, 60), (None, -1)])
def test_a_token_beyond_the_decoders_embeddings_is_refused(target, start):
    network = tiny("BART")
    network.config.decoder_start_token_id = start
    with refused("model", f"tokens 0 to 59, and this text has token {60 if start > -1 else -1}"):
        capture(narrow(network), "5 6", target=target)


def test_a_model_that_wants_too_large_a_picture_is_refused():
    """Swin has no table of positions that would have to be as large."""
    network = tiny("ViT")
    network.config.image_size = 10**6
    with refused("model", "1,000,000 × 1,000,000 pixels; at most 16 million"):
        image_size(load_model(network))


def test_a_pair_is_refused_where_the_model_cannot_tell_two_texts_apart(minilm):
    config = BertConfig(**SMALL | {"vocab_size": 30_522, "type_vocab_size": 1})
    model = load_model(BertModel(config), tokenizer=minilm.tokenizer)
    assert capture(model, "The cat sat").layers() == 2
    with refused("pair", "takes one text, not a pair"):
        capture(model, "The cat sat", pair="and the dog ran")


@pytest.fixture(scope="module")
def bart():
    tokenizer = number_words()
    tokenizer.unk_token = "0"
    return load_model(tiny("BART"), tokenizer=tokenizer)


def test_token_numbers_are_what_follows_the_start_token(bart):
    """Also where they begin with it themselves; as a text they are the same pass."""
    start = bart.network.config.decoder_start_token_id
    by_text = capture(bart, "5 6 7", target="9 30 9")
    for numbers in ((9, 30, 9), [9, 30, 9], np.array([9, 30, 9], dtype=np.int32)):
        taken = capture(bart, "5 6 7", target=numbers)
        assert taken.target_ids == by_text.target_ids == (start, 9, 30, 9)
        np.testing.assert_array_equal(taken.logits, by_text.logits)
    assert capture(bart, "5", target=(start, 9)).target_ids == (start, start, 9)
    for nothing in (None, "", (), np.array([], dtype=np.int64)):
        assert capture(bart, "5", target=nothing).target_ids == (start,)


@pytest.mark.parametrize("target", [(5, 64), (-1,), (5.0, 6.0), ((5, 6),), (True,)])
def test_a_target_of_numbers_that_are_no_tokens_is_refused(bart, target):
    with refused("target", "whole numbers from 0 to 63, in one row"):
        capture(bart, "5 6", target=target)


def test_what_a_tokenizer_does_not_know_of_a_target_is_named(bart):
    with refused("target", r"no token for “cat”, “é”\. Write the target without"):
        capture(bart, "5 6", target="5 cat é 0 cat")  # 0 is what it calls an unknown token itself
    with refused("target", "“a”, “b”, “c”, “d”, “e” and 2 more"):
        capture(bart, "5 6", target="a b c d e f g")


def test_a_target_that_is_too_long_is_refused_or_cut(bart):
    for target in ("9 " * 64, (9,) * 64):
        with pytest.raises(TooLongError) as caught:
            capture(bart, "5 6", target=target)
        assert (caught.value.field, caught.value.count, caught.value.limit) == ("target", 65, 64)
        assert len(capture(bart, "5 6", target=target, truncate=True).target_ids) == 64


def test_token_numbers_are_read_from_a_text():
    assert read_token_numbers(" 5, 17\n8 ") == (5, 17, 8)
    assert read_token_numbers(" , ") == ()
    for wrong in ("5 x", "-1", "1.5", "²", "9" * 10):
        with refused("target", "is not a token number"):
            read_token_numbers(wrong)


def test_a_text_that_no_tokenizer_takes_is_refused(bart):
    long, half = ("5 " * 500_001, "1,000,002 characters; at most 1,000,000"), ("5 \ud83d", "Character 3 of")
    for field, (text, words) in product(("text", "target", "replace_tokens"), (long, half)):
        read = {"text": "5"} | (
            {field: text} if field != "replace_tokens" else {"edits": Edits(replace_tokens={0: text})}
        )
        with refused(field, words):
            capture(bart, **read)


def test_of_a_text_that_should_be_one_token_only_the_first_are_named(bart):
    with refused("replace_tokens", r"is 9,000 tokens .*5 \| 5 \| …\)") as caught:
        capture(bart, "5", edits=Edits(replace_tokens={0: "5 " * 9_000}))
    assert len(str(caught.value)) < 400


def test_a_tokenizer_that_panics_is_told():
    """Its regular expressions come with the model: this one tries every way to cut a row of letters."""
    hostile = number_words()
    hostile.backend_tokenizer.pre_tokenizer = Split(Regex("(a+)+$"), "isolated")
    model, text = load_model(tiny("BART"), tokenizer=hostile), "a" * 40 + "!"
    for given in ({"text": text}, {"text": "5", "target": text}):
        with refused("model", r"tokenizer of .* fails on this text: .*retry-limit"):
            capture(model, **given)
