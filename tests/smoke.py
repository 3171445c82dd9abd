"""The installed program, from another folder: two starts at once open a file, each at a free port, and a page shows its number.

    python -m tests.smoke           the `headlight` on PATH
    python -m tests.smoke PROGRAM   another one

It needs Playwright and a browser besides. tests/test_install.py runs it, and the workflow does on systems without the suite.
"""

import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from playwright.sync_api import expect, sync_playwright

from check import find_browser

PATIENCE = 300_000  # milliseconds
EVENLY = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
BEFORE = np.eye(4, k=-1) + np.diag([1, 0, 0, 0])  # every token looks at the one before it


def main(program: str) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        np.savez(folder / "weights.npz", attentions=np.array([[EVENLY, BEFORE]]), tokens=np.array([*"abcd"]))
        used = stack.enter_context(socket.create_server(("localhost", 0)))
        port = used.getsockname()[1]
        command = [program, "weights.npz", "--no-browser", "--port", str(port)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        servers = [subprocess.Popen(command, cwd=folder, **pipes) for _ in range(2)]
        for server in servers:
            stack.callback(server.communicate)
            stack.callback(server.terminate)
        told = [server.stdout.readline() for server in servers]
        addresses = [re.findall(r"http://localhost:\S+", line) for line in told]
        assert addresses[0] != addresses[1], told
        assert f"Port {port} is in use; the next free one is" in servers[0].stderr.readline()
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = browser.new_page()
        (address,) = addresses[1]
        page.goto(address)
        expect(page.locator(".stMain")).to_contain_text("previous token: 0.1 (100%)", timeout=PATIENCE)
        expect(page.get_by_test_id("stAppDeployButton")).to_have_count(0)  # as .streamlit/config.toml says
        page.goto(f"{address.partition('heads')[0]}corpus")
        expect(page.locator(".stMain")).to_contain_text(
            "54,486 tokens", timeout=PATIENCE
        )  # of the run that comes along
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:] or [shutil.which("headlight")])
