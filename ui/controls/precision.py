"""The precision and the device of a model."""

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


def popover_with_precision() -> tuple[str, str, DeltaGenerator]:
    """Show the popover "More", whose label names another precision or device than usual. Returns (dtype, device, popover)."""
    names = {device: WORDS.get(device, device.replace("cuda:", "GPU ")) for device in devices()}
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
