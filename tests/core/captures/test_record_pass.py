"""The recorder that is copied elsewhere, against `capture`: the very same numbers, for all heads and for some."""

import importlib.util
import shutil
import sys
from itertools import product

import numpy as np
import pytest
import torch

from core import capture, load_model, open_capture
from tests.core.captures.test_converting import TEXTS, given
from tests.core.captures.test_opening import TEXT, assert_same_stages
from tests.core.tiny_models import WEIGHTS_ONLY, number_words, randomised, tiny
from tests.source_files import ROOT, imports, text


@pytest.fixture
def recorder(tmp_path):
    """The file by itself, as somebody has copied it."""
    copied = shutil.copy(ROOT / "core/record_pass.py", tmp_path / "copied.py")
    spec = importlib.util.spec_from_file_location("copied", copied)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_one_short_file_that_needs_nothing_of_headlight():
    source = text(ROOT / "core/record_pass.py")
    used = {name.partition(".")[0] for name in imports(source)}
    assert used - sys.stdlib_module_names == {"torch", "transformers", "safetensors"}
    assert len(source.splitlines()) <= 330


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5", "Gemma 2", "gpt-oss", "Phi-3"])
def test_what_it_records_is_what_a_capture_keeps(name, recorder, tmp_path):
    file = tmp_path / "pass.safetensors"
    network = tiny(name).to(torch.bfloat16 if name == "Llama" else torch.float32)
    network.set_attn_implementation("eager")
    both = network.config.is_encoder_decoder
    recorder.record(network, number_words(), TEXT, file, target="3 4 5" if both else None)
    assert network.config._attn_implementation == "eager"
    whole = open_capture(file)
    recorder.record(network, number_words(), TEXT, file, target="3 4 5" if both else None, layers=[1], heads=[3, 1])
    some = open_capture(file)
    model = load_model(network, tokenizer=number_words())
    expected = capture(model, TEXT, **{"target": [3, 4, 5]} if both else {})
    assert (whole.kinds, whole.input_ids, whole.target_ids) == (expected.kinds, expected.input_ids, expected.target_ids)
    for ours, theirs in ((whole.logits, expected.logits), (whole.vectors, expected.vectors)):
        np.testing.assert_array_equal(ours, theirs)
    for kind in expected.kinds:
        assert whole.tokens(kind) == expected.tokens(kind)
        assert (some.layers(kind), some.heads(kind)) == (1, 2)
        pairs = [((layer, head), (whole, layer, head)) for layer in (0, 1) for head in range(4)]
        for (layer, head), (opened, at, of) in [*pairs, ((1, 1), (some, 0, 0)), ((1, 3), (some, 0, 1))]:
            assert_same_stages(opened.trace(at, of, kind), expected.trace(layer, head, kind))
            assert opened.certificate(at, of, kind).holds
    assert some.model.labels[expected.kinds[0]] == [(1, some.model.labels[expected.kinds[0]][0][1])]
    assert some.model.labels[expected.kinds[0]][0][1].endswith("heads 1, 3 of 4")


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", ["Llama", "GPT-2", "BERT", "Mistral", "T5", "gpt-oss", "RoBERTa"])
def test_a_text_of_a_batch_is_what_it_is_alone(name, side, row, recorder, tmp_path):
    network, file, both = tiny(name), tmp_path / "pass.safetensors", name == "T5"
    batch = {word: torch.tensor(one) for word, one in given(side).items() if one is not None}
    if name in ("T5", "RoBERTa") and side == "left":  # they take no positions
        with pytest.raises(ValueError, match=r"Padding comes before the text.* or put the padding after the text"):
            recorder.record(network, number_words(), batch, file, row=1)
        return
    recorder.record(network, number_words(), batch, file, row=row, target="3 4 5" if both else None, heads=[3, 1])
    opened, model = open_capture(file), load_model(network, tokenizer=number_words())
    alone = capture(model, input_ids=TEXTS[row], **{"target": [3, 4, 5]} if both else {})
    assert (opened.input_ids, opened.target_ids) == (alone.input_ids, alone.target_ids)
    for ours, theirs in ((opened.logits, alone.logits), (opened.vectors, alone.vectors)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
    for kind, layer, (at, head) in product(alone.kinds, (0, 1), enumerate((1, 3))):
        assert_same_stages(opened.trace(layer, at, kind), alone.trace(layer, head, kind), 2e-5)
        assert opened.certificate(layer, at, kind).holds


NOT_ALONE = {  # what the batch is given besides or instead, and what else the recorder is told
    "no choice": (
        {},
        {"row": None},
        "passes over 2 texts. Choose one with row=0 to row=1, and give the attention_mask",
    ),
    "no mask": ({"attention_mask": None}, {}, "which tells tokens from padding"),
    "no such text": ({}, {"row": 2}, "There is no row 2: they run from 0 to 1"),
    "later positions": ({"position_ids": [[0, 1, 2, 3, 4]] * 2}, {"side": "left"}, "have the positions 2 to 4"),
    "two texts in a list": (
        None,
        {},
        r"Give a text, or what tokenizer\(texts, padding=True, return_tensors=\"pt\"\) returns",
    ),
}


@pytest.mark.parametrize("case", NOT_ALONE)
def test_what_is_not_the_text_alone_is_refused(case, recorder, tmp_path):
    batch, told, words = NOT_ALONE[case]
    told = {"row": 1, "side": "right"} | told
    side = told.pop("side")
    batch = ["5 17", "7"] if batch is None else given(side) | batch
    batch = {word: one for word, one in batch.items() if one is not None} if isinstance(batch, dict) else batch
    with pytest.raises(ValueError, match=words):
        recorder.record(tiny("Llama"), number_words(), batch, tmp_path / "pass", **told)
    assert not (tmp_path / "pass").exists()


def test_a_model_that_it_would_record_wrongly_is_refused(recorder, tmp_path):
    network = randomised(WEIGHTS_ONLY["BLOOM"]())
    with pytest.raises(ValueError, match="Nothing was recorded"):
        recorder.record(network, number_words(), TEXT, tmp_path / "pass.safetensors")
