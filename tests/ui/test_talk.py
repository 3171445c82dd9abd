"""A talk as a file and back; what no talk is, is refused with words."""

import json
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit

import pytest

from tests.refusals import refused
from ui import links, presenting, state
from ui.components import browser
from ui.talk import MAX_BYTES, MAX_NOTES, MAX_VIEWS, Talk, TalkView, from_file, to_file, view_at

VIEW = {"title": "First", "page": "heads", "notes": "Slowly.\n\nNow."}
VIEW |= {"parameters": {"layer": ["5"], "text": ["<b>“x” & y</b>"]}}
TALK = Talk(
    (TalkView("First", "heads", {"layer": ("5",), "edit": ("mute 5.11", "off scale 2")}, "Slowly."), TalkView("🙂", ""))
)


def file(**changed):
    return json.dumps({"format": "headlight-talk", "version": 1, "views": [VIEW]} | changed).encode()


def test_a_talk_comes_back_from_its_file_as_it_was():
    assert from_file(to_file(TALK)) == (TALK, [])
    assert from_file(file())[0].views[0].notes == VIEW["notes"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a talk"),
        (file(format="headlight-exhibit"), "not a talk"),
        (file(version="1"), "version"),
        (file(version=True), "version"),
        (file(version=0), "version"),
        (file(views={}), "not a list"),
        (file(views=[VIEW] * (MAX_VIEWS + 1)), "the maximum is 100"),
        (file(views=["x"]), "View 1 is not an object"),
        (file(views=[VIEW, VIEW | {"title": 5}]), "View 2 has a “title”"),
        (file(views=[VIEW | {"title": "x" * 201}]), "“title”"),
        (file(views=[VIEW | {"notes": "\ud800"}]), "half of a character"),
        (file(views=[VIEW | {"page": "../secret"}]), "“page”"),
        (file(views=[VIEW | {"page": "//evil.example"}]), "“page”"),
        (file(views=[VIEW | {"parameters": []}]), "“parameters”"),
        (file(views=[VIEW | {"parameters": {"layer": "5"}}]), "“layer”"),
        (file(views=[VIEW | {"parameters": {"text": ["x" * 20_001]}}]), "characters"),
        (file(views=[VIEW | {"parameters": {"text": ["\udc00"]}}]), "half of a character"),
        (b" " * (MAX_BYTES + 1), "bytes"),
    ],
)
def test_what_is_no_talk_is_refused_with_words(content, words):
    with refused("talk", words):
        from_file(content)


def test_of_a_later_version_it_opens_what_it_can():
    talk, remarks = from_file(file(version=2, views=[VIEW | {"film": 1}, {"page": 7}, VIEW], more=True))
    assert [view.title for view in talk.views] == ["First", "First"]
    assert "later version" in remarks[0]
    assert "View 2" in remarks[1]


def test_views_are_moved_removed_and_renamed():
    three = Talk(tuple(TalkView(name, "") for name in "abc"))
    marks = [three.views[2].mark, [], "of none", three.views[0].mark]
    assert [view.title for view in three.ordered(marks).views] == list("cab")
    assert [view.title for view in three.without(1).changed(0, title="x" * 500).views] == ["x" * 200, "c"]
    with refused("talk", "at most 100"):
        Talk(tuple(TalkView("", "") for _ in range(MAX_VIEWS))).with_view(TalkView("", ""))


@pytest.mark.parametrize(
    "link",
    [
        "https://example.org/heads?utm-source=x&a.b=1&größe=2&%20=3",
        f"heads?{'n' * 300}=1",
        "https://example.org/heads.html?layer=1",
        "https://example.org/my%20page?text=a%2Fb",
        "/größe/",
        "https://example.org",
        "heads?layer=5&edit=mute%205.11&edit=off%20scale%202",
    ],
)
def test_a_link_that_is_accepted_comes_back_and_leads_to_the_same(link):
    view = view_at("", link)
    (again,) = from_file(to_file(Talk().with_view(view)))[0].views
    assert again == view
    there = urlsplit(urljoin("https://example.org/", view.presented(0)))
    asked = urlsplit(urljoin("https://example.org/", link))
    assert there.path.rstrip("/") == quote(unquote(asked.path)).rstrip("/")
    assert parse_qs(there.query) == parse_qs(asked.query) | {"present": ["true"], "talk": ["1"]}


