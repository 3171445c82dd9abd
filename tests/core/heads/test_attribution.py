"""Attributions against the numbers of other passes, and against sums written out by hand."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
import transformers as t
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from core import Edits, capture, head_weights, load_model
from core.heads.attribution import (
    contributions_by_key,
    cosine,
    cosine_attribution,
    logit,
    logit_attribution,
    main_pair,
    main_reason,
    score_attribution,
)
from core.heads.paths import follow
from tests.core.passes import PICTURE, READ, every_head, taken_apart, tiny_pass, tiny_taken_apart
from tests.core.tiny_models import DECODER, MORE_READERS_AND_WRITERS, TINY, randomised, tiny
from tests.depth import sampled
from tests.refusals import refused

WRITERS = [
    name for name in TINY if name not in ("BERT", "RoBERTa", "DistilBERT", "ELECTRA", "ALBERT", "ModernBERT", "ViT")
]


def close(table, number):
    """A sum and the number of another pass: within rounding of what is added up."""
    assert table.holds, table.rounding
    assert table.logit == table.number
    assert table.total == pytest.approx(float(table["contribution"].sum()))
    unit = max(abs(table.total - table.number) / table.rounding if table.rounding else 0, 1e-7 * abs(number), 1e-8)
    assert abs(table.total - number) < 50 * unit + 3e-6, (table.total, number)


@pytest.mark.parametrize("name", WRITERS)
def test_logits_are_those_of_another_pass(name):
    both = tiny_taken_apart(name)
    logits = both.returned.logits[0].double()
    if name == "Gemma 2":  # the sum is what goes into the soft cap
        logits = 30 * torch.atanh(logits / 30)
    rng = np.random.default_rng(0)
    for position in (-1, 0, 5):
        token, other = map(int, rng.integers(64, size=2))
        row = logits[position]
        close(logit_attribution(both.taken, token, position=position), float(row[token]))
        close(logit_attribution(both.taken, token, other, position), float(row[token] - row[other]))
        close(logit_attribution(both.taken, token, "mean", position), float(row[token] - row.mean()))
        close(logit_attribution(both.taken, position=position), float(row.max()))


def test_a_head_that_attends_twice_is_one_component():
    """Of what it wrote in both calls, and the sum of all components is the logit."""
    taken = tiny_pass("DiffLlama", components=True)
    whole = logit_attribution(taken)
    assert whole.holds
    assert [name for name in whole.component if "." in name] == [f"{layer}.{head}" for layer, head in np.ndindex(3, 4)]
    parts = {part.name: part for part in taken.components.each}
    assert [len(parts[name].places) for name in ("0.0", "2.3")] == [2, 2]


@pytest.mark.parametrize("name", sampled(sorted(set(TINY) - set(WRITERS))))
def test_cosines_are_those_of_another_pass(name):
    both = tiny_taken_apart(name)
    model = both.taken.model
    given = {"image": PICTURE[::-1]} if model.reads_images else {"input_ids": READ[::-1].tolist()}
    other = capture(model, **given)
    mine, theirs = (torch.as_tensor(vectors).double().mean(dim=0) for vectors in (both.returned[0][0], other.vectors))
    expected = float(torch.nn.functional.cosine_similarity(mine, theirs, dim=0))
    assert abs(expected) < 0.999
    close(cosine_attribution(both.taken, other), expected)


def test_a_bias_after_the_head_is_part_of_the_logit():
    """Marian adds one that is no parameter of its language-model head, Phi has one within it."""
    network = tiny("Marian")
    torch.manual_seed(0)
    network.final_logits_bias.normal_()
    both = taken_apart(network)
    row = both.returned.logits[0, -1]
    table = logit_attribution(both.taken, 7, 9)
    close(table, float(row[7] - row[9]))
    own = table.set_index("component").loc["bias of the vocabulary", "contribution"]
    assert own == pytest.approx(float((network.final_logits_bias[0, 7] - network.final_logits_bias[0, 9]).double()))
    close(logit_attribution(both.taken), float(row.max()))
    assert "bias of the vocabulary" in list(logit_attribution(tiny_taken_apart("Phi").taken)["component"])


def test_embeddings_that_later_layers_read_again_count_as_embeddings():
    """Zamba's heads read the stream beside the embeddings, which the network hands to them a second time."""
    layers = {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2}
    config = t.ZambaConfig(**DECODER | layers, num_key_value_heads=4, mamba_d_state=4, mamba_dt_rank=4)
    both = taken_apart(randomised(t.ZambaForCausalLM(config)))
    close(logit_attribution(both.taken, 7), float(both.returned.logits[0, -1, 7]))
    for layer in range(both.taken.layers()):
        found = score_attribution(both.taken, layer, 1, 12, 7)
        for side in (found.by_query, found.by_key):
            close(side, by_hand(both.plain, layer, 1, 12, 7, "others", None))


