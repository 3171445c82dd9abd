"""A model that nobody holds any more gives back its memory and the mapping of its file, at once."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from core import InputError, capture, check_model, generate, head_effects, load_model, probe_heads
from tests.core.passes import given_to
from tests.core.tiny_models import TINY, number_words, tiny
from tests.depth import sampled

MAPS = Path("/proc/self/maps")


@pytest.fixture(autouse=True)
def without_a_collector():
    """Python's own search for garbage may not come for long: on a server it looks at millions of objects first."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux lists what a process has mapped")
def test_its_file_is_mapped_no_longer(tmp_path):
    for part in (tiny("Llama"), number_words()):
        part.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    passed = capture(model, "5 9 7", components=True)
    assert np.isfinite(passed.logits).all()
    head_effects(model, "5 9 7")
    generate(model, "5 9 7", 3)
    probe_heads(model, length=20, seeds=[0])
    assert check_model(model, seconds=600).holds
    model.network.get_input_embeddings().weight.data[9] = torch.nan
    with pytest.raises(InputError, match="gives NaN or infinity"):  # `refused` would keep what it has caught
        capture(model, "5 9 7")
    assert str(tmp_path) in MAPS.read_text()
    del model, passed
    assert str(tmp_path) not in MAPS.read_text()


@pytest.mark.parametrize("name", sampled(TINY))
def test_every_architecture(name):
    model = load_model(tiny(name), tokenizer=number_words())
    weights = [weakref.ref(weight) for weight in model.network.parameters()]
    capture(model, **given_to(model))
    check_model(model, seconds=600)
    del model
    assert all(weight() is None for weight in weights)
