"""Two captures that hold the same numbers to the last bit."""

import numpy as np
import torch

from core import Capture


def assert_same_bits(one: Capture, other: Capture) -> None:
    """Every attention call, the logits or vectors, and what was read."""
    for name in ("kinds", "edits", "input_ids", "target_ids"):
        assert getattr(one, name) == getattr(other, name), name
    for kind in one.kinds:
        for ours, theirs in zip(one.calls[kind], other.calls[kind], strict=True):
            assert ours.module is theirs.module
            for name in ("query", "key", "value", "output"):
                assert torch.equal(getattr(ours, name), getattr(theirs, name)), (kind, name)
    for name in ("logits", "vectors"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
