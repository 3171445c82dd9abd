"""What each head itself writes into the answer: read when a view asks for it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core import Capture, InputError
from ui import models
from ui.markdown import plain
from ui.progress import run
from ui.requests import KindRequest
from ui.views.heads import results

HELD = 4  # times the bytes of a pass: what one takes that notes what each head writes


def contributions_of(of: KindRequest, pass_: Capture, token: int | None = None) -> pd.DataFrame | None:
    """Return the direct contributions to a token's logit, a row a head, as in `core.direct_contributions`.

    None while the work waits for the visitor, and where there are none: the page then says why.
    """
    task, calls = results.contributions.task(of, token), pass_.model.attention_calls or 1
    cost = {"seconds": 2 * models.reading_seconds(pass_), "needs": HELD * pass_.nbytes}
    try:
        return run(task, "Reading what each head writes", calls, unit="attention call", **cost)
    except InputError as error:
        st.caption(f"No direct contributions: {plain(str(error))}")
        return None
