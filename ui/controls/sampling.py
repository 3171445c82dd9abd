"""How the next token is chosen: always the most probable one, or drawn."""

from __future__ import annotations

import streamlit as st

from core.capturing.sampling import Sampling
from ui import state
from ui.controls.menu import menu

CHOICES = {"greedy": "Most probable", "drawn": "Drawn"}


def choose_sampling() -> Sampling:
    """The fields in one line. Raises InputError for numbers that an address has put beyond their range."""
    choice = menu("Next token", state.CHOICE, CHOICES, look="buttons")
    if choice == "greedy":
        return Sampling()
    temperature = st.number_input("Temperature", 0.1, 5.0, 1.0, step=0.1, key=state.HEAT, bind="query-params")
    top_k = st.number_input("top-k (0: all)", 0, 1_000, 0, key=state.TOP_K, bind="query-params")
    top_p = st.number_input("top-p", 0.05, 1.0, 1.0, step=0.05, key=state.TOP_P, bind="query-params")
    seed = st.number_input("Seed", 0, 9999, 0, key=state.SEED, bind="query-params")
    return Sampling(temperature, top_k or None, None if top_p == 1 else top_p, seed)
