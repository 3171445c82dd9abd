"""The menus of masks: every name that may stand in somebody's link draws the mask that it always drew.

Links used to say what was on the page, and now say a short word.
"""

import numpy as np
import pytest

from core.attention import masks as m
from tests.pages.app import part
from ui import state

CAUSAL, WINDOW, OPEN = np.tri(5, 6, dtype=bool), m.grid(m.sliding_window(2), 5, 6), m.grid(m.prefix(2), 5, 6)
DRAWN = dict.fromkeys(("Causal", "causal"), CAUSAL) | dict.fromkeys(("Sliding window", "window"), WINDOW)
DRAWN |= dict.fromkeys(("Causal window", "causal-window"), CAUSAL & WINDOW)
DRAWN |= dict.fromkeys(("Packed blocks", "blocks"), m.grid(m.block(2), 5, 6))
PADDED = np.arange(6)[None, :].repeat(5, axis=0) < 4
EVERYTHING = np.ones((5, 6), dtype=bool)
DRAWN |= {"padding": PADDED, "prefix": CAUSAL | OPEN, "none": EVERYTHING}
PICKED = DRAWN | {"Padding": PADDED, "Prefix": CAUSAL | OPEN}
PICKED |= dict.fromkeys(("None", "My own", "own"), EVERYTHING)
SWITCHED = DRAWN | {"Padded end": PADDED, "Causal, open prefix": CAUSAL | OPEN, "No mask": EVERYTHING}


def a_choice():
    import streamlit as st

    from ui.controls.masks import pick_mask

    st.session_state["drawn"] = pick_mask(5, 6)


def a_switch():
    import numpy as np
    import streamlit as st

    from core import attend
    from core.attention.head import Head
    from ui.controls.masks import choose_change

    given = Head.of(attend(np.eye(5, 3), np.eye(6, 3), np.eye(6, 3), mask=np.arange(30).reshape(5, 6) % 7 > 0))
    change = choose_change(given, st.container())
    st.session_state["drawn"] = None if change is None else change[1].trace(range(5)).mask


def opened(menu, **address):
    page = part(menu, **address)
    assert not page.error
    return page


@pytest.mark.parametrize(
    ("menu", "keys", "name", "drawn"),
    [
        *((a_choice, (state.PATTERN, state.SPAN), *of) for of in PICKED.items()),
        *((a_switch, (state.MASK, state.MASK_SIZE), *of) for of in SWITCHED.items()),
    ],
)
def test_a_mask_by_each_of_its_names(menu, keys, name, drawn):
    page = opened(menu, **dict(zip(keys, (name, "2"), strict=True)))
    np.testing.assert_array_equal(page.session_state["drawn"], drawn)


def test_without_an_address():
    np.testing.assert_array_equal(opened(a_choice).session_state["drawn"], CAUSAL)
    for name in ("Mask as given", "My own mask", "given", "own"):
        assert opened(a_switch, **{state.MASK: name}).session_state["drawn"] is None
    assert opened(a_switch).session_state["drawn"] is None


def test_both_menus_offer_every_mask():
    picked, switched = opened(a_choice).selectbox[0].options, opened(a_switch).selectbox[0].options
    assert {named.name for named in m.MASKS.values()} <= set(picked) <= {*PICKED}
    assert {*switched} <= {*SWITCHED, "Mask as given", "My own mask"}
    assert len(switched) == len(set(switched)) == len(picked) + 1 == len(m.MASKS) + 2


def a_picker():
    import streamlit as st

    from ui import links
    from ui.controls.fields import token_picker

    links.read("a page")
    tokens = tuple(st.text_input("Tokens", "the cat sat", key="text").split(" "))
    st.session_state["picked"] = token_picker("Query", "query", tokens, 1, "suggested")
    links.write("a page", st.empty(), is_whole=True)


def test_every_token_has_its_position():
    page = part(a_picker)
    box = page.get_by_key("query")
    assert box.options == ["the (0)", "cat (1)", "sat (2)"]
    assert box.proto.placeholder == "cat (1), suggested"
    assert page.session_state["picked"] == 1
    box.select_index(2).run()
    assert page.session_state["picked"] == 2


def test_the_label_follows_the_text():
    """The browser sends back the label that it shows: an old one would be no option any more."""
    page = part(a_picker, query="2")
    page.text_input[0].set_value("a black dog ran").run()
    box = page.get_by_key("query")
    assert (box.value, box.proto.set_value, box.proto.raw_value) == (2, True, "dog (2)")
    page.text_input[0].set_value("a dog").run()
    assert (page.get_by_key("query").value, page.session_state["picked"]) == (None, 1)
