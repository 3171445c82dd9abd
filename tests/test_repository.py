"""The files that contributors, GitHub and Docker expect: they agree with the code, the requirements and each other."""

import json
import os
import re
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

import core
from tests.conftest import PATIENCE
from tests.source_files import PRODUCT, ROOT, text
from tests.test_requirements import DEV, pins
from ui import settings

WORKFLOW = ROOT / ".github/workflows/check.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def job(name):
    return yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"][name]


def commands(name):
    return [step["run"] for step in job(name)["steps"] if "run" in step]


def test_pre_commit_runs_the_ruff_that_check_py_runs():
    (repository,) = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    assert repository["rev"] == f"v{pins(DEV.read_text('utf-8'))['ruff']}"


def test_github_runs_check_py_with_the_oldest_and_the_newest_python_that_are_promised():
    assert commands("check") == ["python check.py"]
    pythons = job("check")["strategy"]["matrix"]["python"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert pythons == [promised[0], promised[-1]]
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"


def test_every_action_is_pinned_to_a_commit():
    """A tag can be moved to other code."""
    uses = [line for line in WORKFLOW.read_text("utf-8").splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_the_citation_has_the_version_of_the_code():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", core.__version__)
    assert citation["license"] == PROJECT["project"]["license"]


DOCKERFILE = text("Dockerfile")
# Each instruction as one line.
LINES = [
    line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line.strip() and not line.lstrip().startswith("#")
]


def of(instruction):
    return [line.removeprefix(instruction).strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_a_linter_finds_nothing_in_the_images():
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run(
        [hadolint, "Dockerfile", "deploy/Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_what_runs_is_not_root_and_fetches_nothing():
    number = of("USER")[-1]
    assert number.isdecimal()
    assert number != "0"
    assert LINES.index(f"USER {number}") < next(at for at, line in enumerate(LINES) if line.startswith("CMD "))
    assert "HF_HUB_OFFLINE=1" in of("ENV")[-1]


def test_the_context_holds_the_app_and_nothing_besides():
    first, *further = [line for line in text(".dockerignore").splitlines() if not line.startswith("#")]
    assert first == "*"
    let_in = {line.removeprefix("!") for line in further if line.startswith("!")}
    others = {"requirements.txt", "requirements-models.txt", "LICENSE"}
    others |= {".streamlit/config.toml", "headlight.public.toml"}
    assert let_in == set(PRODUCT) | others


@pytest.mark.parametrize(("status", "expected"), [(200, 0), (503, 1)])
def test_the_health_check_tells_a_server_that_is_well_from_one_that_is_not(status, expected):
    asked = []

    class Health(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_): ...

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


def test_it_begins_with_the_settings_for_strangers():
    [named] = re.findall(r"HEADLIGHT_SETTINGS=/app/(\S+)", DOCKERFILE)
    assert settings.read(environment={"HEADLIGHT_SETTINGS": str(ROOT / named)}).hub is False
