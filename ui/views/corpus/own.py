"""A run over a text of one's own, pasted or uploaded: begun on the page, measured in this process, stopped and continued."""

from __future__ import annotations

import re

import streamlit as st

from core.corpus.opened import Run
from ui import links, progress, state
from ui.controls.fields import KEPT, upload, uploaded_file
from ui.markdown import plain
from ui.requests import ModelChoice, RunRequest
from ui.views.corpus import results
from ui.views.sources import models
from ui.views.sources.text_fields import choose_model, read_model

PASTED = "pasted.txt"
ENDINGS = ["txt", "md", "text"]


def held() -> RunRequest | None:
    """The run over a text of one's own that was last asked for in this session."""
    return st.session_state.get(state.OWN_RUN)


def offer_own_text(*, opened: bool) -> None:
    """Show the popover with the fields for a text and a model, and the button that begins the run.

    opened  whether it opens by itself
    """
    st.session_state.setdefault(state.OWN_FIELDS, opened)
    most = models.longest_text(results.MOST_TOKENS)
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
    """Ask for the run, and open the page on it."""
    file, model = uploaded_file(state.OWN_FILE), ModelChoice(st.session_state[state.MODEL])
    if file is None:
        request = RunRequest(model, PASTED, st.session_state[state.OWN_TEXT].encode("utf-8", "surrogatepass"))
    else:
        request = RunRequest(model, _as_file(file.name), file.getvalue())
    st.session_state[state.OWN_RUN] = request
    links.put(state.RUN, state.RUN_OWN)
    st.session_state[state.OWN_FIELDS] = False  # closed
    links.forget(state.LAYER, state.HEAD, state.METRIC)  # it opens on what stands out in it


def _as_file(name: str) -> str:
    """The name of an uploaded file as a name that every system takes."""
    return re.sub(r'[\x00-\x1f/\\<>:"|?*]', "_", name.encode("utf-8", "replace").decode())[-60:]


def run_own_text(request: RunRequest) -> Run | None:
    """The finished run; None as long as it is at work or stopped, after saying so. Raises InputError as `own_run` does."""
    place, problem = st.empty(), st.container()
    model = read_model(request.model, place, problem, problem)
    if model is None:
        return None
    counted = results.own_run.task(request)
    run = progress.run(counted, "Counting the tokens", len(request.contents), unit="character")
    if run is None:
        return None
    name = plain(request.name)
    words = {"unit": "passage", "done": f"passages of {name} read"}
    progress.fill(run, request, f"Reading {name}", lambda _last: None, **words)
    return None if run.about is None else results.corpus_run(run.folder)
