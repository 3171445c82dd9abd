"""Metrics on heads whose answer is known, and against a plain reading of their definitions on real weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from core import Claim, Edits, capture, head_metrics, load_model, pair_weights
from core.attention.shaping import Shaping
from core.capturing.calls.rows import Rows, row_blocks
from core.capturing.weights_only import WeightRows, attention_weights, open_weights
from core.claims.facts import Facts
from core.heads import metrics
from core.heads.metrics import METRICS, NAMES, measure, most_telling
from core.heads.quantities import KeyText, text_of
from core.models.inputs import all_inputs, run
from core.models.tokens import token_texts
from tests.core.attention.test_matrix_files import npz
from tests.core.corpus.plain import reader
from tests.core.heads.plain import numbers
from tests.core.passes import eager_layers, tiny_model, tiny_pass
from tests.core.tiny_models import WEIGHTS_ONLY, eager, randomised, tiny, twin_of
from tests.refusals import refused

STRONGEST = ("strongest_key", "strongest_share")
OF_WEIGHTS = {*NAMES} - {"entropy_share", "elsewhere", "special", "punctuation"}  # without masks and classes
OPENING = "The animal didn't cross the street because it was too tired."


def test_a_query_without_keys_gives_nothing_and_counts_for_nothing():
    weights = torch.tensor([[[0.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.1, 0.6, 0.3]]])
    text = KeyText(np.arange(3), np.zeros(3, bool), np.zeros(3, bool), same=True)
    rows = [Rows(0, torch.zeros(1, 3, 1), torch.zeros(1, 3, 1), Shaping(1.0, weights > 0, weights.log().nan_to_num()))]
    values, means = measure(rows, text, 3)
    assert values[:, 0, 0].isnan().all()
    assert values[NAMES.index("largest"), 0].tolist()[1:] == pytest.approx([0.9, 0.6])
    blocks = [WeightRows(1, weights[:, 1:2]), WeightRows(2, weights[:, 2:])]
    for found in (means, measure(blocks, text, 3)[1]):
        np.testing.assert_allclose(found, [[0.5, 0.35, 0.15]], atol=1e-6)


@pytest.mark.parametrize("name", ["T5", "BART", "gpt-oss"])
def test_every_kind_of_attention_can_be_measured(name):
    """With sinks (gpt-oss) rows sum to less than one."""
    taken = capture(tiny_model(name), input_ids=[5, 6, 7, 5, 6, 9, 5, 7, 6, 5, 6, 8])
    columns = ["layer", "head", *(f"{name}{more}" for name in NAMES for more in ("", "_spread")), *STRONGEST]
    for kind in taken.kinds:
        done = []
        table = head_metrics(taken, kind, on_progress=done.append)
        assert done == [1, 2]
        assert list(table.columns) == columns
        assert [*zip(table["layer"], table["head"], strict=True)] == [*np.ndindex(2, 4)]
        assert table["induction"].isna().all() == (kind in ("cross", "decoder"))  # a decoder has read one token so far
        if kind in ("self", "encoder"):
            assert_measured(table, lambda *at, kind=kind: taken.trace(*at, kind).weights, taken.input_ids)
        if name == "gpt-oss":
            assert taken.trace(0, 0).weights.sum(axis=1).min() < 0.99
        if kind == "cross":  # little can be measured
            assert most_telling(table) == "entropy"


def assert_measured(table, weights_of, ids):
    """Every head of a table has the numbers of its weights, apart from those that depend on a mask or on classes."""
    classes, allowed = ["word"] * len(ids), np.ones(len(ids), bool)
    for _, row in table.iterrows():
        weights = weights_of(int(row["layer"]), int(row["head"])).astype(np.float64)
        each = [numbers(weights[query, None], query, ids, classes, allowed) for query in range(len(weights))]
        values = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
        expected = {name: np.nanmean(values[name]) for name in OF_WEIGHTS} | {"largest_spread": values["largest"].std()}
        shares = weights.mean(axis=0)
        for name, number in (expected | dict(zip(STRONGEST, (shares.argmax(), shares.max()), strict=True))).items():
            assert row[name] == pytest.approx(number, abs=1e-5, rel=1e-5), (row["layer"], row["head"], name)


@pytest.mark.parametrize("blocked", [{6, 7, 8}, {3, 4, 5, 6, 7, 8}])
@pytest.mark.parametrize("cells", [2**19, 40])
@pytest.mark.parametrize("name", ["Llama", "BERT"])
def test_a_text_whose_last_keys_nobody_may_attend_to(name, blocked, cells, monkeypatch):
    """The rows of such a pass end before the queries do; every pair behind their end has a weight of 0."""
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", cells)
    taken = capture(tiny_model(name), input_ids=[5, 6, 7, 5, 6, 5, 5, 6, 5], edits=Edits(block_keys=blocked))
    assert_measured(head_metrics(taken), lambda *at: taken.trace(*at).weights, taken.input_ids)


def test_a_share_of_keys_is_that_of_the_claim_that_names_them(minilm, smollm):
    """Two ways to the same number of every query: metrics without comparing all pairs of tokens, claims by all pairs."""
    named = [metric for metric in METRICS if metric.keys is not None]
    assert {metric.name for metric in METRICS} - {metric.name for metric in named} == {
        *("entropy", "entropy_share", "distance", "largest", "elsewhere")
    }
    for model in (minilm, smollm):
        taken = capture(model, "The cat, the dog, and the cat.")
        facts, values = Facts.of(model.tokenizer, taken.input_ids), []
        for blocks in taken.in_rows("self"):
            values.append(measure(blocks, text_of(taken, "self"), len(facts))[0])
        for metric in named:
            if metric.name == "special" and not facts.are("special").any():
                continue
            keys = Claim("any head", "", metric.keys, 0.5).key_set(facts)
            for layer, head in ((0, 2), (3, 7), (5, 8)):
                shares = np.where(keys.any(axis=1), (taken.trace(layer, head).weights * keys).sum(axis=1), np.nan)
                found = values[layer][NAMES.index(metric.name), head].numpy()
                np.testing.assert_allclose(found, shares, atol=1e-6, err_msg=metric.name)


def test_the_head_that_looks_back_from_it_to_animal(minilm):
    taken = capture(minilm, OPENING)
    head = head_metrics(taken).iloc[5 * 12 + 11]
    assert taken.tokens()[1][int(head["strongest_key"])] == "animal"
    assert head["strongest_share"] == pytest.approx(0.418, abs=1e-3)


def test_what_is_most_telling_and_who_stands_out_of_real_models(minilm, smollm):
    """Layer 0, head 2 of MiniLM looks at the previous token and nowhere else; in SmolLM2 layer 11, head 6 at itself."""
    for model, name, strongest in ((minilm, "previous", (0, 2, 1.0)), (smollm, "self", (11, 6, 0.859))):
        table = head_metrics(capture(model, OPENING))
        assert most_telling(table) == name
        best = table.loc[table[name].idxmax()]
        assert (best["layer"], best["head"], best[name]) == pytest.approx(strongest, abs=0.01)
        for column, row in metrics.standing_out(table).items():
            assert table[column].iloc[row] == table[column].max()
    assert metrics.standing_out(head_metrics(capture(smollm, "a"))) == {}  # where all do the same, no head stands out


@pytest.mark.parametrize(
    ("values", "place"),
    [([[0.5, 3.0], [np.nan, 1.0]], (0, 1)), ([[-1.0, 0.0]], None), ([[np.nan]], None), ([2.0, 2.0], (0,))],
)
def test_the_largest_number_that_is_known(values, place):
    assert metrics.largest(np.array(values)) == place


def eager_weights(model, text):
    """The weights of the model's eager code, in the ways in which weights come alone: from a model, and from a file."""
    exposed = replace(model, network=twin_of(model.network))
    inputs = all_inputs(model, text)
    field = "encoder_attentions" if model.is_encoder_decoder else "attentions"
    layers = getattr(run(exposed, inputs, output_attentions=True), field)
    tokens = np.array(token_texts(model.tokenizer, inputs["input_ids"][0].tolist()))
    yield open_weights(npz(attentions=torch.cat(layers).numpy(), tokens=tokens))
    if model.text_config.model_type != "gpt_oss":  # whose rows sum to less than 1: a model that gives such is refused
        yield attention_weights(exposed, text)


