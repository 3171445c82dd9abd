"""What `generate` returns step by step, against the weights of one pass over the whole text."""

from typing import Any

import numpy as np
import pytest
import torch

from core.attention.arrays import attention_arrays
from core.notebook.view import view
from tests.core.attention.test_matrix_files import npz
from tests.core.tiny_models import tiny
from tests.refusals import refused

IDS = torch.tensor([[3, 14, 15, 9, 26]])
WRITTEN = 6


def written(name: str, **options: Any):
    """(the network, what it returns for the tokens that it writes)."""
    network = tiny(name)
    network.set_attn_implementation("eager")
    asked = {"max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN, "do_sample": False, "return_dict_in_generate": True}
    return network, network.generate(IDS, output_attentions=True, pad_token_id=0, **asked | options)  # type: ignore[operator]


def agree(given, expected, **how: Any) -> None:
    """Both are the weights of all layers, and those of one pass are a tuple of tensors."""
    arrays = attention_arrays(given, **how)
    assert arrays.layers() == len(expected)
    for layer, whole in enumerate(expected):
        for head in range(arrays.heads()):
            np.testing.assert_allclose(arrays.weights(layer, head), whole[0, head].detach(), rtol=0, atol=1e-6)


def as_file(steps: tuple, **others: np.ndarray) -> bytes:
    """As docs/arrays.md says."""
    numbered = {
        f"attentions.{step}.{layer}": weights.numpy()
        for step, layers in enumerate(steps)
        for layer, weights in enumerate(layers)
        if weights is not None
    }
    return npz(compress=False, **numbered, **others)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Mistral"])  # Mistral keeps the last keys of its window alone
def test_the_steps_of_a_decoder(name: str) -> None:
    network, returned = written(name)
    read = returned.sequences[:, :-1]  # the last token was not read
    whole = network(read, output_attentions=True).attentions
    agree(returned.attentions, whole)
    agree(as_file(returned.attentions), whole)
    tokens = [str(number) for number in returned.sequences[0].tolist()]
    assert attention_arrays(returned.attentions, tokens).query_tokens == tuple(tokens[:-1])
    assert attention_arrays(returned.attentions, tokens[:-1]).key_tokens == tuple(tokens[:-1])


@pytest.mark.parametrize("stop", [None, 0, 1])
@pytest.mark.parametrize("name", ["Llama", "T5"])
def test_the_steps_of_one_beam(name: str, stop: int | None) -> None:
    """Each token of the text that is returned was read at another place among the beams."""
    options = {
        "num_beams": 4,
        "num_return_sequences": 4,
        "early_stopping": True,
        "min_new_tokens": 1,
        "eos_token_id": stop,
    }
    network, returned = written(name, **options)
    places = {tuple(row.tolist()) for row in returned.beam_indices}
    assert any(len({*row}) > 1 for row in places)
    for text, beams in zip(returned.sequences, returned.beam_indices, strict=True):
        given = returned.decoder_attentions if name == "T5" else returned.attentions
        count = int((beams >= 0).sum()) + (0 if name == "T5" else IDS.shape[1]) - 1
        read = {"decoder_input_ids": text[None, : count + 1]} if name == "T5" else {}
        ids = IDS if name == "T5" else text[None, :count]
        whole = network(ids, **read, output_attentions=True)
        expected = whole.decoder_attentions if name == "T5" else whole.attentions
        agree(given, expected, beams=beams)
        agree(as_file(given, beams=beams.numpy()), expected)


@pytest.mark.parametrize("beams", [[0, 4], [[0, 0]], [-1], [0.0], [0] * 9, []])
def test_beams_that_these_steps_do_not_have(beams: list) -> None:
    steps = [(square(4, 2, 3, 3),), (square(4, 2, 1, 4),)]
    with refused("beams", "one row of beam_indices: for each of 2 steps at most, a place from 0 to 3"):
        attention_arrays(steps, beams=beams)


def test_the_steps_of_an_encoder_decoder() -> None:
    network, returned = written("T5")
    whole = network(IDS, decoder_input_ids=returned.sequences[:, :-1], output_attentions=True)
    agree(returned.decoder_attentions, whole.decoder_attentions)
    agree(returned.cross_attentions, whole.cross_attentions)


def test_a_layer_without_weights_is_left_out_and_said() -> None:
    _, returned = written("GPT-2")
    steps = tuple((step[0], None, step[1]) for step in returned.attentions)
    for given in (steps, as_file(steps)):
        arrays = attention_arrays(given)
        assert (arrays.layers(), arrays.left_out) == (2, (1,))
    assert "Layers without weights are left out, and not counted here. In the model they are 1." in view(steps).notes


def test_a_sliding_window_over_a_long_text_is_refused_before_it_takes_the_memory() -> None:
    step = (square(1, 4, 1, 1),)
    with refused("attentions", "20,001 queries × 20,001 keys of every head are too many to join. Give fewer steps"):
        attention_arrays(((square(1, 4, 2, 2),), *[step] * 19_999))
    with refused("attentions", "801 queries × 801 keys of every head are too many"):  # of a file far fewer are read
        attention_arrays(as_file(((square(1, 4, 2, 2),), *[step] * 799)), max_bytes=2**20)


def square(*shape: int) -> torch.Tensor:
    return torch.full(shape, 1 / shape[-1])


@pytest.mark.parametrize(
    ("steps", "says"),
    {
        "beams": (((square(2, 4, 3, 3),), (square(2, 4, 1, 4),)), "2 texts or beams.*num_beams=1"),
        "layers": (((square(1, 4, 3, 3),), (square(1, 4, 1, 4),) * 2), "different numbers of layers"),
        "heads": (((square(1, 4, 3, 3),), (square(1, 2, 1, 4),)), "Layer 0 of step 1 has the shape"),
        "two queries": (((square(1, 4, 3, 3),), (square(1, 4, 2, 5),)), "with one query from step 1 on"),
        "too many keys": (((square(1, 4, 3, 3),), (square(1, 4, 1, 9),)), "9 keys, where 4 tokens were there"),
        "fewer keys of a source": (((square(1, 4, 1, 3),), (square(1, 4, 1, 2),)), "2 keys, where 3 tokens were there"),
        "a step without weights": (((square(1, 4, 3, 3),), (None,)), "Layer 0 of step 1 has the shape"),
        "no steps of arrays": (((0.25, 0.75), (1.0, 0.0)), "Layer 0 of step 0 has the shape"),
    }.values(),
)
def test_steps_that_cannot_be_joined(steps: tuple, says: str) -> None:
    with refused("attentions", says):
        attention_arrays(steps)
