"""The table of docs/links.md is what the pages themselves say."""

from __future__ import annotations

import re

import pytest

from tests.source_files import python_files, text
from tools.docs import written
from tools.links import Found, found_on_every_page, table
from ui import state

SHORT_WORD = r"-?[a-z0-9][a-z0-9._-]{0,19}"


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return found_on_every_page()


def test_the_table_is_up_to_date(found):
    """`python -m tools.docs links` renews it.
    Only running every page in every way finds a field that some choice brings and the document does not know."""
    assert written("links") == table(found)


def test_every_value_is_a_short_word(found):
    words = {(name, word) for of_page in found.values() for name, one in of_page.items() for word in (name, *one.words)}
    assert [pair for pair in words if not re.fullmatch(SHORT_WORD, pair[1])] == []


def test_every_name_that_links_know_is_that_of_a_field(found):
    """And the other way round: a page reads no other name from its address."""
    known = {name for of_page in found.values() for name in of_page}
    of_any_page = {state.EDITS, *state.HOW}  # which are told above the table
    assert known | of_any_page == state.IN_ADDRESS


def test_only_links_reads_and_writes_the_address():
    """Two who write it undo each other's work: Streamlit drops what it has bound itself when the history moves."""
    others = {path.name: text(path) for path in python_files("pages", "ui") if path.name != "links.py"}
    assert [name for name, source in others.items() if "st.query_params" in source or "bind=" in source] == []
