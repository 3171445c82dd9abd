"""A run over a corpus: which one, what it read, its heads and examples; and a run over a text of one's own."""

import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from weakref import finalize

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.corpus.opened import ListedRun, Run, open_run, runs_in
from core.corpus.steps import InProcessRun
from core.exporting.documents import PACKAGES
from core.heads.metrics import METRICS, NAMES, Metric, most_telling
from core.installed import versions
from core.units import counted
from ui import links, presenting, progress, settings, shown, state
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import made_by
from ui.controls.fields import KEPT, choose, head_picker, upload, uploaded_file
from ui.markdown import errors_shown, plain
from ui.requests import ModelChoice, RunRequest
from ui.views.corpus.folders import folder_of_texts
from ui.views.corpus.heads import show_corpus_head, show_corpus_heads, show_examples, with_unit
from ui.views.sources import models
from ui.views.sources.text_fields import choose_model, read_model, say_checked

INCLUDED = Path(__file__).parent / "documentation"  # docs/corpus.md says how it was made
MOST_TOKENS = 200_000  # of a text of one's own: a few minutes for a small model
Facts = tuple[tuple[str, int, int], ...]
PASTED = "pasted.txt"
ENDINGS = ["txt", "md", "text"]


# --- runs: each opened once for all sessions for as long as its files stay the same, or as far as it has come


def corpora() -> Path | None:
    """The folder of finished runs; None where this host has none."""
    named = settings.current().corpora
    return settings.ROOT / named if named else None  # a whole path stays as it is


def _facts(folder: Path) -> Facts | None:
    """For each file in a folder what changes with its contents: name, time, size; None for a folder that cannot be read."""
    with suppress(OSError):
        return tuple(sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in os.scandir(folder)))
    return None


def listed_runs(folder: Path) -> list[ListedRun]:
    """The runs in a folder, as its files are now. Raises InputError for a folder that cannot be read."""
    facts = _facts(folder)
    return runs_in(folder) if facts is None else _listed(str(folder), facts)


@cached(Store(2))
def _listed(folder: str, _facts: Facts) -> list[ListedRun]:
    return runs_in(folder)


def corpus_run(folder: Path) -> Run:
    """The run in a folder, as its files are now. Raises InputError as `open_run` does."""
    facts = _facts(folder)
    return open_run(folder) if facts is None else _opened(folder, facts)


@cached(Store(4))  # each holds a few numbers per head, and the places of its passages
def _opened(folder: Path, _facts: Facts) -> Run:
    run = open_run(folder)
    if folder == INCLUDED and folder.is_relative_to(settings.ROOT):
        return made_by(run, open_run, folder.relative_to(settings.ROOT).as_posix())
    return made_by(run, open_run, f"corpora/{folder.name}") if folder.parent == corpora() else run


@cached(MEMORY)
def own_run(request: RunRequest, *, on_progress: OnProgress | None = None) -> InProcessRun:
    """The run over a text of one's own, as far as it has come. Whoever gives the same text finds it there, and nobody else.

    Its folder is a temporary one of this host, and goes with it. Raises InputError as `InProcessRun` does.
    """
    with ExitStack() as stack:
        try:
            place = Path(stack.enter_context(TemporaryDirectory(dir=folder_of_texts())))
            file = place / request.name
            file.write_bytes(request.contents)
        except OSError as error:
            raise InputError(f"The text cannot be kept on this host: {error.strerror}.", field="data") from error
        most = models.longest_text(MOST_TOKENS) or MOST_TOKENS
        run = InProcessRun(models.load(request.model), file, place / "run", most, on_progress)
        finalize(run, stack.pop_all().close)
    return run


def show_corpus() -> None:
    folder = corpora()
    listed: list[ListedRun] = []
    with errors_shown():
        listed = [] if folder is None else listed_runs(folder)
    answer = st.container(gap=None)
    with st.container(horizontal=True, vertical_alignment="center"):
        chosen = _choose_run(listed)
        head_place = st.container(width=125)
        offer_own_text(opened=chosen is None)
        said_place = st.container(width="stretch")
    if broken := [run.problem for run in listed if run.problem]:
        with st.expander(f"{counted(len(broken), 'folder')} beside the runs cannot be opened"):
            for problem in broken:
                st.markdown(plain(problem))
    if chosen is None:
        words = "The text of this run was given in an earlier visit. Give it again under *Your own text*."
        st.info(words, icon=":material/upload_file:")
        return
    with errors_shown():  # rows that are read on demand are checked only then
        run = run_own_text(chosen) if isinstance(chosen, RunRequest) else corpus_run(chosen)
        if run is not None:
            _show_reading(run, said_place)
            _show(run, head_place, answer)


def _choose_run(listed: list[ListedRun]) -> Path | RunRequest | None:
    """Show the menu of all runs. Returns the folder of the chosen one, or what was asked for with a text of one's own; None if
    that text was given in an earlier visit."""
    folder = corpora() or Path()
    request: RunRequest | None = st.session_state.get(state.OWN_RUN)  # the last one of this session
    there: dict[str, tuple[str, Path | RunRequest | None]] = {
        run.name: (run.name, folder / run.name) for run in listed if run.about is not None
    }
    there.setdefault(state.RUN_INCLUDED, ("Headlight’s documentation", INCLUDED))
    if request is not None or links.asks(state.RUN, state.RUN_OWN):
        there[state.RUN_OWN] = "Your own text" if request is None else f"{request.name}, {request.model}", request
    return choose("Run", state.RUN, there, width=270, label_visibility="collapsed")


