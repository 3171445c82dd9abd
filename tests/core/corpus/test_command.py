"""The command where what it needs is not installed, what importing it leaves behind, and an address at which nobody answers."""

import os
import runpy
import socket
import subprocess
import sys

import pytest
import ray

from core.corpus.running import run
from tests.depth import thorough
from tests.refusals import refused


def test_without_ray_it_says_what_to_install(monkeypatch):
    for name in ("__main__", "running"):
        monkeypatch.delitem(sys.modules, f"core.corpus.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not there
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("core.corpus", run_name="__main__")
    assert str(ended.value.code).endswith("pip install -r requirements-corpus.txt")


@thorough
@pytest.mark.parametrize(("before", "mode"), [("", "token"), ("import ray", "None")])
def test_the_mode_of_tokens_is_set_only_before_ray_has_decided(before, mode, tmp_path):
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    lines = (
        "import os, sys",
        before,
        "sys.modules['torch'] = None",  # the import ends there, which is after the mode and saves seconds
        "try: import core.corpus.__main__",
        "except SystemExit: print(os.environ.get('RAY_AUTH_MODE'))",
    )
    there = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"} | {"HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, env=there)
    assert done.stdout.strip() == mode, done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nonsense::/"])
def test_an_address_that_does_not_answer(address, bert_folder, tmp_path):
    (tmp_path / "a.txt").write_text("the cat")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if ray.is_initialized():
        ray.shutdown()
    with refused("address", "No Ray cluster answers"):
        run(str(bert_folder), str(tmp_path / "a.txt"), str(tmp_path / "run"), address=address.format(port))
