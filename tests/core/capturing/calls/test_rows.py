"""Rows of many heads against the traces of one, for every way in which architectures mask and bias."""

import numpy as np
import pytest
import torch

from core import Edits
from core.attention.shaping import Shaping
from core.capturing.calls.rows import head_permissions, permissions, row_blocks
from core.errors import InputError
from core.models.calls import Call
from tests.core.passes import every_head, tiny_pass

ALL_HEADS = slice(0, 4)
# Causal without a mask, sliding windows, soft cap, sinks, position bias, cross-attention, no mask at all.
KINDS_OF_MASK = ("BERT", "Llama", "Mistral", "Gemma 2", "gpt-oss", "T5", "BART", "ModernBERT")


def joined(call, stage, fill, **options):
    """A stage of all rows [heads, queries, keys], with what the blocks leave off filled in."""
    keys = call.key.shape[2]
    blocks = [getattr(rows, stage).numpy() for rows in row_blocks(call, **options)]
    padded = [np.pad(block, ((0, 0), (0, 0), (0, keys - block.shape[2])), constant_values=fill) for block in blocks]
    return np.concatenate(padded, axis=1)


@pytest.mark.parametrize("name", KINDS_OF_MASK)
@pytest.mark.parametrize("cells", [1, 300, 10**6])
def test_rows_are_those_of_the_traces(name, cells):
    taken = tiny_pass(name)
    for layer, head, kind in every_head(taken):
        call, trace = taken.layer_call(layer, kind), taken.trace(layer, head, kind)
        if head == 0:
            weights, masked = joined(call, "weights", 0.0, cells=cells), joined(call, "masked", -np.inf, cells=cells)
        np.testing.assert_allclose(weights[head], trace.weights, atol=1e-6)
        assert ((weights[head] == 0) >= ~trace.mask).all()  # exactly 0 where forbidden
        np.testing.assert_allclose(masked[head], trace.masked, rtol=1e-5, atol=1e-5)
        some = range(trace.shape[0] // 2, trace.shape[0])
        alone = joined(call, "weights", 0.0, head=head, rows=some, cells=cells)
        np.testing.assert_allclose(alone[0], trace.weights[some.start :], atol=1e-6)
        raw = next(row_blocks(call, head, rows=some)).raw.numpy()
        np.testing.assert_allclose(raw[0, 0], trace.raw[some.start, : raw.shape[2]], rtol=1e-5, atol=1e-5)
        assert_permissions(call, head, range(trace.shape[0]))
        assert_permissions(call, head, some)
        part = taken.trace(layer, head, kind, rows=some)
        assert part.shape == (len(some), trace.shape[1])
        for stage in ("mask", "bias", "masked", "weights", "output"):
            np.testing.assert_allclose(getattr(part, stage), getattr(trace, stage)[some.start :], atol=1e-6)
    with pytest.raises(InputError, match="no queries"):
        taken.trace(1, 2, kind, rows=range(99))


def assert_permissions(call, head, rows):
    """Those of a head in NumPy are those of the rows of all heads."""
    (allowed, bias), (mask, added) = permissions(call, ALL_HEADS, rows), head_permissions(call, head, rows)
    reach = allowed.shape[2]
    assert mask.shape == added.shape == (len(rows), call.key.shape[2])
    np.testing.assert_array_equal(mask[:, :reach], allowed[min(head, len(allowed) - 1)].numpy())
    assert not mask[:, reach:].any()
    np.testing.assert_array_equal(added[:, :reach], 0 if bias is None else bias[min(head, len(bias) - 1)].numpy())


LONG = np.arange(60) % 50 + 3  # several blocks of rows


def test_a_causal_layer_does_only_half_the_work():
    taken = tiny_pass("Llama", input_ids=LONG)
    blocks = list(row_blocks(taken.layer_call(0), cells=4 * 7 * len(LONG)))
    assert all(rows.weights.shape[2] == rows.stop for rows in blocks)
    # Early rows reach few keys, so that more of them are taken at once.
    assert blocks[0].stop > 8 >= blocks[-2].stop - blocks[-2].start


@pytest.mark.parametrize("edits", [Edits(), Edits(mask="none")])
def test_no_block_is_larger_than_allowed(edits):
    call = tiny_pass("Llama", input_ids=LONG, edits=edits).layer_call(0)
    assert max(rows.weights.numel() for rows in row_blocks(call, cells=2_000)) <= 2_000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_additive_mask_forbids_and_is_a_bias(dtype):
    """Rows 1 and 2 of a mask that holds the lowest number, a finite one and 0, with a position bias of another head beside."""
    lowest = torch.finfo(dtype).min
    mask = torch.tensor([[0, lowest, lowest], [0.5, 0, lowest], [-2, 0, 0.25]], dtype=dtype)[None, None]
    bias = torch.arange(18, dtype=dtype).reshape(1, 2, 3, 3)
    query = torch.zeros(1, 2, 3, 4, dtype=dtype)
    for given, expected in ((None, 0), (bias, bias[0, 1, 1:].float().numpy())):
        call = Call(None, query, query, query, Shaping(0.5, mask, given), query)
        allowed, added = head_permissions(call, 1, range(1, 3))
        np.testing.assert_array_equal(allowed, [[True, True, False], [True, True, True]])
        np.testing.assert_array_equal(added, expected + np.array([[0.5, 0, 0], [-2, 0, 0.25]]))
        assert added.dtype == np.float32
        theirs = permissions(call, slice(1, 2), range(1, 3))
        np.testing.assert_array_equal(allowed, theirs[0][0])
        np.testing.assert_array_equal(added, theirs[1][0])
