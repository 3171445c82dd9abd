"""The container: what a linter says of the Dockerfile, and what its parts rely on elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import PATIENCE
from tests.source_files import PRODUCT, ROOT, text
from ui.settings import read

DOCKERFILE = text(Path("Dockerfile"))
# Each instruction as one line.
LINES = [
    line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line.strip() and not line.lstrip().startswith("#")
]


def of(instruction: str) -> list[str]:
    return [line.removeprefix(instruction).strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_a_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_what_runs_is_not_root_and_fetches_nothing() -> None:
    number = of("USER")[-1]
    assert number.isdecimal()
    assert number != "0"
    assert LINES.index(f"USER {number}") < next(at for at, line in enumerate(LINES) if line.startswith("CMD "))
    assert "HF_HUB_OFFLINE=1" in of("ENV")[-1]


def test_the_weights_are_kept_where_they_are_looked_for() -> None:
    said = re.findall(r"HEADLIGHT_CACHE=(\S+)", DOCKERFILE)
    assert len(said) == 2
    assert said[0] == said[1]
    assert f"COPY --from=build {said[0]} {said[0]}" in DOCKERFILE


def test_torch_is_pinned_in_the_line_that_the_build_looks_for() -> None:
    assert "grep '^torch=='" in DOCKERFILE
    assert len(re.findall(r"^torch==[0-9.]+$", text(Path("requirements.txt")), re.M)) == 1


def test_the_context_holds_the_app_and_nothing_besides() -> None:
    first, *further = [line for line in text(Path(".dockerignore")).splitlines() if not line.startswith("#")]
    assert first == "*"
    let_in = {line.removeprefix("!") for line in further if line.startswith("!")}
    others = {
        "requirements.txt",
        "requirements-models.txt",
        ".streamlit/config.toml",
        "headlight.public.toml",
        "LICENSE",
    }
    assert let_in == set(PRODUCT) | others


@pytest.mark.parametrize(("status", "expected"), [(200, 0), (503, 1)])
def test_the_health_check_tells_a_server_that_is_well_from_one_that_is_not(status: int, expected: int) -> None:
    asked = []

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    [check] = of("HEALTHCHECK")
    command = json.loads(check[check.index("CMD ") + 4 :])
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.handle_request, daemon=True).start()
        environment = os.environ | {"STREAMLIT_SERVER_PORT": str(server.server_port)}
        found = subprocess.run(
            [sys.executable, *command[1:]], env=environment, capture_output=True, timeout=PATIENCE, check=False
        )
    assert asked == ["/_stcore/health"]
    assert found.returncode == expected


def test_it_begins_with_the_settings_for_strangers() -> None:
    [named] = re.findall(r"HEADLIGHT_SETTINGS=/app/(\S+)", DOCKERFILE)
    assert read(environment={"HEADLIGHT_SETTINGS": str(ROOT / named)}).hub is False
