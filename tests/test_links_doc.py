"""The table of docs/links.md is what the pages themselves say. `python -m tests.test_links_doc --write` renews it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.link_parameters import Found, found_on_every_page, table
from tests.source_files import called, literal, python_files, text
from ui import state

DOC = Path(__file__).parent.parent / "docs" / "links.md"
BEGIN, END = "<!-- links: begin -->", "<!-- links: end -->"
SHORT_WORD = r"-?[a-z0-9][a-z0-9._-]{0,19}"


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return found_on_every_page()


def test_the_table_is_up_to_date(found):
    """`python -m tests.test_links_doc --write` renews it."""
    assert DOC.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip() == table(found)


def test_every_value_is_a_short_word(found):
    words = {(name, word) for of_page in found.values() for name, one in of_page.items() for word in (name, *one.words)}
    assert [pair for pair in words if not re.fullmatch(SHORT_WORD, pair[1])] == []


def test_every_name_in_the_document_is_known_to_links():
    """Those that no field is bound to are named in the text above the table."""
    listed = set(re.findall(r"^\| `(\w+)` \|", DOC.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed | {state.EDITS, state.CELL, *state.HOW} == state.IN_ADDRESS


def test_every_name_in_the_sources_was_found(found):
    known = {name for of_page in found.values() for name in of_page}
    of_any_page = set(state.HOW)  # which is told above the table
    assert names_in_addresses(text(path) for path in python_files("pages", "ui")) - known - of_any_page == set()


# --- what the sources say


def names_in_addresses(sources: Iterable[str]) -> set[str]:
    """The names that fields have in addresses: those of bound widgets and of choices.

    Where a function is told the name of its field, the names are what its callers say, or what it goes through itself.
    """
    trees = [ast.parse(source) for source in sources]
    found, helpers = set(), set()
    for tree in trees:
        for function, call in calls(tree):
            key = key_of(call)
            if key is not None:
                named = names(key)
                found |= named or names(function)
                helpers |= set() if named or isinstance(function, ast.Module) else {function.name}
    for tree in trees:
        found |= {name for _, call in calls(tree) if called(call) in helpers for name in names(call)}
    return found


def calls(tree: ast.Module) -> Iterator[tuple[ast.Module | ast.FunctionDef, ast.Call]]:
    """Every call, with the function that it stands in."""
    functions = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]
    inner = {id(node): function for function in functions for node in ast.walk(function)}  # the innermost comes last
    return ((inner[id(node)], node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def key_of(call: ast.Call) -> ast.expr | None:
    """The expression of the name in the address, of a call that binds one."""
    words = {word.arg: word.value for word in call.keywords}
    if literal(words.get("bind")) == "query-params":
        return words["key"]
    return call.args[0] if ast.unparse(call.func) in {"links.chosen", "links.chosen_several"} else None


def names(node: ast.AST) -> set[str]:
    """What stands in ui/state.py under the names that are mentioned here."""
    mentioned = (
        part for part in ast.walk(node) if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "state"
    )
    values = [getattr(state, part.attr) for part in mentioned]
    return {name for value in values for name in (value.values() if isinstance(value, dict) else [value])}


@pytest.mark.parametrize(
    "source",
    [
        "st.slider('Seed', key=state.SEED, bind='query-params')",
        "def f():\n    links.chosen(state.SEED, choices, opening='a', what='Seed')",
        "def f(key):\n    st.slider('Seed', key=key, bind='query-params')\ndef g():\n    f(state.SEED)",
        "def f():\n    for key in (state.SEED,):\n        st.slider('Seed', key=key, bind='query-params')",
    ],
)
def test_names_are_seen(source):
    assert names_in_addresses([source]) == {state.SEED}
    assert names_in_addresses(["st.slider('Seed', key=state.SEED)"]) == set()


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    document = DOC.read_text(encoding="utf-8")
    before, _, rest = document.partition(BEGIN)
    renewed = table(found_on_every_page())
    DOC.write_text(f"{before}{BEGIN}\n{renewed}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
