"""What an edited pass comes to, against torch's own losses, transformers' logits at all positions, and sums done by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from core import Edits, capture, load_model
from core.capturing import answers as module
from core.capturing.answers import movers, next_token, pass_with_losses, vectors
from core.errors import InputError
from core.models.tokens import token_texts
from tests.core.naive_attention import NAME, naive_pass
from tests.core.tiny_models import number_words, tiny, twin_of
from tests.refusals import refused

FRANCE = "The capital of France is"


@pytest.fixture(scope="module")
def france(smollm):
    return capture(smollm, FRANCE)


@pytest.fixture(scope="module")
def muted(smollm):
    return capture(smollm, FRANCE, edits=Edits(mute_heads={(23, 4)}))


@pytest.fixture(scope="module")
def sentence(minilm):
    return capture(minilm, FRANCE)


def test_how_the_next_token_moves(france, muted):
    moved = next_token(france, muted)
    logs = [torch.tensor(taken.logits).double().log_softmax(dim=0) for taken in (france, muted)]
    np.testing.assert_allclose(moved.before, logs[0].exp(), rtol=1e-9)
    np.testing.assert_allclose(moved.after, logs[1].exp(), rtol=1e-9)
    divergence = torch.nn.functional.kl_div(logs[1], logs[0], log_target=True, reduction="sum")
    assert moved.divergence == pytest.approx(float(divergence), rel=1e-9)
    assert moved.divergence > 0.5
    back = next_token(muted, france)
    assert back.divergence != pytest.approx(moved.divergence, rel=0.01)  # it goes from before to after


def test_a_token_that_cannot_come_adds_nothing(france):
    never = [np.array([0, np.log(3), -np.inf], np.float32), np.array([0, 0, -np.inf], np.float32)]
    moved = next_token(*(replace(france, logits=logits) for logits in never))
    assert moved.divergence == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5), rel=1e-6)


def test_the_tokens_that_move_most(france, muted):
    for one, two in ((france, muted), (muted, france)):  # most rise, most fall
        moved = next_token(one, two)
        change = moved.after - moved.before
        by_size = sorted(range(len(change)), key=lambda token: -abs(change[token]))
        firsts = list(dict.fromkeys([int(moved.before.argmax()), int(moved.after.argmax())]))
        for k in (8, 3, 1):
            table = movers(moved, one, k)
            expected = (firsts + [token for token in by_size[: k + 2] if token not in firsts])[:k]
            assert tuple(table["token"]) == token_texts(one.model.tokenizer, expected)
            np.testing.assert_array_equal(table["change"], change[expected])
            np.testing.assert_array_equal(table["after"] - table["before"], table["change"])


def test_how_vectors_turn(minilm, sentence):
    changed = capture(minilm, FRANCE, edits=Edits(mute_heads={(5, 11), (0, 3)}, replace_tokens={3: "[MASK]"}))
    moved = vectors(sentence, changed)
    one, two = (torch.tensor(taken.vectors).double() for taken in (sentence, changed))
    cosine = torch.nn.functional.cosine_similarity
    np.testing.assert_allclose(moved.tokens, 1 - cosine(one, two, dim=1), atol=1e-12)
    assert moved.sentence == pytest.approx(float(1 - cosine(one.mean(dim=0), two.mean(dim=0), dim=0)), abs=1e-12)
    assert moved.tokens.shape == (7,)
    assert moved.sentence > 0.01


def test_vectors_that_point_the_other_way_or_nowhere(sentence):
    one = replace(sentence, vectors=np.float32([[1, 0], [3, 4], [0, 0], [2, 2]]))
    two = replace(sentence, vectors=np.float32([[-2, 0], [-4, 3], [1, 0], [0, 5]]))
    moved = vectors(one, two)
    np.testing.assert_allclose(moved.tokens, [2, 1, 1, 1 - math.sqrt(0.5)], atol=1e-12)


def test_what_has_no_answer_is_refused(minilm, sentence, france):
    with refused("model", "all-MiniLM-L6-v2 has no language-model head: it predicts no next token"):
        next_token(sentence, sentence)
    with refused("model", "SmolLM2-135M-Instruct gives no vectors"):
        vectors(france, france)
    with refused("text", "7 tokens and the other 3"):
        vectors(sentence, capture(minilm, "France"))


IDS = np.random.default_rng(1).integers(3, 64, 14)


def expected_losses(logits: torch.Tensor, ids: np.ndarray) -> np.ndarray:
    """From logits [tokens, vocabulary]: ln Σ e^logit - the token's own."""
    wide = logits.double().numpy()[:-1]
    return np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(ids) - 1), ids[1:]]


@pytest.mark.parametrize("name", ["GPT-2", "Gemma 2"])
@pytest.mark.parametrize("start", [1, 6, 13])
def test_losses_of_a_text(name, start):
    network = tiny(name)
    with torch.inference_mode():
        logits = network(torch.from_numpy(IDS)[None]).logits[0]
    _, found = pass_with_losses(load_model(network), IDS, start=start)
    np.testing.assert_allclose(found, expected_losses(logits, IDS)[start - 1 :], atol=1e-4)


def test_losses_of_an_edited_pass():
    network = tiny("Llama")
    model, twin = load_model(network, tokenizer=number_words()), twin_of(network, NAME)

    def changes(_kind, layer, head):
        return {"output": torch.zeros(1, 1)} if (layer, head) == (0, 1) else {"factor": 2.0} if layer == 1 else {}

    ids = IDS.copy()
    ids[4] = 9
    expected = expected_losses(naive_pass(twin, {"input_ids": torch.from_numpy(ids)[None]}, changes).last, ids)
    edits = Edits(mute_heads={(0, 1)}, scale_by={1: 2.0}, replace_tokens={4: "9"})
    calls, found = pass_with_losses(model, IDS, edits=edits, start=3)
    np.testing.assert_allclose(found, expected[2:], atol=1e-4)
    assert len(calls) == 2
    assert np.abs(found - pass_with_losses(model, IDS, start=3)[1]).max() > 0.1


def test_a_long_text_in_parts(monkeypatch):
    model = load_model(tiny("GPT-2"))
    _, whole = pass_with_losses(model, IDS)
    monkeypatch.setattr(module, "ROWS", 3)
    np.testing.assert_allclose(pass_with_losses(model, IDS)[1], whole, rtol=1e-6)


def test_what_cannot_be_foretold(monkeypatch):
    model = load_model(tiny("GPT-2"))
    for start in (0, 14):
        with pytest.raises(InputError, match="from 1 to 13"):
            pass_with_losses(model, IDS, start=start)
    for name in ("BERT", "T5"):
        with refused("model", "predict"):
            pass_with_losses(load_model(tiny(name)), IDS)
    monkeypatch.setattr(module, "MAX_LOGITS", 64 * 10)
    assert len(pass_with_losses(model, IDS, start=5)[1]) == 9
    with pytest.raises(InputError, match="at most 9 tokens"):
        pass_with_losses(model, IDS, start=4)
