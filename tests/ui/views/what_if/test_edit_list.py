"""The list of changes: what an address says is kept, whether it can be done or not, and every line can be worked."""

import pytest

from core import Edits
from core.capturing.calls.head_places import Place
from tests.pages.app import address, part, ran
from ui import state
from ui.views.what_if.edit_list import MAX_LINES

TEXT = "The capital of France is"  # seven tokens for MiniLM


def a_page(text):
    import streamlit as st

    from ui import links
    from ui.requests import ModelChoice, TextRequest
    from ui.views.sources import passes
    from ui.views.what_if import edit_list

    links.read("a page")
    for name, given in st.session_state.pop("to do", ()):
        getattr(edit_list, name)(*given)
    capture = passes.captured(TextRequest(ModelChoice("all-MiniLM-L6-v2"), st.text_input("Text", text, key="text")))
    st.session_state["found"] = edit_list.shown_edits(capture)
    links.write("a page", st.empty(), is_whole=True)


def opened(*lines):
    return part(a_page, TEXT, **{state.EDITS: list(lines)} if lines else {})


def done(page, *calls):
    """The same with functions of the list called, as clicks call them."""
    page.session_state["to do"] = calls
    return ran(page)


def edits(page):
    return page.session_state["found"]


def boxes(page):
    return [(box.label.replace("\\", ""), box.value) for box in page.checkbox]


def captions(page):
    return [caption.value.replace("\\", "") for caption in page.caption]


def press(page, words, number=0):
    """The button with these words, or this one of those that have them."""
    [button for button in page.button if (button.label, button.help)[button.label == CLOSE] == words][number].click()
    return ran(page)


CLOSE = ":material/close:"


def test_what_the_address_says_is_listed_and_switched_off_lines_are_kept():
    page = opened("mute 5.11", "off scale 2 at 3", 'token 3 "[MASK]"')
    assert boxes(page) == [("mute 5.11", True), ("scale 2 at 3", False), ('token 3 "[MASK]"', True)]
    assert edits(page) == Edits(mute_heads={(5, 11)}, replace_tokens={3: "[MASK]"})
    assert address(page) == ["mute 5.11", "off scale 2 at 3", 'token 3 "[MASK]"']
    page.checkbox[0].uncheck()
    page.checkbox[1].check()
    ran(page)
    assert boxes(page) == [("mute 5.11", False), ("scale 2 at 3", True), ('token 3 "[MASK]"', True)]
    assert edits(page) == Edits(scale_by={3: 2}, replace_tokens={3: "[MASK]"})
    assert address(page) == ["off mute 5.11", "scale 2 at 3", 'token 3 "[MASK]"']


def test_lines_are_added_taken_away_and_all_at_once():
    page = opened()
    assert captions(page) == []
    assert not edits(page)
    done(page, ("add", ["mute 1"]), ("replace_token", [2, "dog"]))
    done(page, ("hide_token", [4, ["self", "vision"]]), ("add", ["mute 1.3"]))
    assert address(page) == ["mute 1", 'token 2 "dog"', "block key 4", "mute 1.3"]
    assert edits(page) == Edits(mute_heads={1, (1, 3)}, block_keys={4}, replace_tokens={2: "dog"})
    done(page, ("add", ["mute 1"]))  # what is there already is not said twice
    assert address(page) == ['token 2 "dog"', "block key 4", "mute 1.3", "mute 1"]
    press(page, "Remove block key 4")
    assert address(page) == ['token 2 "dog"', "mute 1.3", "mute 1"]
    press(page, "Reset")
    assert boxes(page) == address(page) == []
    assert not edits(page)


def test_a_line_that_cannot_be_done_is_kept_and_comes_back_to_life():
    lines = ["block key 6", "mute 23.4", "erase the <b>board</b>"]
    page = opened(*lines)
    assert edits(page) == Edits(block_keys={6})
    layer, unknown = captions(page)
    assert layer.endswith("Not applied. There is no layer 23: they run from 0 to 5.")
    assert "a change begins with one of mute, mean" in unknown
    page.text_input[0].set_value("France")
    ran(page)
    assert not edits(page)
    assert captions(page)[0].endswith("Not applied. There is no key 6: they run from 0 to 2.")
    assert address(page) == lines
    page.text_input[0].set_value(TEXT)
    assert edits(ran(page)) == Edits(block_keys={6})
    assert address(page) == lines


