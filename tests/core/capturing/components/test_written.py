"""Components against the hidden states of other passes, and against sums written out by hand."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import transformers as t

from core import capture, load_model
from core.capturing.components.linear_maps import first_other, passes_on
from tests.core.passes import READ, assert_same_bits, given_to, taken_apart, tiny_taken_apart
from tests.core.tiny_models import (
    HYBRIDS,
    MORE_READERS_AND_WRITERS,
    SILENT_ON_CAUSALITY,
    SMALL,
    TINY,
    TWO_TOWERS,
    randomised,
    tiny,
)
from tests.depth import sampled
from tests.refusals import refused

# Their modules for the output of a sublayer add the residual themselves, without a norm.
NORMS_FIRST = {
    "ESM": lambda: t.EsmModel(t.EsmConfig(**SMALL, max_position_embeddings=64, pad_token_id=1)),
    "XLM-RoBERTa-XL": lambda: t.XLMRobertaXLModel(t.XLMRobertaXLConfig(**SMALL)),
}
REFUSED = {"Qwen3-Next": "passes through “Mul”"}  # it multiplies what its heads give by a gate


def test_the_network_stays_as_it_is():
    network = tiny("GPT-2")
    before = {name: (id(parameter), parameter.requires_grad) for name, parameter in network.named_parameters()}
    parts = {name: dict(vars(part)) for name, part in network.named_modules()}
    capture(load_model(network), input_ids=READ, components=True)
    assert before == {name: (id(parameter), parameter.requires_grad) for name, parameter in network.named_parameters()}
    assert all(dict(vars(part)) == parts[name] for name, part in network.named_modules())


def assert_sums_up(components, tensor):
    """A tensor is the sum of its components: the same in a random direction."""
    direction = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    with torch.enable_grad():
        owed = components.owed((tensor * direction).sum())
    number = float((tensor.detach().double() * direction).sum())
    size = sum(float(share.abs().sum()) for share in owed)
    assert sum(float(share.double().sum()) for share in owed) == pytest.approx(number, abs=1e-6 * size)


@pytest.mark.parametrize("name", sampled(TINY))
def test_the_pass_is_the_same_and_every_component_reaches_the_end_with_a_name_of_its_own(name):
    both = tiny_taken_apart(name)
    taken, components = both.taken, both.taken.components
    if taken.model.is_encoder_decoder:
        # The product of all positions is rounded in another way than that of the last one.
        np.testing.assert_allclose(taken.logits, both.plain.logits, rtol=0, atol=2e-6)
        taken = replace(taken, logits=both.plain.logits)
    assert_same_bits(taken, both.plain)
    assert_all_reach_the_end(components)
    assert len(names(name)) == len(set(names(name)))
    assert 0 < components.rounding < 5
    assert len(components.held) >= 3
    assert all(held.holds for held in components.held)


def assert_all_reach_the_end(components):
    """No part of a layer is a component that swallows the stream it adds to."""
    with torch.enable_grad():
        number = components.final.square().sum()  # a plain sum has no gradient through a layer norm
    for one, gradient in zip(components.written, components.gradients(number), strict=True):
        if one.where != "encoder" and one.role != "bias":  # the encoder's outputs reach the decoder through heads alone
            assert gradient is not None, (one.role, one.where, one.number)
            assert gradient.any(), (one.role, one.where, one.number)


# The last matrix of the MLP of the last layer in a network's own names, of those in which it has a bias.
LAST = {
    **dict.fromkeys(("BERT", "RoBERTa", "ELECTRA"), "encoder.layer.1.output.dense"),
    **dict.fromkeys(("OPT", "BART", "Marian"), "model.decoder.layers.1.fc2"),
    "DistilBERT": "transformer.layer.1.ffn.lin2",
    "GPT-2": "transformer.h.1.mlp.c_proj",
    "GPT-NeoX": "gpt_neox.layers.1.mlp.dense_4h_to_h",
    "Phi": "model.layers.1.mlp.fc2",
    "ViT": "layers.1.mlp.fc2",
}


@pytest.mark.parametrize("name", LAST)
def test_the_bias_of_the_last_matrix_of_an_mlp_is_a_bias_in_every_architecture(name):
    """What the row of an MLP adds to the last stream is the product with that matrix alone, as a plain hook sees it."""
    both, seen = tiny_taken_apart(name), []
    matrix = both.taken.model.network.get_submodule(LAST[name])
    with ExitStack() as stack:
        stack.callback(matrix.register_forward_hook(lambda _, __, gave: seen.append(gave)).remove)
        capture(both.taken.model, **given_to(both.taken.model))
    (gave,), components = seen, both.taken.components
    direction = torch.randn(components.final.shape, generator=torch.Generator().manual_seed(0))
    with torch.enable_grad():
        owed = components.owed((components.final * direction).sum())
    last, shares = components.held[-1].transposed(direction), [*zip(components.written, owed, strict=True)]
    mlps = {id(one.tensor): float(share.sum()) for one, share in shares if one.role == "mlp"}
    *_, mlp = mlps.values()
    *_, bias = (float(share) for one, share in shares if one.role == "bias" and torch.equal(one.tensor, matrix.bias))
    assert float(((gave - matrix.bias) * last).sum().detach()) == pytest.approx(mlp, rel=1e-4, abs=1e-5)
    assert float((matrix.bias @ last.flatten(0, -2).sum(dim=0)).detach()) == pytest.approx(bias, rel=1e-4, abs=1e-5)


def names(name):
    return [part.name for part in tiny_taken_apart(name).taken.components.each]


def test_names_and_their_order():
    first, second = ([f"{layer}.{head}" for head in range(4)] for layer in range(2))
    assert names("Llama") == ["embedding", *first, "mlp 0", *second, "mlp 1"]
    assert names("GPT-2") == ["embedding", *first, "mlp 0", "bias 0", *second, "mlp 1", "bias 1", "bias"]
    assert [name for name in names("ALBERT") if name[:3] == "mlp"] == ["mlp 0", "mlp 1", "mlp 2", "mlp 3"]
    assert {"encoder embedding", "decoder embedding", "encoder 1.3", "cross 0.0", "decoder mlp 1"} <= {*names("T5")}


@pytest.mark.parametrize("name", HYBRIDS)
def test_hybrids_are_exact_or_refused(name):
    network = randomised(HYBRIDS[name]())
    if name in REFUSED:
        with refused("model", REFUSED[name]):
            taken_apart(network)
        return
    both = taken_apart(network)
    assert_same_bits(both.taken, both.plain)
    assert {part.name for part in both.taken.components.each if part.role == "rest"}
    assert_final_holds(both)


@pytest.mark.parametrize(
    "name", ["mBART", "LongT5", "CLIP", "AltCLIP", "AIMv2", "CLAP", "Doge", "Splinter", "ESM", "XLM-RoBERTa-XL"]
)
def test_further_models_are_exact(name):
    make = (MORE_READERS_AND_WRITERS | TWO_TOWERS | SILENT_ON_CAUSALITY | NORMS_FIRST)[name]
    network = randomised(make())
    if name in TWO_TOWERS:
        network = load_model(network).network
    assert_final_holds(taken_apart(network))


def assert_final_holds(both):
    """What the last norm gave, at all tokens in random directions, is what its components add up to."""
    components = both.taken.components
    assert_sums_up(components, components.final)
    assert_all_reach_the_end(components)
    if components.readout is None:
        torch.testing.assert_close(components.final, both.returned.last_hidden_state)


class Changed(torch.nn.Module):
    """A layer that reads another stream: its sums would add up, but not to what the layers wrote."""

    def __init__(self, layer, change):
        super().__init__()
        self.layer, self.change = layer, change

    def forward(self, stream, *inputs, **options):
        return self.layer(self.change(stream), *inputs, **options)


class TanhNorm(torch.nn.Tanh):
    """Called a norm, and another function (Zhu et al. 2025)."""


def changed(change, blocks):
    blocks[1] = Changed(blocks[1], change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(changed, torch.relu), "LlamaForCausalLM cannot be taken apart into components: its .* “Relu”"),
        (partial(changed, lambda stream: stream + torch.ones(32)), "“Add”"),
        (lambda blocks: setattr(blocks[1], "input_layernorm", TanhNorm()), "TanhNorm is not a norm of a known form"),
        (lambda blocks: setattr(blocks[1], "forward", blocks[1].forward), "spread over several devices"),
    ],
)
def test_what_is_no_sum_is_refused_by_name(change, words):
    network = tiny("Llama")
    change(network.model.layers)
    model = load_model(network)
    assert capture(model, input_ids=READ).components is None
    with refused("model", words):
        capture(model, input_ids=READ, components=True)


X = torch.arange(1.0, 25).reshape(1, 4, 6).requires_grad_()
W = torch.ones(6, 6)
BIAS = torch.ones(6, requires_grad=True)


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        (X * 2 + X / 3 - X, None),
        ((X @ W).view(1, 4, 2, 3).transpose(1, 2)[..., 1:].squeeze(0), None),
        (torch.cat([-X[..., 3:], torch.zeros(1, 4, 3)], dim=-1).to(torch.bfloat16), None),
        (torch.stack(X.unbind(dim=1)).permute(1, 0, 2).expand(3, 4, 6).bfloat16(), None),
        (torch.bmm(X, torch.ones(1, 6, 2)), None),
        (torch.nn.functional.linear(X, W, BIAS), None),
        (X * X, "Mul"),
        (X @ X.transpose(1, 2), "Bmm"),
        (3 / X, "Reciprocal"),
        (X / X, "Div"),
        (X + torch.ones(6), "Add"),
        (X + 1, "Add"),
        (torch.nn.functional.linear(X, W, torch.ones(6)), "Addmm"),
        (X.relu() * 2, "Relu"),
        (X.softmax(dim=-1), "Softmax"),
        (X.abs().sum(), "Sum"),
        (X.clamp(0, 1)[0], "Clamp"),
    ],
)
def test_the_first_step_that_is_not_linear(tensor, name):
    followed = set()
    for _ in range(2):  # what was found once is found again
        assert first_other(tensor, followed) == name


def test_passing_on():
    made = X * 3
    mixed = (made @ W).relu() - 0.5 * made.view(4, 6)[None]
    for tensor in (made, made.relu() + made / 2, mixed, X + made.softmax(dim=-1)):
        assert passes_on(tensor, [X, made])
    for tensor in (made @ W, made.relu() * 2, made * made.tanh(), X.detach()):
        assert not passes_on(tensor, [X, made])
