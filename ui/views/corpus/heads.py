"""All heads of a run over a corpus: a grid by the mean of a metric, or a map on which near means alike."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from core.corpus.opened import Run
from core.corpus.tables import HeadMap
from core.figures.plots.dots import head_map
from core.heads.metrics import Metric, in_words
from ui import presenting, shown, state
from ui.calls import call, result
from ui.controls.fields import menu
from ui.controls.heads_by import metric_menu
from ui.markdown import plain
from ui.views.charts import show_chart
from ui.views.grid_of_heads import HEIGHT, choose, listen_for_heads, show_grid_of_heads, walk_through_heads
from ui.views.numbers import of_heads, of_table

LOOKS = {"grid": "Grid", "map": "Map"}
PICTURE = "heads of the corpus"
LIKE = 5  # the number of heads that are named as being like the chosen one


def show_corpus_heads(run: Run, layer: int, head: int, offered: Mapping[str, Metric], opening: str) -> Metric:
    """Show all heads; return the chosen metric of those that are offered by name."""
    look = "grid"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        metric = offered[metric_menu("All heads by", offered, opening, width=280)]
        if run.map is not None:
            look = menu("Drawn as", state.HEADS_AS, LOOKS, look="buttons", label_visibility="collapsed")
    values, chosen = result(call(run.means, metric.name)), (layer, head)
    listen_for_heads(values.shape)
    shown.now().lists["Metrics of all heads"] = of_heads(run.table)
    if presenting.is_on():
        by = f" by **{plain(metric.label.lower())}**" if look == "grid" else ": near means alike"
        presenting.tell(f"All heads{by}")
    if look == "map" and run.map is not None:
        words = _show_map(run, run.map, chosen)
    else:
        alt = f"All heads by {metric.label}, mean over the corpus"
        show_grid_of_heads(values, metric.label, chosen, name=PICTURE, alt=alt)
        unit = f" In {metric.unit}." if metric.unit else ""
        words = f"{metric.words} Mean over all queries of the corpus.{unit}"
    walk_through_heads(chosen, values.shape, PICTURE)
    st.caption(f"{words} A click opens the head.")
    if run.map is not None and chosen in run.heads:
        with st.container(gap=None):
            _show_alike(run, run.map, chosen)
    return metric


def _show_map(run: Run, drawn: HeadMap, chosen: tuple[int, int]) -> str:
    """Show the map of all heads; return the sentences that explain it."""
    x, y, cluster = (drawn.heads[name].to_numpy() for name in ("x", "y", "cluster"))
    chart = head_map(x, y, cluster, drawn.clusters, run.heads, chosen=chosen, height=HEIGHT + 140)
    names = tuple(f"head {layer}.{head}" for layer, head in run.heads)
    values = drawn.heads[["x", "y", "cluster"]].to_numpy(float)
    show_chart(
        chart,
        PICTURE,
        "A map of all heads, near each other where they do alike, in the colours of their clusters.",
        title="A map of all heads",
        numbers=of_table("map", "Map", values, ("head", names), ("number", ["x", "y", "cluster"])),
    )
    trust = "" if drawn.trustworthiness is None else f" (trustworthiness {drawn.trustworthiness:.2f} of 1)"
    return (
        f"Near means alike: heads that behave alike over the corpus lie together{trust}. Colours are regions, named by what "
        "their heads do on average. How the map is turned means nothing."
    )


def _show_alike(run: Run, drawn: HeadMap, chosen: tuple[int, int]) -> None:
    """Show the heads nearest to the chosen one, each as a button that opens it."""
    st.markdown(f"**Heads like {chosen[0]}.{chosen[1]}**")
    for number, other in enumerate(drawn.heads["alike"][run.heads.index(chosen)][:LIKE]):
        layer, head = run.heads[other]
        words = plain(in_words(run.table.iloc[other].to_dict()))
        key = state.one_of(state.ALIKE, number)
        st.button(f"{layer}.{head} · {words}", key=key, type="tertiary", on_click=choose, args=(layer, head))
