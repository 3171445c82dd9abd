"""The choice of a head of a pass."""

from __future__ import annotations

from dataclasses import dataclass

from core import Capture
from core.capturing.weights_only import WeightsOnly
from core.models.modules import Kind
from ui import links, shown, state
from ui.controls.fields import menu, number_picker
from ui.links import Choice
from ui.requests import HeadRequest, TextRequest


@dataclass(frozen=True, eq=False)
class RealHead:
    """A head of a pretrained model in one pass."""

    request: TextRequest
    capture: Capture
    kind: Kind
    layer: int
    head: int

    @property
    def of(self) -> HeadRequest:
        return HeadRequest(self.request, self.kind, self.layer, self.head)


# The head with which a model opens: one that looks from "it" back to "animal" in the sentence that a page opens with; for
# written-dates, the head whose cross-attention looks most at the characters that a digit comes from.
OPENING_HEADS = {"all-MiniLM-L6-v2": (5, 11), "SmolLM2-135M-Instruct": (13, 8), "written-dates": (0, 0)}


def opening_head(name: str) -> tuple[int, int]:
    return OPENING_HEADS.get(name, (0, 0))


def choose_head(request: TextRequest, capture: Capture, places: list) -> RealHead:
    """The layer, head and kind of attention that are chosen from a pass."""
    return RealHead(request, capture, *choose_place(request, capture, places))


def choose_place(request: TextRequest, capture: Capture | WeightsOnly, places: list) -> tuple[Kind, int, int]:
    """Kind of attention, layer and head."""
    kinds: dict[Kind, str] = {kind: kind for kind in capture.kinds}
    kind: Kind
    if len(kinds) > 1:
        kind = menu("Attention", state.KIND, kinds, look="buttons")
    else:
        kind = links.field(state.KIND, Choice(kinds), capture.kinds[0], "Attention")
    opening = opening_head(request.model.name)
    with places[0]:
        layer = number_picker("Layer", state.LAYER, capture.layers(kind), opening[0])
    with places[1]:
        head = number_picker("Head", state.HEAD, capture.heads(kind), opening[1])
    shown.now().of = HeadRequest(request, kind, layer, head)
    return kind, layer, head
