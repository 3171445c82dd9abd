"""A finished run over a corpus: which one, what it read, all of its heads beside the chosen one, and examples."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.corpus.opened import ListedRun, Run
from core.exporting.about import PACKAGES
from core.heads.metrics import METRICS, NAMES, Metric, most_telling
from core.versions import versions
from ui import presenting, shown, state
from ui.controls.fields import menu, number_picker
from ui.markdown import plain, show_error
from ui.views.corpus import results
from ui.views.corpus.examples import show_examples
from ui.views.corpus.head import show_corpus_head
from ui.views.corpus.heads import show_corpus_heads

COMMAND = "pip install -r requirements-corpus.txt\npython -m core.corpus example"


def show_corpus() -> None:
    folder = results.corpora()
    if folder is None:
        st.info("This host shows no corpus runs.", icon=":material/library_books:")
        return
    try:
        listed = results.listed_runs(folder)
    except InputError as error:
        show_error(error)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        run = _choose_run(listed)
        places = [st.container(width=92), st.container(width=92), st.container(width=540)]
    if broken := [folder.problem for folder in listed if folder.problem]:
        with st.expander(f"{_counted(len(broken), 'folder')} beside the runs cannot be opened"):
            for problem in broken:
                st.markdown(plain(problem))
    if run is None:
        return
    try:
        _show_reading(run, places[2])
        _show(run, places)
    except InputError as error:  # rows that are read on demand are checked only then
        show_error(error)


def _choose_run(listed: list[ListedRun]) -> Run | None:
    """The chosen run; None after a message on how to make one, or on what is wrong with it."""
    there = {folder.name: folder.name for folder in listed if folder.about is not None}
    if not there:
        with st.container():
            words = "There is no finished run yet. These two lines make two small ones in about five minutes:"
            st.info(words, icon=":material/library_books:")
            st.code(COMMAND, language=None)
        return None
    try:
        return results.corpus_run(menu("Run", state.RUN, there, width=280))
    except InputError as error:
        show_error(error)
        return None


def _show_reading(run: Run, place: DeltaGenerator) -> None:
    """Show what the run has read, and what it could not read."""
    about, unread = run.about, run.about.unread
    place.markdown(
        f"**{plain(about.model)}** has read **{about.tokens:,} tokens** in {_counted(about.passages, 'passage')} of "
        f"{_counted(about.files, 'file')}: {plain(PurePath(about.data).name)}"
    )
    if unread:
        with st.expander(f"{_counted(unread, 'text')} could not be read"):
            st.dataframe(run.problems, hide_index=True)
            if unread > len(run.problems):
                st.caption(f"The first {len(run.problems):,} of them.")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _show(run: Run, places: list[DeltaGenerator]) -> None:
    if not run.names:
        st.info("This run has measured nothing: no text that it read had anything to measure.")
        return
    offered = {metric.name: metric for metric in METRICS if metric.name in run.names}
    opening = _opening(run)
    means = run.means(opening)
    best = np.unravel_index(int(np.nanargmax(means)), means.shape)
    with places[0]:
        layer = number_picker("Layer", state.LAYER, run.about.layers, int(best[0]))
    with places[1]:
        head = number_picker("Head", state.HEAD, run.about.heads, int(best[1]))
    presenting.title(f"Layer {layer}, head {head} of {plain(run.about.model)}, over {run.about.tokens:,} tokens")
    every, one = st.columns([5, 7], gap="medium")
    with every:
        metric = show_corpus_heads(run, layer, head, offered, opening)
    _describe(run, layer, head, metric)
    if (layer, head) not in run.heads:
        others = len(run.heads)
        one.info(f"This run did not look at head {layer}.{head}, but at {others} others. Choose one in the grid.")
        return
    with one:
        show_corpus_head(run, layer, head, metric)
    show_examples(run, layer, head, metric)


def _opening(run: Run) -> str:
    """The metric with examples by which a head stands out most."""
    table = run.table.copy()
    table[[name for name in NAMES if name not in run.about.examples_of]] = np.nan
    telling = most_telling(table)
    return telling if telling in run.names else run.names[0]


def _describe(run: Run, layer: int, head: int, metric: Metric) -> None:
    """Describe what the page shows for its files and links."""
    about = run.about
    shown.now().about = {
        **{name: getattr(about, name) for name in ("model", "revision", "dtype")},
        "attention": about.kind,
        "layer": str(layer),
        "head": str(head),
        "layer.head": f"{layer}.{head}",
        "corpus": f"{PurePath(about.data).name}, {about.tokens:,} tokens in {about.passages:,} passages ({about.corpus})",
        "metric": metric.label,
        **{f"version of {name}, when it ran": version for name, version in about.versions.items()},
        **{f"version of {name}": version for name, version in versions(*PACKAGES).items()},
    }
