"""The precision and the device of a model: a popover beside its name, labelled with the chosen ones."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Model
from core.models.devices import devices
from core.units import bytes_in_words
from ui import links, settings, state
from ui.controls.fields import menu
from ui.links import Choice
from ui.markdown import plain

WORDS = {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}
PRECISION, DEVICE = "Precision", "Device"


def choose_precision() -> tuple[str, str, DeltaGenerator]:
    """Show the popover, and return the dtype, the device and a container for `show_size`."""
    names = {device: WORDS.get(device, device.replace("cuda:", "GPU ")) for device in devices()}
    dtypes = {dtype: dtype for dtype in settings.current().dtypes}
    dtype = links.field(state.DTYPE, Choice(dtypes), next(iter(dtypes)), PRECISION)
    device = links.field(state.DEVICE, Choice(names), "cpu", DEVICE)
    label = dtype if device == "cpu" else f"{dtype}, {names[device]}"
    with st.popover(label, type="tertiary", help="Precision and device"):  # the menus are there, open or not
        menu(PRECISION, state.DTYPE, dtypes, look="buttons")
        if len(names) > 1:
            menu(DEVICE, state.DEVICE, names, look="buttons")
        return dtype, device, st.container()


def show_size(place: DeltaGenerator, model: Model) -> None:
    """Show the memory that the model needs in each precision, according to the headers of its files."""
    if model.size is None:
        return
    whole, half = (bytes_in_words(model.size.needed(dtype)) for dtype in ("float32", "bfloat16"))
    place.caption(
        plain(f"{model.name} needs {whole} of memory in float32, {half} in bfloat16 or float16.")
        + " In half precision the model rounds its numbers, so its results differ. Headlight traces heads in float32."
    )
