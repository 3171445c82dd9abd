"""What is counted beforehand against what a capture keeps, what torch allocates and the operations that torch counts."""

from itertools import product

import numpy as np
import pytest
import torch
import transformers
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from bench.small_networks import small_network
from bench.small_pictures import picture_and_text
from core import capture, load_model
from core.capturing.costs import component_bytes, image_bytes, kept_bytes, operations, passing_bytes
from core.models.inputs import all_inputs, image_text_inputs, run
from tests.core.passes import tiny_model
from tests.core.tiny_models import TINY, tiny
from tests.core.tiny_seeing import PLACES, SEEING, seeing

TEXT_MODELS = [*sorted(set(TINY) - {"ViT"}), "DiffLlama"]


def some_ids(model, tokens):
    return np.random.default_rng(0).integers(3, model.network.config.get_text_config().vocab_size, size=tokens)


def really_kept(taken):
    """The bytes behind all tensors of a capture, memory that several of them share counted once."""
    calls = [call for of_kind in taken.calls.values() for call in of_kind]
    of_calls = [(call.query, call.key, call.value, call.output, call.mask, call.bias) for call in calls]
    tensors = [leaf for leaf in tree_leaves((taken.begun.returned, of_calls)) if isinstance(leaf, torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def allocated(action):
    """Bytes allocated after each step of what runs, as torch's allocator reports them; the last are those that it keeps."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = action()
    sizes = [event.nbytes() for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    del kept
    return np.cumsum(sizes)


@pytest.mark.parametrize(
    ("name", "tokens", "off"),
    [*product(("minilm", "smollm"), (5, 100), (0.0,)), *product(TEXT_MODELS, (3, 40), (0.01,))],
)
def test_every_architecture_keeps_what_was_counted(name, tokens, off, request):
    model = tiny_model(name) if name in TEXT_MODELS else request.getfixturevalue(name)
    target = {"target": [7] * 8} if model.is_encoder_decoder else {}
    kept = really_kept(capture(model, input_ids=some_ids(model, tokens), **target))
    assert kept_bytes(model, tokens, target_tokens=9 if target else 1) == pytest.approx(kept, rel=off)


@pytest.mark.parametrize("name", SEEING)
def test_an_image_keeps_what_was_counted(name):
    model = seeing(name)
    image = np.random.default_rng(0).integers(0, 256, (60, 100, 3), dtype=np.uint8)
    inputs, _ = image_text_inputs(model, PLACES[name], image)
    kept, passing = image_bytes(model, inputs)
    taken = capture(model, PLACES[name], image=image)
    assert kept == really_kept(taken)
    assert 0.5 < allocated(lambda: capture(model, PLACES[name], image=image)).max() / (kept + passing) < 1.5


def test_layers_with_sizes_of_their_own_keep_no_more_than_was_counted():
    model = load_model(small_network("Gemma4ForCausalLM"))
    kept = really_kept(capture(model, input_ids=some_ids(model, 20)))
    assert kept <= kept_bytes(model, 20) < 3 * kept
    assert min(operations(model, 20)) > 0


@pytest.mark.thorough
def test_a_picture_is_counted_where_no_configuration_tells_of_its_tower():
    network = small_network("ChameleonForConditionalGeneration")
    inputs = picture_and_text(network)
    assert min(image_bytes(load_model(network), inputs)) >= inputs["pixel_values"].nbytes


def test_half_precision_keeps_half_and_heads_may_be_wider_than_their_share_of_the_model():
    half, config = load_model(tiny("Llama").to(torch.bfloat16)), TINY["Llama"]().config
    assert kept_bytes(half, 40) == kept_bytes(tiny_model("Llama"), 40) // 2
    config.head_dim = 24
    for model in (half, load_model(transformers.LlamaForCausalLM(config).eval())):
        assert kept_bytes(model, 40) == really_kept(capture(model, input_ids=some_ids(model, 40)))


@pytest.mark.parametrize("name", ["BERT", "Llama", "OPT", "Gemma 3", "gpt-oss", "T5", "BART"])
def test_components_keep_what_was_counted(name):
    """All that torch has allocated for the pass and not freed: nothing else stays, such as hidden layers of MLPs."""
    model = tiny_model(name)
    target = {"target": [7] * 29} if model.is_encoder_decoder else {}
    given = {"input_ids": some_ids(model, 60), "components": True} | target
    taken = capture(model, **given)
    kept = allocated(lambda: capture(model, **given))[-1]
    written = 30 if target else 1
    estimated = sum(count(model, 60, target_tokens=written) for count in (kept_bytes, component_bytes))
    assert estimated == pytest.approx(kept, rel=0.1)  # tables of rotation and masks, too
    of_calls = sum(call.nbytes for calls in taken.calls.values() for call in calls)
    assert taken.nbytes == of_calls + taken.components.nbytes


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "tokens"), [("minilm", 400), ("smollm", 150), ("Gemma 2", 60)])
def test_the_peak_is_about_what_was_counted(name, tokens, smollm, request):
    """The soft caps of Gemma 2 need the scores of all heads."""
    # Of the next token alone there are scores: as the network gives them, and as the capture keeps them.
    assert 2 * 49152 * 4 < passing_bytes(smollm, 1) < 2 * 49152 * 4 + 30_000
    model = tiny_model(name) if name in TINY else request.getfixturevalue(name)
    ids = some_ids(model, tokens)
    capture(model, input_ids=ids)
    above = allocated(lambda: capture(model, input_ids=ids)).max() - kept_bytes(model, tokens)
    assert 0.9 * above < passing_bytes(model, tokens) < 1.6 * above


def counted(model, tokens):
    """The operations with parameters, as torch counts them; the decoder of an encoder-decoder reads one token."""
    with FlopCounterMode(display=False) as counter:
        run(model, all_inputs(model, input_ids=some_ids(model, tokens)))
    by_name = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    return sum(count for name, count in by_name.items() if "attention" not in name and "bmm" not in name)


@pytest.mark.parametrize(
    ("name", "off"), [("minilm", 0.02), ("smollm", 0.02), *((name, 0.05) for name in ("GPT-2", "Llama", "BART", "T5"))]
)
def test_operations_with_parameters_are_those_that_torch_counts(name, off, request):
    """Torch counts matrix products; biases, norms and MiniLM's pooler (one position) are the difference."""
    model = tiny_model(name) if name in TINY else request.getfixturevalue(name)
    assert operations(model, 40)[0] == pytest.approx(counted(model, 40), rel=off)


def test_operations_between_tokens_are_those_of_the_formula(minilm, smollm):
    """4 × layers × heads × d_head × pairs: all pairs in both directions, half of them and the diagonal in one."""
    assert operations(minilm, 100)[1] == 4 * 6 * 12 * 32 * 100 * 100
    assert operations(minilm, 200)[0] == 2 * operations(minilm, 100)[0]
    assert operations(smollm, 100)[1] == 4 * 30 * 9 * 64 * (100 * 101 // 2)
    windowed = tiny_model("Mistral")
    assert operations(windowed, 4)[1] == 4 * 2 * 4 * 8 * (4 * 5 // 2)
    assert operations(windowed, 40)[1] == 4 * 2 * 4 * 8 * 40 * 40  # with a mask, torch goes through all pairs
    both = tiny_model("BART")
    assert operations(both, 40, target_tokens=7)[1] == 4 * 4 * 8 * 2 * (40 * 40 + 7 * 8 // 2 + 7 * 40)
