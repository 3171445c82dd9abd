"""Waits without an end are ended, wherever they stand, and the next test runs."""

import subprocess
import sys

from tests.source_files import ROOT

PLANTED = """
import socket
import time

import pytest
from playwright.sync_api import sync_playwright


def test_an_answer_that_never_comes():
    with socket.create_server(("localhost", 0)) as silent, sync_playwright() as playwright:
        playwright.request.new_context().get(f"http://localhost:{silent.getsockname()[1]}", timeout=0)


@pytest.fixture
def endless():
    yield
    while True:
        time.sleep(0.01)


def test_a_failure_that_is_put_away_for_ever(endless):
    assert False


def test_the_next_one():
    pass
"""


def test_each_is_ended_and_told_of_and_the_run_goes_on(tmp_path):
    (tmp_path / "test_planted.py").write_text(PLANTED)
    options = ("-p", "tests.ended", "--timeout=1", "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path))
    run = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True)
    assert "2 failed, 1 passed, 1 error" in run.stdout, run.stdout + run.stderr
    assert run.stdout.count("It had not ended after 1 s") >= 2
    # That a stack has this line: it is no thread's, which all stand in asyncio's selector.
    assert ", in test_an_answer_that_never_comes\n" in run.stdout
