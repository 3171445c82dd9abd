"""What heads write from the keys that they look at, against products of our own with the numbers of transformers' networks."""

import random
from collections import defaultdict

import numpy as np
import pytest
import torch

from core import Claim, check_claims, load_model
from core.claims import writing
from core.claims.checking import ClaimCheck
from core.claims.examples import claim_examples, spoken
from core.claims.facts import Facts
from core.claims.shares import COUNTS, SUMS, half_and_group
from core.claims.verdicts import sentence
from core.models.passages import passages_of
from tests.core.claims.test_shares import bits, sums_of
from tests.core.corpus.plain import passages as of_corpus
from tests.core.corpus.plain import reader, settings_of, tallied
from tests.core.tiny_models import eager, number_words, tiny
from tests.refusals import refused

LINES = [
    f"any head: {when}writes the token that it looks at, at least 0.5"
    for when in ("", "when the token occurred before, ")
]
CLAIMS = tuple(map(Claim.read, LINES))
SIZE = 8  # of a head


def passages(model):
    chance = random.Random(1)
    texts = [" ".join(str(chance.randint(3, 20)) for _ in range(chance.randint(1, 16))) for _ in range(12)]
    return passages_of([model], texts, 64)


def llama(network, read, layer, head):
    attention, group = network.model.layers[layer].self_attn, network.config.num_attention_heads // 2
    value = attention.v_proj(read)[:, head // group * SIZE :][:, :SIZE]
    return value @ attention.o_proj.weight[:, head * SIZE : (head + 1) * SIZE].T * network.model.norm.weight


def gemma(network, read, layer, head):
    """The gains of Gemma are counted from 1, and a norm follows the attention, too."""
    gain, after = network.model.norm.weight, network.model.layers[layer].post_attention_layernorm.weight
    return llama(network, read, layer, head) / gain * (1 + gain) * (1 + after)


def gpt2(network, read, layer, head):
    attention, width = network.transformer.h[layer].attn, network.config.n_embd
    value = attention.c_attn(read)[:, 2 * width + head * SIZE :][:, :SIZE]
    wrote = value @ attention.c_proj.weight[head * SIZE : (head + 1) * SIZE]
    return (wrote - wrote.mean(dim=-1, keepdim=True)) * network.transformer.ln_f.weight


MADE = {"Llama": llama, "Gemma 2": gemma, "GPT-2": gpt2}


def written(name, network, ids):
    """[layers, heads, keys, vocabulary] the logits that each head's value at each key adds to, up to a factor of the key."""
    blocks, reads = network.get_submodule("transformer.h" if name == "GPT-2" else "model.layers"), {}

    def read(number):
        def keep(_, given, options):
            reads[number] = [*given, *options.values()][0][0]

        return keep

    hooks = [
        getattr(block, "attn" if name == "GPT-2" else "self_attn").register_forward_pre_hook(read(at), with_kwargs=True)
        for at, block in enumerate(blocks)
    ]
    with torch.inference_mode():
        network(torch.tensor([ids]))
        heads = network.config.num_attention_heads
        wrote = [
            [MADE[name](network, reads[layer], layer, head) for head in range(heads)] for layer in range(len(blocks))
        ]
        logits = torch.stack([torch.stack(of) for of in wrote]) @ network.get_output_embeddings().weight.T
    for hook in hooks:
        hook.remove()
    return logits.double().numpy()


@pytest.mark.parametrize("name", MADE)
def test_every_number_against_products_of_our_own(name, monkeypatch):
    """Of all queries; the vocabulary in parts and at once. For each token the next number stands as the other one."""
    model = load_model(tiny(name), tokenizer=number_words())
    monkeypatch.setattr(writing, "DRAWN", 99)
    monkeypatch.setattr(writing, "_instead", lambda facts, _: facts.ids + 1)
    found = defaultdict(lambda: defaultdict(float))
    for passage in passages(model):
        ids = [*map(int, passage.text.split())]
        half, group = half_and_group(passage.text)
        logits = written(name, model.network, ids)
        attentions = eager(model.network, input_ids=torch.tensor([ids])).attentions
        for layer, head, q in np.ndindex(*logits.shape[:3]):
            weights = attentions[layer][0, head, q, 1:].tolist()
            if not any(weights):
                continue
            key = 1 + int(np.argmax(weights))
            best = {*np.argsort(logits[layer, head, key])[-5:].tolist()}
            for claim in range(1 + (ids[q] in ids[:q])):
                place, copies = (half, claim, logits.shape[1] * layer + head), ids[key] in best
                for kind in ("queries", "shares"):
                    found[kind][half, group, *place[1:]] += 1 if kind == "queries" else copies
                found["recalled"][place] += copies
                found["strong"][place] += max(weights) >= 0.5
                found["hits"][place] += max(weights) >= 0.5 and copies
                found["chance"][place] += 5 / logits.shape[-1]
                found["usual"][place] += ids[key] + 1 in best
    for part in (7, 1024):
        monkeypatch.setattr(writing, "PART", part)
        sums = sums_of(model, passages(model), CLAIMS)
        for kind in ("queries", "recalled", "strong", "hits", *SUMS):
            ours = getattr(sums, kind)
            ours, expected = getattr(ours, "values", ours), np.zeros(ours.whole.shape if kind in SUMS else ours.shape)
            for place, number in found[kind].items():
                expected[place] = number
            np.testing.assert_allclose(ours, expected, atol=1e-12, err_msg=kind)
            assert expected.any(), kind
        assert 0.05 < sums.shares.values.sum() / sums.queries.sum() < 0.95


@pytest.fixture(scope="module")
def model():
    return load_model(tiny("Llama"), tokenizer=number_words())


def test_a_few_queries_of_each_passage_count_the_same_ones_in_any_parts(model):
    texts = passages(model)
    whole = sums_of(model, texts, CLAIMS)
    assert whole.queries[:, :, 0].max(axis=-1).sum() <= 4 * len(texts)
    halves = [sums_of(model, part, CLAIMS) for part in (texts[::-2], texts[-2::-2])]
    halves[1].merge(halves[0])
    assert bits(halves[1]) == bits(whole)
    assert bits(tallied(model, texts, settings_of(model, claims=tuple(LINES))).claims) == bits(whole)


def test_what_stands_instead_of_a_token_is_another_of_the_passage():
    facts = Facts.of(reader(), reader()("the cat saw the dog")["input_ids"])
    drawn = [writing._instead(facts, np.random.default_rng(seed)) for seed in range(20)]
    assert {*np.ravel(drawn)} == {*facts.ids[1:-1]}
    assert all((one != facts.ids).all() for one in drawn)


@pytest.mark.parametrize("name", ["BERT", "T5"])
def test_of_heads_that_write_into_no_logit_it_cannot_be_said(name):
    model = load_model(tiny(name), tokenizer=reader())
    check = ClaimCheck(model, CLAIMS, of_corpus(9)).finished()
    assert not any(getattr(check.sums, kind).any() for kind in COUNTS)
    said = sentence(check.table().iloc[0])
    assert said == "Cannot be said: what a head writes is known of models that predict the next token alone."
    *_, keys, shares = spoken(model, CLAIMS[0], (0, 1), of_corpus(1)[0])
    assert not keys.any()
    assert not shares.any()


def test_a_verdict_in_words(model):
    row = check_claims(model, CLAIMS, passages(model)).iloc[0]
    row["queries"], row["passages"], row["verdict"] = 99, 9, "holds"
    assert f"Holds: {row['head']} writes the token that it looks at for {row['share']:.1%} (" in sentence(row)


def test_examples_have_the_key_that_is_looked_at(model):
    most, least = claim_examples(model, CLAIMS[0], (1, 2), passages(model))
    assert most[0].share == 1
    assert least[0].share == 0
    for example in (*most, *least):
        ids = [*map(int, example.tokens)]
        assert np.flatnonzero(example.keys).tolist() == [1 + int(example.weights[1:].argmax())]
        logits = written("Llama", model.network, ids)[1, 2, example.keys.argmax()]
        assert example.share == (ids[example.keys.argmax()] in np.argsort(logits)[-5:])


def test_a_layer_that_writes_nothing_has_a_map_of_zeros():
    network = tiny("Llama")
    torch.nn.init.zeros_(network.model.layers[1].self_attn.o_proj.weight)
    maps = writing.Writer(load_model(network, tokenizer=number_words()), "self").maps
    assert maps[0].any()
    assert not maps[1].any()


@pytest.mark.parametrize("keys", ["not {}", "{} or itself", "(itself and {})"])
def test_it_stands_alone(keys):
    with refused("claim", "stands alone: what a head writes is not a key. Make two claims of it"):
        Claim("any head", "", keys.format("writes the token that it looks at"), 0.5)
