"""A grid of all heads whose numbers come layer by layer, and the list of the strongest; a head can be chosen in both."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from core.figures.heatmaps.all_heads import metric_grid
from ui import shown, state, stores
from ui.components import pin
from ui.components.arrows import arrow_keys
from ui.progress import fill
from ui.views.common.pictures import show_heatmap
from ui.views.heads.heads_grid import HEIGHT, choose, choose_row
from ui.views.numbers import of_grid
from ui.views.sources.heads import RealHead

LISTED = 30


def fill_grid(
    growing: stores.Growing,
    job: Hashable,
    what: str,
    label: str,
    real: RealHead,
    *,
    signed: bool,
) -> NDArray[np.floating]:
    """Draw the numbers of all heads as they come; what is known in the end: [layers, heads], NaN where it is not.

    job      what is asked for
    growing  [layers or fewer, heads or fewer]; heads beyond are never known
    what     is said while they come
    label    what the numbers are
    """
    shown.now().asked.append(job)
    shape = (real.capture.layers(real.kind), real.capture.heads(real.kind))
    pin.listen(partial(_clicked, shape))  # before the picture: whoever sees it may click at once
    chosen = (real.layer, real.head)

    def draw(last: bool) -> None:
        chart = metric_grid(
            _whole(growing.values, shape), label, signed=signed, chosen=chosen, left_out=None, height=HEIGHT
        )
        name = "atlas" if last else f"atlas {growing.done}"
        show_heatmap(
            chart,
            name,
            f"All heads by {label}: a grid of layers by heads.",
            title=f"All heads by {label}",
            numbers=of_grid(_whole(growing.values, shape), label),
        )

    fill(growing, job, what, draw, seconds=stores.reading_seconds(real.capture))
    values = _whole(growing.values, shape)
    with st.container():
        if growing.done:
            arrow_keys(
                state.picture("atlas"),
                f"Choose a head with the arrow keys. Chosen: layer {chosen[0]}, head {chosen[1]}.",
                chosen,
                shape,
                choose,
            )
        if growing.done < growing.total:
            st.caption(f"{np.isfinite(values).sum()} of {growing.values.size} heads are known.")
    return values


def show_strongest(values: NDArray[np.floating], label: str) -> None:
    """The heads whose numbers [layers, heads] are farthest from 0. Choosing a row chooses the head."""
    heads = np.argwhere(np.isfinite(values))
    if not len(heads):
        return
    size = np.abs(values[tuple(heads.T)])
    heads = heads[np.argsort(-size, kind="stable")][:LISTED]
    at = tuple(heads.T)
    st.dataframe(
        pd.DataFrame({"layer": at[0], "head": at[1], label: values[at]}),
        key=state.RANKED,
        hide_index=True,
        height=300,
        on_select=lambda: choose_row(heads),
        selection_mode="single-row",
        column_config={label: st.column_config.NumberColumn(format="%.3f")},
    )
    st.caption(f"The {len(heads)} strongest. Mark a row to choose its head.")


def _whole(values: NDArray[np.floating], shape: tuple[int, int]) -> NDArray[np.floating]:
    """The same with rows and columns of NaN for the heads of which nothing will be known."""
    whole = np.full(shape, np.nan)
    whole[: values.shape[0], : values.shape[1]] = values
    return whole


def _clicked(shape: tuple[int, int]) -> None:
    if head := pin.clicked_in("layer", "head", shape):
        choose(*head)
