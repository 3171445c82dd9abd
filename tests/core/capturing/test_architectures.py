"""Promised architectures against their own eager attention, and classes of transformers against docs/architectures.md."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from bench.architectures import Found, each, examine
from bench.architectures_table import exact_row, reason, stated
from bench.small_networks import RULES, every_class, small_network
from core import capture, load_model
from core.capturing.capture import Capture
from core.models.inputs import all_inputs
from core.models.modules import Kind
from tests.core.passes import (
    PICTURE,
    READ,
    WRITTEN,
    assert_eager_weights,
    eager_layers,
    every_head,
    given_to,
    tiny_taken_apart,
)
from tests.core.tiny_models import SILENT_ON_CAUSALITY, TINY, eager, randomised
from tests.depth import sampled
from tests.refusals import refused

CLOSE = 1e-5


@cache
def eager_pass(name: str) -> Any:
    both = tiny_taken_apart(name)
    return eager(both.plain.model.network, **both.inputs)


@cache
def worst_weights(name: str) -> float:
    taken = tiny_taken_apart(name).plain
    weights = {kind: eager_layers(eager_pass(name), kind) for kind in taken.kinds}
    return max(
        float(np.abs(taken.trace(layer, head, kind).weights - weights[kind][layer][0, head].numpy()).max())
        for layer, head, kind in every_head(taken)
    )


@cache
def worst_outputs(name: str) -> float:
    """The largest difference between an output of ours and what the model's own attention returned."""
    taken = tiny_taken_apart(name).plain
    return max(np.abs(taken.trace(*at).output - taken.model_output(*at)).max() for at in every_head(taken))


def sharpness(taken: Capture, kind: Kind) -> float:
    """The largest weight of a row times the keys that it may attend to: 1 where attention is uniform."""
    traces = [taken.trace(layer, 0, kind) for layer in range(taken.layers(kind))]
    choices = [trace.mask.sum(axis=1) for trace in traces]
    shares = [(one.weights.max(axis=1) * many)[many > 1] for one, many in zip(traces, choices, strict=True)]
    return float(np.concatenate(shares).mean())


@pytest.mark.parametrize("name", sampled(TINY))
def test_every_head_of_every_kind_agrees_with_eager(name):
    taken, expected = tiny_taken_apart(name).plain, eager_pass(name)
    config = taken.model.network.config
    assert taken.kinds == (("encoder", "decoder", "cross") if config.is_encoder_decoder else ("self",))
    if config.is_encoder_decoder:
        assert taken.target_ids == (config.decoder_start_token_id, *WRITTEN)
    for kind in taken.kinds:
        layers = eager_layers(expected, kind)
        assert taken.layers(kind) == len(layers)
        assert taken.heads(kind) == layers[0].shape[1] == 4
        assert sharpness(taken, kind) > 1.5, "attention is near to uniform: almost any weights would agree"
    assert worst_weights(name) < CLOSE
    assert worst_outputs(name) < CLOSE
    assert all(taken.certificate(*at).holds for at in every_head(taken))
    torch.testing.assert_close(tiny_taken_apart(name).returned[0], expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SILENT_ON_CAUSALITY)
def test_attention_that_does_not_say_whether_it_is_causal_is_what_it_is_in_eager(name):
    network = randomised(SILENT_ON_CAUSALITY[name]())
    model = load_model(network)
    expected = eager(network, **all_inputs(model, **given_to(model)))
    taken = capture(model, **given_to(model))
    assert_eager_weights(taken, expected)
    ours, theirs = (taken.logits, expected[0][0, -1]) if taken.vectors is None else (taken.vectors, expected[0][0])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


# For each way in which classes differ one: groups of heads, chunks, sinks, layers without attention, windows to both sides, two
# stacks, images, pictures with texts (without and with a resampler), weights alone, and two refusals.
SAMPLE = (
    *("LlamaForCausalLM", "Llama4ForCausalLM", "GptOssForCausalLM", "Qwen3NextForCausalLM", "ModernBertForMaskedLM"),
    *("T5ForConditionalGeneration", "Dinov2Model", "CLIPForImageClassification", "LlavaForConditionalGeneration"),
    *("Idefics2ForConditionalGeneration", "BloomForCausalLM", "MambaForCausalLM", "ViTMAEModel"),
)


def says(found: Found) -> list[str]:
    """What the tables say of a class, without the size of the difference."""
    one = asdict(found)
    if found.result == "exact":
        _, read, heads, _, *more = exact_row(one)
        return [found.result, read, heads, *more]
    return [found.result, found.heads if found.result == "weights only" else reason(one)]


def assert_stated(found: Found, cells: Sequence[str]) -> None:
    if found.result == "exact":
        assert found.worst < float(cells[3].removeprefix("< ")), (found.name, found.worst)
        cells = [*cells[:3], *cells[4:]]
    assert says(found) == [*cells], f"{found.name}: python -m bench.architectures --write renews the tables"


@pytest.mark.parametrize("name", SAMPLE)
def test_classes_are_what_the_tables_say(name):
    assert_stated(examine(name), stated()[name])


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_every_class_is_what_the_tables_say():
    cells, missing = stated(), []
    for found in each(every_class(), processes=os.cpu_count() or 1):
        if found.name in cells:
            assert_stated(found, cells[found.name])
        else:
            missing.append(found.name)
    assert missing == []


def test_no_class_is_wrong():
    assert {cells[0] for cells in stated().values()} <= {
        "exact",
        "weights only",
        "refused",
        "cannot be built",
        "no reference",
    }
    assert sum(cells[0] != "cannot be built" for cells in stated().values()) >= 240


TAKEN_APART = {
    "RoCBertForMaskedLM": "passes through “Gelu”",  # adds in place to what a linear map outside of its layers gave
    "RobertaPreLayerNormForMaskedLM": "passes through “Gelu”",  # all of its parts are called norms
    "Ernie4_5_VLMoeForConditionalGeneration": "MoeBlock gives no vector for each token",
}


@pytest.mark.parametrize("name", TAKEN_APART)
def test_what_cannot_be_taken_apart_is_said(name):
    with refused("model", TAKEN_APART[name]):
        capture(load_model(small_network(name)), input_ids=READ, components=True)


NOT_CAPTURED = {
    "MllamaVisionModel": "reads images, not texts",  # and needs more than images
    "Blip2ForConditionalGeneration": "reads images together with texts, and neither alone",
    "ViTMAEModel": "at random",
}


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_what_is_not_captured_is_said(name):
    model = load_model(small_network(name))
    with refused("model", NOT_CAPTURED[name]):
        capture(model, **({"image": PICTURE} if model.reads_images else {"input_ids": READ}))


def test_layers_with_other_numbers_of_heads_are_refused(monkeypatch):
    """Those beyond the first layer's were not shown."""
    monkeypatch.setitem(RULES, "num_attention_heads_per_layer", [4, 8, 4, 8])
    with refused("model", "layers of 4 and 8 heads"):
        capture(load_model(small_network("LagunaForCausalLM")), input_ids=READ)


def test_a_model_whose_tower_for_images_alone_asks_the_registry_gives_its_weights():
    found = examine("GitForCausalLM")
    assert (found.result, found.worst) == ("weights only", 0.0)


@pytest.mark.parametrize("name", ["GPTNeoXForCausalLM", "AlbertModel", "BartForConditionalGeneration"])
def test_rules_make_small_what_they_name(name):
    """Every matrix is small, uneven and not near 0, every bias counts, and no norm is 1."""
    for parameter in small_network(name).parameters():
        assert parameter.numel() < 2**17
        assert 0.1 < float(parameter.detach().std()) < 0.4
