"""Which claims from the literature hold for the heads of a model, on the texts that come along."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.claims.known import measured
from core.claims.verdicts import RULE
from ui import links, state
from ui.markdown import plain
from ui.views.claims.results import known_address
from ui.views.sources.heads import AnyHead
from ui.views.sources.models import QUERIES_AND_KEYS, TEXTS, missing

HOW = "Of each claim the head that does it most, on the texts that come along. " + RULE


def holding(head: AnyHead) -> list[dict[Any, Any]] | None:
    """The rows of `core.claims.known.known_heads` that hold for this model and this kind of attention; None where they were not
    measured."""
    known = measured(head.capture.model.revision) if head.kind == head.capture.kinds[0] else None
    return None if known is None else [row for row in known.to_dict("records") if row["verdict"] == "holds"]


def show_known(head: AnyHead) -> None:
    """Name the heads for which known claims hold, or link to the page that tests them."""
    known = holding(head)
    if known is not None:
        named = ", ".join("{name} {head} ({share:.0%})".format(**row) for row in known)
        st.caption(plain(f"Known heads: {named or 'no known claim holds'}."), help=HOW)
    elif missing(head.capture.model, QUERIES_AND_KEYS, TEXTS) is None and not head.request.model.is_recorded:
        address = {state.MODEL: head.request.model.name} | known_address()
        links.link_to("claims", "Test the known claims", ":material/fact_check:", address)
