"""A field for a short sentence with random weights, for lessons."""

from __future__ import annotations

from core import InputError
from core.attention.sources import Matrices, toy_sentence
from ui import state
from ui.calls import call
from ui.controls.fields import text_line

MAX_WORDS = 12


def sentence_knob(default: str, *, d_head: int = 8) -> Matrices:
    """Return queries, keys and values of the typed sentence in an untrained head. Raises InputError above MAX_WORDS words."""
    text = text_line("Sentence", state.SENTENCE, default, max_chars=200)
    matrices = call(toy_sentence, text, d_head=d_head)
    words = len(matrices.key_tokens)
    if words > MAX_WORDS:
        raise InputError(
            f"The sentence has {words} words and punctuation marks; the maximum here is {MAX_WORDS}. Shorten it.",
            field="text",
        )
    return matrices
