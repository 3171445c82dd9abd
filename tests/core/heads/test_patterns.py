"""Patterns on heads that are known to follow them, and against a plain reading of the definition."""

import numpy as np
import pytest

from core.attention.masks import causal, grid
from core.heads.patterns import blocks, columns, diagonal, match_heads, pairs, read_keys, read_pairs, write_pairs
from tests.core.passes import tiny_pass
from tests.refusals import refused

PATTERNS = {
    "previous": diagonal(1),
    "next": diagonal(-1),
    "itself": diagonal(0),
    "first": columns([0]),
    "stripes": columns([2, 5]),
    "blocks": blocks(4),
    "pairs": pairs([(7, 2), (9, 3)]),
}
# Keys that are not there; and of a causal head all that is allowed, and what is forbidden.
ODD = (diagonal(50), columns([0, 99]), pairs([(0, 0), (99, 0)]), causal, pairs([(2, 7)]))


def plain(trace, pattern):
    """The definition, one query after another."""
    belongs = grid(pattern, *trace.shape)
    scores = []
    for weights, allowed, inside in zip(trace.weights.astype(float), trace.mask, belongs & trace.mask, strict=True):
        chance = inside.sum() / allowed.sum()
        if 0 < chance < 1:
            scores.append((weights[inside].sum() - chance) / (1 - chance))
    return np.mean(scores) if scores else np.nan


@pytest.mark.parametrize("tokens", [1, 2, 11])
@pytest.mark.parametrize("name", ["BERT", "Llama", "Mistral", "gpt-oss", "T5", "ViT"])
def test_every_kind_of_attention_from_a_single_token_on(name, tokens):
    """What the first and the last token may look at, encoders and decoders, windows, sinks, and two texts."""
    target = {"target": np.arange(7, 7 + tokens // 2)} if name == "T5" else {}
    given = {} if name == "ViT" else {"input_ids": np.arange(tokens)}
    taken = tiny_pass(name, **given, **target)
    for kind in taken.kinds:
        traces = [taken.trace(layer, head, kind) for layer, head in np.ndindex(2, 4)]
        for pattern in (*PATTERNS.values(), *ODD):
            expected = np.array([plain(trace, pattern) for trace in traces]).reshape(2, 4)
            if np.isnan(expected).all():
                with refused("pattern", "No query"):
                    match_heads(taken, pattern, kind)
            else:
                done: list[int] = []
                found = match_heads(taken, pattern, kind, on_progress=done.append)
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
                assert done == [1, 2]


def test_pairs_and_keys_as_text():
    assert read_pairs("7-2, 9→3,10 -> 1,") == ((7, 2), (9, 3), (10, 1))
    assert read_pairs(write_pairs([(7, 2), (9, 3)])) == ((7, 2), (9, 3))
    assert read_pairs("") == ()
    assert read_keys(" 0, 5,") == (0, 5)
    for text in ("7", "a-b", "7-2-1", "1--2", "<b>-2", "9999999999-1"):
        with refused("pairs"):
            read_pairs(text)
    with refused("keys", "not a position"):
        read_keys("1, x")
    with refused("pairs", "at most 200"):
        read_pairs(", ".join(f"{n}-0" for n in range(201)))
