"""Patching, against hooks on transformers' own eager code: one full pass for every number."""

from contextlib import ExitStack
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
import transformers

from core import InputError, load_model
from core.heads.effects import Patching, patch_effects
from tests.core.heads.test_effects import mixing
from tests.core.mixed_heads import before_mixing, eager_twin
from tests.core.tiny_models import GROUPED, number_words, randomised, tiny
from tests.refusals import refused

TEXT, SOURCE = "5 17 8 40 17 23", "5 17 9 41 17 22"


@pytest.fixture(scope="module")
def three_layers():
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED | {"num_hidden_layers": 3}))
    return load_model(randomised(network), tokenizer=number_words())


def ids(text):
    return torch.tensor([[int(word) for word in text.split()]])


def passed(network, text, layers, put=()):
    """(answer, what the heads of each layer returned [layers, queries, heads, d_v]); put: {(layer, head): output}."""
    outputs = [None] * len(layers)

    def see(layer, each):
        outputs[layer] = each[0].clone()
        for (at, head), output in dict(put).items():
            if at == layer:
                each[:, :, head] = output

    with ExitStack() as stack, torch.inference_mode():
        for layer, module in enumerate(layers):
            stack.enter_context(before_mixing(module, partial(see, layer)))
        returned = network(**({"input_ids": ids(text)} if isinstance(text, str) else text))
    is_vector = not hasattr(returned, "logits")
    answer = returned.last_hidden_state[0].mean(dim=0) if is_vector else returned.logits[0, -1]
    return answer.double(), outputs


def share(found, plain, source):
    """How much of the logit difference has moved."""
    a, b = int(plain.argmax()), int(source.argmax())
    assert a != b
    differences = [float(logits[a] - logits[b]) for logits in (found, plain, source)]
    return (differences[0] - differences[1]) / (differences[2] - differences[1])


def test_every_head_in_turn_and_several_together(three_layers):
    network = eager_twin(three_layers.network)
    layers = mixing("Llama", network, "self")
    plain, _ = passed(network, TEXT, layers)
    source, theirs = passed(network, SOURCE, layers)
    table = patch_effects(three_layers, TEXT, SOURCE)
    assert list(table.columns) == ["layer", "head", "moved"]
    for layer, head, moved in table.itertuples(index=False):
        found, _ = passed(network, TEXT, layers, {(layer, head): theirs[layer][:, head]})
        assert moved == pytest.approx(share(found, plain, source), rel=1e-3, abs=1e-4)
    assert table["moved"].abs().max() > 0.05
    chosen = [(0, 1), (2, 3), (2, 0)]
    found, _ = passed(network, TEXT, layers, {(layer, head): theirs[layer][:, head] for layer, head in chosen})
    patching = Patching(three_layers, TEXT, SOURCE)
    assert patching.moved([chosen])[0] == pytest.approx(share(found, plain, source), rel=1e-3, abs=1e-4)
    assert patching.answers == (int(plain.argmax()), int(source.argmax()))
    np.testing.assert_allclose(patching.probabilities[0], plain.softmax(dim=-1)[list(patching.answers)], rtol=1e-4)
    np.testing.assert_allclose(patching.probabilities[1], source.softmax(dim=-1)[list(patching.answers)], rtol=1e-4)


def test_only_through_one_later_head(three_layers):
    network = eager_twin(three_layers.network)
    layers = mixing("Llama", network, "self")
    plain, ours = passed(network, TEXT, layers)
    source, theirs = passed(network, SOURCE, layers)
    receiver = (2, 1)
    table = patch_effects(three_layers, TEXT, SOURCE, through=receiver).set_index(["layer", "head"])["moved"]
    assert table.loc[2].isna().all()
    assert table.loc[[0, 1]].notna().all()
    for layer, head in [(layer, head) for layer in (0, 1) for head in range(4)]:
        held = {(later, other): ours[later][:, other] for later in range(layer + 1, 3) for other in range(4)}
        _, arrived = passed(network, TEXT, layers, held | {(layer, head): theirs[layer][:, head]})
        found, _ = passed(network, TEXT, layers, {receiver: arrived[2][:, receiver[1]]})
        assert table.loc[layer, head] == pytest.approx(share(found, plain, source), rel=1e-3, abs=1e-5)
    whole = patch_effects(three_layers, TEXT, SOURCE).set_index(["layer", "head"])["moved"]
    assert np.abs(table.loc[0] - whole.loc[0]).max() > 1e-3
    assert table.abs().max() > 1e-3
    assert patch_effects(three_layers, TEXT, SOURCE, through=(0, 0))["moved"].isna().all()


