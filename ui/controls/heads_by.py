"""The menu that chooses by what heads are coloured and listed, and a popover that filters them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core.heads.metrics import GROUPS, Metric
from core.heads.probing import SCORES
from ui import state
from ui.controls.fields import menu, number, text_line, whole_number
from ui.markdown import plain

PAIR: Final = "pair"  # the chosen one
PATTERN: Final = "pattern"
CONTRIBUTION: Final = "contribution"  # to the logit of the most probable next token
ON = {"text": "This text", "random": "Random tokens, twice"}
DRAWN_AS = {"colours": "Colours", "pictures": "Small pictures"}
PATTERNS = {
    "diagonal": "Diagonal",
    "first": "First token",
    "stripes": "Stripes",
    "blocks": "Blocks",
    "pairs": "Drawn pairs",
}
OF_TWO_TEXTS = {name: words for name, words in PATTERNS.items() if name != "blocks"}  # which are parts of one text


@dataclass(frozen=True)
class ByMetric:
    metric: Metric
    on: Literal["text", "random"]


@dataclass(frozen=True)
class ByPattern:
    """detail: as it was typed, it may be wrong"""

    pattern: str
    detail: str


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


By = ByMetric | ByPattern | Literal["pair", "contribution"]
Remarked = tuple[By, tuple[str, ...]]  # with what a visitor could not guess from the menu


@dataclass(frozen=True)
class HeadsBy:
    """The choices of the menu and the popover. remarks: those that a visitor could not guess from the menu"""

    by: By
    bounds: Bounds
    drawn_as: str
    remarks: tuple[str, ...]


def heads_by(
    offered: Mapping[str, Metric],
    opening: str,
    *,
    patterns: bool,
    predicts: bool,
    one_text: bool,
    probes: bool,
    deepest: int,
) -> HeadsBy:
    """Show the menu and the popover; return what they choose.

    offered   by name, `opening` the one that the page opens with
    patterns  whether heads can also be compared with a pattern
    predicts  whether they can contribute to a next token
    one_text  whether queries and keys are the tokens of one text
    probes    whether metrics can also be measured on random tokens
    deepest   the last layer
    """
    own = {PAIR: "Your choice: From token to token"}
    own |= {PATTERN: "Your choice: Match with a pattern"} if patterns else {}
    own |= {CONTRIBUTION: "Answer: Contribution to the next token"} if predicts else {}
    with st.container(horizontal=True, gap="xsmall"):
        name = metric_menu("Heads by", offered, opening, own, label_visibility="collapsed")
        popover = st.popover("Options")
    in_sight = st.container()
    with popover:  # its fields are there whether it is open or not, and keep their places in the address
        drawn_as = menu("Drawn as", state.ATLAS_BY, DRAWN_AS, look="buttons")
        bounds = _bounds(deepest)
        with st.container():  # whatever comes and goes in it, nothing else moves: what moves is made anew
            if name == PATTERN:
                by, remarks = _by_pattern(in_sight, one_text)
            elif name in offered:
                by, remarks = _by_metric(offered[name], probes)
            else:
                by, remarks = PAIR if name == PAIR else CONTRIBUTION, ()
    return HeadsBy(by, bounds, drawn_as, remarks + bounds.remarks)


def metric_menu(
    label: str,
    offered: Mapping[str, Metric],
    opening: str,
    own: Mapping[str, str] = MappingProxyType({}),
    **widget: Any,
) -> str:
    """Show the menu of metrics, in groups; return the name of the chosen one.

    offered  by name
    own      further choices: word in the address -> group and label
    """
    grouped = sorted(offered.values(), key=lambda metric: GROUPS.index(metric.group))
    choices = {metric.name: f"{metric.group}: {metric.label}" for metric in grouped}
    choices |= own
    formerly = {words.partition(": ")[2]: word for word, words in choices.items()}
    return menu(label, state.METRIC, choices, opening=opening, formerly=formerly, **widget)


def _bounds(deepest: int) -> Bounds:
    least, first, last = st.columns(3)
    with least:
        at_least = number("At least", state.AT_LEAST, None, step=0.1, placeholder="any")
    with first:
        from_layer = whole_number("From layer", state.FROM_LAYER, None, 0, 999, placeholder="0")
    with last:
        to_layer = whole_number("To layer", state.TO_LAYER, None, 0, 999, placeholder=str(deepest))
    return Bounds(at_least, from_layer, to_layer)


def _by_metric(metric: Metric, probes: bool) -> Remarked:
    """Induction and duplicates are a matter for the probe, unless one says so."""
    usual: Literal["text", "random"] = "random" if metric.name in SCORES and probes else "text"
    on = usual
    if probes:
        choice = menu("Measured on", state.MEASURED_ON, {"usual": f"As usual: {ON[usual].lower()}"} | ON)
        on = "random" if choice == "random" else "text" if choice == "text" else usual
    unit = f" {metric.unit}" if metric.unit else ""
    st.markdown(f"**{metric.label}** {metric.words}")
    st.latex(metric.formula)
    st.markdown(f"From 0 to {metric.high}{unit}. Source: {plain(metric.source)}.")
    remark = "on random tokens, read twice" if on == "random" else "on this text" if on != usual else None
    return ByMetric(metric, on), (remark,) if remark else ()


def _by_pattern(in_sight: DeltaGenerator, one_text: bool) -> Remarked:
    """in_sight: outside the popover"""
    name = menu("Pattern", state.LOOK_FOR, PATTERNS if one_text else OF_TWO_TEXTS)
    detail, remark = "", "the first token"
    if name == "diagonal":
        detail = str(whole_number("Positions back", state.BACK, 1, -64, 4096))
        remark = f"diagonal, {detail} back"
    elif name == "stripes":
        detail = text_line("Key positions", state.STRIPES, "0, 1", max_chars=400)
        remark = f"stripes at keys {detail}"
    elif name == "blocks":
        detail = str(whole_number("Tokens a block", state.BLOCK_LENGTH, 4, 2, 4096))
        remark = f"blocks of {detail} tokens"
    elif name == "pairs":
        # Clicks write into this field, and a browser does not hear of it while a field is folded up: with the next click it
        # would send back what the field held before.
        help = "While this is chosen, a click on the large picture adds its cell or takes it away."
        with in_sight:
            detail = text_line("Pairs, query-key", state.PAIRS, "7-2", max_chars=2000, help=help)
        remark = "drawn pairs"
    return ByPattern(name, detail), (remark,)
