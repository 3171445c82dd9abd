"""Clicks: what a browser may send, and what is made of it."""

from types import SimpleNamespace

import pytest

from ui import state
from ui.components import pin
from ui.in_browser import MOST_CLICKS


def axis(name="query", middle=0, cells=1):
    return {"axis": name, "middle": middle, "cells": cells}


def after(sent, monkeypatch):
    """What the click listener leaves for the page, after this came from a browser."""
    kept = {}
    listened({"first": 0, "waiting": [sent]}, monkeypatch, kept)
    return kept.get(state.PINNED_BLOCK)


def listened(message, monkeypatch, kept):
    """The cells that a page is told of when this comes from a browser. kept: the session state, in and out"""
    cells = []
    kept[state.PIN] = SimpleNamespace(clicks=message)
    monkeypatch.setattr(pin.st, "session_state", kept)
    monkeypatch.setattr(pin, "_LISTENER", lambda on_clicks_change, **_: on_clicks_change())
    pin.listen(lambda cell: (cells.append(cell), pin.pin(cell)))
    return cells


@pytest.mark.parametrize(
    ("sent", "block"),
    [
        ([axis("query", 3), axis("key", 5)], {"query": range(3, 4), "key": range(5, 6)}),
        ([axis("query", 17.5, 4), axis("key", 10, 3)], {"query": range(16, 20), "key": range(9, 12)}),
        ([axis("key", 2.5, 2), axis("dimension", 7)], {"key": range(2, 4)}),
        ([axis("layer", 2), axis("head", 7)], {}),
        ([axis("position", 1), axis("position", 2)], {}),
    ],
)
def test_a_click_becomes_the_positions_that_its_cell_stands_for(sent, block, monkeypatch):
    assert after(sent, monkeypatch) == block


@pytest.mark.parametrize(
    "sent",
    [
        *(None, "query", 7, {}, [], [axis()], [axis(), axis("key"), axis("value")]),
        *([axis(), bad] for bad in (None, {"axis": "key"}, {"axis": "key", "middle": 1})),
        *(
            [axis(), axis("key", bad)]
            for bad in (None, "1", [1], float("nan"), float("inf"), -1, 1e300, 2.0**1023, 10**400)
        ),
        *([axis(), axis("key", 4, bad)] for bad in (None, "1", 1.5, float("nan"), 0, -1, 20, 2.0**1023, 10**400)),
        *([axis(), axis(bad)] for bad in (None, 3, ["key"])),
    ],
)
def test_what_is_no_cell_of_a_figure_pins_nothing(sent, monkeypatch):
    assert not after(sent, monkeypatch)


def test_each_click_counts_once_and_none_is_lost(monkeypatch):
    kept = {}
    one, two, three = ([axis("query", place), axis("key")] for place in range(3))
    queries = lambda first, *clicks: [  # noqa: E731
        cell["query"].start for cell in listened({"first": first, "waiting": list(clicks)}, monkeypatch, kept)
    ]
    assert queries(0, one) == [0]
    assert queries(0, one, two, three) == [1, 2]  # the browser has not heard that the first was read
    assert queries(0, one, two) == []  # an older message that comes late
    assert queries(3, one) == [0]
    assert queries(9, two) == []  # a number that no browser of ours sends
    assert len(queries(4, *[one] * 10_000)) == MOST_CLICKS
    for bad in ({"first": -1, "waiting": [one]}, {"first": "0", "waiting": [one]}, {"first": 0, "waiting": one[0]}):
        assert listened(bad, monkeypatch, kept) == []
    for bad in (None, 1, {}):
        assert listened(bad, monkeypatch, kept) == []
