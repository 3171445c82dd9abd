"""The probe on a real model, against a plain computation, and on scores where the verdict is known."""

import numpy as np
import pytest

from core import capture, load_model
from core.errors import InputError
from core.heads.probing import longest, probe_heads, random_texts, stands_clear
from tests.core.tiny_models import number_words, tiny


def test_the_texts_are_what_they_should_be(minilm, smollm):
    for model, before, after in ((minilm, 1, 1), (smollm, 0, 0)):
        repeated, shuffled = random_texts(model, 50, seed=3)
        assert len(repeated.ids) == 100 + before + after
        first = repeated.ids[before : before + 50]
        second = repeated.ids[before + 50 : before + 100]
        np.testing.assert_array_equal(first, second)
        assert len(set(first)) == 50
        assert not set(first) & set(model.tokenizer.all_special_ids)
        np.testing.assert_array_equal(shuffled.ids[: before + 50], repeated.ids[: before + 50])
        other = shuffled.ids[before + 50 : before + 100]
        assert sorted(other) == sorted(second)
        assert (other != second).all()
        assert (other[:-1] != second[1:]).all()
        np.testing.assert_array_equal(random_texts(model, 50, seed=3)[1].ids, shuffled.ids)
        assert (random_texts(model, 50, seed=4)[0].ids != repeated.ids).any()


def test_scores_by_their_definition():
    model, seeds = load_model(tiny("Llama"), tokenizer=number_words()), (0, 5)
    table = probe_heads(model, 20, seeds)
    found = {"duplicate": [], "induction": [], "previous": []}
    nulls = []
    for seed in seeds:
        repeated, shuffled = random_texts(model, 20, seed)
        weights = capture(model, input_ids=repeated.ids).trace(1, 2).weights.astype(float)
        found["duplicate"].append(np.mean([weights[query, query - 20] for query in range(20, 40)]))
        found["induction"].append(np.mean([weights[query, query - 19] for query in range(20, 40)]))
        found["previous"].append(np.diagonal(weights, -1).mean())
        null = capture(model, input_ids=shuffled.ids).trace(1, 2).weights.astype(float)
        nulls.append(np.mean([null[query, query - 19] for query in range(20, 40)]))
    row = table.iloc[1 * 4 + 2]
    for name, values in found.items():
        assert row[name] == pytest.approx(np.mean(values), abs=1e-6), name
        assert row[f"{name}_error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(2), abs=1e-6), name
    assert row["induction_null"] == pytest.approx(np.mean(nulls), abs=1e-6)


def test_the_induction_heads_of_a_real_model(probed):
    table = probed
    best = table.sort_values("induction", ascending=False).iloc[0]
    assert (best["layer"], best["head"]) == (18, 6)
    assert best["induction"] > 0.85
    assert best["induction_null"] < 0.02
    assert best["is_induction"]
    assert 5 < table["is_induction"].sum() < 40
    assert table.loc[table["is_induction"], "induction"].min() >= 0.1


def test_random_networks_have_no_such_heads():
    for name in ("Llama", "GPT-2"):
        table = probe_heads(load_model(tiny(name)), 12)
        assert not table["is_induction"].any()
        assert not table["is_duplicate"].any()


@pytest.mark.parametrize(
    ("scores", "null", "clear"),
    [
        ([0.9, 0.8, 0.85], [0.01, 0.02, 0.0], True),
        ([0.9, 0.01, 0.85], [0.02, 0.02, 0.02], False),  # once below its null
        ([0.9, 0.8, 0.85], [0.7, 0.85, 0.6], False),  # the place is popular whatever stands there
        ([0.05, 0.05, 0.051], [0.0, 0.0, 0.001], False),  # clear, but next to nothing
        ([0.9, 0.15, 0.5], [0.1, 0.1, 0.1], False),  # it depends on the seed
        ([0.9] * 11 + [0.3], [0.0] * 11 + [0.35], False),  # one of many seeds is below one null
    ],
)
def test_what_stands_clear(scores, null, clear):
    assert stands_clear(np.array(scores)[:, None], np.array(null)[:, None]).item() == clear


def test_one_seed_proves_nothing(smollm):
    table = probe_heads(smollm, 10, seeds=[0])
    assert table["induction_error"].isna().all()
    assert not table["is_induction"].any()


def test_the_probe_can_be_watched_and_refuses_what_it_cannot_do(minilm):
    seen = []
    probe_heads(minilm, 10, [0, 1], on_progress=seen.append)
    assert seen == [1, 2, 3, 4]
    with pytest.raises(InputError, match="at least 4 tokens"):
        probe_heads(minilm, 3)
    with pytest.raises(InputError, match="at most 255 random tokens twice, not 256"):
        probe_heads(minilm, 256)
    assert longest(minilm) == 255
    assert longest(load_model(tiny("Llama"))) == 32  # it reads 64 positions
    with pytest.raises(InputError, match="at most 64 random"):
        probe_heads(load_model(tiny("T5")), 65)  # it knows only 64 tokens