def test_bfloat16_has_a_unit_of_its_own():
    model = load_model(tiny("Llama").to(torch.bfloat16))
    taken, plain = capture(model, input_ids=READ, components=True), capture(model, input_ids=READ)
    table = logit_attribution(taken, 7, 9)
    assert table.holds
    assert 1e-5 < abs(table.total - table.number) < 0.1
    assert table.total == pytest.approx(float(plain.logits[7] - plain.logits[9]), abs=0.1)
    for layer in range(2):
        assert score_attribution(taken, layer, 1, 12, 7).by_key.holds


def by_hand(plain, layer, head, query, key, against, kind):
    """The score of the calls of a plain pass, in float64."""
    call, trace = plain.layer_call(layer, kind), plain.trace(layer, head, kind)
    keys = call.key[0, head // call.group].double().numpy()
    row = keys @ call.query[0, head, query].double().numpy() * call.scale + trace.bias[query]
    if against is None:
        return row[key]
    if against != "others":
        return row[key] - row[against]
    others = trace.mask[query].copy()
    others[key] = False
    return row[key] - row[others].mean()


@pytest.mark.parametrize("name", sampled(TINY))
def test_scores_are_those_of_another_pass(name):
    both = tiny_taken_apart(name)
    taken, rng = both.taken, np.random.default_rng(0)
    for kind, number in product(taken.kinds, range(6)):
        layer, head, query = number % taken.layers(kind), *map(int, rng.integers([4, taken.shape(kind)[0]]))
        query = max(query, 2)
        keys = np.flatnonzero(taken.trace(layer, head, kind).mask[query])
        key, other = map(int, rng.choice(keys, 2, replace=False))
        against = (None, "others", other)[number // 2]
        found = score_attribution(taken, layer, head, query, key, against, kind=kind, strongest=3)
        expected = by_hand(both.plain, layer, head, query, key, against, kind)
        for side in (found.by_query, found.by_key):
            close(side, expected)
        sizes = float(np.abs(found.by_query["contribution"]).sum() + np.abs(found.by_key["contribution"]).sum())
        assert found.total == pytest.approx(found.score, abs=1e-6 * sizes + 3e-6)
        assert found.rest == pytest.approx(found.total - found.table.iloc[:-1, :-1].to_numpy().sum())
        margins = found.table.sum(axis=1).drop("rest")
        listed = found.by_query.set_index("component")["contribution"][margins.index]
        np.testing.assert_allclose(margins, listed, atol=1e-6 * sizes)


def test_a_position_bias_is_a_row_of_its_own():
    t5 = tiny_taken_apart("T5")
    found = score_attribution(t5.taken, 1, 2, 9, 7, None)
    added = found.by_key.set_index("component").loc["position bias", "contribution"]
    assert added == pytest.approx(float(t5.plain.trace(1, 2).bias[9, 7]))
    assert abs(added) > 0.01


def test_keys_that_were_read_from_no_component_are_refused():
    """LongT5's encoder looks at neighbours only, in a way that is not captured."""
    both = taken_apart(randomised(MORE_READERS_AND_WRITERS["LongT5"]()))
    assert logit_attribution(both.taken, 7).holds
    with refused("model", "has no components"):
        score_attribution(both.taken, 0, 0, 3, 5, kind="cross")


@cache
def in_float64(name):
    """A plain pass in float64, one with components, and what the parts called so gave: the stream's sum by hand."""
    network = tiny(name).double()
    part = {"Llama": ".mlp", "BERT": ".intermediate"}[name]
    given, hooks = [], []
    for path, module in network.named_modules():
        if path.endswith(part):
            hooks.append(module.register_forward_hook(lambda *call: given.append(call[-1][0].detach())))
    model = load_model(network)
    plain = capture(model, input_ids=READ)
    for hook in hooks:
        hook.remove()
    return network, plain, given, capture(model, input_ids=READ, components=True)


def heads_of(plain, layer):
    """What each head of a layer adds: its output times its own rows of W_O."""
    for head in range(4):
        weights = head_weights(plain.model, layer, head)
        yield f"{layer}.{head}", torch.from_numpy(plain.model_output(layer, head) @ weights.W_O)


def rms_norm(norm, stream):
    """A function that norms a part of the stream with the scale of the whole."""
    scale = 1 / (stream.square().mean(dim=-1, keepdim=True) + norm.variance_epsilon).sqrt()
    return lambda part: part * scale * norm.weight.detach()


def assert_same_table(table, expected, atol=1e-6):
    """Llama's norms compute in float32 even if the model is in float64."""
    found = table.set_index("component")["contribution"]
    assert set(expected) <= set(found.index)
    for name, number in found.items():
        assert number == pytest.approx(float(expected.get(name, 0.0)), abs=atol), name


@torch.no_grad()
def llama_by_hand(network, plain, given):
    """The stream before each layer and after the last one, by component: {name: [tokens, d_model]}."""
    parts = {"embedding": network.model.embed_tokens(torch.from_numpy(READ))}
    before = []
    for layer in range(2):
        before.append(dict(parts))
        parts |= dict(heads_of(plain, layer)) | {f"mlp {layer}": given[layer]}
    return [*before, parts]


@torch.no_grad()
def test_logits_of_llama_by_hand():
    network, plain, given, taken = in_float64("Llama")
    parts = llama_by_hand(network, plain, given)[-1]
    norm = rms_norm(network.model.norm, sum(parts.values()))
    rows = network.lm_head.weight
    for position, token, other in ((-1, 7, 9), (5, 11, 2)):
        expected = {name: norm(part)[position] @ (rows[token] - rows[other]) for name, part in parts.items()}
        table = logit_attribution(taken, token, other, position)
        assert_same_table(table, expected)
        assert len(table) == len(expected) == 11


@torch.no_grad()
def test_scores_of_llama_by_hand():
    """Both sides and all pairs, through the rotation of queries and keys; the key head is shared by two heads."""
    network, plain, given, taken = in_float64("Llama")
    layer, head, query, key = 1, 3, 20, 13
    parts = llama_by_hand(network, plain, given)[layer]
    norm = rms_norm(network.model.layers[layer].input_layernorm, sum(parts.values()))
    W_Q, W_K, *_ = map(torch.tensor, head_weights(plain.model, layer, head))
    cos, sin = network.model.rotary_emb(torch.zeros(1, dtype=torch.float64), torch.arange(len(READ))[None])
    queries, keys = {}, {}
    for name, part in parts.items():
        both = (norm(part) @ W for W in (W_Q, W_K))
        turned = apply_rotary_pos_emb(*(side[None, None] for side in both), cos.double(), sin.double())
        queries[name], all_keys = (side[0, 0] for side in turned)
        queries[name] = queries[name][query]
        others = [place for place in range(query + 1) if place != key]
        keys[name] = all_keys[key] - all_keys[others].mean(dim=0)
    found = score_attribution(taken, layer, head, query, key)
    scale = 8**-0.5
    assert_same_table(found.by_query, {name: side @ sum(keys.values()) * scale for name, side in queries.items()})
    assert_same_table(found.by_key, {name: side @ sum(queries.values()) * scale for name, side in keys.items()})
    for of_query, row in found.table.drop(index="rest").iterrows():
        for of_key, number in row.drop("rest").items():
            if of_query in queries and of_key in keys:
                expected = float(queries[of_query] @ keys[of_key] * scale)
                assert number == pytest.approx(expected, abs=1e-6), (of_query, of_key)
    assert set(parts) <= set(found.table.index)
    assert found.score == pytest.approx(by_hand(plain, layer, head, query, key, "others", "self"), abs=1e-6)


def layer_norm(norm, stream):
    """A function that norms a part of the stream about the part's mean with the scale of the whole, without its bias."""
    scale = 1 / (stream.var(dim=-1, keepdim=True, correction=0) + norm.eps).sqrt()
    return lambda part: (part - part.mean(dim=-1, keepdim=True)) * scale * norm.weight


@torch.no_grad()
def bert_by_hand(network, plain, given):
    """As `llama_by_hand`, through the norms after each sublayer."""
    ids = torch.from_numpy(READ)[None]
    parts = {"embedding": network.embeddings(ids)[0]}
    before = []
    for layer, block in enumerate(network.encoder.layer):
        before.append(dict(parts))
        bias = f"bias {layer}"
        parts |= dict(heads_of(plain, layer)) | {bias: block.attention.output.dense.bias}
        written = {f"mlp {layer}": given[layer] @ block.output.dense.weight.T}
        for output, more in ((block.attention.output, {}), (block.output, written)):
            parts |= more
            if more:
                parts[bias] = parts[bias] + output.dense.bias
            norm = layer_norm(output.LayerNorm, sum(parts.values()))
            parts = {name: norm(part) for name, part in parts.items()}
            parts[bias] = parts[bias] + output.LayerNorm.bias
    return [*before, parts]


@torch.no_grad()
def test_cosines_of_bert_by_hand():
    network, plain, given, taken = in_float64("BERT")
    other = capture(plain.model, input_ids=READ[:5])
    parts = bert_by_hand(network, plain, given)[-1]
    torch.testing.assert_close(sum(parts.values()), torch.from_numpy(plain.vectors))
    mean = torch.from_numpy(other.vectors).mean(dim=0)
    length = sum(parts.values()).mean(dim=0).norm() * mean.norm()
    assert_same_table(
        cosine_attribution(taken, other),
        {name: part.mean(dim=0) @ mean / length for name, part in parts.items()},
        1e-12,
    )


@pytest.mark.parametrize("name", ["Llama", "gpt-oss", "Gemma 2", "BERT", "ALBERT", "T5"])
def test_what_a_head_adds_is_a_sum_over_its_keys(name):
    taken = tiny_taken_apart(name).taken
    is_writer = name in WRITERS
    number = logit(taken, 7, 9) if is_writer else cosine(taken, taken)
    table = (logit_attribution(taken, 7, 9) if is_writer else cosine_attribution(taken, taken)).set_index("component")
    for layer, kind in [(layer, kind) for layer, head, kind in every_head(taken) if head == 1]:
        by_key = contributions_by_key(taken, number, layer, 1, kind)
        queries, keys = taken.shape(kind)
        assert by_key.shape == (keys,)
        own = table.loc[f"{'' if kind == 'self' else kind} {layer}.1".strip(), "contribution"]
        assert by_key.sum() == pytest.approx(own, abs=2e-6)
        if is_writer and kind != "encoder":
            assert np.abs(by_key).max() > 1e-3 or layer == 0
        of_queries = [contributions_by_key(taken, number, layer, 1, kind, query=query) for query in range(queries)]
        np.testing.assert_allclose(sum(of_queries), by_key, atol=2e-6)


def test_groups_are_sums():
    taken = tiny_taken_apart("Llama").taken
    groups = {"layer 0": ["0.0", "0.1", "0.2", "0.3", "mlp 0"], "MLPs": ["mlp 1"]}
    each, grouped = (logit_attribution(taken, 7, groups=how).set_index("component") for how in (None, groups))
    assert list(grouped.index) == ["embedding", "1.0", "1.1", "1.2", "1.3", "layer 0", "MLPs"]
    assert list(grouped.loc[["layer 0", "MLPs"], "role"]) == ["group", "group"]
    assert grouped.loc["layer 0", "contribution"] == pytest.approx(each.loc[groups["layer 0"], "contribution"].sum())
    assert grouped.loc["1.2", "contribution"] == each.loc["1.2", "contribution"]
    found = score_attribution(taken, 1, 1, 9, 4, groups=groups)
    assert {"layer 0", "embedding", "rest"} <= set(found.table.index) & set(found.table.columns)
    assert found.total == pytest.approx(found.score, abs=1e-5)
    for wrong in ({"a": ["0.0"], "b": ["0.0"]}, {"a": ["mlp 9"]}):
        with refused("groups", "is not a component or is in another group"):
            logit_attribution(taken, 7, groups=wrong)


def test_edits_are_followed():
    model = load_model(tiny("Llama"))
    muted, doubled = Edits(mute_heads={(0, 1)}), Edits(scale_by={(1, 2): 2.0})
    taken, plain = (capture(model, input_ids=READ, edits=muted | doubled, components=more) for more in (True, False))
    table = logit_attribution(taken, 7)
    close(table, float(plain.logits[7]))
    assert table.set_index("component").loc["0.1", "contribution"] == 0
    assert (table["contribution"] != 0).sum() == len(table) - 1
    found = score_attribution(taken, 1, 2, 9, 4, None)
    close(found.by_key, float(plain.trace(1, 2).scaled[9, 4]))
    assert found.score == pytest.approx(2 * by_hand(plain, 1, 2, 9, 4, None, "self"), abs=1e-5)
    with refused("edits", r"replaces the output of head 0\.1"):
        contributions_by_key(taken, logit(taken, 7), 0, 1)
    placed = capture(model, input_ids=READ, edits=Edits(pattern={(1, 2): "first"}), components=True)
    assert logit_attribution(placed, 7).holds
    with refused("edits", r"replaces the weights of head 1\.2"):
        score_attribution(placed, 1, 2, 9, 4)
    assert score_attribution(placed, 1, 1, 9, 4).by_key.holds


def test_what_is_left_out_is_seen():
    """Each component that is left out breaks the sum by far more than rounding: the certificate is able to fail."""
    taken = tiny_taken_apart("BERT").taken
    whole = taken.components
    assert cosine_attribution(taken, taken).holds
    for number, one in enumerate(whole.written):
        if whole.gradients(cosine(taken, taken))[number] is None:
            continue
        without = replace(whole, written=whole.written[:number] + whole.written[number + 1 :])
        table = cosine_attribution(replace(taken, components=without), taken)
        assert not table.holds, one.role
        assert table.rounding > 100
    gain = whole.held[-1].gain
    whole.held[-1].gain = gain * 1.0001
    assert not cosine_attribution(taken, taken).holds
    whole.held[-1].gain = gain


def test_wrong_requests():
    model = load_model(tiny("Llama"))
    taken, plain = (capture(model, input_ids=READ, components=more) for more in (True, False))
    bert = tiny_taken_apart("BERT").taken
    small = capture(load_model(tiny("DistilBERT")), input_ids=READ)
    wider = replace(small, vectors=np.zeros((3, 16), dtype=np.float32))
    for field, words, request in (
        ("components", "kept no components", lambda: logit_attribution(plain)),
        ("components", "kept no components", lambda: score_attribution(plain, 0, 0, 5, 3)),
        ("model", "no language-model head", lambda: logit_attribution(bert)),
        ("model", "gives no sentence vector", lambda: cosine_attribution(taken, taken)),
        ("model", "different sizes", lambda: cosine_attribution(bert, wider)),
        ("token", "token", lambda: logit_attribution(taken, 64)),
        ("against", "token", lambda: logit_attribution(taken, 7, -1)),
        ("position", "position", lambda: logit_attribution(taken, 7, position=24)),
        ("position", "position", lambda: logit_attribution(taken, 7, position=-25)),
        ("layer", "layer", lambda: score_attribution(taken, 2, 0, 5, 3)),
        ("head", "head", lambda: score_attribution(taken, 0, 4, 5, 3)),
        ("query", "query", lambda: score_attribution(taken, 0, 0, 24, 3)),
        ("key", "key 6: its score is masked", lambda: score_attribution(taken, 0, 0, 5, 6)),
        ("key", "key", lambda: score_attribution(taken, 0, 0, 5, 24)),
        ("against", "key 9: its score is masked", lambda: score_attribution(taken, 0, 0, 5, 3, 9)),
        ("against", "one key only", lambda: score_attribution(taken, 0, 0, 0, 0)),
    ):
        with refused(field, words):
            request()


@pytest.fixture(scope="module")
def france(smollm):
    """A pass with components, and the numbers of " Paris" and " Rome"."""
    taken = capture(smollm, "The capital of France is", components=True)
    return taken, *(smollm.tokenizer(word, add_special_tokens=False).input_ids[0] for word in (" Paris", " Rome"))


def test_what_writes_paris(france):
    """docs/attribution.md states these figures."""
    taken, paris, rome = france
    assert logit_attribution(taken).number == logit_attribution(taken, paris).number
    table = logit_attribution(taken, paris, rome)
    assert table.holds
    assert len(table) == 301
    assert table.logit == pytest.approx(7.3125, abs=1e-3)
    found = table.set_index("component")["contribution"]
    leading = found.iloc[np.argsort(-found.abs().to_numpy())][:5]
    assert list(leading.index) == ["23.4", "29.1", "mlp 29", "mlp 24", "29.0"]
    np.testing.assert_allclose(leading, [3.01, 2.14, -2.10, 1.81, -1.67], atol=0.006)


def test_a_reason_works_in_the_direction_of_its_number(france):
    """For a number below 0 it is what lowers it most; its opponents are no reason for it, however large they are."""
    taken, paris, rome = france
    both = logit_attribution(taken, paris, rome), logit_attribution(taken, rome, paris)
    for table, sign in zip(both, (1, -1), strict=True):
        assert main_reason(table).component == "23.4"
        assert main_reason(table).gave == pytest.approx(sign * 3.01, abs=0.01)
        assert main_reason(table, "mlp").component == "mlp 24"  # "mlp 29" is larger, and an opponent
        assert table.sources == len(table) == 301
    path = follow(taken, None, both[1], logit(taken, rome, paris))
    assert [str(stop.hop) for stop in path.stops] == ["23.4"]
    for key in range(5):
        found = score_attribution(taken, 23, 4, 4, key)
        by_key, pairs = found.by_key.set_index("component")["contribution"], found.table.iloc[:-1, :-1]
        above = found.score > 0
        assert main_reason(found.by_key).component == (by_key.idxmax() if above else by_key.idxmin())
        of_query, of_key, gave = main_pair(found.table)
        assert gave == pairs.loc[of_query, of_key] == (pairs.max().max() if above else pairs.min().min())
        assert found.by_key.sources == 1 + 23 * 10  # the embeddings, and 9 heads and an MLP in each layer before it
    nothing = both[0].assign(contribution=0.0)
    nothing.number = 0.0
    assert main_reason(nothing) is None
    assert main_pair(found.table * 0) is None
