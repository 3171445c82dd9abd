"""The menu of metrics by which heads are coloured and listed, and the fields that filter heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.heads.metrics import GROUPS, Metric
from ui import state
from ui.controls.fields import menu, number, whole_number

PAIR: Final = "pair"  # the chosen one
PATTERN: Final = "pattern"
CONTRIBUTION: Final = "contribution"  # to the logit of the most probable next token


@dataclass(frozen=True)
class Bounds:
    """Bounds on the heads that are shown; None: no bound."""

    at_least: float | None
    from_layer: int | None
    to_layer: int | None

    def left_out(self, values: NDArray[np.floating]) -> NDArray[np.bool_] | None:
        """[layers, heads] of True where a head does not pass; None if there is no bound."""
        if self == Bounds(None, None, None):
            return None
        layers = np.arange(len(values))[:, None]
        last = len(values) if self.to_layer is None else self.to_layer
        least = -np.inf if self.at_least is None else self.at_least
        is_strong = np.nan_to_num(values, nan=-np.inf) >= least
        return ~(is_strong & (layers >= (self.from_layer or 0)) & (layers <= last))

    @property
    def remarks(self) -> tuple[str, ...]:
        named = {"at least": self.at_least, "from layer": self.from_layer, "to layer": self.to_layer}
        return tuple(f"{name} {bound:g}" for name, bound in named.items() if bound is not None)


def choose_bounds(deepest: int) -> Bounds:
    """Show the fields for bounds. deepest: the last layer"""
    least, first, last = st.columns(3)
    with least:
        at_least = number("At least", state.AT_LEAST, None, step=0.1, placeholder="any")
    with first:
        from_layer = whole_number("From layer", state.FROM_LAYER, None, 0, 999, placeholder="0")
    with last:
        to_layer = whole_number("To layer", state.TO_LAYER, None, 0, 999, placeholder=str(deepest))
    return Bounds(at_least, from_layer, to_layer)


def metric_menu(
    label: str,
    offered: Mapping[str, Metric],
    opening: str,
    own: Mapping[str, str] = MappingProxyType({}),
    **widget: Any,
) -> str:
    """Show the menu of metrics, in groups; return the name of the chosen one.

    offered  by name, `opening` the one that the page opens with
    own      further choices: word in the address -> group and label
    """
    grouped = sorted(offered.values(), key=lambda metric: GROUPS.index(metric.group))
    choices = {metric.name: f"{metric.group}: {metric.label}" for metric in grouped}
    choices |= own
    formerly = {words.partition(": ")[2]: word for word, words in choices.items()}
    return menu(label, state.METRIC, choices, opening=opening, formerly=formerly, **widget)
