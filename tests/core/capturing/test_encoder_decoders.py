"""Encoder-decoders beyond those of docs/architectures.md: what docs/encoder-decoders.md promises of them."""

import numpy as np
import pytest
import torch

from core import capture, generate, load_model
from tests.core.passes import eager_layers, every_head
from tests.core.tiny_models import MORE_READERS_AND_WRITERS, eager, number_words, randomised

READ, WRITTEN = [5, 17, 8, 5, 17, 8, 9, 41], [9, 31, 9]


@pytest.mark.parametrize("name", MORE_READERS_AND_WRITERS)
def test_weights_are_those_of_its_own_eager_code_and_it_writes(name):
    network = randomised(MORE_READERS_AND_WRITERS[name]())
    model = load_model(network, tokenizer=number_words())
    taken = capture(model, input_ids=READ, target=WRITTEN)
    expected = eager(network, input_ids=torch.tensor([READ]), decoder_input_ids=torch.tensor([taken.target_ids]))
    assert taken.kinds == (("decoder", "cross") if name == "LongT5" else ("encoder", "decoder", "cross"))
    for layer, head, kind in every_head(taken):
        weights = eager_layers(expected, kind)[layer][0, head].numpy()
        np.testing.assert_allclose(taken.trace(layer, head, kind).weights, weights, atol=1e-5)
    with torch.inference_mode():
        alone = network.generate(torch.tensor([READ]), do_sample=False, num_beams=1, max_new_tokens=3)
    assert generate(model, input_ids=READ, new_tokens=3).token_ids == tuple(alone[0, 1:].tolist())
