"""The addresses in answers open the views that they promise: on the app's own pages, every word of them is used and shown."""

from urllib.parse import parse_qs, urlsplit

import pytest

from core.agents import host
from core.agents.host import LONGEST, PAGES, SHORT, VERSION, Host, Limits
from tests.pages.app import go, new
from ui import links, state
from ui.lessons import file
from ui.views.why.page import MEAN_OF_ALL

MINILM = "all-MiniLM-L6-v2"
SAT = {"model": MINILM, "text": "The cat sat, and it slept."}
DATE = {"model": "written-dates", "text": "3 March 1987"}
WRITTEN = {**DATE, "target": "1987", "kind": "cross"}
CLAIM = "any head: when not the token is the first, looks at the previous token, at least 0.4"

CALLS = {
    "open": ("open", SAT),
    "ranked": ("heads", {**SAT, "by": "next"}),
    "pair": ("heads", {**SAT, "by": "pair", "query": 4, "key": 2}),
    "random": ("heads", {"model": MINILM, "by": "duplicate"}),
    "row": ("row", {**SAT, "layer": 5, "head": 3, "query": 4}),
    "cross": ("row", {**WRITTEN, "layer": 0, "head": 3, "query": 3}),
    "cell": ("cell", {**SAT, "layer": 5, "head": 3, "query": 4, "key": 2}),
    "answer": ("why", DATE),
    "against": ("why", {**DATE, "answer": "2", "against": "3"}),
    "score": ("why", {**SAT, "layer": 1, "head": 8, "query": 4, "key": 5}),
    "like": ("why", {**SAT, "like": "A dog ran."}),
    "changed": ("what_if", {**SAT, "edits": ["mute 5.3", "scale 2 at 1"]}),
    "writing": ("generate", {**DATE, "new_tokens": 2, "temperature": 0.5, "seed": 3}),
    "changed writing": ("generate", {**DATE, "new_tokens": 2, "edits": ["mute cross 0.1"]}),
    "claim": ("claim", {"model": MINILM, "claims": [CLAIM], "texts": ["The cat sat.", "It slept."]}),
    "link": ("link", {**DATE, "page": "head", "layer": 1, "head": 1}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CALLS)
def test_an_address_opens_its_view(calls, name):
    call, arguments = CALLS[name]
    parts = urlsplit(calls.answer(call, arguments)["address"])
    said = parse_qs(parts.query, keep_blank_values=True)
    app = go(new(), parts.path.strip("/"), **said)
    assert [warning.value for warning in app.warning if "link asks for" in warning.value] == []
    assert app.session_state[state.ADDRESS].items() <= said.items()  # what is other than the page opens with
    chosen = {word: app.session_state[word] for word in said if word != state.VERSION}
    assert {word: in_words(value) for word, value in chosen.items()} == {word: said[word] for word in chosen}


def in_words(value):
    return [
        str(one).lower() if isinstance(one, bool) else str(one)
        for one in (value if isinstance(value, list) else [value])
    ]


def test_words_and_pages_are_those_of_the_app():
    assert VERSION == links.VERSION
    assert host.MEAN_OF_ALL == MEAN_OF_ALL
    assert {word for words in PAGES.values() for word in words} <= state.IN_ADDRESS
    assert all(file(page).is_file() for page in PAGES)


def test_an_address_that_is_too_long_is_left_out():
    text = {"model": MINILM, "text": "cat " * 600}
    of_host = Host(Limits(base="http://x/"))
    assert of_host.address("heads", **text) is None
    whole = of_host.address("heads", LONGEST, **text)
    assert whole is not None
    assert SHORT < len(whole) < LONGEST
    assert whole.startswith("http://x/heads?model=")
