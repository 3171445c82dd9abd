"""Certificates in half precision, and the stages of heads whose model rounds: the real models, and tiny ones of every kind."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as t

from core import attend, capture, load_model
from core.attention.head import Head
from core.capturing.capture import Capture
from core.capturing.certifying import Certificate, Origin, certify
from core.units import small_number
from tests.conftest import TEXTS
from tests.core.passes import every_head, given_to
from tests.core.tiny_models import GROUPED, TINY, eager, number_words, randomised, tiny


def rounding(taken: Capture, factor: float = 1.0) -> np.ndarray:
    """Of every head of six layers, with all scales multiplied by the factor."""
    calls = [call.reshaped(scale=call.scale * factor) for call in [*taken.each_layer()][:: max(1, taken.layers() // 6)]]
    changed = replace(taken, calls={taken.kinds[0]: tuple(calls)})
    heads = range(taken.heads())
    return np.array([[changed.certificate(layer, head).rounding for head in heads] for layer in range(len(calls))])


@pytest.fixture(scope="module")
def in_half(half) -> dict[str, Capture]:
    return {name: capture(model, TEXTS[1]) for name, model in half.items()}


@pytest.mark.thorough
def test_half_precision_is_certified_and_a_wrong_scale_is_not(in_half: dict[str, Capture]) -> None:
    """One percent shows in all heads but the few that hardly depend on their scores."""
    for taken in in_half.values():
        right, wrong = rounding(taken), rounding(taken, 1.01)
        allowed = taken.certificate(0, 0).allowed
        assert right.max() <= 1.01 < allowed < 20
        assert np.mean(wrong > allowed) > 0.95
        assert np.median(wrong) > 3 * allowed
        assert rounding(taken, 1.05).min() > allowed


def test_float16_tells_one_percent_from_rounding_in_every_head() -> None:
    taken = capture(load_model("all-MiniLM-L6-v2", dtype="float16"), TEXTS[1])
    assert all(taken.certificate(layer, head).holds for layer in range(6) for head in range(12))
    assert rounding(taken, 1.01).min() > taken.certificate(0, 0).allowed


@pytest.mark.parametrize(
    ("dtype", "names"), [("bfloat16", [*TINY]), ("float16", ["Llama", "T5", "Gemma 2", "gpt-oss"])]
)
def test_every_architecture_is_certified_in_half_precision(dtype: str, names: list[str]) -> None:
    """Soft caps (Gemma 2) and sinks (gpt-oss) too, which their code computes in half precision throughout."""
    for name in names:
        model = load_model(tiny(name).to(getattr(torch, dtype)), tokenizer=number_words())
        taken = capture(model, **given_to(model))
        for at in every_head(taken):
            assert taken.certificate(*at).holds, (name, at)


def certified(dtype: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Certificate:
    """Of a head [tokens, size] whose model computes its output with torch's own functions, step by step in its dtype."""
    weights = (query @ key.T).softmax(dim=-1)
    head = Head.of(attend(*(part.float().numpy() for part in (query, key, value)), scale=1.0))
    return certify(head, (weights @ value).float().numpy(), Origin("a model", "", dtype, "self", 0, 0), "none")


def test_a_score_whose_products_cancel_each_other_is_as_inexact_as_they_are() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(64, 256) * size for size in (3, 3, 1))
    nearly = torch.cat([key, key + 3e-3 * torch.randn(64, 256)], dim=1)
    assert certified("float32", torch.cat([-query, query], dim=1), nearly, value).holds


def test_a_weight_that_is_nearly_zero_is_as_inexact_as_the_least_number() -> None:
    query, key, value = ([[1.0]], [[12.5], [0.0]], [[1e-4], [10.0]])
    assert certified("float16", *(torch.tensor(numbers).half() for numbers in (query, key, value))).holds


@pytest.mark.thorough
def test_stages_are_those_that_torch_computes_in_bfloat16(in_half: dict[str, Capture]) -> None:
    """From the very queries, keys and values, which are bfloat16: torch's eager attention rounds after every step, to within
    what that can do; in float64 it gives the same but for the rounding of float32."""
    for taken in in_half.values():
        call = taken.layer_call(3)
        assert call.query.dtype == call.output.dtype == torch.bfloat16
        trace, group = taken.trace(3, 5), call.query.shape[1] // call.key.shape[1]
        assert trace.weights.dtype == np.float32
        query, key, value = call.query[0, 5], call.key[0, 5 // group], call.value[0, 5 // group]
        mask = torch.from_numpy(trace.mask.copy())
        for dtype, rounded in ((torch.bfloat16, torch.bfloat16), (torch.float64, torch.float32)):
            epsilon = torch.finfo(rounded).eps
            q, k, v = (part.to(dtype) for part in (query, key, value))
            raw = q @ k.T
            scaled = raw * call.scale
            weights = scaled.masked_fill(~mask, -torch.inf).softmax(dim=-1)
            products = query.abs().double() @ key.abs().double().T  # what the sum in a score may lose
            lost = 2 * epsilon * products.numpy()
            assert (np.abs(trace.raw - raw.double().numpy()) <= lost).all()
            assert (np.abs(trace.scaled - scaled.double().numpy()) <= 2 * lost * call.scale).all()
            moved = 4 * call.scale * lost.max() + epsilon
            np.testing.assert_allclose(trace.weights, weights.double(), rtol=moved, atol=1e-6)
            off = np.abs(trace.output - (weights @ v).double().numpy())
            assert (off <= (moved + 2 * epsilon) * (trace.weights @ np.abs(trace.value)) + 1e-6).all()


class Added(t.LlamaForCausalLM):
    """Adds a number to the scores of later tokens, as old code does, instead of forbidding them."""

    number = -1e4

    def forward(self, input_ids=None, **options):
        mask = torch.full((input_ids.shape[1],) * 2, self.number).triu(1)[None, None]
        return super().forward(input_ids, attention_mask=mask.to(self.dtype), **options)


@pytest.mark.parametrize(("number", "words"), [(-1e4, "−10,000"), (-1e5, "−100,000"), (-1e9, "−1.0×10⁹")])
@pytest.mark.parametrize("times", [1, 1e5])
def test_a_number_that_is_added_in_the_place_of_a_mask_is_said_with_what_goes_there(number, words, times) -> None:
    network = randomised(Added(t.LlamaConfig(**GROUPED)))
    network.number = number
    network.model.layers[1].self_attn.q_proj.weight.data *= times
    taken = capture(load_model(network), input_ids=np.arange(3, 20))
    later = eager(network, input_ids=torch.arange(3, 20)[None]).attentions[1][0].triu(1)
    expected = later.sum(dim=-1).amax(dim=-1)
    for head in range(4):
        certificate = taken.certificate(1, head)
        assert certificate.holds
        before, _, went = certificate.mask.partition(": ")
        assert before == f"none, but {words} is added to later tokens"
        share = float(expected[head])
        most = f"at most {small_number(share)}" if share > 1e-6 else "less than 10⁻⁶" if share else "nothing"
        assert went == f"{most} of a row goes there"
    assert (float(expected.max()) > 0.1) == (times > 1 and number > -1e6)
    # However low the scores of later tokens are, a row that is wrong by one percent is seen.
    call = taken.layer_call(0)
    off = torch.where(torch.arange(17)[:, None, None] == 3, call.output * 1.01, call.output)
    assert not replace(taken, calls={"self": (replace(call, output=off),)}).certificate(0, 0).holds
