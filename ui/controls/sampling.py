"""Fields for the choice of the next token: always the most probable one, or drawn at random."""

from __future__ import annotations

from core.capturing.sampling import Sampling
from ui import state
from ui.controls.fields import menu, number, whole_number

CHOICES = {"greedy": "Most probable", "drawn": "Drawn"}


def choose_sampling() -> Sampling:
    """Show the fields and return the choice. Raises InputError for numbers outside their range."""
    choice = menu("Next token", state.CHOICE, CHOICES, look="buttons")
    if choice == "greedy":
        return Sampling()
    temperature = number("Temperature", state.HEAT, 1.0, 0.1, 5.0, step=0.1)
    top_k = whole_number("top-k (0: all)", state.TOP_K, 0, 0, 1_000)
    top_p = number("top-p", state.TOP_P, 1.0, 0.05, 1.0, step=0.05)
    seed = whole_number("Seed", state.SEED, 0, 0, 9999)
    return Sampling(temperature, top_k or None, None if top_p == 1 else top_p, seed)
