"""The probe on a real model, against a plain computation, and on scores where the verdict is known."""

import numpy as np
import pytest

from core import capture
from core.errors import InputError
from core.heads.probing import longest, probe_heads, random_texts, stands_clear
from tests.core.passes import tiny_model


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
    model, seeds = tiny_model("Llama"), (0, 5)
    table = probe_heads(model, 20, seeds)
    found = {"duplicate": [], "induction": [], "previous": [], "induction_null": []}
    for seed in seeds:
        texts = random_texts(model, 20, seed)
        weights, null = (capture(model, input_ids=text.ids).trace(1, 2).weights.astype(float) for text in texts)
        queries = np.arange(20, 40)
        found["duplicate"].append(weights[queries, queries - 20].mean())
        found["induction"].append(weights[queries, queries - 19].mean())
        found["previous"].append(np.diagonal(weights, -1).mean())
        found["induction_null"].append(null[queries, queries - 19].mean())
    row = table.iloc[1 * 4 + 2]
    for name, values in found.items():
        assert row[name] == pytest.approx(np.mean(values), abs=1e-6), name
        if f"{name}_error" in row:
            assert row[f"{name}_error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(2), abs=1e-6), name
    assert {"duplicate_error", "induction_error", "previous_error"} <= {*row.index}
    assert not table["is_induction"].any()
    one_seed = probe_heads(model, 20, seeds[:1])
    assert one_seed["induction_error"].isna().all()
    assert not one_seed[["is_induction", "is_duplicate"]].any(axis=None)


def test_the_induction_heads_of_a_real_model(probed):
    table = probed
    best = table.sort_values("induction", ascending=False).iloc[0]
    assert (best["layer"], best["head"]) == (18, 6)
    assert best["induction"] > 0.85
    assert best["induction_null"] < 0.02
    assert best["is_induction"]
    assert 5 < table["is_induction"].sum() < 40
    assert table.loc[table["is_induction"], "induction"].min() >= 0.1


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


def test_the_probe_can_be_watched_and_refuses_what_it_cannot_do(minilm):
    seen = []
    probe_heads(minilm, 10, [0, 1], on_progress=seen.append)
    assert seen == [1, 2, 3, 4]
    with pytest.raises(InputError, match="at least 4 tokens"):
        probe_heads(minilm, 3)
    with pytest.raises(InputError, match="at most 255 random tokens twice, not 256"):
        probe_heads(minilm, 256)
    assert longest(minilm) == 255
    assert longest(tiny_model("Llama")) == 32  # it reads 64 positions
    with pytest.raises(InputError, match="at most 64 random"):
        probe_heads(tiny_model("T5"), 65)  # it knows only 64 tokens
