"""The loss of each token against transformers' own logits at all positions."""

import numpy as np
import pytest
import torch

from core import Edits, load_model
from core.capturing import answers as module
from core.capturing.answers import pass_with_losses
from core.errors import InputError
from tests.core.naive_attention import naive_pass, twin_of
from tests.core.tiny_models import number_words, tiny
from tests.refusals import refused

IDS = np.random.default_rng(1).integers(3, 64, 14)


def expected_losses(logits: torch.Tensor, ids: np.ndarray) -> np.ndarray:
    """From logits [tokens, vocabulary]: ln Σ e^logit - the token's own."""
    wide = logits.double().numpy()[:-1]
    return np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(ids) - 1), ids[1:]]


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2", "gpt-oss"])
@pytest.mark.parametrize("start", [1, 6, 13])
def test_losses_of_a_text(name, start):
    network = tiny(name)
    with torch.inference_mode():
        logits = network(torch.from_numpy(IDS)[None]).logits[0]
    _, found = pass_with_losses(load_model(network), IDS, start=start)
    np.testing.assert_allclose(found, expected_losses(logits, IDS)[start - 1 :], atol=1e-4)


def test_losses_of_an_edited_pass():
    network = tiny("Llama")
    model, twin = load_model(network, tokenizer=number_words()), twin_of(network)

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
