"""Visitors without a browser: what they are told is what core computes, and nothing that they send breaks a page."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bench.hostile import Outcomes, follow_addresses, type_texts
from bench.load import Change, check, make, pictured
from bench.sessions import Visitor
from tests.browser.driver import Server
from tests.hostile import TEXTS, VALUES
from ui import state


def _run(work: Coroutine[Any, Any, None]) -> None:
    """In a thread of its own: in this one, Playwright may have its loop running."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


def test_another_text_and_another_head_arrive_with_the_numbers_of_core(server: Server) -> None:
    asked = [
        Change("step_by_step", "all-MiniLM-L6-v2", "the cat saw the other cat", 2, 3),
        Change("step_by_step", "all-MiniLM-L6-v2", "a street and a river", 2, 3),
        Change("step_by_step", "all-MiniLM-L6-v2", "a street and a river", 2, 7),
    ]

    async def visit() -> None:
        async with Visitor(server.address) as visitor:
            for before, change in zip([None, *asked], asked, strict=False):
                await make(visitor, change, before)
                await pictured(visitor, change)

    _run(visit())
    assert len(check(asked)) == len(asked)
    assert [change.trouble for change in asked] == [[], [], []]
    asked[2].head = 8
    check(asked)
    assert asked[2].trouble == ["wrong figure"]


@pytest.mark.thorough
def test_no_text_breaks_a_page(server: Server) -> None:
    tally, before = Outcomes(server.process_id), len(server.log())
    _run(type_texts(server, tally, "step_by_step", {}, [state.TEXT]))
    assert tally.tried["texts"] == len(TEXTS)
    assert tally.broken == []
    assert "Traceback" not in server.log()[before:]


@pytest.mark.thorough
def test_no_address_breaks_a_page(server: Server) -> None:
    tally, before = Outcomes(server.process_id), len(server.log())
    _run(follow_addresses(server, tally, "step_by_step"))
    assert tally.tried["addresses"] == len(VALUES)
    assert tally.broken == []
    assert "Traceback" not in server.log()[before:]
