"""One head over a corpus: the distribution of a metric, and what the head looks at by kind of token, distance and relation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import streamlit as st

from core.corpus.opened import Run
from core.corpus.passages import CLASSES
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import bars, distribution_bars
from core.figures.theme import letters
from core.heads.metrics import Metric, in_words
from ui import presenting, shown, state
from ui.calls import call, result, result_of
from ui.controls.fields import menu
from ui.views.charts import show_chart, show_heatmap
from ui.views.numbers import of_table

QUARTERS = (0.25, 0.5, 0.75)
LOOKS = {"kind": "By kind of token", "distance": "By distance", "relation": "By relation"}
AGAINST = {"share": "Attention", "chance": "More than chance"}
HEIGHT = 330


def show_corpus_head(run: Run, layer: int, head: int, metric: Metric) -> None:
    words = in_words(run.table.iloc[run.heads.index((layer, head))].to_dict())
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(f"Layer {layer}, head {head}", anchor=False, width="content")
        st.caption(f"{words} over the corpus", width="stretch")
    _show_distribution(run, layer, head, metric)
    relations = run.relations(layer, head)
    looks = {word: name for word, name in LOOKS.items() if word != "relation" or len(relations)}
    is_share, exposes_mask = True, run.about.captures
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by = menu("What it looks at", state.LOOKS_BY, looks, look="buttons")
        if by == "kind" and exposes_mask:
            is_share = menu("Shown", state.AGAINST, AGAINST, look="buttons", label_visibility="collapsed") == "share"
    with presenting.aside():
        if by == "kind":
            _show_classes(run, layer, head, is_share)
        elif by == "distance":
            _show_distances(run, layer, head)
        else:
            _show_relations(relations)
    if not exposes_mask and by != "relation":
        st.caption(
            "This model exposes its weights only, not which pairs are masked: what chance would give is not known."
        )


def _show_distribution(run: Run, layer: int, head: int, metric: Metric) -> None:
    found = call(run.distribution, layer=layer, head=head, metric=metric.name)
    if not found.count:
        st.info("No query of the corpus has anything to measure for this metric.")
        return
    result_of(found.quantile, 0.5)
    quartiles = [found.quantile(share) for share in QUARTERS]
    chart = distribution_bars(
        found.histogram,
        found.high,
        label=f"{metric.label} ({metric.unit})" if metric.unit else metric.label,
        mean=found.mean,
        quartiles=quartiles,
        means=run.means(metric.name),
        chosen=(layer, head),
    )
    counts = found.histogram[:, None].astype(float)
    ends = [f"{low:.6g} to {high:.6g}" for low, high in pairwise(found.edges)]
    show_chart(
        chart,
        "distribution",
        f"How {metric.label} of this head is distributed over the queries of the corpus, and the mean of every head.",
        title=f"{metric.label} of head {layer}.{head} over the corpus",
        numbers=of_table("distribution", metric.label, counts, ("range", ends), ("number", ["queries"])),
    )
    numbers = (found.mean, found.spread, *quartiles)
    mean, spread, low, median, upper = (with_unit(number, metric) for number in numbers)
    presenting.tell(f"Mean **{mean}**; half of the queries lie between {low} and {upper}, the median is {median}.")
    st.caption(
        f"Over {found.count:,} queries; their standard deviation is {spread}. Bars are on a logarithmic "
        "axis. The box is the middle half, with the median; the diamond is the mean. Mean and deviation are exact, quartiles "
        f"to within 1/{len(found.histogram)} of the metric's range."
    )


def with_unit(number: float, metric: Metric) -> str:
    """A value of a metric as the page writes it: with its unit, or as a percentage."""
    return f"{number:.3g} {metric.unit}" if metric.unit else f"{number:.1%}"


def _show_classes(run: Run, layer: int, head: int, is_share: bool) -> None:
    """Show the mean attention from queries of each kind to keys of each kind."""
    table, shape = result(call(run.classes, layer=layer, head=head)), (len(CLASSES), len(CLASSES))
    attention, chance, queries = (
        table[name].to_numpy(float).reshape(shape) for name in ("attention", "chance", "queries")
    )
    there = np.flatnonzero(queries[:, 0] > 0)
    names = [CLASSES[place] for place in there]
    values = (attention if is_share else attention - chance)[np.ix_(there, there)]
    chart = heatmap(
        values,
        Axis("looks from", names),
        Axis("looks to", names),
        name="attention" if is_share else "more than chance",
        scale="share" if is_share else "signed",
        limit=1.0 if is_share else None,
        height=HEIGHT,
        width=presenting.width(620, 0.5),
    )
    title = "Attention by kind of token" if is_share else "Attention by kind of token, beyond chance"
    alt = "What a query of each kind gives to keys of each kind, on average over the corpus."
    numbers = of_table("classes", title, values, ("from", names), ("to", names))
    show_heatmap(chart, "looks", alt, title=title, numbers=numbers)
    beyond = "" if is_share else " Chance: the same, had each query attended evenly to all that it may attend to."
    st.caption(f"Each row: what queries of one kind give to keys of each kind, on average.{beyond}")


def _show_distances(run: Run, layer: int, head: int) -> None:
    table = result(call(run.distances, layer=layer, head=head))
    table = table.loc[(table["attention"] > 0) | (table["chance"] > 0)]
    ranges = table[["first", "last"]].to_numpy()
    names = [_signed(first) if first == last else f"{_signed(first)} to {_signed(last)}" for first, last in ranges]
    shares = ["attention", "chance"][: 1 + run.about.captures]
    values = table[shares].to_numpy(float)
    chart = bars(
        names,
        dict(zip(shares, values.T, strict=True)),
        y="share of attention",
        x="tokens before (−) and after the query",
        printed=False,
        height=HEIGHT,
    )
    ends = [_signed(last if last > 0 else first) for first, last in ranges]
    chart.layout["xaxis"] |= {"ticktext": ends, "tickangle": 0, "tickfont": {"size": letters(12)}}
    chart.layout["yaxis"]["tickformat"] = ".0%"
    show_chart(
        chart,
        "looks",
        "How much attention goes to keys at each distance, on average over the corpus, beside what even attention would give.",
        title="Attention by distance",
        numbers=of_table("distances", "Distances", values, ("distance", names), ("number", shares)),
    )
    st.caption("0 is the token itself; 8 stands for 5 to 8 tokens, 16 for 9 to 16, and so on.")


def _signed(place: int) -> str:
    return f"{place:+d}".replace("-", "−") if place else "0"


def _show_relations(relations: pd.DataFrame) -> None:
    shares = {name: st.column_config.NumberColumn(name, format="percent") for name in ("attention", "baseline")}
    st.dataframe(relations, hide_index=True, height=HEIGHT, column_config=shares)
    st.caption(
        "Attention from a word along a grammatical relation, beside the baseline: what this head gives at the same distances "
        "anyway. Those first that it follows most beyond that."
    )
    along, values = relations["relation"] + " " + relations["direction"], relations[[*shares]].to_numpy(float)
    numbers = of_table("relations", "Relations", values, ("relation", [*along]), ("number", [*shares]))
    shown.now().lists["Relations"] = numbers