def test_a_talk_never_becomes_larger_than_can_be_read():
    large, talk = TalkView("", "heads", {"text": ("x" * 18_000,)}, "🙂" * MAX_NOTES), Talk()
    while len(to_file(talk)) + len(to_file(Talk((large,)))) < MAX_BYTES:
        talk = talk.with_view(large)
    assert from_file(to_file(talk))[0] == talk
    with refused("talk", "Shorten texts or notes"):
        talk.with_view(large)
    bare = Talk((*talk.views, *[TalkView("", "heads", large.parameters)] * 3))
    with refused("talk", "Shorten texts or notes"):
        bare.changed(0, notes="🙂" * MAX_NOTES)


@pytest.mark.parametrize("link", ["http://[x", "http://[::1", f"heads?{'&' * 21_000}"])
def test_what_is_no_link_is_said(link):
    with refused("talk", "not a link"):
        view_at("", link)


def talk_of(*titles):
    return Talk(tuple(TalkView(title, "") for title in titles))


@pytest.mark.parametrize(
    ("mine", "theirs", "both"),
    [
        ("abc", "ab", "abc"),  # only here something was done
        ("ab", "abd", "abd"),  # only there
        ("abc", "abd", "abcd"),
        ("ca", "abd", "cad"),  # what is gone here is gone
        ("abc", "a", "ac"),  # and there
        ("aB", "ab*", "aB*"),
        ("aB", "aß", "aBß"),  # both have changed the same view: both are kept
        ("", "abd", "d"),
        ("ba", "ab", "ba"),
    ],
)
def test_what_was_done_in_two_windows_is_all_there(mine, theirs, both):
    base = talk_of("a", "b")
    assert talk_of(*mine).merged(talk_of(*theirs), base) == talk_of(*both)


def test_what_was_added_before_a_talk_was_known_follows_it():
    assert talk_of("x", "y").merged(talk_of("a", "b"), Talk()) == talk_of("a", "b", "x", "y")
    with refused("talk", "at most 100 views"):
        talk_of("x").merged(talk_of(*map(str, range(100))), Talk())


def test_a_damaged_talk_is_offered_and_a_sound_one_of_another_window_takes_its_place(monkeypatch):
    session = {}
    monkeypatch.setattr(browser.st, "session_state", session)
    browser.hold(talk_of("a"))
    damaged, sound = '{"format": "nonsense"}', to_file(talk_of("b")).decode()
    browser.take_in(damaged, session[state.TALK_TEXT], 1)
    assert (browser.held(), session[state.TALK_UNREAD][0]) == (talk_of("a"), damaged)
    browser.take_in(sound, damaged, 2)
    assert browser.held() == talk_of("b", "a")
    assert state.TALK_UNREAD not in session


def test_who_leaves_a_talk_takes_no_number_of_it_along(monkeypatch):
    kept = {state.ASKED: {}, state.CHOSEN: {state.PRESENT: True, state.TALK_AT: 2, state.SPOT: "row"}}
    monkeypatch.setattr(presenting.st, "session_state", kept)
    presenting.leave()
    for key in (state.PRESENT, state.TALK_AT, state.SPOT):
        del kept[key]  # as on another page, which was opened before the next run
    assert links.field(state.TALK_AT, links.NumberForm(0, 3, whole=True), 0, "View of the talk") == 0
    assert not links.field(state.PRESENT, links.SwitchForm(), False, "Presenting")
    assert presenting.spot() == "none"
