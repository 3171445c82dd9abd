"""Calls of a cache that has forgotten keys, put together, against the window written out."""

from __future__ import annotations

import torch

from core.attention.shaping import Shaping
from core.capturing.calls.rows import permissions
from core.capturing.generation.generating import joined, new_rows
from core.models.calls import Call


def call(queries: int, keys: int, *, causal: bool) -> Call:
    query, key = torch.zeros(1, 2, queries, 4), torch.zeros(1, 1, keys, 4)
    output = torch.zeros(1, queries, 2, 4)
    return Call(torch.nn.Identity(), query, key, key, Shaping(1.0), output, causal)


def test_a_cache_that_holds_three_keys_and_hands_over_no_mask():
    first = call(2, 2, causal=True)
    later = [call(1, min(3, tokens), causal=False) for tokens in (3, 4, 5)]
    parts = [new_rows(first, 2), *(new_rows(one, 1) for one in later)]
    whole = joined(parts, {})
    assert whole.query.shape[2] == whole.key.shape[2] == whole.output.shape[1] == 5
    allowed, bias = permissions(whole, slice(0, 2), range(5))
    place = torch.arange(5)
    back = place[:, None] - place
    assert bias is None
    assert torch.equal(allowed[0], (back >= 0) & (back < 3))


def test_a_text_that_is_read_both_ways_stays_so():
    whole = joined([new_rows(call(2, 2, causal=False), 2), new_rows(call(1, 3, causal=False), 1)], {})
    allowed, _ = permissions(whole, slice(0, 2), range(3))
    assert allowed[0].tolist() == [[True, True, False], [True, True, False], [True, True, True]]


def test_biases_stand_below_each_other():
    first, later = call(2, 2, causal=True), call(1, 3, causal=False)
    first, later = first.reshaped(bias=torch.ones(1, 2, 2, 2)), later.reshaped(bias=torch.full((1, 2, 1, 3), 7.0))
    _, bias = permissions(joined([new_rows(first, 2), new_rows(later, 1)], {}), slice(0, 2), range(3))
    assert bias is not None
    assert bias[1].tolist() == [[1, 1, 0], [1, 1, 0], [7, 7, 7]]
