"""Between two runs of a page nothing holds the pass that it shows: it may be forgotten where others need the memory."""

import gc

import pytest

from tests.depth import sampled
from tests.pages.app import SMOLLM, opened, words
from ui import state
from ui.cache import MEMORY

SAID = {
    "step_by_step": {state.SOURCE: "real"},
    "heads": {},
    "head": {},
    "why": {},
    "what_if": {state.EDITS: "mute 23.4"},
    "generation": {state.NEW_TOKENS: "3"},
}


@pytest.mark.parametrize("page", sampled(SAID, ["heads"]))
def test_a_page_that_is_drawn_holds_no_pass_and_reads_again(page):
    app = opened(page, **{state.MODEL: SMOLLM, state.TEXT: f"A cat saw the other cat on {page}."} | SAID[page])
    read = ("captured", "with_components", "written_after")
    assert any(key[1] in read for key in MEMORY._results)
    MEMORY.forget(lambda _: True)
    gc.collect()
    assert [key[1] for key in MEMORY._used if key[1] in read] == []
    before = words(app)
    assert words(app.run()) == before
