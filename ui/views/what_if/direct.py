"""What heads contribute to the answer by themselves, beside what muting them does to it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core.figures.plots.dots import dots_against
from core.figures.values import written
from core.heads.effects import rank_correlation
from core.notebook.figures import heads_figure
from ui.calls import result_of
from ui.views.common.pictures import show_chart
from ui.views.heads.direct import contributions_of
from ui.views.heads.grid import Grid
from ui.views.sources.heads import RealHead

DIRECT = "Direct contribution"
OF_LOGIT = (
    "Direct contribution: what a head itself adds to the token's logit, less what it adds to all logits on average."
)
OF_COSINE = "Direct contribution: what a head itself adds to the cosine of the sentence vector with itself, which is 1."
WORDS = "What it does through later heads and layers is not in it; muting measures both."


def direct_of(real: RealHead, token: int | None) -> Grid | None:
    """Return the direct contribution of every head; None as in `contributions_of`."""
    table = contributions_of(real.of_kind, real.capture, token)
    if table is None:
        return None
    result_of(heads_figure, table, "contribution", head=real.place)
    return table["contribution"].to_numpy().reshape(real.grid)


def show_direct(real: RealHead, direct: Grid, effects: Grid, label: str, what: str) -> None:
    """Draw each head by its direct contribution and by the effect of muting it.

    label  what the effects are
    what   what the contributions are: `OF_LOGIT` or `OF_COSINE`
    """
    title = f"{DIRECT} of every head, and the effect of muting it ({label})"
    chart = dots_against(direct, effects, names=(DIRECT, label), marked=real.place)
    show_chart(chart, "direct", f"{title}.", title=title)
    alike = rank_correlation(direct, effects)
    agreement = f" Rank correlation of the two: {written(alike)}." if np.isfinite(alike) else ""
    st.caption(f"{what} {WORDS}{agreement}")
