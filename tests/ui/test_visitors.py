"""A host that has room for two."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.source_files import ROOT
from ui import settings, visitors
from ui.visitors import IDLE, Visitors


def test_a_place_is_kept_given_back_and_lost_by_those_who_sleep() -> None:
    there, now = {"a", "b", "c", "d"}, 0.0
    host = Visitors(there.__contains__, lambda: now)
    assert [host.admit(one, 2) for one in "abcab"] == [True, True, False, True, True]
    there.discard("a")
    assert [host.admit(one, 2) for one in "cd"] == [True, False]
    now = IDLE
    assert host.admit("c", 2)
    assert host.admit("d", 2)  # in the place of b
    assert [host.admit(one, 2) for one in "bc"] == [False, True]
    assert host.admit("b", None)


def test_a_visitor_who_finds_no_place_is_told_so_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(sessions=1))
    monkeypatch.setattr(visitors, "_VISITORS", full := Visitors(lambda _: True))
    full.admit("somebody else", 1)
    app = AppTest.from_file(str(ROOT / "ui/shell.py")).run()
    assert not app.exception
    assert [title.value for title in app.title] == ["Headlight is full"]
    assert not app.get("plotly_chart")
    full._is_there = lambda _: False
    app.button[0].click().run()
    assert not app.title or app.title[0].value != "Headlight is full"
