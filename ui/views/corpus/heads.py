"""The heads of a run over a corpus: all of them by a mean or on a map, one with what it looks at, and examples of it."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.attention.rowwise import around
from core.corpus.opened import Example, Run, spread_over_quantiles
from core.corpus.tables import HeadMap
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import bars, distribution_bars
from core.figures.plots.dots import head_map
from core.figures.theme import letters
from core.heads.metrics import Metric
from core.models.devices import devices
from core.models.modules import Kind
from core.models.passages import CLASSES
from ui import presenting, shown, state
from ui.allowed import places_of
from ui.calls import call, result, result_of
from ui.components.token_view import shade_legend, shaded_text
from ui.controls.fields import menu, page_of, part_of
from ui.markdown import plain, show_error
from ui.requests import HeadRequest, ModelChoice, TextRequest
from ui.views import grid_of_heads
from ui.views.charts import show_chart
from ui.views.claims.results import Known
from ui.views.grid_of_heads import HEIGHT, choose, listen_for_heads, show_grid_of_heads, walk_through_heads
from ui.views.head_links import link_to_heads
from ui.views.numbers import of_heads, of_table

DRAWN_AS = {"grid": "Grid", "map": "Map"}
PICTURE = "heads of the corpus"
LIKE = 5  # the number of heads that are named as being like the chosen one
QUARTERS = (0.25, 0.5, 0.75)
LOOKS = {"kind": "By kind of token", "distance": "By distance", "relation": "By relation"}
AGAINST = {"share": "Attention", "chance": "More than chance"}
ONE_HEIGHT = 330
KEPT = {"strongest": "Strongest", "spread": "From a random sample"}
BATCH = 10
TOKENS = 256  # the maximum shown of a passage: those around the query
TOLD = 1, 40  # examples while presenting, and tokens of each


def show_corpus_heads(run: Run, layer: int, head: int, offered: Mapping[str, Metric], opening: str) -> Metric:
    """Show all heads; return the chosen metric of those that are offered by name."""
    look = "grid"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        metric = offered[grid_of_heads.metric_menu("All heads by", offered, opening, width=280)]
        if run.map is not None:
            look = menu("Drawn as", state.HEADS_AS, DRAWN_AS, look="buttons", label_visibility="collapsed")
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
            _show_alike(run, run.map, chosen, metric)
    return metric


def _known(run: Run) -> Known | None:
    """Which claims hold for its heads, if it has tested any."""
    return None if run.claims_by_head is None else Known(run.claims_by_head, run.about.data)


def _show_map(run: Run, drawn: HeadMap, chosen: tuple[int, int]) -> str:
    """Show the map of all heads; return the sentences that explain it."""
    x, y, cluster = (drawn.heads[name].to_numpy() for name in ("x", "y", "cluster"))
    held = None if (known := _known(run)) is None else known.in_words(run.about.layers, run.about.heads)
    chart = head_map(x, y, cluster, drawn.clusters, run.heads, chosen=chosen, held=held, height=HEIGHT + 140)
    names, columns = [f"head {layer}.{head}" for layer, head in run.heads], ["x", "y", "cluster"]
    numbers = of_table("map", "Map", drawn.heads[columns].to_numpy(float), ("head", names), ("number", columns))
    alt = "A map of all heads, near each other where they do alike, in the colours of their clusters."
    show_chart(chart, PICTURE, alt, title="A map of all heads", numbers=numbers)
    trust = "" if drawn.trustworthiness is None else f" (trustworthiness {drawn.trustworthiness:.2f} of 1)"
    alike = f"Near means alike: heads that behave alike over the corpus lie together{trust}."
    colours = "Colours are regions, named by what their heads do on average."
    return f"{alike} {colours} How the map is turned means nothing."


def _show_alike(run: Run, drawn: HeadMap, chosen: tuple[int, int], metric: Metric) -> None:
    means = run.means(metric.name)
    st.markdown(f"**Heads like {chosen[0]}.{chosen[1]}**")
    for number, other in enumerate(drawn.heads["alike"][run.heads.index(chosen)][:LIKE]):
        layer, head = run.heads[other]
        key = state.one_of(state.ALIKE, number)
        words = f"{layer}.{head} · {metric.label} {with_unit(float(means[layer, head]), metric)}"
        st.button(words, key=key, type="tertiary", on_click=choose, args=(layer, head))


def show_corpus_head(run: Run, layer: int, head: int, metric: Metric) -> None:
    held = "" if (known := _known(run)) is None else known.in_words(run.about.layers, run.about.heads)[layer, head]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(f"Layer {layer}, head {head}", anchor=False, width="content")
        st.caption(plain(f"holds: {held}" if held else ""), width="stretch")
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
        words = "This model exposes its weights only, not which pairs are masked: what chance would give is not known."
        st.caption(words)


def _show_distribution(run: Run, layer: int, head: int, metric: Metric) -> None:
    found = call(run.distribution, layer=layer, head=head, metric=metric.name)
    if not found.count:
        st.info("No query of the corpus has anything to measure for this metric.")
        return
    result_of(found.quantile, 0.5)
    quartiles = [found.quantile(share) for share in QUARTERS]
    label = f"{metric.label} ({metric.unit})" if metric.unit else metric.label
    look: dict[str, Any] = {"mean": found.mean, "quartiles": quartiles, "means": run.means(metric.name)}
    chart = distribution_bars(found.histogram, found.high, label=label, chosen=(layer, head), **look)
    counts = found.histogram[:, None].astype(float)
    ends = [f"{low:.6g} to {high:.6g}" for low, high in pairwise(found.edges)]
    numbers = of_table("distribution", metric.label, counts, ("range", ends), ("number", ["queries"]))
    title = f"{metric.label} of head {layer}.{head} over the corpus"
    alt = f"How {metric.label} of this head is distributed over the queries of the corpus, and the mean of every head."
    show_chart(chart, "distribution", alt, title=title, numbers=numbers)
    found_numbers = (found.mean, found.spread, *quartiles)
    mean, spread, low, median, upper = (with_unit(number, metric) for number in found_numbers)
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
    columns = "attention", "chance", "queries"
    attention, chance, queries = (table[name].to_numpy(float).reshape(shape) for name in columns)
    there = np.flatnonzero(queries[:, 0] > 0)
    names = [CLASSES[place] for place in there]
    title, beyond = "Attention by kind of token", ""
    look: dict[str, Any] = {"name": "attention", "scale": "share", "limit": 1.0}
    if not is_share:
        attention, title = attention - chance, f"{title}, beyond chance"
        look = {"name": "more than chance", "scale": "signed"}
        beyond = " Chance: the same, had each query attended evenly to all that it may attend to."
    values, axes = attention[np.ix_(there, there)], (Axis("looks from", names), Axis("looks to", names))
    chart = heatmap(values, *axes, height=ONE_HEIGHT, width=presenting.width(620, 0.5), **look)
    alt = "What a query of each kind gives to keys of each kind, on average over the corpus."
    numbers = of_table("classes", title, values, ("from", names), ("to", names))
    show_chart(chart, "looks", alt, title=title, numbers=numbers)
    st.caption(f"Each row: what queries of one kind give to keys of each kind, on average.{beyond}")


def _show_distances(run: Run, layer: int, head: int) -> None:
    table = result(call(run.distances, layer=layer, head=head))
    table = table.loc[(table["attention"] > 0) | (table["chance"] > 0)]
    ranges = table[["first", "last"]].to_numpy()
    names = [_signed(first) if first == last else f"{_signed(first)} to {_signed(last)}" for first, last in ranges]
    shares = ["attention", "chance"][: 1 + run.about.captures]
    values = table[shares].to_numpy(float)
    groups, x = dict(zip(shares, values.T, strict=True)), "tokens before (−) and after the query"
    chart = bars(names, groups, y="share of attention", x=x, printed=False, height=ONE_HEIGHT)
    ends = [_signed(last if last > 0 else first) for first, last in ranges]
    chart.layout["xaxis"] |= {"ticktext": ends, "tickangle": 0, "tickfont": {"size": letters(12)}}
    chart.layout["yaxis"]["tickformat"] = ".0%"
    numbers = of_table("distances", "Distances", values, ("distance", names), ("number", shares))
    alt = "How much attention goes to keys at each distance, on average over the corpus, beside what even attention would give."
    show_chart(chart, "looks", alt, title="Attention by distance", numbers=numbers)
    st.caption("0 is the token itself; 8 stands for 5 to 8 tokens, 16 for 9 to 16, and so on.")


def _signed(place: int) -> str:
    return f"{place:+d}".replace("-", "−") if place else "0"


def _show_relations(relations: pd.DataFrame) -> None:
    shares = {name: st.column_config.NumberColumn(name, format="percent") for name in ("attention", "baseline")}
    st.dataframe(relations, hide_index=True, height=ONE_HEIGHT, column_config=shares)
    st.caption(
        "Attention from a word along a grammatical relation, beside the baseline: what this head gives at the same distances "
        "anyway. Those first that it follows most beyond that."
    )
    along, values = relations["relation"] + " " + relations["direction"], relations[[*shares]].to_numpy(float)
    numbers = of_table("relations", "Relations", values, ("relation", [*along]), ("number", [*shares]))
    shown.now().lists["Relations"] = numbers


def show_examples(run: Run, layer: int, head: int, metric: Metric) -> None:
    has_strongest = metric.name in run.about.examples_of
    offered = {word: name for word, name in KEPT.items() if word != "strongest" or has_strongest}
    st.subheader(f"Examples by {metric.label.lower()}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        kept = menu("Examples", state.KEPT, offered, look="buttons", label_visibility="collapsed")
        low, high = 0, 100
        if kept == "spread":
            words = "0 to 25: the quarter of the queries that have least of it; 50 is the median."
            low, high = part_of("Quantiles of the sample, in %", state.QUANTILES, low, high, width=360, help=words)
        pages = st.container(width="content")
    try:
        if kept == "strongest":
            count = run.count_strongest(layer, head, metric.name)
            first = _first(count, pages)
            wanted = layer, head, metric.name, first, first + BATCH
            examples = run.strongest(*wanted)
            result_of(run.strongest, *wanted)
        else:
            sample = call(run.sample, layer, head)
            places = call(spread_over_quantiles, call(sample.ordered, metric.name, low / 100, high / 100))
            count = len(places)
            first = _first(count, pages)
            examples = sample.examples(places[first : first + BATCH], metric.name)
            result_of(sample.examples, places, metric.name)
    except InputError as error:
        show_error(error)
        return
    if not count:
        words = "There are no such queries. Widen the quantiles, or choose another metric."
        st.info(words, icon=":material/filter_alt:")
        return
    words = f"{first + 1} to {first + len(examples)} of"
    if kept == "spread":
        words += f" {count}, most first: one from each of as many equal parts of {run.about.sample} queries "
        words += "drawn at random, the same for all heads."
    else:
        words += f" the {count} queries of the corpus with the largest values of this head."
    st.caption(words if has_strongest else f"{words} Of this metric the run kept no strongest queries.")
    _show(run, layer, head, metric, examples, first)


def _first(count: int, pages: DeltaGenerator) -> int:
    batches = max(-(-count // BATCH), 1)
    if batches == 1 or presenting.is_on():
        return 0
    with pages:
        return BATCH * (page_of(state.BATCH, batches, "Which ten examples") - 1)


def _show(run: Run, layer: int, head: int, metric: Metric, examples: list[Example], first: int) -> None:
    limit = max(float(np.max(example.weights, initial=0)) for example in examples)
    about, opens, presents = run.about, False, presenting.is_on()
    with suppress(InputError):  # where this host does not load the model
        places_of(about.model)
        opens = True
    model = ModelChoice(about.model, about.dtype, about.device if about.device in devices() else "cpu")
    with presenting.told():
        shade_legend(limit, key=state.SHADES)
    for number, example in enumerate(examples[: TOLD[0] if presents else None]):
        with presenting.told():
            score = with_unit(example.score, metric)
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"**{first + number + 1}. {metric.label} {score}**", width="content")
                st.caption(f"{plain(example.file)}, row {example.row}", width="content")
                if opens and not presents:
                    of = HeadRequest(TextRequest(model, example.text), cast(Kind, about.kind), layer, head)
                    cell = (example.query, int(np.argmax(example.weights)))
                    link_to_heads(of, cell, "Open live", ":material/open_in_new:")
            # The part of a long passage that is around the query.
            part = around(example.query, len(example.tokens), TOLD[1] if presents else TOKENS)
            tokens, weights = example.tokens[part.start : part.stop], example.weights[part.start : part.stop]
            key = state.one_of(state.SHADED, number)
            shaded_text(tokens, weights, example.query - part.start, start=part.start, limit=limit, key=key)
    if not opens:
        st.caption(f"This host does not load {plain(about.model)}: examples cannot be opened live.")