def test_a_painted_row_that_does_not_sum_to_one_can_be_divided():
    wrong = "paint 1>2=3 1>0=1 2>2=1 at 5.11"
    page = opened(wrong, f"off {wrong}", wrong)
    assert not edits(page)
    assert "The painted row of query 1 sums to 4" in captions(page)[0]
    press(page, "Divide each row by its sum", 1)
    assert address(page) == [wrong, "off paint 1>0=0.25 1>2=0.75 2>2=1 at 5.11", wrong]
    press(page, "Divide each row by its sum", 0)
    assert edits(page) == Edits(pattern={(5, 11): {1: {0: 0.25, 2: 0.75}, 2: {2: 1}}})


@pytest.mark.parametrize("words", ["paint 1>2=1 at 9.11", "paint 1>0=0", "paint 1>0=-1 1>1=3", "paint 1", "mute 9"])
def test_where_dividing_does_not_help_it_is_not_offered(words):
    page = opened(words)
    assert "Not applied" in captions(page)[0]
    assert [button.label for button in page.button] == [CLOSE, "Reset"]


PLACE = Place(5, 11)


def test_painting_shares_a_row_among_the_painted_keys_and_loses_nothing_that_stands_on_the_list():
    page = opened("mute 1")
    done(page, ("paint", [PLACE, 3, 6]))
    assert address(page) == ["mute 1", "paint 3>6 at 5.11"]
    done(page, ("paint", [PLACE, 3, 0]), ("paint", [PLACE, 1, 1]))
    assert address(page) == ["mute 1", "paint 1>1 3>0 3>6 at 5.11"]
    assert edits(page) == Edits(mute_heads={1}, pattern={(5, 11): {1: {1: 1}, 3: {0: 0.5, 6: 0.5}}})
    done(page, ("paint", [Place(2, 3), 3, 2]))  # another head has its own line
    done(page, ("paint", [PLACE, 1, 1]))
    assert address(page) == ["mute 1", "paint 3>2 at 2.3", "paint 3>0 3>6 at 5.11"]
    done(page, ("paint", [PLACE, 3, 6]), ("paint", [PLACE, 3, 0]))
    assert address(page) == ["mute 1", "paint 3>2 at 2.3"]
    kept = ["paint nonsense", "off paint 2>2=1 at 5.11", "paint 1>9999=1 at 2"]
    page = opened("paint 1>1=1 at 5.11", *kept, "paint 4>0=0.5 4>1=0.5 at 5.11")
    done(page, ("paint", [PLACE, 3, 6]))
    assert address(page) == [*kept, "paint 1>1=1 3>6 4>0=0.5 4>1=0.5 at 5.11"]
    assert edits(page) == Edits(pattern={(5, 11): {1: {1: 1}, 3: {6: 1}, 4: {0: 0.5, 1: 0.5}}})


def test_a_second_text_for_the_same_thing_is_refused_and_said():
    """A pass takes its means over one text; the line above would otherwise say what is not so."""
    page = opened('mean 5.1 over "one"', 'mean 5.2 over "two"', 'mean 5.3 over "one"', 'patch 1.1 from "two"')
    assert edits(page) == Edits(mean_heads={(5, 1), (5, 3)}, mean_over="one")
    one, length = captions(page)
    assert one.endswith("Not applied. Means are taken over one text at a time, and a line above names another.")
    assert "The text has 7, the other one 3" in length
    page.checkbox[0].uncheck()
    page.checkbox[2].uncheck()
    assert edits(ran(page)) == Edits(mean_heads={(5, 2)}, mean_over="two")


def test_an_address_has_its_bounds():
    page = opened("", "off ", *(f"block pair {number}>0" for number in range(2 * MAX_LINES)), "mute 1")
    assert len(page.checkbox) == MAX_LINES
    assert all(words for words, _ in boxes(page))
    assert boxes(page)[-1] == ("mute 1", True)
    assert edits(page) == Edits(mute_heads={1})  # of the others, only those beyond the text are left
