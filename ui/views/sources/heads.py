"""The choice of a head of a pass, and the key/value head that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture
from core.capturing.weights_only import WeightsOnly
from core.models.modules import Kind
from ui import links, shown, state
from ui.controls.fields import head_picker, menu
from ui.links import Choice
from ui.requests import HeadRequest, KindRequest, TextRequest

Pass_co = TypeVar("Pass_co", bound=Capture | WeightsOnly, covariant=True)


@dataclass(frozen=True, eq=False)
class ChosenHead(Generic[Pass_co]):
    """A head of a pretrained model in one pass, with what `capture` has of its kind."""

    request: TextRequest
    capture: Pass_co
    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}"

    @property
    def of(self) -> HeadRequest:
        return HeadRequest(self.request, self.kind, self.layer, self.head)

    @property
    def of_kind(self) -> KindRequest:
        """All heads of its kind."""
        return KindRequest(self.request, self.kind)

    @property
    def named_kind(self) -> Kind | None:
        """Its kind, if the model has several."""
        return self.kind if len(self.capture.kinds) > 1 else None

    @property
    def place(self) -> tuple[int, int]:
        """(layer, head)"""
        return self.layer, self.head

    @property
    def grid(self) -> tuple[int, int]:
        """(layers, heads) of its kind."""
        return self.capture.layers(self.kind), self.capture.heads(self.kind)

    @property
    def tokens(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.capture.tokens(self.kind)

    @property
    def shape(self) -> tuple[int, int]:
        return self.capture.shape(self.kind)


AnyHead = ChosenHead[Capture | WeightsOnly]
RealHead = ChosenHead[Capture]  # its queries and keys are known

# The head with which a model opens: one that looks from "it" back to "animal" in the sentence that a page opens with; for
# written-dates, the head whose cross-attention looks most at the characters that a digit comes from.
OPENING_HEADS = {"all-MiniLM-L6-v2": (5, 11), "SmolLM2-135M-Instruct": (13, 8), "written-dates": (0, 0)}


def opening_head(name: str) -> tuple[int, int]:
    return OPENING_HEADS.get(name, (0, 0))


def choose_head(
    request: TextRequest, capture: Pass_co, place: DeltaGenerator, kinds: Sequence[Kind] = ()
) -> ChosenHead[Pass_co]:
    """Show the fields for the kind of attention and the head, and return the head of the pass that they choose.

    place  the container of the box for the head
    kinds  those that are offered; empty: all
    """
    offered: dict[Kind, str] = {kind: kind for kind in kinds or capture.kinds}
    if len(offered) > 1:
        kind = menu("Attention", state.KIND, offered, look="buttons")
    else:
        kind = links.field(state.KIND, Choice(offered), next(iter(offered)), "Attention")
    shape = capture.layers(kind), capture.heads(kind)
    with place:
        layer, head = head_picker(state.HEAD_BOX, (state.LAYER, state.HEAD), shape, opening_head(request.model.name))
    shown.now().of = HeadRequest(request, kind, layer, head)
    return ChosenHead(request, capture, kind, layer, head)


def show_key_sharing(real: RealHead) -> None:
    """Show which key/value head a query head reads, if several share one."""
    key_head, key_heads = real.capture.key_head(*real.place, real.kind)
    heads = real.grid[1]
    if key_heads == heads:
        return
    group = heads // key_heads
    others = [str(other) for other in range(key_head * group, (key_head + 1) * group) if other != real.head]
    st.caption(
        f"Grouped-query attention: {heads} query heads share {key_heads} key/value heads. Head {real.head} reads key/value "
        f"head {key_head}, together with {'heads' if len(others) > 1 else 'head'} {' and '.join(others)}."
    )
