"""Clicks that come faster than a page reads them: each counts once."""

import numpy as np

from core import attend
from core.attention import masks as m
from core.attention.sources import toy_sentence
from ui import state

# Chooses cells as the keyboard does, all before the page can answer.
_CHOOSE = """
(cells) => cells.forEach((cell) => {
    const detail = ["query", "key"].map((axis, place) => ({ axis, middle: cell[place], cells: 1 }));
    document.dispatchEvent(new CustomEvent("headlight-cell", { detail }));
})
"""


def test_no_click_on_a_mask_is_lost_or_counts_twice(go):
    app = go(f"/masking?{state.SENTENCE}=The+cat+sat")
    words, expected = toy_sentence("The cat sat", d_head=8), m.grid(m.causal, 3, 3)

    def shows_the_mask():
        trace = attend(words.query, words.key, words.value, mask=expected)
        app.shows({"weights with": np.where(expected, trace.weights, np.nan)})

    for cells in ([(0, 1), (0, 2), (1, 2)], [(2, 0)], [(2, 0), (1, 0)]):
        app.page.evaluate(_CHOOSE, cells)
        for cell in cells:
            expected[cell] = not expected[cell]
        shows_the_mask()
    app.click_cell("mask", 0, 1)  # with the mouse, after many runs of the page
    expected[0, 1] = not expected[0, 1]
    shows_the_mask()
    app.has(state.CELLS, m.to_rows(expected))
