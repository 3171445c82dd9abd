"""What tokens of every kind of vocabulary write, and token numbers beyond the tokenizer: models have more embeddings than it
has tokens, to make their number round."""

import numpy as np
import pytest
import torch
import transformers as t

from core import attention_weights, capture, generate, load_model
from core.capturing.answers import movers, next_token
from core.capturing.edits.edits import Edits
from core.models.tokens import token_texts, whole_text
from core.models.words import token_classes, word_starts
from tests.core.models.vocabularies import VOCABULARIES
from tests.core.tiny_models import CAUSAL_WEIGHTS, GROUPED, number_words, randomised

KNOWN, EMBEDDED = 64, 96


def rounded_up(network: t.PreTrainedModel) -> t.PreTrainedModel:
    with torch.no_grad():
        network.get_output_embeddings().weight[:KNOWN] = 0
    return network


@pytest.fixture(scope="module")
def padded():
    config = t.LlamaConfig(**GROUPED | {"vocab_size": EMBEDDED, "tie_word_embeddings": False})
    return load_model(rounded_up(randomised(t.LlamaForCausalLM(config))), tokenizer=number_words())


def named(token: int) -> str:
    return str(token) if token < KNOWN else f"‹token {token}›"


def test_every_next_token_has_a_name_and_so_has_what_is_written(padded):
    taken = capture(padded, "5 17 8")
    order = np.argsort(-taken.logits, kind="stable")
    assert order[0] >= KNOWN
    assert [text for text, _ in taken.next_tokens(EMBEDDED)] == [named(token) for token in order]
    written = generate(padded, "5 17 8", new_tokens=4)
    assert max(written.token_ids) >= KNOWN
    assert written.tokens == tuple(map(named, written.token_ids))
    for token, text in zip(written.token_ids, written.tokens, strict=True):
        assert text in written.text, token
    every = written.candidates(0, EMBEDDED)
    assert [one.token for one in every] == [named(one.token_id) for one in every]
    assert written.capture_of(-1).tokens()[1][-1] == named(written.token_ids[-2])


def test_what_is_read_and_what_has_moved(padded):
    ids = [5, 70, 8, 95]
    taken = capture(padded, input_ids=ids)
    assert taken.tokens() == (tuple(map(named, ids)),) * 2
    changed = capture(padded, input_ids=ids, edits=Edits(mute_heads={(0, 1)}))
    assert set(movers(next_token(taken, changed), taken, EMBEDDED)["token"]) == set(map(named, range(EMBEDDED)))
    assert not np.any(token_classes(padded.tokenizer, ids))
    assert word_starts(padded.tokenizer, ids).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("make", "beyond"), [(number_words, (64, 10**7, -1)), (t.ByT5Tokenizer, (10**7, -4))], ids=["a table", "bytes"]
)
def test_every_kind_of_tokenizer_is_asked_in_vain(make, beyond):
    tokenizer = make()
    assert token_texts(tokenizer, beyond) == tuple(f"‹token {token}›" for token in beyond)
    known = tokenizer("5")["input_ids"][:1]
    mixed = whole_text(tokenizer, [*known, beyond[0], *known])
    assert mixed == tokenizer.decode(known) + f"‹token {beyond[0]}›" + tokenizer.decode(known)


def test_a_text_that_is_known_is_decoded_as_a_whole(smollm):
    ids = smollm.tokenizer("Café au lait, 鬱 and 🙂.")["input_ids"]
    assert whole_text(smollm.tokenizer, ids) == smollm.tokenizer.decode(ids) == "Café au lait, 鬱 and 🙂."
    assert whole_text(None, [3, 4]) == "3 4"


@pytest.mark.parametrize("name", VOCABULARIES)
def test_tokens_are_what_the_tokenizer_writes(name):
    case = VOCABULARIES[name]
    tokenizer = case.make()
    ids = tokenizer(case.text)["input_ids"]
    assert "|".join(token_texts(tokenizer, ids)) == case.tokens
    expected = case.text if case.decoded == "not as it stands in a text" else tokenizer.decode(ids)
    assert whole_text(tokenizer, ids) == expected
    if case.decoded == "as it is written":
        assert expected.removesuffix("</s>") == case.text


def test_what_is_added_later_is_known():
    tokenizer = number_words()
    assert token_texts(tokenizer, [KNOWN]) == (f"‹token {KNOWN}›",)
    tokenizer.add_tokens("##new")
    assert token_texts(tokenizer, [KNOWN]) == ("##new",)


def test_a_model_that_exposes_only_its_weights_names_them_too():
    network = randomised(CAUSAL_WEIGHTS["GPT-Neo"]())
    network.resize_token_embeddings(EMBEDDED)
    exposed = attention_weights(load_model(network, tokenizer=number_words()), input_ids=[5, 70])
    assert exposed.tokens()[1] == ("5", "‹token 70›")
