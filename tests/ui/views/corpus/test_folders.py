"""Texts of visitors on the disk, by servers that end, that are killed, and that still run."""

import signal
import subprocess
import sys
import tempfile

import pytest

from tests.source_files import ROOT
from ui.views.corpus.folders import delete_left

SERVER = """
from ui.views.corpus.folders import delete_left, folder_of_texts

delete_left()
(folder_of_texts() / "text.txt").write_text("a secret")
print(flush=True)
input()
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a server, with the temporary folder of this test, and returns when it has a text on the disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    begun = []

    def start():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        server = subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, env={"TMPDIR": str(tmp_path)}, **pipes)
        begun.append(server)
        server.stdout.readline()
        return server

    yield start
    for server in begun:
        server.kill()
        server.communicate()


def texts(folder):
    return len(list(folder.rglob("text.txt")))


def test_texts_go_with_their_server_or_when_the_next_one_starts(start, tmp_path):
    runs, ends, is_killed = start(), start(), start()
    assert texts(tmp_path) == 3
    ends.communicate("\n")
    assert texts(tmp_path) == 2
    is_killed.send_signal(signal.SIGKILL)
    is_killed.wait()
    assert texts(tmp_path) == 2
    start().communicate("\n")
    assert texts(tmp_path) == 1
    runs.communicate("\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("start")
def test_nothing_else_is_deleted(tmp_path):
    (kept := tmp_path / "kept").mkdir()
    (kept / "text.txt").touch()
    for name in ("headlight-corpus-a", "headlight-corpus-b.lock"):
        (tmp_path / name).mkdir()
    (tmp_path / "headlight-corpus-c").symlink_to(kept)
    (tmp_path / "headlight-corpus-c.lock").touch()
    delete_left()
    assert texts(tmp_path) == 1
    assert (tmp_path / "headlight-corpus-a").is_dir()
