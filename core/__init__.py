"""Attention, one stage at a time: the same few lines for random matrices and for a head of a pretrained model.

from core import attend, capture, load_model

trace = attend(query, key, value)
trace = capture(load_model("SmolLM2-135M-Instruct"), "The capital of France is").trace(layer=23, head=4)
trace.raw, trace.scaled, trace.masked, trace.weights, trace.output
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.attention import AttentionTrace, attend, softmax
    from core.capturing import Capture, capture
    from core.errors import InputError
    from core.layers import layer_labels, missing_layers
    from core.ledger import Ledger, explain
    from core.metrics import head_metrics
    from core.models import Model, load_model
    from core.patterns import match_heads
    from core.probing import probe_heads
    from core.projections import HeadWeights, head_weights
    from core.weights_only import WeightsOnly, attention_weights

# Loaded when first named, so that matrices and figures do not wait for torch and transformers.
_HOME = {
    "AttentionTrace": "core.attention",
    "attend": "core.attention",
    "softmax": "core.attention",
    "Capture": "core.capturing",
    "capture": "core.capturing",
    "InputError": "core.errors",
    "Ledger": "core.ledger",
    "explain": "core.ledger",
    "layer_labels": "core.layers",
    "missing_layers": "core.layers",
    "head_metrics": "core.metrics",
    "Model": "core.models",
    "load_model": "core.models",
    "match_heads": "core.patterns",
    "probe_heads": "core.probing",
    "HeadWeights": "core.projections",
    "head_weights": "core.projections",
    "WeightsOnly": "core.weights_only",
    "attention_weights": "core.weights_only",
}
__all__ = [
    "AttentionTrace",
    "Capture",
    "HeadWeights",
    "InputError",
    "Ledger",
    "Model",
    "WeightsOnly",
    "attend",
    "attention_weights",
    "capture",
    "explain",
    "head_metrics",
    "head_weights",
    "layer_labels",
    "load_model",
    "match_heads",
    "missing_layers",
    "probe_heads",
    "softmax",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
