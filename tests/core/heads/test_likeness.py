"""All heads at once, against one trace after the other."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from core import compare
from core.capturing.calls.rows import row_blocks
from core.errors import InputError
from core.heads import likeness
from core.heads.likeness import head_changes, heads_like, random_pairs_divergence
from tests.core.passes import tiny_pass
from tests.refusals import refused

IDS = np.random.default_rng(0).integers(3, 60, size=23).tolist()
OTHER = [*IDS[:4], 60, *IDS[5:-1], 61]


def read(name, ids):
    """A pass; the decoder of an encoder-decoder reads the last third of the numbers."""
    return tiny_pass(name, input_ids=ids, **({"target": ids[-len(ids) // 3 :]} if name == "T5" else {}))


@pytest.fixture(scope="module")
def passes():
    """Two passes of a model by its name, made once: over texts that differ in their fifth and their last number."""
    return cache(lambda name: (read(name, IDS), read(name, OTHER)))


KINDS = [("GPT-2", "self"), ("Gemma 2", "self"), ("BERT", "self"), ("gpt-oss", "self")]
KINDS += [("T5", kind) for kind in ("encoder", "decoder", "cross")]


def every(taken, kind):
    return [*np.ndindex(taken.layers(kind), taken.heads(kind))]


def between(one, other, kind, at, other_at=None, rows=...):
    """The mean divergence of two heads over these queries, or all."""
    return compare(one.trace(*at, kind), other.trace(*(other_at or at), kind)).divergence[rows].mean()


def of_pairs(taken, rows=...):
    """The divergence of every head from every other one."""
    heads = every(taken, None)
    return [between(taken, taken, None, one, other, rows) for one in heads for other in heads if one != other]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_changes_are_those_of_each_trace(passes, name, kind, monkeypatch):
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", 64)  # in many blocks
    before, after = passes(name)
    told = []
    found = head_changes(before, after, kind, on_progress=told.append)
    assert found.shape == (before.layers(kind), before.heads(kind))
    expected = [between(before, after, kind, at) for at in every(before, kind)]
    np.testing.assert_allclose(found.ravel(), expected, atol=2e-6)
    assert found.max() > 1e-4
    assert told == [1, 2]
    assert not head_changes(before, before, kind).any()


@pytest.mark.parametrize("forwards", [True, False])
def test_a_mask_that_was_lifted(passes, forwards, monkeypatch):
    """Blocks of rows leave off keys that no row may attend to: here the two passes have different ones."""
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", 200)
    before, _ = passes("GPT-2")
    calls = tuple(call.reshaped(mask=None, causal=False) for call in before.calls["self"])
    pair = (before, replace(before, calls={"self": calls}))
    one, other = pair if forwards else pair[::-1]
    expected = [between(one, other, None, at) for at in every(one, None)]
    assert min(expected) > 0.05
    np.testing.assert_allclose(head_changes(one, other).ravel(), expected, atol=2e-6)


def test_passes_that_do_not_belong_together_are_refused(passes):
    before, _ = passes("GPT-2")
    with refused("text", r"\(23, 23\).*\(9, 9\)"):
        head_changes(before, read("GPT-2", IDS[:9]))
    with refused("model"):
        heads_like([before, read("ALBERT", IDS)], 0, 0)
    with pytest.raises(InputError, match="at least one"):
        heads_like([], 0, 0)
    with refused("head", "There is no head 9"):
        heads_like([before], 0, 9)


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_heads_like_one_are_those_nearest_to_its_trace(passes, name, kind, monkeypatch):
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", 64)  # in many blocks
    one, _ = passes(name)
    texts = [one, read(name, IDS[:9])]
    told = []
    found = heads_like(texts, 1, 2, kind, on_progress=told.append)
    others = [at for at in every(one, kind) if at != (1, 2)]
    expected = {at: np.mean([between(text, text, kind, (1, 2), at) for text in texts]) for at in others}
    assert list(found.columns) == ["layer", "head", "divergence"]
    rows = {(int(row.layer), int(row.head)): row.divergence for row in found.itertuples()}
    assert rows.keys() == expected.keys()
    np.testing.assert_allclose([rows[at] for at in expected], list(expected.values()), atol=2e-6)
    assert found["divergence"].is_monotonic_increasing
    assert told == [1, 2, 3, 4]


def test_random_pairs_are_pairs_of_different_heads(passes):
    taken, _ = passes("GPT-2")
    means = of_pairs(taken)
    found = random_pairs_divergence(taken, pairs=1000)  # more than there are: all
    assert (found.pairs, found.queries) == (8 * 7, 23)
    assert found.mean == pytest.approx(np.mean(means), abs=1e-6)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, (0.05, 0.95))), abs=1e-6)
    told = []
    some = random_pairs_divergence(taken, pairs=5, seed=1, on_progress=told.append)
    assert told == [1, 2, 3, 4, 5]
    assert some == random_pairs_divergence(taken, pairs=5, seed=1)
    assert some != random_pairs_divergence(taken, pairs=5, seed=2)


def test_long_texts_are_sampled_all_along(passes, monkeypatch):
    monkeypatch.setattr(likeness, "QUERIES", 8)
    monkeypatch.setattr(likeness, "STRETCHES", 4)
    taken, _ = passes("BERT")
    found = random_pairs_divergence(taken, pairs=1000)
    assert found.queries == 8
    assert found.mean == pytest.approx(np.mean(of_pairs(taken, [0, 1, 7, 8, 14, 15, 21, 22])), abs=1e-6)
