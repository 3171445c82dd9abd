"""The choice of a head of a pass, the key/value head that it reads, and a head of which only the weights are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture
from core.attention.arrays import row_notes
from core.attention.rowwise import Overview, Whole
from core.capturing.weights_only import WeightsOnly
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.models.model import RecordedModel
from core.models.modules import Kind
from ui import links, shown, state
from ui.calls import call, result
from ui.components import pin
from ui.controls.fields import head_picker, menu
from ui.controls.pinned import Tokens, pinned
from ui.markdown import plain, quoted
from ui.requests import HeadRequest, KindRequest, TextRequest
from ui.views.charts import show_chart, show_magnified
from ui.views.sources.models import ONLY_WEIGHTS
from ui.views.sources.reading import again

Pass_co = TypeVar("Pass_co", bound=Capture | WeightsOnly, covariant=True)


@dataclass(frozen=True, eq=False)
class ChosenHead(Generic[Pass_co]):
    """A head of a pretrained model in one pass, with what `capture` has of its kind.

    It outlives the run of a page: callbacks and records have it. So it has no pass, which is much larger, but reads it.

    read  gives the pass of a request
    """

    request: TextRequest
    kind: Kind
    layer: int
    head: int
    read: Callable[[TextRequest], Pass_co] = again

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}"

    @property
    def capture(self) -> Pass_co:
        return self.read(self.request)

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
ExposedHead = ChosenHead[WeightsOnly]  # only its weights are

# The head with which a model opens: one that looks from "it" back to "animal" in the sentence that a page opens with; for
# written-dates, the head whose cross-attention looks most at the characters that a digit comes from.
OPENING_HEADS = {"all-MiniLM-L6-v2": (5, 11), "SmolLM2-135M-Instruct": (13, 8), "written-dates": (0, 0)}


def opening_head(name: str) -> tuple[int, int]:
    return OPENING_HEADS.get(name, (0, 0))


def choose_head(
    request: TextRequest,
    place: DeltaGenerator,
    kinds: Sequence[Kind] = (),
    read: Callable[[TextRequest], Pass_co] = again,
) -> ChosenHead[Pass_co]:
    """Show the fields for the kind of attention and the head, and return the head of the pass that they choose.

    place  the container of the box for the head
    kinds  those that are offered; empty: all
    read   gives the pass
    """
    capture = read(request)
    offered: dict[Kind, str] = {kind: kind for kind in kinds or capture.kinds}
    if len(offered) > 1:
        kind = menu("Attention", state.KIND, offered, look="buttons")
    else:
        kind = links.field(state.KIND, links.ChoiceForm(offered), next(iter(offered)), "Attention")
    shape = capture.layers(kind), capture.heads(kind)
    with place:
        layer, head = head_picker(state.HEAD_BOX, (state.LAYER, state.HEAD), shape, opening_head(request.model.name))
    shown.now().of = HeadRequest(request, kind, layer, head)
    return ChosenHead(request, kind, layer, head, read)


def show_key_sharing(real: RealHead) -> None:
    """Show which key/value head a query head reads, if several share one."""
    key_head, key_heads = real.capture.key_head(*real.place, real.kind)
    heads = real.grid[1]
    if key_heads == heads:
        return
    group = heads // key_heads
    others = [str(other) for other in range(key_head * group, (key_head + 1) * group) if other != real.head]
    together = f"together with {'heads' if len(others) > 1 else 'head'} {' and '.join(others)}"
    share = f"Grouped-query attention: {heads} query heads share {key_heads} key/value heads."
    st.caption(f"{share} Head {real.head} reads key/value head {key_head}, {together}.")


# --- only weights


def say_what_is_missing(exposed: WeightsOnly) -> None:
    of_model = f"This model {ONLY_WEIGHTS}"
    words = "The file holds only attention weights" if isinstance(exposed.model, RecordedModel) else of_model
    st.info(plain(f"{words}. The stages before them cannot be shown."), icon=":material/visibility_off:")
    if notes := row_notes(exposed.row_sums):
        st.warning(plain(" ".join(notes)), icon=":material/functions:")


def show_one_head(head: ExposedHead) -> None:
    """Show the weights of a head, where no stage can be shown."""
    say_what_is_missing(head.capture)
    pin.listen()
    picture, beside = st.columns([7, 4], gap="medium")
    beside.subheader(f"Layer {head.layer}, head {head.head}", anchor=False)
    with beside:
        cell = pinned(head.capture.weights(*head.place), head.tokens)
    show_weights(head, cell, picture, beside, 560)


def show_weights(
    head: ExposedHead, cell: tuple[int, int], picture: DeltaGenerator, beside: DeltaGenerator, height: int
) -> None:
    """Show the weights of one head, and `beside` them what is said of the chosen (query, key)."""
    weights, (query_tokens, key_tokens) = result(call(head.capture.weights, *head.place)), head.tokens
    query, key = cell
    with beside:
        share = f"**{weights[query, key]:.1%}** of its attention"
        st.markdown(f"{quoted(query_tokens[query])} gives {share} to {quoted(key_tokens[key])}.")
        if len(weights) > 1 and query_tokens == key_tokens and not np.triu(weights, 1).any():
            words = "Nothing goes to later tokens. Which pairs are masked is not exposed: such a weight is drawn as 0"
            st.caption(f"{words}, not grey.")
        sums = head.capture.row_sums.get(head.place)
        if sums is not None and sums.is_off:
            st.caption(f"The rows of this head sum to {sums.in_words}, not 1.")
        st.caption("No certificate: there is nothing to compare with.")
    matrix, draw = Whole(weights), partial(_draw, head.tokens, cell)
    with picture:
        draw("exposed weights", "Weights", height, matrix.overview())
        show_magnified(matrix, cell, partial(draw, "loupe", "Weights near the chosen pair", 460))


def _draw(tokens: Tokens, cell: tuple[int, int], name: str, title: str, height: int, drawn: Overview) -> None:
    axes = map(Axis, ("query", "key"), tokens, cell)
    chart = heatmap(drawn.first, *axes, name="weight", scale="share", height=height, width=520)
    show_chart(chart, name, f"{title}: heatmap of queries by keys.", title=title)
