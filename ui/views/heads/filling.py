"""A grid of all heads whose numbers come layer by layer, and the list of the strongest; a head can be chosen in both."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from ui import models
from ui.growing import Growing
from ui.progress import fill
from ui.views.heads.grid import NAME, listen_for_heads, show_grid_of_heads, show_list_of_heads, walk_through_heads
from ui.views.sources.heads import RealHead

LISTED = 30


def fill_grid(
    growing: Growing,
    job: Hashable,
    what: str,
    label: str,
    real: RealHead,
    *,
    signed: bool,
) -> NDArray[np.floating]:
    """Draw the numbers of all heads as they come. Return those that are known in the end: [layers, heads], NaN elsewhere.

    job      what is asked for
    growing  [layers or fewer, heads or fewer]; heads beyond are never known
    what     is said while they come
    label    what the numbers are
    """
    shape = (real.capture.layers(real.kind), real.capture.heads(real.kind))
    listen_for_heads(shape)
    chosen = (real.layer, real.head)

    def draw(last: bool) -> None:
        name = NAME if last else f"{NAME} {growing.done}"
        show_grid_of_heads(_whole(growing.values, shape), label, chosen, name=name, signed=signed)

    fill(growing, job, what, draw, seconds=models.reading_seconds(real.capture))
    values = _whole(growing.values, shape)
    with st.container():
        if growing.done:
            walk_through_heads(chosen, shape)
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
    show_list_of_heads(pd.DataFrame({"layer": at[0], "head": at[1], label: values[at]}), (label,))
    st.caption(f"The {len(heads)} strongest. Mark a row to choose its head.")


def _whole(values: NDArray[np.floating], shape: tuple[int, int]) -> NDArray[np.floating]:
    """Add rows and columns of NaN for the heads that will never be known."""
    whole = np.full(shape, np.nan)
    whole[: values.shape[0], : values.shape[1]] = values
    return whole
