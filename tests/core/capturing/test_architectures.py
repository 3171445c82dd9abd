"""Every promised architecture against its own eager attention, and the table of docs/architectures.md.

`python -m tools.docs architectures` renews the table.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from core import capture, load_model
from core.capturing.capture import Capture
from core.capturing.layer_labels import layer_labels
from core.errors import InputError
from core.models.inputs import all_inputs
from core.models.modules import Kind
from tests.core.passes import (
    WRITTEN,
    assert_eager_weights,
    attribution,
    eager_layers,
    every_head,
    given_to,
    tiny_taken_apart,
)
from tests.core.tiny_models import SILENT_ON_CAUSALITY, TINY, eager, randomised
from tools.docs import bound, written

# What is stated is one of these: another machine rounds differently, but not beyond them.
BOUNDS = (1e-6, 2e-6, 3e-6, 5e-6, 1e-5)
QK_NORMS = ("q_norm", "query_norm", "q_layernorm")


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


@pytest.mark.parametrize("name", TINY)
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
    assert worst_weights(name) < BOUNDS[-1]
    assert worst_outputs(name) < BOUNDS[-1]
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


def special(taken: Capture) -> str:
    """What the layers' labels, the numbers of heads and the attention modules say."""
    found = [part for kind in taken.kinds for label in layer_labels(taken, kind) for part in label.words.split(", ")]
    if any(taken.key_head(0, 0, kind)[1] < taken.heads(kind) for kind in taken.kinds):
        found.append("grouped heads")
    modules = [call.module for kind in taken.kinds for call in taken.each_layer(kind)]
    if any(getattr(module, norm, None) is not None for module in modules for norm in QK_NORMS):
        found.append("QK norm")
    if len({id(module) for module in modules}) < len(modules):
        found.append("layers share weights")
    return ", ".join(dict.fromkeys(part for part in found if part)) or "–"


def row(name: str) -> list[str]:
    """The cells that are the same on every machine."""
    taken = tiny_taken_apart(name).plain
    sizes = dict.fromkeys(f"{taken.layers(kind)} × {taken.heads(kind)}" for kind in taken.kinds)
    network = type(taken.model.network).__name__
    return [name, network, ", ".join(taken.kinds), ", ".join(sizes), special(taken), attributed(name)]


def attributed(name: str) -> str:
    try:
        return "exact" if attribution(tiny_taken_apart(name).taken).holds else "wrong"
    except InputError:
        return "refused"


def test_the_document_states_what_is_measured():
    stated = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in written("architectures").splitlines()[2:]
    ]
    assert [cells[0] for cells in stated] == list(TINY)
    for name, cells in zip(TINY, stated, strict=True):
        assert cells[:6] == row(name)
        for cell, difference in zip(cells[6:], (worst_weights(name), worst_outputs(name)), strict=True):
            limit = float(re.fullmatch(r"< ([0-9]e-[0-9])", cell)[1])
            assert limit in BOUNDS
            assert difference < limit, (name, difference)
            assert limit == BOUNDS[0] or limit < 20 * difference, (name, difference)


def test_bounds():
    assert [bound(difference) for difference in (0, 3e-7, 6e-7, 9e-7, 1.6e-6, 2e-6)] == [
        *("< 1e-6", "< 1e-6", "< 2e-6", "< 3e-6", "< 5e-6", "< 1e-5"),
    ]