@pytest.mark.parametrize("name", ["BERT", "ModernBERT", "Llama", "Mistral", "T5", "gpt-oss"])
@pytest.mark.parametrize("text", ["the cats saw the cats , the cats 40 .", "saw"])
def test_weights_alone_give_the_same_or_nothing(name, text):
    """Whatever depends on the mask is left out, and what depends on the tokenizer of a file that has none."""
    model = load_model(tiny(name), tokenizer=reader())
    expected = head_metrics(capture(model, text))
    for alone, lost in zip(eager_weights(model, text), ({"special", "punctuation"}, set()), strict=False):
        found = head_metrics(alone)
        for column in expected.columns:
            if column.removesuffix("_spread") in {"entropy_share", "elsewhere"} | lost:
                assert found[column].isna().all(), column
            else:
                np.testing.assert_allclose(found[column], expected[column], rtol=0, atol=2e-5, err_msg=column)


IDS = [5, 17, 8, 40, 17, 23, 9, 31]


@pytest.mark.parametrize(
    ("name", "kind"), [("GPT-2", "self"), ("Gemma 2", "self"), ("gpt-oss", "self"), ("BERT", "self"), ("T5", "cross")]
)
def test_every_pair_in_every_head(name, kind):
    """Gemma 2 and gpt-oss mask what is far away in one layer only, and gpt-oss has sinks."""
    model = tiny_model(name)
    given = {"input_ids": IDS} | ({"target": [9, 30]} if name == "T5" else {})
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
            np.testing.assert_allclose(metrics.one_query(taken, query, kind), expected[:, :, query], atol=1e-5)
    assert masked.any() == (name not in ("BERT", "T5"))


def test_of_weights_alone_nobody_knows_what_is_masked():
    taken = attention_weights(load_model(randomised(WEIGHTS_ONLY["GPT-J"]())), input_ids=IDS)
    for query, key in ((6, 2), (2, 6), (0, 0), (7, 7)):
        expected = [[taken.weights(layer, head)[query, key] for head in range(4)] for layer in range(2)]
        np.testing.assert_array_equal(pair_weights(taken, query, key), expected)
    assert not pair_weights(taken, 2, 6).any()


@pytest.mark.parametrize(("query", "key", "field"), [(8, 0, "query"), (-1, 0, "query"), (0, 8, "key"), (0, -1, "key")])
def test_a_token_that_is_not_there(query, key, field):
    gptj = load_model(randomised(WEIGHTS_ONLY["GPT-J"]()))
    for taken in (tiny_pass("Llama", input_ids=IDS), attention_weights(gptj, input_ids=IDS)):
        with refused(field):
            pair_weights(taken, query, key)
