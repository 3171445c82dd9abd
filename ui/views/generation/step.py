"""A step of a text that a model writes: which one, and in which head."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core import Generation
from core.figures.labels import visible
from core.heads.metrics import one_query
from core.models.modules import Kind
from ui import state
from ui.controls.fields import menu, token_picker
from ui.requests import WritingRequest
from ui.views.sources.heads import RealHead, choose_head
from ui.views.sources.reading import InputFields


@dataclass(frozen=True, eq=False)
class Step:
    """A step of a text that a model writes, in one of its heads.

    number   from 0
    whole    the head in the passes of all steps
    head     the same in those up to this step, whose last query chooses the token that is written
    weights  [layers, heads, keys] of this query in every head
    key      the chosen one
    """

    generation: Generation
    number: int
    whole: RealHead
    head: RealHead
    weights: NDArray[np.float32]
    key: int

    @property
    def query(self) -> int:
        return self.head.shape[0] - 1


def choose_step(request: WritingRequest, generation: Generation, fields: InputFields, line: DeltaGenerator) -> Step:
    capture = generation.capture_of(-1)
    # Those whose queries are written tokens; cross-attention comes first.
    kinds: list[Kind] = sorted(kind for kind in capture.kinds if kind not in ("encoder", "vision"))
    with line:
        whole = choose_head(request.text, capture, fields.head_place, kinds)
        steps = {str(number): f"{number} · {visible(token)}" for number, token in enumerate(generation.tokens, start=1)}
        number = 0
        if len(steps) > 1:
            with st.container(width="stretch"):
                number = int(menu("Step, and what it writes", state.STEP, steps, look="line")) - 1
    head = replace(whole, capture=generation.capture_of(number))
    weights = one_query(head.capture, head.shape[0] - 1, head.kind)
    row = weights[head.place]
    with line, st.container(width=150):
        key = token_picker("Key", state.KEY, head.tokens[1], int(row.argmax()))
    return Step(generation, number, whole, head, weights, key)


def go_to_step(step: int) -> None:
    """Choose a step, from 0, before the page runs."""
    st.session_state[state.STEP] = str(step + 1)
