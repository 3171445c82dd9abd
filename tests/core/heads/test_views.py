"""Views of heads against the same thing done plainly on whole traces."""

from pathlib import Path

import numpy as np
import pytest

from core import capture, head_weights, load_model
from core.attention.rowwise import pool
from core.capturing.calls.rows import row_blocks
from core.heads.views import HeadView, ViewMatrix, crossing_shares, pair_ranges, pair_shares, pair_sides, thumbnails
from core.models.words import merge_keys, merge_queries, word_starts, word_texts
from tests.conftest import TEXTS
from tests.core.passes import every_head, tiny_pass
from tests.core.tiny_models import tiny
from tests.refusals import refused

TEXT = TEXTS[1] * 4
HEAD = (4, 7)
FIRST, SPECIAL = frozenset({"first"}), frozenset({"special"})


@pytest.fixture(scope="module")
def taken(smollm):
    return capture(smollm, TEXT)


def viewed(taken, *heads, kind="self", **choices):
    return ViewMatrix(taken, kind, HeadView(heads=heads, **choices))


def whole(one):
    """All of a view, number by number."""
    return one.window(*map(range, one.shape))


@pytest.fixture(scope="module")
def trace(taken):
    return taken.trace(*HEAD)


def test_plain_numbers_are_those_of_the_trace(taken, trace):
    seen = whole(viewed(taken, HEAD))
    np.testing.assert_array_equal(np.isfinite(seen.matrices["view"].values), trace.mask)
    np.testing.assert_array_equal(seen.matrices["view"].allowed, trace.mask)
    assert not seen.row_numbers["removed"].any()
    lengths = np.linalg.norm(trace.value, axis=1)
    quantities = {name: getattr(trace, name) for name in ("weights", "raw", "scaled", "masked")}
    for quantity, expected in (quantities | {"values": trace.weights * lengths}).items():
        values = whole(viewed(taken, HEAD, quantity=quantity)).matrices["view"].values
        at = 1e-6 if quantity == "weights" else 1e-4
        np.testing.assert_allclose(values[trace.mask], expected[trace.mask], rtol=1e-5, atol=at, err_msg=quantity)
    heads = (HEAD, (4, 8), (20, 1))
    mean = np.mean([taken.trace(*at).weights for at in heads], axis=0)
    values = whole(viewed(taken, *heads)).matrices["view"].values
    np.testing.assert_allclose(np.nan_to_num(values), mean, atol=1e-6)
    bart = tiny_pass("BART")
    seen = viewed(bart, (1, 2), kind="cross").overview()
    np.testing.assert_allclose(seen.matrices["view"].values, bart.trace(1, 2, "cross").weights, atol=1e-6)


def test_norm_weighted_is_the_length_of_what_each_key_adds(taken, trace):
    W_O = head_weights(taken.model, *HEAD).W_O
    for query, key in ((10, 0), (40, 39), (60, 31)):
        added = trace.weights[query, key] * trace.value[key] @ W_O
        one = viewed(taken, HEAD, quantity="outputs").window(range(query, query + 1), range(key, key + 1))
        assert one.matrices["view"].values[0, 0] == pytest.approx(np.linalg.norm(added), rel=1e-4)


def test_leaving_out_the_first_token(taken, trace):
    one = viewed(taken, HEAD, left_out=FIRST)
    np.testing.assert_array_equal(one.hidden, np.arange(trace.shape[1]) == 0)
    seen = whole(one)
    assert np.isnan(seen.matrices["view"].values[:, 0]).all()
    assert seen.matrices["view"].allowed[:, 0].all()  # left out, and not forbidden
    np.testing.assert_allclose(seen.row_numbers["removed"], trace.weights[:, 0], atol=1e-6)
    np.testing.assert_allclose(np.nan_to_num(seen.matrices["view"].values[:, 1:]), trace.weights[:, 1:], atol=1e-6)
    renormalised = np.nan_to_num(whole(viewed(taken, HEAD, left_out=FIRST, renormalise=True)).matrices["view"].values)
    np.testing.assert_allclose(renormalised[1:].sum(axis=1), 1, atol=1e-5)
    assert renormalised[0].sum() == 0  # nothing remains of the first row
    rest = trace.weights[:, 1:] / (1 - trace.weights[:, :1]).clip(1e-9)
    np.testing.assert_allclose(renormalised[1:, 1:], rest[1:], atol=1e-3)


@pytest.mark.parametrize("most", [10**6, 9])
def test_words(taken, trace, most):
    starts = word_starts(taken.model.tokenizer, taken.input_ids)
    assert 5 < len(starts) < len(taken.input_ids)
    merged = merge_queries(merge_keys(trace.weights, starts), starts)
    allowed = np.logical_or.reduceat(np.logical_or.reduceat(trace.mask, starts, axis=0), starts, axis=1)
    expected = pool(merged, most, allowed)
    one = viewed(taken, HEAD, by_word=True)
    values = one.overview(most).matrices["view"].values
    np.testing.assert_allclose(values, expected.values, atol=1e-6)
    assert one.labels.unit == "word"
    assert one.labels.keys == word_texts(taken.model.tokenizer, taken.input_ids, starts)
    if most > 100:
        np.testing.assert_allclose(np.nansum(values, axis=1), 1, atol=1e-5)
    part = one.window(range(6, 11), range(2, 9)).matrices["view"]
    np.testing.assert_allclose(np.nan_to_num(part.values), merged[6:11, 2:9], atol=1e-6)
    assert part.start == (6, 2)


