"""Every cache. Keys are plain names and frozen requests, never arrays or models; each cache is small and bounded."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from core import AttentionTrace, Capture, Model, capture, load_model
from core.capturing import Certificate, Kind


@dataclass(frozen=True)
class TextRequest:
    """One pass of one model over one text."""

    model: str
    text: str
    pair: str | None = None
    cut: bool = False


@dataclass(frozen=True)
class HeadRequest:
    """One head of one pass."""

    text: TextRequest
    kind: Kind
    layer: int
    head: int


@st.cache_resource(
    max_entries=2,
    show_spinner="Reading the model. The very first time its weights are converted, which takes about 20 seconds.",
    show_time=True,
)
def model(name: str) -> Model:
    return load_model(name)


@st.cache_resource(max_entries=4, show_spinner="Running the model over the text", show_time=True)
def captured(request: TextRequest) -> Capture:
    return capture(model(request.model), request.text, pair=request.pair, cut=request.cut)


@st.cache_resource(max_entries=4, show_spinner=False)
def head(request: HeadRequest) -> tuple[AttentionTrace, Certificate]:
    pass_ = captured(request.text)
    return (
        pass_.trace(request.layer, request.head, request.kind),
        pass_.certificate(request.layer, request.head, request.kind),
    )
