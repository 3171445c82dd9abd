"""What muting, blocking and patching do, against transformers' own eager code with hooks and masks on a copy of the network."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
import transformers

from core import InputError, capture, cosine_attribution, direct_contributions, head_effects, load_model
from core.capturing.branching import Branches
from core.heads.effects import Effects, Patching, patch_effects, rank_correlation
from core.models.inputs import all_inputs
from core.models.modules import kind_of
from tests.core.naive_attention import before_mixing
from tests.core.passes import tiny_model
from tests.core.tiny_models import GROUPED, number_words, randomised, tiny, twin_of
from tests.refusals import refused

IDS = [5, 17, 8, 40, 17, 23]
WRITTEN = [0, 9, 30]  # what the decoder of T5 has written
# The modules that mix the heads, whose inputs are the outputs of all heads side by side.
MIXING = {
    "GPT-2": "attn.c_proj",
    "Llama": "self_attn.o_proj",
    "Gemma 2": "self_attn.o_proj",
    "gpt-oss": "self_attn.o_proj",
    "BERT": "attention.output.dense",
    "T5": "Attention.o",
}
CASES = [(name, "self") for name in MIXING if name != "T5"] + [("T5", kind) for kind in ("encoder", "decoder", "cross")]


def asked_of(name, kind=None, token=None):
    """A tiny model, its twin in eager code, what both read, and what is asked of its heads."""
    model = tiny_model(name)
    inputs = all_inputs(model, input_ids=IDS, **({"target": WRITTEN[1:]} if name == "T5" else {}))
    return model, twin_of(model.network), inputs, Effects(model, inputs, token, kind)


def answer(network, **inputs):
    """Log probabilities of the next token, or the sentence vector, in float64."""
    with torch.inference_mode():
        returned = network(**inputs)
    if hasattr(returned, "logits"):
        return returned.logits[0, -1].double().log_softmax(dim=-1)
    return returned.last_hidden_state[0].double().mean(dim=0)


def mixing(name, network, kind):
    found = [part for part in network.named_modules() if part[0].endswith(MIXING[name])]
    return [module for path, module in found if kind_of(path, name == "T5") == kind]


def effect(plain, changed, token):
    if token is None:
        return 1 - float(torch.cosine_similarity(plain, changed, dim=0))
    return float(changed[token] - plain[token])


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_muting_as_hooks_on_eager_code_do_it(name, kind):
    _, network, inputs, asked = asked_of(name, kind)
    plain = answer(network, **inputs)
    token = None if name == "BERT" else int(plain.argmax())
    assert asked.token == token
    heads, layers = dict(asked.of_heads()), dict(asked.of_layers())
    assert list(heads) == list(layers) == [1, 0]
    for layer, module in enumerate(mixing(name, network, kind)):
        expected = []
        for muted in (*(slice(head, head + 1) for head in range(4)), slice(4)):
            with before_mixing(module, lambda each, muted=muted: each[:, :, muted].zero_()):
                expected.append(effect(plain, answer(network, **inputs), token))
        np.testing.assert_allclose([*heads[layer], layers[layer]], expected, rtol=1e-4, atol=2e-5)
        assert np.abs(expected).max() > 1e-3


def test_direct_contributions_to_the_cosine(minilm):
    passed = capture(minilm, "The capital of France is", components=True)
    found = direct_contributions(passed)
    assert found.shape == (72, 3)
    heads = cosine_attribution(passed, passed).query("role == 'head'")
    np.testing.assert_array_equal(found["contribution"], heads["contribution"])
    with pytest.raises(InputError, match="has no cross attention"):
        direct_contributions(passed, kind="cross")
    written = tuple(one for one in passed.components.written if (one.role, one.number) != ("mlp", 5))
    without_one = replace(passed.components, written=written)
    with pytest.raises(InputError, match="does not add up"):
        direct_contributions(replace(passed, components=without_one))


def test_rank_correlation():
    assert rank_correlation([1, 2, 3, 4], [1, 4, 9, 16]) == 1
    assert rank_correlation([[1, 2], [3, np.nan]], [[1, 3], [2, 0]]) == pytest.approx(0.5)
    assert np.isnan(rank_correlation([0, 0, 0], [1, 2, 3]))


def additive(allowed):
    """[1, 1, queries, keys], as transformers takes a mask."""
    return torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)[None, None]


def blocked_masks(name, key):
    """The masks of a pass, as 4D masks that transformers takes, in which no query may attend to one key."""
    size = len(IDS)
    places = torch.arange(size)
    blocked = (places == key)[None]
    allowed = torch.ones(size, size, dtype=torch.bool) if name in ("BERT", "T5") else places[:, None] >= places
    full = additive(allowed & ~blocked)
    if name in ("Gemma 2", "gpt-oss"):
        near = places[:, None] - places < 4
        return {"full_attention": full, "sliding_attention": additive(allowed & ~blocked & near)}
    return full


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2", "gpt-oss", "BERT"])
def test_blocking_a_token_as_masks_on_eager_code_do_it(name):
    _, network, inputs, asked = asked_of(name)
    plain = answer(network, **inputs)
    found = dict(asked.of_keys())
    expected = [
        effect(plain, answer(network, **inputs, attention_mask=blocked_masks(name, key)), asked.token)
        for key in range(len(IDS))
    ]
    assert list(found) == list(range(len(IDS)))
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-4, atol=2e-5)
    assert np.abs(expected).max() > 1e-2
    assert abs(found[len(IDS) - 1]) > 1e-4  # the last token is hidden from itself, too


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_blocking_in_an_encoder_and_what_looks_at_it(kind):
    _, network, inputs, asked = asked_of("T5", kind, 7)
    plain, written = answer(network, **inputs), torch.arange(len(WRITTEN))
    for key, found in asked.of_keys():
        if kind == "decoder":
            mask = additive((written[:, None] >= written) & (written != key)[None])
            changed = answer(network, **inputs, decoder_attention_mask=mask)
        else:
            with torch.inference_mode():
                read = network.encoder(inputs["input_ids"], attention_mask=blocked_masks("T5", key))
            crossing = additive((torch.arange(len(IDS)) != key).expand(len(WRITTEN), -1))
            decoder = {"decoder_input_ids": inputs["decoder_input_ids"], "attention_mask": crossing}
            changed = answer(network, encoder_outputs=read, **decoder)
        assert found == pytest.approx(effect(plain, changed, 7), rel=1e-4, abs=2e-5)


def test_a_long_text_is_done_in_many_batches(monkeypatch):
    model = tiny_model("Llama")
    whole, inputs = head_effects(model, input_ids=IDS), all_inputs(model, input_ids=IDS)
    keys = dict(Effects(model, inputs).of_keys())
    at_once, go_on = [], Branches.go_on

    def counted(branches, first, variants, edit):
        at_once.append(variants)
        return go_on(branches, first, variants, edit)

    monkeypatch.setattr(Branches, "go_on", counted)
    monkeypatch.setattr("core.capturing.branching.BATCH_TOKENS", 19)  # three passes at once
    np.testing.assert_allclose(head_effects(model, input_ids=IDS)["effect"], whole["effect"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(list(dict(Effects(model, inputs).of_keys()).values()), list(keys.values()), atol=1e-5)
    assert at_once == [3, 3, 2, 3, 3]  # eight heads, then six tokens


def slope(network, inputs, module, amount):
    """By how much the answer rises for each unit of what is added to what heads give, by central differences."""
    ends = []
    for step in (3e-3, -3e-3):
        with before_mixing(module, lambda each, step=step: amount(each, step)):
            ends.append(answer(network, **inputs))
    return (ends[0] - ends[1]) / 6e-3


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_suspects_change_the_answer_most_to_first_order(name, kind):
    model, network, inputs, asked = asked_of(name, kind)
    modules, plain, sizes = mixing(name, network, kind), answer(network, **inputs), {}
    for layer, head in np.ndindex(2, 4):
        module = modules[layer]
        if asked.token is not None:
            rises = slope(network, inputs, module, lambda each, step, head=head: each[:, :, head].mul_(1 + step))
            sizes[layer, head] = abs(float(rises[asked.token]))
            continue
        # Of a vector: how long the mean output is, times how long the gradient of its part along a direction is.
        direction = torch.randn(len(plain), generator=torch.Generator().manual_seed(0)).double()
        direction -= (direction @ plain) / (plain @ plain) * plain
        means = []
        with before_mixing(module, lambda each, means=means: means.append(each[0].mean(dim=0))):
            answer(network, **inputs)
        by_number = [
            slope(network, inputs, module, lambda each, step, at=(head, number): each[:, :, *at].add_(step)) @ direction
            for number in range(means[0].shape[-1])
        ]
        sizes[layer, head] = float(means[0][head].norm() * torch.stack(by_number).norm())
    found = asked.suspects()
    in_order = [sizes[place] for place in found]
    assert len(set(found)) == 8
    assert all(size >= 0.99 * further for size, further in pairwise(in_order)), in_order
    assert in_order[0] > 1.5 * in_order[-1]
    assert asked.suspects(3) == found[:3]
    assert all(weight.grad is None for weight in model.network.parameters())


@pytest.mark.parametrize("name", ["Llama", "BERT"])
def test_with_suspects_first_every_number_is_the_same_to_the_last_bit(name, monkeypatch):
    monkeypatch.setattr("core.capturing.branching.BATCH_TOKENS", 19)  # three heads at once
    *_, asked = asked_of(name)
    found, order = np.full((2, 4), np.nan), []
    for (layers, heads), effects in asked.suspects_first():
        order += [*zip(layers, heads, strict=True)]
        found[layers, heads] = effects()
    np.testing.assert_array_equal(found, [row for _, row in sorted(dict(asked.of_heads()).items())])
    assert asked.suspects(1)[0] in order[:3]
    assert len(order) == len(set(order)) == 8


def test_without_gradients_there_are_no_suspects():
    model = load_model(tiny("Llama").requires_grad_(False))
    asked = Effects(model, all_inputs(model, input_ids=IDS))
    assert asked.suspects() == []
    order = [place for (layers, heads), _ in asked.suspects_first() for place in zip(layers, heads, strict=True)]
    assert order == [(layer, head) for layer in (1, 0) for head in range(4)]


def test_the_head_that_knows_the_capital(smollm):
    """23.4 takes " Paris" from 0.772 to 0.141, as in test_examples.py; here beside what heads themselves write."""
    text = "The capital of France is"
    asked = Effects(smollm, all_inputs(smollm, text))
    above = dict(islice(asked.of_heads(), 10))  # the last layers, which are the quickest
    effects = np.stack([above[layer] for layer in range(20, 30)])
    layer, head = np.unravel_index(effects.argmin(), effects.shape)
    assert (layer + 20, head) == (23, 4)
    # As docs/what-if.md says.
    of_heads = direct_contributions(capture(smollm, text, components=True))
    direct = of_heads.pivot(index="layer", columns="head")["contribution"]
    muted = {(23, 4): effects[3, 4], (29, 1): effects[9, 1], (0, 4): asked.muted([[(0, 4)]])[0]}
    assert {place: (direct.loc[place], effect) for place, effect in muted.items()} == {
        (23, 4): pytest.approx((2.87, -1.70), abs=0.0051),
        (29, 1): pytest.approx((1.87, -0.03), abs=0.0051),
        (0, 4): pytest.approx((-0.05, -1.30), abs=0.0051),
    }
    assert rank_correlation(direct.to_numpy()[23:], effects[3:]) == pytest.approx(-0.43, abs=0.0051)


def test_it_tells_how_far_it_is_and_refuses_tokens_that_are_not_there():
    told = []
    head_effects(tiny_model("Llama"), input_ids=IDS, token=0, on_progress=told.append)
    assert told == [1, 2]
    for name, token in (("Llama", 64), ("Llama", -1), ("BERT", 3)):
        with refused("token"):
            head_effects(tiny_model(name), input_ids=IDS, token=token)


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

    with ExitStack() as stack:
        for layer, module in enumerate(layers):
            stack.enter_context(before_mixing(module, partial(see, layer)))
        return answer(network, **({"input_ids": ids(text)} if isinstance(text, str) else text)), outputs


@pytest.fixture(scope="module")
def both_texts(three_layers):
    """A twin in eager code, the modules that mix its heads, and what it answered and returned for each text."""
    network = twin_of(three_layers.network)
    layers = mixing("Llama", network, "self")
    return network, layers, *(passed(network, text, layers) for text in (TEXT, SOURCE))


def share(found, plain, source, answers=None):
    """How much of the logit difference of the answers has moved; log probabilities differ as logits do."""
    a, b = answers or (int(plain.argmax()), int(source.argmax()))
    assert a != b
    differences = [float(logits[a] - logits[b]) for logits in (found, plain, source)]
    return (differences[0] - differences[1]) / (differences[2] - differences[1])


@pytest.mark.parametrize(
    ("name", "kind", "answers", "atol"),
    [
        ("Llama", "self", None, 1e-4),
        ("BERT", "self", None, 1e-5),
        *(("T5", kind, (11, 12), 1e-3) for kind in ("encoder", "cross", "decoder")),
    ],
)
def test_every_head_in_turn(name, kind, answers, atol, three_layers):
    """A sentence vector moves along the line between both."""
    model = three_layers if name == "Llama" else load_model(tiny(name), tokenizer=number_words())
    network = twin_of(model.network)
    layers = mixing(name, network, kind)
    written = {"decoder_input_ids": torch.tensor([[0, 9, 30]])} if name == "T5" else {}
    text, other = ({"input_ids": ids(text)} | written for text in (TEXT, SOURCE))
    plain, _ = passed(network, text, layers)
    source, theirs = passed(network, other, layers)
    line = source - plain
    table = patch_effects(model, TEXT, SOURCE, target="9 30" if written else None, kind=kind, answers=answers)
    assert list(table.columns) == ["layer", "head", "moved"]
    for layer, head, moved in table.itertuples(index=False):
        found, _ = passed(network, text, layers, {(layer, head): theirs[layer][:, head]})
        along = float((found - plain) @ line / (line @ line))
        expected = along if name == "BERT" else share(found, plain, source, answers)
        assert moved == pytest.approx(expected, rel=1e-3, abs=atol)


def test_several_heads_together(three_layers, both_texts):
    assert Patching(load_model(tiny("BERT"), tokenizer=number_words()), TEXT, SOURCE).answers is None
    network, layers, (plain, _), (source, theirs) = both_texts
    chosen = [(0, 1), (2, 3), (2, 0)]
    found, _ = passed(network, TEXT, layers, {(layer, head): theirs[layer][:, head] for layer, head in chosen})
    patching = Patching(three_layers, TEXT, SOURCE)
    assert patching.moved([chosen])[0] == pytest.approx(share(found, plain, source), rel=1e-3, abs=1e-4)
    assert patching.answers == (int(plain.argmax()), int(source.argmax()))
    np.testing.assert_allclose(patching.probabilities[0], plain.softmax(dim=-1)[list(patching.answers)], rtol=1e-4)
    np.testing.assert_allclose(patching.probabilities[1], source.softmax(dim=-1)[list(patching.answers)], rtol=1e-4)


def test_only_through_one_later_head(three_layers, both_texts):
    network, layers, (plain, ours), (source, theirs) = both_texts
    receiver = (2, 1)
    table = patch_effects(three_layers, TEXT, SOURCE, through=receiver).set_index(["layer", "head"])["moved"]
    assert table.loc[2].isna().all()
    assert table.loc[[0, 1]].notna().all()
    for layer, head in np.ndindex(2, 4):
        held = {(later, other): ours[later][:, other] for later in range(layer + 1, 3) for other in range(4)}
        _, arrived = passed(network, TEXT, layers, held | {(layer, head): theirs[layer][:, head]})
        found, _ = passed(network, TEXT, layers, {receiver: arrived[2][:, receiver[1]]})
        assert table.loc[layer, head] == pytest.approx(share(found, plain, source), rel=1e-3, abs=1e-5)
    whole = patch_effects(three_layers, TEXT, SOURCE).set_index(["layer", "head"])["moved"]
    assert whole.abs().max() > 0.05
    assert np.abs(table.loc[0] - whole.loc[0]).max() > 1e-3
    assert table.abs().max() > 1e-3
    assert patch_effects(three_layers, TEXT, SOURCE, through=(0, 0))["moved"].isna().all()


def test_what_cannot_be_compared(smollm, three_layers):
    with refused("source", r"has 5, the other one 8\. The other text is longer") as raised:
        patch_effects(smollm, "The capital of France is", "The capital of Liechtenstein is")
    assert "“ France”" in str(raised.value)
    with refused("source", "have the same answer, .* Give texts with different answers"):
        patch_effects(three_layers, TEXT, TEXT)
    with refused("source", "Give a target that stops where"):
        patch_effects(tiny_model("T5"), TEXT, TEXT, target="3")
    with refused("source", "lead to the same answer"):
        patch_effects(three_layers, TEXT, TEXT, answers=(3, 4))
    with refused("token", "There is no token 64"):
        patch_effects(three_layers, TEXT, SOURCE, answers=(3, 64))
    for place, field in (((3, 0), "layer"), ((-1, 0), "layer"), ((0, 4), "head"), ((0, -1), "head")):
        with refused(field, "they run from 0 to"):
            patch_effects(three_layers, TEXT, SOURCE, through=place)
