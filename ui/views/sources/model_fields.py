"""The choice of a model, its precision and its device, and loading it."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from core import Model
from core.models.devices import devices
from core.units import bytes_in_words
from ui import links, settings, state
from ui.allowed import models_here, not_listed, offered, places_of
from ui.calls import uploaded
from ui.controls.fields import menu, suggested, upload, uploaded_file
from ui.links import Choice
from ui.markdown import errors_shown, plain
from ui.progress import following, run
from ui.requests import ModelChoice
from ui.views.sources import models

DEVICES = {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}
PRECISION, DEVICE = "Precision", "Device"
RECORDED = ["safetensors", "npz"]  # endings of files that take the place of a model
# Models that write nothing, and those that take their place on a page where something is written.
WRITERS = {"all-MiniLM-L6-v2": "SmolLM2-135M-Instruct"}


def open_with_a_writer() -> None:
    """Choose a model that writes if the chosen one does not, with the head that it opens with."""
    chosen = st.session_state[state.CHOSEN]
    if (name := chosen.get(state.MODEL, offered()[0])) in WRITERS:
        chosen[state.MODEL] = WRITERS[name]
        for key in (state.PAIR, state.KIND, state.LAYER, state.HEAD):
            chosen.pop(key, None)


def choice_of(name: str, dtype: str, device: str) -> ModelChoice:
    """The model of this name: of the uploaded pass, if that is what it names."""
    recorded = st.session_state.get(state.SHOWN_RECORDED)
    contents = uploaded(*recorded) if recorded is not None and recorded[0] == name else None
    return ModelChoice(name, dtype, device, contents)


def choose_recorded() -> None:
    """Show the field for a file with a recorded pass or attention weights, which becomes the model."""
    upload("Open a recorded pass, or attention weights", state.RECORDED, RECORDED, on_change=_keep_recorded)


def _keep_recorded() -> None:
    file = uploaded_file(state.RECORDED)
    if file is not None:
        keep_recorded(file)


def keep_recorded(file: UploadedFile) -> None:
    """Make a file with a recorded pass or attention weights the model of this visitor."""
    st.session_state[state.SHOWN_RECORDED] = (file.name, file.getvalue())
    st.session_state[state.MODEL] = file.name


def choose_model(beside: DeltaGenerator, *, writes: bool = False) -> str:
    """Show the field for a model, and return its name.

    beside  says which models on this disk are not listed, where a line has room
    writes  open with a model that writes
    """
    recorded = st.session_state.get(state.SHOWN_RECORDED)
    names: list[str] = [*offered(), *([] if recorded is None else [recorded[0]])]
    opening = WRITERS.get(names[0], names[0]) if writes else names[0]
    here = models_here()
    look = {"label_visibility": "collapsed", "format_func": lambda name: here.get(name, name)}
    further = [name for name in here if name not in names]
    if said := not_listed():
        beside.caption(plain(said))
    return suggested("Model", state.MODEL, names, opening, further, **look)


def read_model(
    chosen: ModelChoice, place: DeltaGenerator, problem: DeltaGenerator, beside: DeltaGenerator
) -> Model | None:
    """Load the model. `place` says what takes time, and `beside` what is to be known of the model, where a line has room. None
    after saying in `problem` what is wrong."""
    with errors_shown(problem):
        model = _read(chosen, place)
        if model is not None and model.notes:
            beside.caption(f":material/info: {plain(' '.join(model.notes))}")
        return model
    return None


def _read(chosen: ModelChoice, place: DeltaGenerator) -> Model | None:
    if chosen.is_recorded:
        with place.container():
            passed = run(models.opened.task(chosen), "Reading the file", 1)
        return None if passed is None else passed.model
    places_of(chosen.name)
    if models.loaded.is_known(chosen):
        return models.load(chosen)
    with following(place, f"Reading {chosen}") as tell:
        return models.load(chosen, tell)


# --- its precision and device


def popover_with_precision() -> tuple[str, str, DeltaGenerator]:
    """Show the popover "More", whose label names another precision or device than usual. Returns (dtype, device, popover)."""
    names = {device: DEVICES.get(device, device.replace("cuda:", "GPU ")) for device in devices()}
    dtypes = {dtype: dtype for dtype in settings.current().dtypes}
    usual = next(iter(dtypes))
    dtype = links.field(state.DTYPE, Choice(dtypes), usual, PRECISION)
    device = links.field(state.DEVICE, Choice(names), "cpu", DEVICE)
    unusual = [dtype] * (dtype != usual) + [names[device]] * (device != "cpu")
    popover = st.popover(f"More: {', '.join(unusual)}" if unusual else "More")
    with popover:  # the menus are there, open or not
        menu(PRECISION, state.DTYPE, dtypes, look="buttons")
        if len(names) > 1:
            menu(DEVICE, state.DEVICE, names, look="buttons")
    return dtype, device, popover


def say_size(model: Model) -> None:
    """Say how much memory the model needs in each precision, according to the headers of its files."""
    if model.size is None:
        return
    whole, half = (bytes_in_words(model.size.needed(dtype)) for dtype in ("float32", "bfloat16"))
    st.caption(
        plain(f"{model.name} needs {whole} of memory in float32, {half} in bfloat16 or float16.")
        + " In half precision the model rounds its numbers, so its results differ. Headlight traces heads in float32."
    )
