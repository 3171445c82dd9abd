"""The page "Query, key, value" without a browser: what it finds, against closed forms."""

from functools import partial

import numpy as np
import pytest

from core import capture, load_model
from core.lessons.query_key_value import ANGLE, KEYS, TOKENS, VALUES
from tests.core.lessons.test_query_key_value import scores_at, weights_at
from tests.pages.lessons import open_lesson, rows, said
from ui import state
from ui.views.sources.text_fields import SENTENCE

opened = partial(open_lesson, "query_key_value")


@pytest.mark.parametrize("angle", [ANGLE, 0, 180, 250])
def test_the_best_key_is_named_with_its_weight(angle):
    page = opened("turn", **{state.ANGLE: str(angle)})
    weights = weights_at(angle)
    best = int(np.argmax(weights))
    assert f"fits the key of “{TOKENS[best]}” best: weight **{weights[best]:.0%}**" in said(page)
    table = rows(page)
    for token, score, weight in zip(TOKENS, scores_at(angle), weights, strict=True):
        assert float(table[token][2].replace("−", "-")) == pytest.approx(score, abs=5.1e-4)
        assert table[token][4] == f"**{weight:.1%}**"


@pytest.mark.parametrize(("factor", "angle"), [("2.0", ANGLE), ("0.5", ANGLE), ("4.0", 250)])
def test_a_longer_key(factor, angle):
    page = opened("length", **{state.KEY_LENGTH: factor, state.ANGLE: str(angle)})
    longer = [*KEYS[:1], tuple(float(factor) * number for number in KEYS[1]), *KEYS[2:]]
    before, after = weights_at(angle)[1], weights_at(angle, longer)[1]
    assert f"the weight of “street” goes from {before:.0%} to **{after:.0%}**" in said(page)


@pytest.mark.parametrize("other", ["street", "tired"])
def test_swapped_values_move_the_output_alone(other):
    page = opened("values", **{state.SWAP: other})
    weights, values, at = weights_at(ANGLE), np.array(VALUES), TOKENS.index(other)
    moved = np.linalg.norm((weights[0] - weights[at]) * (values[at] - values[0]))
    assert f"The weights change by 0, the output moves by **{moved:.2f}**" in said(page)


def test_a_real_head():
    page = opened("model", **{state.MODEL: "all-MiniLM-L6-v2"})
    trace = capture(load_model("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    q, k = trace.query[10].astype(float), trace.key[2].astype(float)
    angle = np.degrees(np.arccos(q @ k / np.linalg.norm(q) / np.linalg.norm(k)))
    assert f"“it” looks most at “animal”, {angle:.0f}° apart: weight **{trace.weights[10, 2]:.0%}**" in said(page)
    assert rows(page)["animal"][:2] == [f"{np.linalg.norm(k):.4g}", f"{angle:.1f}°"]
