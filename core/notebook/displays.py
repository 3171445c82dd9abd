"""The registration of displays in IPython: each class with the function of `bundles` that makes its picture or table.

Classes are registered by name, so that their modules are loaded only when there is something to show.
"""

from functools import partial
from importlib import import_module
from typing import Any

# module of the class, its name -> the function of `bundles`
SHOWN = {
    ("attention.trace", "AttentionTrace"): "trace",
    ("attention.ledger", "Ledger"): "ledger",
    ("capturing.capture", "Capture"): "capture",
    ("capturing.certifying", "Certificate"): "certificate",
    ("capturing.weights_only", "WeightsOnly"): "weights_only",
    ("heads.comparing", "Comparison"): "comparison",
    ("models.model", "Model"): "model",
    ("models.projections", "HeadWeights"): "head_weights",
}


def register(ipython: Any, package: str) -> None:
    """Register the displays. ipython: `IPython.get_ipython()`, None if IPython is imported but not running"""
    if ipython is None:
        return
    formatter = ipython.display_formatter.mimebundle_formatter
    for (module, name), function in SHOWN.items():
        formatter.for_type_by_name(f"{package}.{module}", name, partial(_show, function))


def _show(function: str, value: Any, **_: Any) -> dict[str, Any]:
    return getattr(import_module(".bundles", __package__), function)(value)
