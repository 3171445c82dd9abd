"""One query, and one pair, in every head: against the weights that transformers' own eager code gives."""

import numpy as np
import pytest
import torch

from core import attention_weights, capture, load_model
from core.heads.metrics import one_query, pair_weights
from core.models.inputs import all_inputs
from tests.core.passes import eager_layers, tiny_model, tiny_pass
from tests.core.tiny_models import WEIGHTS_ONLY, eager, randomised
from tests.refusals import refused

IDS = [5, 17, 8, 40, 17, 23, 9, 31]
WRITTEN = [9, 30]


@pytest.mark.parametrize(
    ("name", "kind"), [("GPT-2", "self"), ("Gemma 2", "self"), ("gpt-oss", "self"), ("BERT", "self"), ("T5", "cross")]
)
def test_every_pair_in_every_head(name, kind):
    """Gemma 2 and gpt-oss mask what is far away in one layer only, and gpt-oss has sinks."""
    model = tiny_model(name)
    given = {"input_ids": IDS} | ({"target": WRITTEN} if name == "T5" else {})
    taken = capture(model, **given)
    attentions = eager_layers(eager(model.network, **all_inputs(model, **given)), kind)
    expected = torch.cat(attentions).numpy()  # [layers, heads, queries, keys]
    masked = np.array([[~taken.trace(layer, head, kind).mask for head in range(4)] for layer in range(2)])
    for query, key in np.ndindex(taken.shape(kind)):
        here = (slice(None), slice(None), query, key)
        found = pair_weights(taken, query, key, kind)
        np.testing.assert_array_equal(np.isnan(found), masked[here])
        np.testing.assert_allclose(found, np.where(masked[here], np.nan, expected[here]), atol=1e-5)
        if key == 0:
            np.testing.assert_allclose(one_query(taken, query, kind), expected[:, :, query], atol=1e-5)
    assert masked.any() == (name not in ("BERT", "T5"))


def test_of_weights_alone_nobody_knows_what_is_masked():
    taken = attention_weights(load_model(randomised(WEIGHTS_ONLY["GPT-J"]())), input_ids=IDS)
    for query, key in ((6, 2), (2, 6), (0, 0), (7, 7)):
        expected = [[taken.weights(layer, head)[query, key] for head in range(4)] for layer in range(2)]
        np.testing.assert_array_equal(pair_weights(taken, query, key), expected)
    assert not pair_weights(taken, 2, 6).any()


def test_the_heads_that_look_from_it_to_animal(minilm):
    """The opening sentence: 3.1, and nearly as hard 5.11, with which the page opens."""
    found = pair_weights(capture(minilm, "The animal didn't cross the street because it was too tired."), 10, 2)
    assert np.unravel_index(found.argmax(), found.shape) == (3, 1)
    assert (found[3, 1], found[5, 11]) == (pytest.approx(0.677, abs=0.001), pytest.approx(0.673, abs=0.001))


@pytest.mark.parametrize(("query", "key", "field"), [(8, 0, "query"), (-1, 0, "query"), (0, 8, "key"), (0, -1, "key")])
def test_a_token_that_is_not_there(query, key, field):
    gptj = load_model(randomised(WEIGHTS_ONLY["GPT-J"]()))
    for taken in (tiny_pass("Llama", input_ids=IDS), attention_weights(gptj, input_ids=IDS)):
        with refused(field):
            pair_weights(taken, query, key)
