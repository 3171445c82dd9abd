"""Models that expose nothing but their weights, and those that expose none."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as t

from core import capture, head_metrics, load_model
from core.capturing import weights_only
from core.capturing.calls.rows import weights_at
from core.capturing.weights_only import NoAttentionError, attention_weights, no_weights, open_weights
from core.errors import InputError, WeightsOnlyError
from core.models.inputs import TooLongError
from tests.core.attention.test_matrix_files import npz
from tests.core.passes import tiny_model
from tests.core.tiny_models import CAUSAL_WEIGHTS, FALCON, SEQ2SEQ, SMALL, WEIGHTS_ONLY, WITHOUT_WEIGHTS, randomised
from tests.refusals import refused

IDS = np.arange(3, 15)


def all_weights(taken) -> np.ndarray:
    """[layers, heads, queries, keys]."""
    return np.array([[taken.weights(layer, head) for head in range(taken.heads())] for layer in range(taken.layers())])


@cache
def of_weights(name):
    return load_model(randomised(WEIGHTS_ONLY[name]()))


@pytest.mark.parametrize("name", WEIGHTS_ONLY)
def test_rows_sum_to_one_and_decoders_do_not_read_the_future(name):
    network, ids = randomised(WEIGHTS_ONLY[name]()), torch.from_numpy(IDS)[None]
    with torch.inference_mode():
        before = network(ids)[0]
    model = load_model(network)
    with torch.inference_mode():
        torch.testing.assert_close(model.network(ids, output_attentions=True)[0], before, rtol=1e-4, atol=1e-4)
    assert not model.captures
    assert no_weights(model) is None
    said = f"{type(network).__name__} keeps its queries, keys and values to itself"
    with pytest.raises(WeightsOnlyError, match=said):
        capture(model, input_ids=IDS)
    taken = attention_weights(model, input_ids=IDS)
    assert (taken.layers(), taken.heads()) == (2, 4)
    weights = all_weights(taken)
    assert weights.shape == (2, 4, 12, 12)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=2e-6)
    assert weights.min() >= 0
    assert weights.max(axis=-1).mean() > 1.7 / 12  # far from uniform
    future = weights[..., np.triu(np.ones((12, 12), dtype=bool), 1)]
    assert (future.max() == 0) == (name in CAUSAL_WEIGHTS)


def test_falcon_with_alibi_hands_out_wrong_weights_and_is_refused():
    """Once the first assertion fails, transformers is repaired and the refusal can go."""
    network = randomised(t.FalconForCausalLM(t.FalconConfig(**FALCON, alibi=True, multi_query=False)))
    ids = torch.from_numpy(IDS)[None]
    with torch.inference_mode():
        before = network(ids).logits
        model = load_model(network)
        assert (model.network(ids, output_attentions=True).logits - before).abs().max() > 0.01
    for ask in (attention_weights, capture):
        with pytest.raises(NoAttentionError, match="Falcon with ALiBi"):
            ask(model, input_ids=IDS)


def test_weights_of_gpt_neo_are_the_softmax_of_its_queries_and_keys():
    """The first layer by hand (GPT-Neo does not scale its scores): what is exposed is what the model computes with."""
    network = randomised(WEIGHTS_ONLY["GPT-Neo"]())
    taken = attention_weights(load_model(network), input_ids=IDS)
    block = network.transformer.h[0]
    projections = block.attn.attention.q_proj, block.attn.attention.k_proj
    with torch.inference_mode():
        x = block.ln_1(network.transformer.wte(torch.from_numpy(IDS)) + network.transformer.wpe(torch.arange(12)))
        query, key = (project(x).view(12, 4, 8).transpose(0, 1) for project in projections)
        scores = (query @ key.mT).masked_fill(torch.ones(12, 12).triu(1).bool(), -torch.inf)
    np.testing.assert_allclose(all_weights(taken)[0], scores.softmax(-1), rtol=0, atol=2e-6)


def test_a_text_and_its_tokens(minilm):
    config = t.MPNetConfig(**SMALL | {"vocab_size": len(minilm.tokenizer)}, max_position_embeddings=66)
    model = load_model(randomised(t.MPNetModel(config)), tokenizer=minilm.tokenizer)
    taken = attention_weights(model, "the cat sat")
    assert taken.tokens() == (("[CLS]", "the", "cat", "sat", "[SEP]"),) * 2
    assert taken.weights(0, 0).shape == (5, 5)
    assert len(attention_weights(model, "the cat sat " * 9, max_tokens=10, truncate=True).input_ids) == 10


def test_of_an_encoder_decoder_the_encoder():
    sizes = {key: size for key, size in SEQ2SEQ.items() if key not in ("vocab_size", "decoder_start_token_id")}
    config = t.FSMTConfig(**sizes, src_vocab_size=64, tgt_vocab_size=64, langs=["en", "de"], decoder_start_token_id=2)
    taken = attention_weights(load_model(randomised(t.FSMTForConditionalGeneration(config))), input_ids=IDS)
    assert all_weights(taken).shape == (2, 4, 12, 12)


def test_half_precision_and_what_is_not_there():
    taken = attention_weights(load_model(randomised(WEIGHTS_ONLY["GPT-Neo"]()).bfloat16()), input_ids=IDS)
    assert taken.weights(1, 2).dtype == np.float32
    np.testing.assert_allclose(all_weights(taken).sum(axis=-1), 1, atol=0.01)
    with pytest.raises(ValueError, match="read-only"):
        taken.weights(0, 0)[0, 0] = 1
    for place, words in (((2, 0), "no layer 2"), ((0, 4), "no head 4"), ((-1, 0), "no layer -1")):
        with pytest.raises(InputError, match=f"{words}: they run from 0 to"):
            taken.weights(*place)
    with pytest.raises(InputError, match="capture it instead"):
        attention_weights(tiny_model("BERT"), input_ids=IDS)
    pictures = t.ResNetModel(t.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1]))
    with pytest.raises(NoAttentionError, match="every other: it has no attention"):
        attention_weights(load_model(pictures), input_ids=[1, 2])


def test_all_weights_together_stay_below_the_limit(monkeypatch):
    model = of_weights("XLNet")
    monkeypatch.setattr(weights_only, "MAX_BYTES", 2 * 4 * 4 * 20**2)  # 2 layers, 4 heads, 4 bytes, 20 tokens
    assert attention_weights(model, input_ids=np.full(20, 7)).weights(0, 0).shape == (20, 20)
    with pytest.raises(TooLongError, match="21 tokens; at most 20 can be read") as caught:
        attention_weights(model, input_ids=np.full(21, 7))
    assert (caught.value.count, caught.value.limit, caught.value.field) == (21, 20, "input_ids")


NO_WEIGHTS = {
    "Mamba": "it has no attention",
    "RWKV": "what it returns has another form",
    "FNet": "it has no attention",
    "LED, windows only": "what it returns has another form",
    "Longformer, windows only": "what it returns has another form",
    "ProphetNet, scores instead": "do not sum to 1",
    "SqueezeBERT, scores instead": "do not sum to 1",
}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_models_without_weights_say_why(name):
    model = load_model(randomised(WITHOUT_WEIGHTS[name]()))
    assert isinstance(no_weights(model), NoAttentionError)
    with refused("model", NO_WEIGHTS[name]):
        attention_weights(model, input_ids=IDS)
    with pytest.raises(NoAttentionError, match="neither queries, keys and values nor weights"):
        capture(model, input_ids=IDS)


def test_weights_answer_what_a_capture_answers():
    taken = attention_weights(of_weights("BLOOM"), input_ids=IDS)
    assert (taken.kinds, taken.layers("self"), taken.heads("self"), taken.shape("self")) == (("self",), 2, 4, (12, 12))
    for layer, blocks in enumerate(taken.in_rows("self")):
        rows = list(blocks)
        assert [block.start for block in rows] == [0, *(block.stop for block in rows[:-1])]
        found = torch.cat([block.weights for block in rows], dim=1)
        np.testing.assert_array_equal(found[2], taken.weights(layer, 2))
        np.testing.assert_allclose(rows[0].masked.softmax(-1), rows[0].weights, atol=1e-6)
        on_keys = weights_at(rows[0].weights, torch.tensor([[0, 99]] * 12))
        np.testing.assert_array_equal(on_keys[2, :, 0], taken.weights(layer, 2)[:, 0])
    for ask in (taken.tokens, taken.layers, taken.heads, taken.shape, lambda kind: list(taken.in_rows(kind))):
        with pytest.raises(InputError, match="Of cross attention no weights are kept, only of self"):
            ask("cross")


def test_the_weights_in_a_file_give_the_metrics_of_the_model_that_made_them(tmp_path):
    model = of_weights("GPT-J")
    made = attention_weights(model, input_ids=np.array([3, 9, 5, 3, 9, 5, 7, 3]))
    file = tmp_path / "gptj.npz"
    np.savez(file, attentions=all_weights(made), tokens=np.array(list("abcabcda")))
    opened = open_weights(file)
    np.testing.assert_array_equal(all_weights(opened), all_weights(made))
    assert opened.tokens() == (tuple("abcabcda"), tuple("abcabcda"))
    assert not opened.model.captures
    assert [opened.model.name, open_weights(npz(attentions=np.eye(2))).model.name] == ["gptj.npz", "attention weights"]
    pd.testing.assert_frame_equal(head_metrics(opened), head_metrics(made))
    half = open_weights(npz(attentions=all_weights(made).astype(np.float16)))
    assert half.nbytes * 2 == made.nbytes


def test_rows_of_nothing_leave_the_metrics_of_other_rows():
    weights = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], np.float32)
    opened = open_weights(npz(attentions=weights))
    assert opened.row_sums[0, 0].empty == 1
    found = head_metrics(opened)
    expected = -(np.log(0.5) + 0.5 * np.log(0.25) + 0.5 * np.log(0.5)) / 2
    assert found["entropy"].item() == pytest.approx(expected, abs=1e-6)
    assert (found["sink"].item(), found["strongest_share"].item()) == (0.375, 0.375)


def test_other_keys_than_queries_and_files_that_are_too_large():
    opened = open_weights(npz(attentions=np.full((2, 3, 4, 5), 0.2)))
    assert (opened.kinds, opened.shape()) == (("cross",), (4, 5))
    assert np.isfinite(head_metrics(opened)["entropy"]).all()
    large = npz(attentions=np.full((1, 8, 8, 8), 1, np.uint8))
    with refused("file", "weights of all heads take 2,048 bytes; at most 2,000"):
        open_weights(large, max_bytes=2_000)
    with pytest.raises(InputError, match=r"there are \d+ bytes to read; at most 500"):
        open_weights(large, max_bytes=500)