def test_a_sentence_vector_moves_along_the_line():
    model = load_model(tiny("BERT"), tokenizer=number_words())
    network = eager_twin(model.network)
    layers = mixing("BERT", network, "self")
    plain, _ = passed(network, TEXT, layers)
    source, theirs = passed(network, SOURCE, layers)
    line = source - plain
    table = patch_effects(model, TEXT, SOURCE)
    for layer, head, moved in table.itertuples(index=False):
        found, _ = passed(network, TEXT, layers, {(layer, head): theirs[layer][:, head]})
        assert moved == pytest.approx(float((found - plain) @ line / (line @ line)), rel=1e-3, abs=1e-5)
    assert Patching(model, TEXT, SOURCE).answers is None


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_heads_of_every_kind(kind):
    model = load_model(tiny("T5"), tokenizer=number_words())
    network = eager_twin(model.network)
    layers = mixing("T5", network, kind)
    written = torch.tensor([[0, 9, 30]])
    both = [{"input_ids": ids(text), "decoder_input_ids": written} for text in (TEXT, SOURCE)]
    plain, _ = passed(network, both[0], layers)
    source, theirs = passed(network, both[1], layers)
    answers = (11, 12)
    table = patch_effects(model, TEXT, SOURCE, target="9 30", kind=kind, answers=answers)
    for layer, head, moved in table.itertuples(index=False):
        found, _ = passed(network, both[0], layers, {(layer, head): theirs[layer][:, head]})
        at, start, end = (float(logits[11] - logits[12]) for logits in (found, plain, source))
        assert moved == pytest.approx((at - start) / (end - start), rel=1e-3, abs=1e-3)


def test_france_and_italy(smollm):
    patching = Patching(smollm, "The capital of France is", "The capital of Italy is")
    names = smollm.tokenizer.convert_ids_to_tokens(patching.answers)
    assert [name.strip("Ġ") for name in names] == ["Paris", "Rome"]
    moved = np.full((30, 9), -np.inf)
    for layer, shares in islice(patching.of_heads(), 10):  # the last layers, which are the quickest
        moved[layer] = shares
    assert np.isfinite(moved[20:]).all()
    assert np.unravel_index(moved.argmax(), moved.shape) == (23, 4)
    assert moved[23, 4] == pytest.approx(0.958, abs=0.01)
    # Patched all together, nothing of the text is left but its last token, and that is the same in both.
    assert patching.moved([[*np.ndindex(30, 9)]])[0] == pytest.approx(1, abs=1e-3)


def test_what_cannot_be_compared(smollm, three_layers):
    with refused("source", r"has 5, the other one 8\. The other text is longer") as raised:
        patch_effects(smollm, "The capital of France is", "The capital of Liechtenstein is")
    assert "“ France”" in str(raised.value)
    with refused("source", "same answer") as raised:
        patch_effects(three_layers, TEXT, TEXT)
    with pytest.raises(InputError, match="same answer"):
        patch_effects(three_layers, TEXT, TEXT, answers=(3, 4))
    with pytest.raises(InputError, match="There is no token 64"):
        patch_effects(three_layers, TEXT, SOURCE, answers=(3, 64))
    for place, field in (((3, 0), "layer"), ((-1, 0), "layer"), ((0, 4), "head"), ((0, -1), "head")):
        with refused(field, "they run from 0 to"):
            patch_effects(three_layers, TEXT, SOURCE, through=place)
