"""What changed in a copy of a model, against plain loops over transformers' own eager attention and its own losses."""

import copy
from dataclasses import replace
from itertools import chain, permutations

import numpy as np
import pytest
import torch
from tokenizers.normalizers import Replace, Sequence
from torch import nn
from transformers.pytorch_utils import Conv1D

from core import load_model, rounded_copy, what_changed
from core.corpus.changes import Changes, Comparing, Pair, swapped_back
from core.heads.metrics import NAMES
from core.models import sizes
from tests.core.corpus.plain import reader
from tests.core.heads.test_comparing import shannon
from tests.core.tiny_models import TINY, WEIGHTS_ONLY, eager, number_words, randomised, tiny
from tests.refusals import refused

TEXTS = ["5 9 7 9 7 3 11 5 9", "8 8 21 6 40", "17 3 3 17 3 2 9 30 31 17 3", "6 2 6 2 6"]


def altered(network, layer=1, side="q_proj", rows=slice(8, 16)):
    """A copy in which some rows of one projection are turned round: head 1 of layer 1 asks for something else."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        weight = getattr(other.model.layers[layer].self_attn, side).weight
        weight[rows] = weight[rows].flip(0)
    return other


@pytest.fixture(scope="module")
def both():
    network = tiny("Llama")
    base = load_model(network, tokenizer=number_words())
    return base, load_model(altered(network), tokenizer=number_words())


def read_by_heads(network, texts=TEXTS):
    """What W_O of every layer reads of the texts, [layers, tokens, width] each: the outputs of its heads beside each other."""
    read, held = [], []
    hooks = [
        layer.self_attn.o_proj.register_forward_pre_hook(lambda _, given: held.append(given[0][0]))
        for layer in network.model.layers
    ]
    for text in texts:
        held.clear()
        with torch.inference_mode():
            network(torch.tensor([list(map(int, text.split()))]))
        read.append(torch.stack(held))
    for hook in hooks:
        hook.remove()
    return read


def test_every_number_is_that_of_a_plain_loop(both):
    base, changed = both
    told = []
    table = what_changed(base, changed, TEXTS, on_progress=told.append)
    assert told == [1, 2, 3, 4]
    weights = [
        [eager(model.network, input_ids=torch.tensor([list(map(int, text.split()))])).attentions for text in TEXTS]
        for model in both
    ]
    outputs = [read_by_heads(model.network) for model in both]
    for row in table.itertuples():
        layer, head = row.layer, row.head
        apart = [
            [shannon(*rows) for rows in zip(one[layer][0, head].numpy(), other[layer][0, head].numpy(), strict=True)]
            for one, other in zip(*weights, strict=True)
        ]
        halves = [np.mean([*chain(*apart[half::2])]) for half in (0, 1)]
        assert row.divergence == pytest.approx(np.mean([*chain(*apart)]), abs=2e-6)
        assert row.noise == pytest.approx(abs(halves[0] - halves[1]) / 2, abs=2e-6)
        part = slice(8 * head, 8 * head + 8)
        one, other = (torch.cat([read[layer][:, part] for read in reads]).double() for reads in outputs)
        assert row.output_change == pytest.approx(float((other - one).norm() / one.norm()), abs=2e-6)
        before, after = (
            np.mean([float(w) for one in side for w in one[layer][0, head].diagonal(-1)]) for side in weights
        )
        assert (row.previous, row.previous_change) == pytest.approx((before, after - before), abs=1e-5)
        assert row.induction_change == pytest.approx(induced(weights[1], layer, head) - row.induction, abs=1e-5)
    assert (table["divergence"][:5] == 0).all()  # layer 0, and head 0 of layer 1
    assert table["divergence"].idxmax() == 5


def induced(attentions, layer, head):
    """The mean weight on what followed an earlier copy of the token, over the queries that have one."""
    found = []
    for text, layers in zip(TEXTS, attentions, strict=True):
        ids = text.split()
        for query in range(len(ids)):
            keys = [key for key in range(1, query) if ids[key - 1] == ids[query]]
            if keys:
                found.append(sum(float(layers[layer][0, head, query, key]) for key in keys))
    return np.mean(found)


def test_losses_and_what_swapping_a_head_back_does_to_them(both):
    base, changed = both
    comparing = Comparing(base, changed, TEXTS).finished()
    plain = [mean_loss(model.network) for model in both]
    assert comparing.changes.loss == pytest.approx(plain, abs=1e-5)
    told = []
    table = swapped_back(base, changed, TEXTS, [(1, 1), (0, 2)], on_progress=told.append)
    assert told[-1] == 3 * len(TEXTS)
    # All that was changed is undone by the first; the second never changed.
    np.testing.assert_allclose(table["loss"], plain, atol=1e-5)
    np.testing.assert_allclose(table["change"], [plain[0] - plain[1], 0], atol=1e-5)
    other = load_model(altered(altered(base.network), 1, "v_proj", slice(8, 16)), tokenizer=number_words())
    kept = iter(read_by_heads(base.network))  # text by text, as the losses are computed below
    hook = other.network.model.layers[1].self_attn.o_proj.register_forward_pre_hook(
        lambda _, given: (with_head(given[0], next(kept)),)
    )
    expected = mean_loss(other.network)
    hook.remove()
    found = swapped_back(base, other, TEXTS, [(1, 2)])["loss"].item()
    assert found == pytest.approx(expected, abs=1e-5)
    assert abs(found - mean_loss(other.network)) > 1e-3


def with_head(read, kept):
    """What W_O of layer 1 reads, with the part of head 2 as it was in the base."""
    read = read.clone()
    read[0, :, 16:24] = kept[1][:, 16:24]
    return read


def mean_loss(network):
    total = count = 0
    for text in TEXTS:
        ids = torch.tensor([list(map(int, text.split()))])
        with torch.inference_mode():
            total += float(network(ids, labels=ids).loss) * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    return total / count


def test_the_same_model_twice_changes_nothing(both):
    for model in (
        both[0],
        load_model(tiny("BERT"), tokenizer=reader()),
        load_model(tiny("T5"), tokenizer=number_words()),
    ):
        table = what_changed(model, replace(model, network=copy.deepcopy(model.network)), TEXTS)
        changes = table[["divergence", "noise", "output_change", *(f"{name}_change" for name in NAMES)]]
        assert (changes.fillna(0) == 0).all(axis=None)


def test_the_order_and_the_parts_change_no_bit(both):
    pair = Pair(*both)
    parts = []
    for place, text in enumerate(TEXTS):
        parts.append(pair.changes())
        pair.add(parts[-1], text, place % 2)
    tables = []
    for order in permutations(range(4), 4):
        changes = pair.changes()
        for place in order:
            changes.merge(Changes.from_bytes(parts[place].to_bytes()))
        tables.append(changes.table())
        assert (changes.passages, changes.tokens, changes.predicted) == (4, 30, 26)
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0].equals(what_changed(*both, TEXTS))


def with_other_tokens(model):
    """The same model, whose tokenizer reads 21 as 22 and splits 40 into 4 and 0."""
    other = number_words()
    other.backend_tokenizer.normalizer = Sequence([Replace("21", "22"), Replace("40", "4 0")])
    return replace(model, tokenizer=other)


def test_passages_with_other_tokens_are_compared_where_they_agree(both):
    base, changed = both
    found = Comparing(base, with_other_tokens(changed), ["21", "8 8 21 6 40 17", "5 9 7"]).finished().changes
    assert (found.passages, found.unlike, found.aligned, found.apart, found.tokens) == (2, 1, 1, 2, 9)
    assert found.queries.tolist() == [3, 4]  # every other passage in each half
    read = [[8, 8, 21, 6, 40, 17], [8, 8, 22, 6, 4, 0, 17]]
    queries, axes = ((0, 0), (1, 1), (3, 3), (5, 6)), ([0, 1, 2, 3, 4, None, None, 5], [0, 1, 2, 3, None, 4, 5, 6])
    one = what_changed(base, with_other_tokens(changed), ["8 8 21 6 40 17"])
    weights = [eager(of.network, input_ids=torch.tensor([ids])).attentions for of, ids in zip(both, read, strict=True)]
    for row in one.itertuples():
        pair = [attentions[row.layer][0, row.head] for attentions in weights]
        apart = []
        for places in queries:
            rows = [of[place] for of, place in zip(pair, places, strict=True)]
            onto = [
                [0.0 if key is None else float(of[key]) for key in axis] for of, axis in zip(rows, axes, strict=True)
            ]
            apart.append(shannon(*onto))
        assert row.divergence == pytest.approx(np.mean(apart), abs=2e-6)
        before, after = (
            np.mean([float(of[place, place - 1]) for place in places if place])
            for of, places in zip(pair, zip(*queries, strict=True), strict=True)
        )
        assert (row.previous, row.previous_change) == pytest.approx((before, after - before), abs=1e-5)
    assert one["divergence"].min() > 0
    with refused("text", "no token in common in any passage"):
        what_changed(base, with_other_tokens(changed), ["21"])


def test_losses_and_outputs_of_passages_with_other_tokens(both):
    base, text = both[0], "8 8 21 6 40 17"
    comparing = Comparing(base, with_other_tokens(base), [text])
    comparing.go_on()
    losses, outputs = [], []
    for ids, places in (([8, 8, 21, 6, 40, 17], [0, 1, 3, 5]), ([8, 8, 22, 6, 4, 0, 17], [0, 1, 3, 6])):
        given = torch.tensor([ids])
        with torch.inference_mode():
            likely = base.network(given).logits[0].log_softmax(-1)
        losses.append(-np.mean([float(likely[place - 1, ids[place]]) for place in places[1:]]))
        (read,) = read_by_heads(base.network, [" ".join(map(str, ids))])
        outputs.append(read[:, places])
    assert comparing.changes.loss == pytest.approx(losses, abs=1e-5)
    one, other = (read[1, :, 8:16].double() for read in outputs)
    row = comparing.changes.table().loc[5]
    assert row["output_change"] == pytest.approx(float((other - one).norm() / one.norm()), abs=2e-6)
    assert row["output_change"] > 0.01


def test_heads_are_swapped_back_where_all_tokens_agree(both):
    base, changed = both
    other = with_other_tokens(changed)
    table = swapped_back(base, other, [*TEXTS, "21 5"], [(1, 1)])
    assert table.equals(swapped_back(base, changed, [TEXTS[0], *TEXTS[2:]], [(1, 1)]))
    with refused("text", "No passage has the same tokens in both models"):
        swapped_back(base, other, ["21 5"], [(1, 1)])
    with refused("heads", "There is no head 2.0: layers run from 0 to 1, heads from 0 to 3"):
        swapped_back(base, changed, TEXTS, [(2, 0)])
    changes = Pair(base, other).changes([(1, 1)])
    Pair(base, other).add(changes, "21 5", 0)  # as many tokens, one of them another
    assert (changes.passages, changes.swapped) == (1, 0)


def test_one_passage_has_no_noise(both):
    assert what_changed(*both, TEXTS[:1])["noise"].isna().all()


@pytest.mark.parametrize(("name", "words"), [("ALBERT", "4 of 4: heads"), ("GPT-Neo", "keeps its queries")])
def test_what_is_not_a_copy_is_refused(both, name, words):
    network = randomised({**TINY, **WEIGHTS_ONLY}[name]())
    with refused("model", words):
        what_changed(both[0], load_model(network, tokenizer=number_words()), TEXTS)


@pytest.mark.parametrize("texts", [[], ["  "]])
def test_no_text_is_refused(both, texts):
    with refused("text", "no text"):
        what_changed(*both, texts)


@pytest.mark.parametrize(("name", "rounding"), [("Llama", "Q8_0"), ("Llama", "Q4_0"), ("GPT-2", "Q4_0")])
def test_a_rounded_copy_has_the_numbers_of_the_format(name, rounding):
    base = load_model(tiny(name), tokenizer=number_words())
    rounded = rounded_copy(base, rounding)
    there = dict(rounded.network.named_modules())
    for name, module in base.network.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            own, weight = (one.weight.T if isinstance(one, Conv1D) else one.weight for one in (module, there[name]))
            is_rounded = name != "lm_head" and own.shape[1] % 32 == 0
            assert torch.equal(weight, plainly_rounded(own, rounding) if is_rounded else own), name
    assert 0 < what_changed(base, rounded, TEXTS)["divergence"].max() < np.log(2)
    with refused("rounding", "Q8_0, Q4_0"):
        rounded_copy(base, "Q2_K")


def test_a_rounded_copy_needs_room_for_a_second_model(minilm, monkeypatch):
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 10**6)
    with refused("model", "memory"):
        rounded_copy(minilm, "Q4_0")


def plainly_rounded(weight, rounding):
    """As the formats are defined: 32 weights share a scale in float16, from the largest of them."""
    rows = []
    for row in weight.detach().numpy():
        for block in row.reshape(-1, 32):
            largest = block[np.abs(block).argmax()]
            if rounding == "Q8_0":
                scale = np.abs(block).max() / np.float32(127)
                numbers = [np.sign(x) * np.floor(abs(x) / scale + 0.5) for x in block]
            else:
                scale = largest / np.float32(-8)
                numbers = [min(15, int(x * (np.float32(1) / scale) + np.float32(8.5))) - 8 for x in block]
            rows.append(np.float32(np.float16(scale)) * np.array(numbers, np.float32))
    return torch.tensor(np.array(rows)).reshape(weight.shape)