PEAK = Path("/proc/self/clear_refs")


def resident(which):
    """VmRSS (now) or VmHWM (at its peak since it was last cleared) of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{which}:"))


@pytest.mark.skipif(not PEAK.exists(), reason="only Linux tells the memory that a process took at its peak")
def test_the_mean_of_many_heads_takes_the_memory_of_one():
    """One head's rows of this text are 1 MB and more; those of all hundred would be over 100 MB."""
    taken = capture(load_model(tiny("BERT")), input_ids=np.arange(512) % 60)
    viewed(taken, (0, 0)).overview()
    PEAK.write_text("5")
    before = resident("VmRSS")
    viewed(taken, *((0, 0),) * 100).overview()
    assert resident("VmHWM") - before < 30e6


def test_what_cannot_be_shown_is_refused(taken):
    for field, words, heads, choices in (
        ("heads", "No head", (), {}),
        ("head", "no head 9", ((0, 9),), {}),
        ("quantity", "no common score", (HEAD,), {"quantity": "raw", "by_word": True}),
        ("pair", "not known which tokens", (HEAD,), {"part": "first to second"}),
    ):
        with refused(field, words):
            viewed(taken, *heads, **choices)


@pytest.mark.parametrize("part", ["first to second", "second to first"])
def test_a_part_of_a_pair_keeps_its_numbers_and_says_what_share_they_are(minilm, part):
    first, second = "The cat sat down", "a kitten was sleeping"
    taken = capture(minilm, first, pair=second)
    weights = taken.trace(1, 1).weights
    sides = np.array(taken.sides)
    one, other = (0, 1) if part == "first to second" else (1, 0)
    expected = weights[sides == one][:, sides == other]
    view, words = (viewed(taken, (1, 1), part=part, by_word=by_word) for by_word in (False, True))
    np.testing.assert_allclose(view.overview().matrices["view"].values, expected, atol=1e-6)
    np.testing.assert_allclose(view.inside(), expected.sum(axis=1), atol=1e-6)
    query, key = view.strongest(view.overview())
    assert weights[query, key] == pytest.approx(expected.max(), abs=1e-6)
    assert [words.labels.queries[row] for row in words.rows] == (first if one == 0 else second).lower().split()
    of_rows = words.overview().matrices["view"].values.sum(axis=1)
    assert words.inside().mean() == pytest.approx(of_rows.mean(), abs=1e-6)


def test_shares_of_a_small_pair():
    sides = np.array([-1, 0, -1, 1, 1, -1])
    weights = np.zeros((6, 6))
    weights[1] = [0.1, 0.2, 0.1, 0.3, 0.2, 0.1]
    weights[3] = [0, 1, 0, 0, 0, 0]
    weights[4] = [0, 0, 0, 0.5, 0.5, 0]
    first, second = pair_shares(weights, sides)
    assert (first.own, first.other, first.special) == pytest.approx((0.2, 0.5, 0.3))
    assert (second.own, second.other, second.special) == pytest.approx((0.5, 0.5, 0))


def test_two_texts_that_a_real_model_reads_side_by_side(minilm):
    first, second = "The cat sat on the mat.", "A kitten is sitting on a rug."
    passed = capture(minilm, first, pair=second)
    tokens, sides = passed.tokens()[0], pair_sides(passed)
    for side, text in enumerate((first, second)):
        assert np.array(tokens)[sides == side].tolist() == minilm.tokenizer.tokenize(text)
    assert np.array(tokens)[sides == -1].tolist() == ["[CLS]", "[SEP]", "[SEP]"]
    assert pair_ranges(passed) == (range(1, 8), range(9, 17))
    assert pair_ranges(capture(minilm, first)) is None
    with refused("pair", "second text is blank"):
        pair_sides(capture(minilm, first, pair=" "))
    weights = (passed.trace(*at).weights for at in np.ndindex(6, 12))
    expected = [
        np.mean([one[sides == of][:, sides == 1 - of].sum() / (sides == of).sum() for of in (0, 1)]) for one in weights
    ]
    np.testing.assert_allclose(crossing_shares(passed, sides).ravel(), expected, atol=1e-6)


@pytest.mark.parametrize(("name", "side"), [("BERT", 5), ("Mistral", 12), ("BART", 24), ("gpt-oss", 5)])
def test_small_pictures_of_every_head_of_every_kind(name, side, monkeypatch):
    """A long text comes in blocks of rows."""
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", 100)
    taken, seen = tiny_pass(name), []
    drawn = {kind: thumbnails(taken, kind, side=side, on_progress=seen.append) for kind in taken.kinds}
    assert seen == [1, 2] * len(taken.kinds)
    for layer, head, kind in every_head(taken):
        trace, small = taken.trace(layer, head, kind), drawn[kind]
        whole = pool(trace.weights, side, trace.mask)
        np.testing.assert_allclose(small.values[layer, head], whole.values, atol=1e-6)
        np.testing.assert_array_equal(small.allowed[layer, head], whole.allowed)
        assert (small.row_block, small.column_block) == (whole.row_block, whole.column_block)
