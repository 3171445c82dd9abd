"""The judge: what a network gives here, beside what transformers gives for it alone."""

from functools import partial
from typing import Any

import pytest
import torch
import transformers as t

from core import load_model, record_pass
from core.capturing.checking.own_code import compare_with_own_code
from core.models.calls import IMPLEMENTATIONS
from core.models.inputs import all_inputs
from core.models.own_copy import own_copy
from tests.core.tiny_models import GROUPED, TINY, randomised, tiny
from tests.core.tiny_seeing import seeing


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "T5", "gpt-oss", "ViT"])
def test_a_copy_shares_the_weights_and_has_its_own_code(name: str) -> None:
    network = tiny(name)
    before = network.config._attn_implementation
    load_model(network)
    copy = own_copy(network)
    weights = dict(network.named_parameters())
    assert all(weights[of].data_ptr() == weight.data_ptr() for of, weight in copy.named_parameters())
    assert copy.config._attn_implementation == before
    assert network.config._attn_implementation in IMPLEMENTATIONS.values()


def test_a_copy_leaves_the_weights_as_they_are() -> None:
    network = tiny("Chinese-CLIP").text_model  # whose class sets the row of the padding token to zero
    load_model(network)
    before = {name: part.clone() for name, part in network.state_dict().items()}
    own_copy(network)
    assert all(torch.equal(part, before[name]) for name, part in network.state_dict().items())


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("BERT", ["last hidden state"] + [f"weights of layer {layer}" for layer in range(2)]),
        ("Llama", ["logits", "weights of layer 0", "weights of layer 1"]),
        ("BART", ["logits", "weights of cross layer 1", "weights of encoder layer 0", "weights of decoder layer 0"]),
    ],
)
def test_what_is_compared(name: str, compared: list[str]) -> None:
    found = compare_with_own_code(load_model(tiny(name)))
    what = found.differences.what.str.replace("vectors", "last hidden state")
    assert found.holds
    assert not found.why_not
    assert set(compared) <= set(what)
    assert what.str.startswith("logits of written token").sum() == (0 if name == "BERT" else 8)
    assert found.differences.allowed.max() < 2e-5


def changed(by: float, own: Any, *read: Any, **options: Any) -> Any:
    returned = own(*read, **options)
    return returned * by if isinstance(returned, torch.Tensor) else (returned[0] * by, *returned[1:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_module_that_runs_other_code_is_found(dtype: str) -> None:
    network = tiny("Llama").to(getattr(torch, dtype))
    model = load_model(network)
    part = network.model.layers[1].self_attn.k_proj
    part.forward = partial(changed, 1.001 if dtype == "float32" else 1.5, part.forward)
    found = compare_with_own_code(model)
    assert found.holds is False
    assert found.detail.startswith("transformers alone computes this network otherwise: the ")


def test_another_attention_of_the_class_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the scale of the class had been forgotten here."""
    own = record_pass.sdpa_attention_forward
    monkeypatch.setattr(
        record_pass, "sdpa_attention_forward", lambda *given, **options: own(*given, **options | {"scaling": 1.0})
    )
    assert compare_with_own_code(load_model(tiny("Llama"))).holds is False


def test_weights_are_compared_where_outputs_cannot_tell() -> None:
    network = tiny("BERT")
    torch.nn.init.zeros_(network.encoder.layer[1].attention.output.dense.weight)  # whatever its heads look at
    model = load_model(network)
    part = network.encoder.layer[1].attention.self.query
    part.forward = partial(changed, 2.0, part.forward)
    wrong = [row.what for row in compare_with_own_code(model).each if not row.holds]
    assert wrong == ["weights of layer 1"]


def test_rounded_rotary_frequencies_of_a_converted_network_are_its_own() -> None:
    network = randomised(TINY["Llama"]()).to(torch.float16)
    assert network.model.rotary_emb.inv_freq.dtype == torch.float16
    assert compare_with_own_code(load_model(network)).holds
    network.model.rotary_emb.inv_freq.mul_(1.5)
    assert compare_with_own_code(load_model(network)).holds is False


@pytest.mark.thorough
def test_an_image_is_read_with_the_text() -> None:
    model = seeing.__wrapped__("Qwen2.5-VL")  # one of its own
    assert compare_with_own_code(model).holds
    part = model.network.get_submodule("model.visual.blocks.0.mlp.down_proj")
    part.forward = partial(changed, 1.01, part.forward)
    assert compare_with_own_code(model).holds is False


class Stubborn(t.LlamaForCausalLM):
    def __init__(self, config: Any, *, needed: bool) -> None:  # noqa: ARG002 - transformers gives no such argument
        super().__init__(config)


def test_a_class_that_cannot_be_built_again_gives_no_verdict() -> None:
    network = randomised(Stubborn(t.LlamaConfig(**GROUPED), needed=True))
    found = compare_with_own_code(load_model(network))
    assert found.holds is None
    assert found.detail.startswith("Not looked at. transformers cannot run Stubborn alone: ")


def test_weights_of_eager_code_that_computes_something_else_say_nothing() -> None:
    """For a text alone, PaliGemma looks at later tokens by default and not in its eager code."""
    model = seeing("PaliGemma")
    found = compare_with_own_code(model, all_inputs(model, input_ids=[5, 9, 17, 8, 21]))
    assert found.holds
    assert "The weights were not compared: the class computes something else where it returns them." in found.detail


def test_layers_whose_weights_are_not_compared_are_named() -> None:
    found = compare_with_own_code(seeing("LLaVA"))
    assert found.holds
    assert "of some layers (vision attention) the class returns none of the same form" in found.detail
    assert "weights of layer 1" in {*found.differences.what}
