"""All heads of a run over a corpus: a grid by the mean of a metric, or a map on which near means alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import streamlit as st

from core.corpus.opened import DrawnMap, Run
from core.figures.plots.head_map import head_map
from core.heads.metrics import Metric, in_words
from ui import presenting, shown, state
from ui.calls import call, result
from ui.controls.fields import menu
from ui.markdown import plain
from ui.views.common.pictures import show_chart
from ui.views.heads.grid import HEIGHT, choose, listen_for_heads, show_grid_of_heads, walk_through_heads
from ui.views.numbers import of_heads, of_table

LOOKS = {"grid": "Grid", "map": "Map"}
PICTURE = "heads of the corpus"
LIKE = 5  # the number of heads that are named as being like the chosen one


def show_corpus_heads(run: Run, layer: int, head: int, offered: Mapping[str, Metric], opening: str) -> Metric:
    """Show all heads; return the chosen metric of those that are offered by name."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = {name: metric.label for name, metric in offered.items()}
        metric = offered[menu("All heads by", state.METRIC, names, opening=opening, width=210)]
        drawn_as = "grid"
        if run.map is not None:
            drawn_as = menu("Drawn as", state.HEADS_AS, LOOKS, look="buttons", label_visibility="collapsed")
    values, chosen = result(call(run.means, metric.name)), (layer, head)
    listen_for_heads(values.shape)
    shown.now().lists["Metrics of all heads"] = of_heads(run.table)
    if presenting.is_on():
        by = f" by **{plain(metric.label.lower())}**" if drawn_as == "grid" else ": near means alike"
        with presenting.told():
            st.markdown(f"All heads{by}")
    if drawn_as == "map" and run.map is not None:
        _show_map(run, run.map, chosen)
    else:
        alt = f"All heads by {metric.label}, mean over the corpus"
        show_grid_of_heads(values, metric.label, chosen, name=PICTURE, alt=alt)
    walk_through_heads(chosen, values.shape, PICTURE)
    if drawn_as == "map" and run.map is not None:
        trust = run.map.trustworthiness
        kept = "" if trust is None else f" (trustworthiness {trust:.2f} of 1)"
        st.caption(
            f"Near means alike: heads that do alike over the corpus lie together{kept}. Colours are regions, named by what "
            "their heads do on average. How the map is turned means nothing. A click opens the head."
        )
    else:
        unit = f" In {metric.unit}." if metric.unit else ""
        st.caption(f"{metric.words} Mean over all queries of the corpus.{unit} A click opens the head.")
    if run.map is not None and chosen in run.heads:
        with st.container(gap=None):
            _show_alike(run, run.map, chosen)
    return metric


def _show_map(run: Run, drawn: DrawnMap, chosen: tuple[int, int]) -> None:
    chart = head_map(drawn.x, drawn.y, drawn.cluster, drawn.words, run.heads, chosen=chosen, height=HEIGHT + 140)
    names = tuple(f"head {layer}.{head}" for layer, head in run.heads)
    values = np.stack([drawn.x, drawn.y, drawn.cluster.astype(float)], axis=1)
    show_chart(
        chart,
        PICTURE,
        "A map of all heads, near each other where they do alike, in the colours of their clusters.",
        title="A map of all heads",
        numbers=of_table("map", "Map", values, ("head", names), ("number", ["x", "y", "cluster"])),
    )


def _show_alike(run: Run, drawn: DrawnMap, chosen: tuple[int, int]) -> None:
    """Show the heads nearest to the chosen one, each as a button that opens it."""
    st.markdown(f"**Heads like {chosen[0]}.{chosen[1]}**")
    place = run.heads.index(chosen)
    for number, other in enumerate(drawn.alike[place][:LIKE]):
        layer, head = run.heads[other]
        words = in_words(run.table.iloc[other].to_dict())
        st.button(
            f"{layer}.{head} · {plain(words)}",
            key=state.alike(number),
            type="tertiary",
            on_click=choose,
            args=(layer, head),
        )
