"""A talk as a file and back; what no talk is, is refused with words."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest

from core import InputError
from ui.talk import MAX_BYTES, MAX_VIEWS, Talk, View, from_file, to_file, view_at

VIEW = {
    "title": "First",
    "page": "heads",
    "parameters": {"layer": ["5"], "text": ["<b>“x” & y</b>"]},
    "notes": "Slowly.\n\nNow.",
}
TALK = Talk(
    (View("First", "heads", {"layer": ("5",), "edit": ("mute 5.11", "off scale 2")}, "Slowly."), View("🙂", ""))
)


def file(**changed) -> bytes:
    return json.dumps({"format": "headlight-talk", "version": 1, "views": [VIEW]} | changed).encode()


def test_a_talk_comes_back_from_its_file_as_it_was():
    assert from_file(to_file(TALK)) == (TALK, [])
    assert from_file(file())[0].views[0].notes == VIEW["notes"]


def test_a_link_leads_to_the_view_and_says_how_it_is_shown():
    path, _, query = TALK.views[0].presented(4).partition("?")
    assert path == "heads"
    assert parse_qs(query) == {
        "layer": ["5"], "edit": ["mute 5.11", "off scale 2"], "present": ["true"], "talk": ["5"]
    }  # fmt: skip
    taken = view_at("", f"https://example.org/below/{path}?{query}")
    assert (taken.page, taken.parameters) == ("heads", TALK.views[0].parameters)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no talk"),
        (file(format="headlight-exhibit"), "no talk"),
        (file(version="1"), "version"),
        (file(version=True), "version"),
        (file(version=0), "version"),
        (file(views={}), "not a list"),
        (file(views=[VIEW] * (MAX_VIEWS + 1)), "at most"),
        (file(views=["x"]), "View 1 is not an object"),
        (file(views=[VIEW, VIEW | {"title": 5}]), "View 2 has a “title”"),
        (file(views=[VIEW | {"title": "x" * 201}]), "“title”"),
        (file(views=[VIEW | {"notes": "\ud800"}]), "half of a letter"),
        (file(views=[VIEW | {"page": "../secret"}]), "“page”"),
        (file(views=[VIEW | {"page": "//evil.example"}]), "“page”"),
        (file(views=[VIEW | {"parameters": []}]), "“parameters”"),
        (file(views=[VIEW | {"parameters": {"layer": "5"}}]), "“layer”"),
        (file(views=[VIEW | {"parameters": {"<script>": ["5"]}}]), "<script>"),
        (file(views=[VIEW | {"parameters": {"text": ["x" * 20_001]}}]), "letters"),
        (b" " * (MAX_BYTES + 1), "bytes"),
    ],
)
def test_what_is_no_talk_is_refused_with_words(content, words):
    with pytest.raises(InputError, match=words.replace("(", "\\(")) as error:
        from_file(content)
    assert error.value.field == "talk"


def test_of_a_later_version_it_opens_what_it_can():
    talk, remarks = from_file(file(version=2, views=[VIEW | {"film": 1}, {"page": 7}, VIEW], more=True))
    assert [view.title for view in talk.views] == ["First", "First"]
    assert "later version" in remarks[0]
    assert "View 2" in remarks[1]


def test_views_are_moved_removed_and_renamed():
    three = Talk(tuple(View(name, "") for name in "abc"))
    assert [view.title for view in three.moved(0, 1).views] == list("bac")
    assert [view.title for view in three.moved(2, 1).views] == list("abc")
    assert [view.title for view in three.without(1).changed(0, title="x" * 500).views] == ["x" * 200, "c"]
    with pytest.raises(InputError, match="at most 100"):
        Talk(tuple(View("", "") for _ in range(MAX_VIEWS))).with_view(View("", ""))
