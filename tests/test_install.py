"""`pip install .`: what lands in an environment, what it asks for, and whether README's lines run there from another folder."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import core
from check import pip_command
from tests.source_files import ROOT, python_files
from tests.test_requirements import AGENTS, APP, CORPUS, imported_in, pins, text

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_it_asks_for_what_core_imports_from_the_tested_version_to_the_next_large_one() -> None:
    """What only agents or runs over a corpus need is asked for by those who want it: pip install 'headlight[corpus]'."""
    app, imported = pins(text(APP)), imported_in("core")
    extras = {"agents": pins(text(AGENTS)), "corpus": pins(text(CORPUS))}
    slim = imported - extras["agents"].keys() - extras["corpus"].keys()
    assert set(PROJECT["project"]["dependencies"]) == {ranged(name, app[name]) for name in slim}
    for name, wanted in extras.items():
        extra = {re.sub(r"\[[a-z,]+\]", "", asked) for asked in PROJECT["project"]["optional-dependencies"][name]}
        assert extra == {ranged(name, version) for name, version in wanted.items()}


def ranged(name: str, version: str) -> str:
    return f"{name}>={version},<{int(version.split('.')[0]) + 1}"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Python of an environment outside the repository into which Headlight was installed, and nothing else: what it needs is
    found where these tests find it."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"  # a build leaves files beside what it builds
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "core", source / "core", ignore=shutil.ignore_patterns("__pycache__"))
    builder = venv.EnvBuilder(symlinks=os.name != "nt")
    builder.create(folder / "venv")
    python = builder.ensure_directories(folder / "venv").env_exe
    site = Path(run(python, "import sysconfig; print(sysconfig.get_path('purelib'))", folder).strip())
    (site / "found_there.pth").write_text(sysconfig.get_path("purelib"))
    install = [*pip_command(python), "install", "--no-deps", "--no-index", "--no-build-isolation", str(source)]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    yield python
    shutil.rmtree(folder)


def run(python: str, program: str, folder: Path) -> str:
    done = subprocess.run([python, "-c", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_of_core_lands_under_the_name_headlight_and_nothing_else(python: str, tmp_path: Path) -> None:
    files = run(python, "from importlib.metadata import files; print(*files('headlight'), sep='\\n')", tmp_path).split()
    dist_info = f"headlight-{core.__version__}.dist-info"
    installed = {Path(file) for file in files if "__pycache__" not in file and not file.startswith(dist_info)}
    ours = {Path("headlight") / path.relative_to("core") for path in python_files("core")}
    dates = Path("headlight/models/written_dates")
    model = {dates / path.name for path in (ROOT / "core/models/written_dates").iterdir()}
    assert dates / "model.safetensors" in model
    plotly_js = list((ROOT / "core/exporting").glob("plotly-cartesian.*"))
    assert {path.suffix for path in plotly_js} == {".gz", ".LICENSE"}
    stubs = {Path("headlight/__init__.pyi"), Path("headlight/corpus/__init__.pyi"), Path("headlight/py.typed")}
    of_pages = [path for path in (ROOT / "core").rglob("*") if path.suffix in (".css", ".html", ".js")]
    assert {path.name for path in of_pages} >= {"page.js", "page.css", "fitting.js", "standalone.html", "view.js"}
    of_claims = [path for path in (ROOT / "core/claims").rglob("*") if path.suffix in (".conllu", ".json", ".toml")]
    assert len(of_claims) == 4
    others = {Path("headlight") / path.relative_to(ROOT / "core") for path in [*plotly_js, *of_pages, *of_claims]}
    assert installed == ours | model | stubs | others
    assert f"{dist_info}/METADATA" in files


@pytest.fixture(scope="module")
def told(python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program finds in another folder that runs the lines of the README, and then measures a text in its own process.
    To it, nothing is installed that only runs of the command need."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)
    for long in ("head_effects(model, ", "probe_heads(model)"):  # with the larger model, they take most of the time
        assert long in lines
        lines = lines.replace(long, long.replace("model", 'load_model("all-MiniLM-L6-v2")'))
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "text.txt").write_text("12 Jan 1999\n" * 20)
    program = f"""
import sys
for name in ("ray", "conllu", "sklearn"):
    sys.modules[name] = None
{lines}
import json
from pathlib import Path
import headlight
from headlight.corpus import open_run
from headlight.corpus.in_process import InProcessRun
dates = load_model("written-dates")
run = InProcessRun(dates, Path("text.txt"), Path("run"), 10**6)
while run.go_on():
    pass
found = open_run(run.folder)
print("", json.dumps({{
    "version": headlight.__version__, "file": headlight.__file__, "token": passed.next_tokens(1)[0][0],
    "model": [dates.revision, dates.network.name_or_path],
    "run": [found.about.tokens == run.tokens > 0, found.map],
}}), sep="\\n")
"""
    return json.loads(run(python, program, folder).splitlines()[-1])


def test_the_lines_of_the_readme_run_from_another_folder(python: str, told: dict[str, Any]) -> None:
    """Only this test finds a file that the package needs and the installation leaves out."""
    assert told["version"] == core.__version__
    assert Path(told["file"]).is_relative_to(Path(python).parent.parent)
    assert told["token"] == " Paris"


def test_the_model_that_comes_along_is_found_where_it_was_installed(python: str, told: dict[str, Any]) -> None:
    """Only this test finds a model that is looked for where it was developed."""
    revision, folder = told["model"]
    assert revision == core.load_model("written-dates").revision
    assert Path(folder).is_relative_to(Path(python).parent.parent)


def test_a_run_in_one_process_needs_nothing_that_only_the_command_needs(told: dict[str, Any]) -> None:
    """Without scikit-learn there is no map of the heads."""
    assert told["run"] == [True, None]
