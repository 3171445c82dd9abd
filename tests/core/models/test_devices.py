"""Devices and dtypes: those that a machine lacks, and a model that is spread over two places."""

import sys

import numpy as np
import pytest
import torch

from core import Edits, capture, head_weights
from core.heads.effects import head_effects, patch_effects
from core.models.devices import called, checked_device, devices, short
from core.models.loading import load_model
from core.models.model import Model
from tests.core.models.folders import refusal
from tests.core.tiny_models import number_words, tiny

MINILM = "all-MiniLM-L6-v2"
TEXT, OTHER = "5 17 8 33 5 17", "5 17 9 33 5 17"
LACKING = {"cuda": "no CUDA device", "cuda:1": "no CUDA device", "mps": "no Apple GPU (mps)", "tpu": "no device 'tpu'"}


@pytest.mark.parametrize("device", LACKING)
def test_a_device_that_is_not_there(device):
    if device in devices():
        pytest.skip(f"this machine has {device}")
    said = refusal(MINILM, "device", device=device)
    if devices() == ("cpu",):
        assert said == f"This machine has {LACKING[device]}; choose cpu."


def test_a_device_has_one_name():
    given = (0, "cuda:0", 1, torch.device("cuda:1"), "mps")
    assert [short(device) for device in given] == ["cuda", "cuda", "cuda:1", "cuda:1", "mps"]
    assert checked_device("cpu") == devices()[0] == "cpu"
    assert called("m", "float32", "cpu") == "m"
    assert called("m", "bfloat16", "cuda:1") == "m in bfloat16 on cuda:1"


def test_a_device_map_that_means_nothing_or_lacks_accelerate(monkeypatch):
    said = refusal(MINILM, "device_map", device_map="automatic")
    assert "one of auto, balanced, balanced_low_0, sequential" in said
    if "cuda" not in devices():
        assert refusal(MINILM, "device", device_map={"": 0})
    monkeypatch.setitem(sys.modules, "accelerate", None)
    assert "pip install accelerate" in refusal(MINILM, "device_map", device_map="auto")


@pytest.fixture(params=["float32", "bfloat16"])
def both(request, tmp_path) -> tuple[Model, Model]:
    """One model in memory, and with the embeddings and a layer on the disk, from where they are fetched for every pass."""
    tiny("Llama").save_pretrained(tmp_path)
    number_words().save_pretrained(tmp_path)
    parts = dict.fromkeys(("model.layers.0", "model.norm", "model.rotary_emb", "lm_head"), "cpu")
    parts = {"model.embed_tokens": "disk", **parts, "model.layers.1": "disk"}
    spread = load_model(tmp_path, dtype=request.param, device_map=parts)
    return load_model(tmp_path, dtype=request.param), spread


def test_a_spread_model_gives_the_same_numbers(both):
    whole, spread = both
    assert spread.network.get_submodule("model.layers.1").get_parameter("mlp.up_proj.weight").is_meta
    assert (spread.devices, spread.nbytes, spread.dtype) == (("disk", "cpu"), whole.nbytes, whole.dtype)
    for edits in (None, Edits(mute_heads={(1, 2)}), Edits(scale_by={(0, 1): 2.0})):
        one, other = (capture(model, TEXT, edits=edits) for model in both)
        np.testing.assert_array_equal(one.logits, other.logits)
        np.testing.assert_array_equal(one.trace(1, 2).output, other.trace(1, 2).output)
        assert other.certificate(1, 2).holds
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        one, other = (getattr(head_weights(model, 1, 2), name) for model in both)
        np.testing.assert_array_equal(one, other)


def test_a_spread_model_is_continued_like_any_other(both):
    for one, other in (
        [head_effects(model, TEXT)["effect"] for model in both],
        [patch_effects(model, TEXT, OTHER, answers=(3, 4))["moved"] for model in both],
    ):
        np.testing.assert_array_equal(one, other)


def test_auto_on_a_machine_without_gpus_is_the_cpu():
    if devices() != ("cpu",):
        pytest.skip("this machine has more")
    assert load_model(MINILM, device_map="auto").devices == ("cpu",)
