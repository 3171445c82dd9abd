"""How IPython shows what is computed here: each class by the function of `bundles` that makes its picture or its table.

IPython is told the names of classes, so that nothing of them is loaded before there is one to show, and what is computed knows
nothing of how it is shown.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """Tell IPython how to show these classes of the package.

    ipython  what `IPython.get_ipython()` gives; None, and nothing is done: IPython is loaded, and nobody works in it
    """
    if ipython is None:
        return
    formatter = ipython.display_formatter.mimebundle_formatter
    for (module, name), function in SHOWN.items():
        formatter.for_type_by_name(f"{package}.{module}", name, _showing(function))


def _showing(function: str) -> Callable[..., dict[str, Any]]:
    def show(value: Any, **_: Any) -> dict[str, Any]:
        return getattr(import_module(".bundles", __package__), function)(value)

    return show
