"""Copies of the app behind Caddy with deploy/Caddyfile: a visitor stays with one copy, and goes on with another if it dies."""

import asyncio
import io
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import numpy as np
import pytest

from bench.sessions import Visitor
from core import attend
from tests.browser.driver import AS_IT_IS, running
from ui import state

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed"),
]

OWN = "/step_by_step?source=own"
COOKIE = "headlight_copy="


@pytest.fixture(scope="module")
def site():
    with running(2) as site:
        yield site


@pytest.mark.browser
def test_all_requests_of_a_visitor_reach_one_copy(site):
    """An upload succeeds, and a picture is there, only in the copy that has the session."""
    proxy, copies = site
    with urlopen(proxy.address + OWN) as page:
        assert page.headers["Set-Cookie"].startswith(COOKIE)

    async def upload() -> None:
        async with Visitor(proxy.address) as visitor:
            await visitor.open("step_by_step", {state.SOURCE: "own"})
            await visitor.finished()
            status, _ = await visitor.upload(state.ARCHIVE, "own.npz", b"")
            assert status == 204

    async def look() -> None:
        async with Visitor(proxy.address, cookies=False) as visitor:
            await visitor.open()
            await visitor.finished()
            pictures = [proxy.address + image.url for element in visitor.on_page("imgs") for image in element.imgs]
            assert len(pictures) > 5
            for picture in pictures:
                urlopen(picture).close()

    with ThreadPoolExecutor(1) as thread:  # in this one, Playwright may have its loop running
        thread.submit(asyncio.run, look()).result()
        for _ in range(50):
            thread.submit(asyncio.run, upload()).result()
            if all(copy.sessions for copy in copies):
                return
    raise AssertionError("50 visitors have all come to the same copy")


def test_a_visitor_whose_copy_dies_goes_on_with_another(visits, site):
    """Its session is gone, and Streamlit remembers only the address with which the page was opened."""
    proxy, copies = site
    before = [copy.sessions for copy in copies]
    own, stream = attend(np.eye(3), np.eye(3), np.eye(3)), io.BytesIO()
    np.savez(stream, query=own.query, key=own.key, value=own.value)
    file = {"name": "own.npz", "mimeType": "application/octet-stream", "buffer": stream.getvalue()}
    with visits.to(proxy) as visit:
        app = visit(f"{OWN}&stage=scaled")
        app.page.get_by_text("Upload files instead").click()
        app.upload(state.ARCHIVE, file).shows({AS_IT_IS: own.scaled}).click_cell(AS_IT_IS, 1, 2).pins(AS_IT_IS, 1, 2)
        [mine] = [copy for copy, sessions in zip(copies, before, strict=True) if copy.sessions > sessions]
        [other] = [copy for copy in copies if copy is not mine]

        os.kill(mine.process_id, signal.SIGKILL)
        typed = attend(np.array([[1, 0], [0, 1], [1, 1]]), np.array([[1, 0], [0, 1], [1, 1], [-1, 1]]), np.ones((4, 1)))
        app.reconnected().shows({AS_IT_IS: typed.scaled})  # what the address says, without the file
        app.says("no longer on the server")
        app.eventually(lambda: app.here, f"{OWN}&file=own.npz&stage=scaled&query=1&key=2")
        assert other.sessions == before[copies.index(other)] + 1
        app.click_stage("Raw scores").shows({AS_IT_IS: typed.raw})
        app.upload(state.ARCHIVE, file).shows({AS_IT_IS: own.raw})
        app.problems.clear()  # the connection was lost
