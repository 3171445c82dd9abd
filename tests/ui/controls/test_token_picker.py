"""Boxes that choose a token name it with its position: "it (10)"."""

from core.figures.labels import all_placed
from tests.pages.app import part

STRANGE = (" a", "<b>", "*x*", "\n", "")


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


def test_tokens_are_named_as_elsewhere():
    assert all_placed(STRANGE) == ("·a (0)", "<b> (1)", "*x* (2)", "⏎ (3)", "∅ (4)")
