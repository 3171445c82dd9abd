"""The recorder that is copied elsewhere, against `capture`: the very same numbers, for all heads and for some."""

import importlib.util
import shutil
import sys

import numpy as np
import pytest
import torch

from core import capture, load_model, open_capture
from tests.core.captures.test_opening import STAGES, TEXT
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
    used = {name.partition(".")[0] for _, name in imports(source)}
    assert used - sys.stdlib_module_names == {"torch", "transformers", "safetensors"}
    assert len(source.splitlines()) <= 225


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
            ours, theirs = opened.trace(at, of, kind), expected.trace(layer, head, kind)
            for stage in STAGES:
                np.testing.assert_array_equal(
                    getattr(ours, stage), getattr(theirs, stage), err_msg=f"{layer}.{head} {stage}"
                )
            assert opened.certificate(at, of, kind).holds
    assert some.model.labels[expected.kinds[0]] == [(1, some.model.labels[expected.kinds[0]][0][1])]
    assert some.model.labels[expected.kinds[0]][0][1].endswith("heads 1, 3 of 4")


def test_a_model_that_it_would_record_wrongly_is_refused(recorder, tmp_path):
    network = randomised(WEIGHTS_ONLY["BLOOM"]())
    with pytest.raises(ValueError, match="Nothing was recorded"):
        recorder.record(network, number_words(), TEXT, tmp_path / "pass.safetensors")