def _show_reading(run: Run, place: DeltaGenerator) -> None:
    about, unread = run.about, run.about.unread
    texts = f"{counted(about.passages, 'passage')} of {counted(about.files, 'file')}"
    read = f"**{about.tokens:,} tokens** in {texts}: {plain(PurePath(about.data).name)}"
    place.markdown(f"**{plain(about.model)}** has read {read}")
    if unread:
        with st.expander(f"{counted(unread, 'text')} could not be read"):
            st.dataframe(run.problems, hide_index=True)
            if unread > len(run.problems):
                st.caption(f"The first {len(run.problems):,} of them.")


def _show(run: Run, place: DeltaGenerator, answer: DeltaGenerator) -> None:
    if not run.names:
        st.info("This run has measured nothing: no text that it read had anything to measure.")
        return
    offered = {metric.name: metric for metric in METRICS if metric.name in run.names}
    opening = _opening(run)
    means = run.means(opening)
    best = np.unravel_index(int(np.nanargmax(means)), means.shape)
    with place:
        shape, names = (run.about.layers, run.about.heads), (state.LAYER, state.HEAD)
        layer, head = head_picker(state.HEAD_BOX, names, shape, (int(best[0]), int(best[1])))
    every, one = st.columns([5, 7], gap="medium")
    with every:
        metric = show_corpus_heads(run, layer, head, offered, opening)
    _describe(run, layer, head, metric)
    with answer:
        _say_finding(run, layer, head, metric)
    if (layer, head) not in run.heads:
        others = len(run.heads)
        one.info(f"This run did not look at head {layer}.{head}, but at {others} others. Choose one in the grid.")
        return
    with one:
        show_corpus_head(run, layer, head, metric)
    show_examples(run, layer, head, metric)


def _say_finding(run: Run, layer: int, head: int, metric: Metric) -> None:
    """Say in one line what the head does by the metric, on average over the corpus."""
    mean = run.means(metric.name)[layer, head]
    if np.isnan(mean):
        return
    queries = run.distribution(layer, head, metric.name).count
    share = f"**{with_unit(mean, metric)}**"
    does = f" gives {share} of its attention to {metric.keys}" if metric.keys else f": {metric.label} {share}"
    presenting.finding(f"Head {layer}.{head}{does}, on average over {queries:,} queries.")


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


def offer_own_text(*, opened: bool) -> None:
    """Show the popover with the fields for a text and a model, and the button that begins the run.

    opened  whether it opens by itself
    """
    st.session_state.setdefault(state.OWN_FIELDS, opened)
    most = models.longest_text(MOST_TOKENS)
    with st.popover("Your own text", icon=":material/upload_file:", key=state.OWN_FIELDS, on_change="rerun"):
        has_file = uploaded_file(state.OWN_FILE) is not None
        label = "Text (file in use)" if has_file else "Text"
        st.text_area(label, key=state.OWN_TEXT, height=140, disabled=has_file, **KEPT)
        upload("Or a file of text", state.OWN_FILE, ENDINGS)
        choose_model(st.container())
        st.button("Run", key=state.START_RUN, type="primary", on_click=_begin)
        st.caption(
            f"Up to {most:,} tokens. Only visitors who give the same text see the run, and the host drops it after a while. "
            "The command `python -m core.corpus run` keeps its runs, and reads any number of tokens."
        )


def _begin() -> None:
    file, model = uploaded_file(state.OWN_FILE), ModelChoice(st.session_state[state.MODEL])
    if file is None:
        request = RunRequest(model, PASTED, st.session_state[state.OWN_TEXT].encode("utf-8", "surrogatepass"))
    else:
        # With characters that every system takes in the name of a file.
        name = file.name.encode("utf-8", "replace").decode()
        request = RunRequest(model, re.sub(r'[\x00-\x1f/\\<>:"|?*]', "_", name)[-60:], file.getvalue())
    st.session_state[state.OWN_RUN] = request
    links.put(state.RUN, state.RUN_OWN)
    st.session_state[state.OWN_FIELDS] = False  # closed
    links.forget(state.LAYER, state.HEAD, state.METRIC)  # it opens on what stands out in it


def run_own_text(request: RunRequest) -> Run | None:
    """The finished run; None as long as it is at work or stopped, after saying so. Raises InputError as `own_run` does."""
    place, problem = st.empty(), st.container()
    if (model := read_model(request.model, place, problem, problem)) is None:
        return None
    say_checked(request.model, model, f"{plain(model.name)}.", problem)
    counting = own_run.task(request)
    run = progress.run(counting, "Counting the tokens", len(request.contents), unit="character")
    if run is None:
        return None
    name = plain(request.name)
    done = f"passages of {name} read"
    progress.fill(run, request, f"Reading {name}", lambda _last: None, unit="passage", done=done)
    return None if run.about is None else corpus_run(run.folder)
