"""`pip install .`: what lands in an environment, what it asks for, whether README's lines run there from another folder, and
what the command opens."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

import core
from check import pip_command
from tests.depth import thorough
from tests.source_files import PRODUCT, ROOT
from tests.test_requirements import AGENTS, APP, CORPUS, imported_in, pins, text

# Where the wheel has what is in the repository.
PARTS = {"core": "headlight/"} | {
    name: f"headlight/app/{name}/"
    for name in ("app.py", "pages", "ui", ".streamlit/config.toml", "requirements-models.txt")
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@thorough
def test_it_asks_for_what_is_imported_from_the_tested_version_to_the_next_large_one():
    """Those who want them ask for what only the app, runs over a corpus or agents need: pip install "headlight[app]"."""
    app, pinned = pins(text(APP)), {"agents": pins(text(AGENTS)), "corpus": pins(text(CORPUS))}
    extras = {
        name: {re.sub(r"\[[a-z,]+\]", "", one) for one in asked}
        for name, asked in PROJECT["project"]["optional-dependencies"].items()
    }
    elsewhere = {*pinned["agents"], *pinned["corpus"]}
    library = imported_in("core") - elsewhere
    of_app = (imported_in(*PRODUCT) - library - elsewhere) | {"num2words"}  # which a processor of transformers imports
    assert set(PROJECT["project"]["dependencies"]) == {ranged(name, app[name]) for name in library}
    wanted = {"app": {name: app[name] for name in of_app}, **pinned}
    assert extras == {name: {ranged(*one) for one in of.items()} for name, of in wanted.items()}


def ranged(name, version):
    return f"{name}>={version},<{int(version.split('.')[0]) + 1}"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Python of an environment outside the repository into which Headlight was installed, and nothing else: what it needs is
    found where these tests find it."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"  # a build leaves files beside what it builds
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", *PARTS):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (source / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, source / name)
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


def run(python, program, folder):
    done = subprocess.run([python, "-c", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@thorough
def test_the_library_and_the_app_land_and_nothing_else(python, tmp_path):
    files = run(python, "from importlib.metadata import files; print(*files('headlight'), sep='\\n')", tmp_path).split()
    dist_info = f"headlight-{core.__version__}.dist-info"
    others = {file for file in files if "__pycache__" not in file and not file.startswith(dist_info)}
    ours = {
        f"{place}{path.relative_to(ROOT / name).as_posix()}".rstrip("/.")
        for name, place in PARTS.items()
        for path in [ROOT / name, *(ROOT / name).rglob("*")]
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {file for file in others if file.startswith("headlight/")} == ours
    assert {Path(file).name for file in others - ours} == {Path(python).with_name("headlight").name}
    assert f"{dist_info}/METADATA" in files


@thorough
def test_the_lines_of_the_readme_run_from_another_folder(python, tmp_path):
    """And then a run over a text in its own process, without what only runs of the command need: only this test finds a file
    that the installation leaves out, and a model that is looked for where it was developed."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)
    for long in ("head_effects(model, ", "probe_heads(model)"):  # with the larger model, they take most of the time
        assert long in lines
        lines = lines.replace(long, long.replace("model", 'load_model("all-MiniLM-L6-v2")'))
    (tmp_path / "text.txt").write_text("12 Jan 1999\n" * 20)
    program = f"""
import sys
for name in ("ray", "conllu", "sklearn"):
    sys.modules[name] = None
{lines}
import json
from pathlib import Path
import headlight
from headlight.corpus import open_run
from headlight.corpus.steps import InProcessRun
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
    told = json.loads(run(python, program, tmp_path).splitlines()[-1])
    assert (told["version"], told["token"]) == (core.__version__, " Paris")
    revision, model = told["model"]
    assert revision == core.load_model("written-dates").revision
    assert all(Path(file).is_relative_to(Path(python).parent.parent) for file in (told["file"], model))
    assert told["run"] == [True, None]  # without scikit-learn there is no map of the heads


@thorough
def test_the_command_opens_a_file_on_its_page(python):
    command = [sys.executable, "-m", "tests.smoke", str(Path(python).with_name("headlight"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
