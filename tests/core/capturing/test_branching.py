"""Continued passes: equal to whole ones with the same change, on a network that nobody else sees changed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch

from core import capture, load_model
from core.capturing.branching import Branches, PassOver
from core.errors import WeightsOnlyError
from core.heads.effects import head_effects
from core.models.calls import heard_by
from core.models.inputs import all_inputs, run
from tests.core.passes import tiny_model
from tests.core.tiny_models import TINY, WEIGHTS_ONLY, tiny
from tests.depth import sampled
from tests.refusals import refused

IDS = [5, 17, 8, 40, 17, 23]


def whole_pass(model, inputs, number, head):
    """The answer of a pass of the network itself in which one head of one call returns 0."""
    numbers = count()

    def mute(call):
        if next(numbers) != number:
            return call
        return replace(call, output=call.output.index_fill(2, torch.tensor([head]), 0))

    with heard_by(mute):
        returned = run(model, inputs)
    return returned.logits[0, -1] if model.has_language_model_head else returned.last_hidden_state[0].mean(dim=0)


@pytest.mark.parametrize("name", sampled(name for name in TINY if name != "ViT"))
def test_a_continuation_equals_a_whole_pass(name):
    model = tiny_model(name)
    inputs = all_inputs(model, input_ids=IDS)
    branches = Branches(model, inputs)
    for number in range(len(branches.calls)):
        seen = []

        def mute(at, call, number=number, seen=seen):
            seen.append(at)
            output = call.output.clone()
            if at == number:
                output[1, :, 2] = 0
                output[2, :, 0] = 0
            return output

        found = branches.go_on(number, 3, mute)
        expected = [branches.answer, whole_pass(model, inputs, number, 2), whole_pass(model, inputs, number, 0)]
        torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)
        assert (found[1] - found[0]).abs().max() > 1e-3
        assert seen[-1] == len(branches.calls) - 1
        own = [number] if name not in ("BART", "Marian", "T5") else [number, number - 1]  # a layer may make two calls
        assert seen[0] in own, "layers below are computed again"


@pytest.mark.parametrize("name", sampled(name for name in TINY if name != "ViT"))
def test_gradients_are_the_slopes_of_continuations(name):
    model = tiny_model(name)
    branches = Branches(model, all_inputs(model, input_ids=IDS))
    gradients = branches.gradients(lambda answer: answer.square().sum())
    assert len(gradients) == len(branches.calls)
    generator = torch.Generator().manual_seed(0)
    for number, (call, gradient) in enumerate(zip(branches.calls, gradients, strict=True)):
        direction = torch.randn(call.output.shape[1:], generator=generator)
        steps = 3e-3 * torch.stack([direction, -direction])

        def edit(at, call, number=number, steps=steps):
            return call.output + steps if at == number else call.output

        up, down = branches.go_on(number, 2, edit).square().sum(dim=-1)
        assert float((up - down) / 6e-3) == pytest.approx(float((gradient * direction).sum()), rel=2e-2, abs=2e-3)
    assert not branches.calls[0].output.requires_grad


def test_whoever_has_seen_enough_ends_the_pass():
    model = load_model(tiny("Llama"))
    branches = Branches(model, all_inputs(model, input_ids=IDS))
    seen = []

    def look(number, _):
        seen.append(number)
        raise PassOver

    assert branches.go_on(1, 2, look) is None
    assert seen == [1]
    again = branches.go_on(0, 1, lambda _, call: call.output)[0]
    torch.testing.assert_close(again, branches.answer, rtol=1e-5, atol=1e-6)


def test_the_network_itself_stays_as_it_is():
    """Nor does a capture that runs meanwhile see anything muted."""
    model = load_model(tiny("Llama"))
    network, before = model.network, capture(model, input_ids=IDS)
    parameters = {name: parameter.data_ptr() for name, parameter in network.named_parameters()}
    branches, found = Branches(model, all_inputs(model, input_ids=IDS)), []

    def mute(_, call):
        with ThreadPoolExecutor(1) as thread:
            found.append(thread.submit(capture, model, input_ids=IDS).result().logits)
        return torch.zeros_like(call.output)

    muted = branches.go_on(0, 1, mute)[0]
    assert np.abs(muted.numpy() - before.logits).max() > 0.01
    assert len(found) == 2
    for logits in found:
        np.testing.assert_array_equal(logits, before.logits)
    assert {name: parameter.data_ptr() for name, parameter in network.named_parameters()} == parameters
    assert not any("forward" in vars(module) or module._forward_pre_hooks for module in network.modules())


def test_what_has_no_branches():
    with pytest.raises(WeightsOnlyError):
        head_effects(load_model(WEIGHTS_ONLY["GPT-J"]()), input_ids=IDS)
    with refused("kind", "no cross attention"):
        head_effects(load_model(tiny("BERT")), input_ids=IDS, kind="cross")
