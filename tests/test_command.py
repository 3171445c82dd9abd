"""The command `headlight`: what it opens, what it refuses, and what it prints."""

import json
import os
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from core import capture, head_metrics, logit_attribution
from core.__main__ import COMMANDS, address_of, command
from core.agents.calls import CALLS
from core.models.catalogue import CATALOGUE
from tests.refusals import exit_status
from tests.source_files import ROOT
from ui import given
from ui.allowed import may_read
from ui.settings import Settings

TEXT = "The cat saw the cat and the dog saw the cat"


def test_help_waits_for_nothing_large_and_names_every_command():
    program = "import sys; from core.__main__ import command; command.main(['--help'], standalone_mode=False)"
    program += "\nassert not {'torch', 'numpy', 'streamlit'} & {name.partition('.')[0] for name in sys.modules}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "mcp"])
def test_every_command_has_its_help(name, capsys):
    assert exit_status(command, name, "--help") == 0
    assert f" {name} " in capsys.readouterr().out.splitlines()[0]


MODELS = ("model.gguf", "PASS.SAFETENSORS", "weights.npz", "folder", "adapter", "shards", "folder.json")
OPENED = dict.fromkeys(MODELS, "heads") | {"view.headlight": "exhibit", "talk.json": "talk"}


@pytest.mark.parametrize("name", OPENED)
def test_what_takes_the_place_of_a_model_opens_on_heads_by_its_path_and_exhibits_and_talks_on_their_pages(
    name, tmp_path
):
    for file in (
        *MODELS[:3],
        "folder/config.json",
        "folder.json/config.json",
        "adapter/adapter_config.json",
        "shards/a-00001-of-00002.gguf",
        *OPENED,
    ):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    address = urlsplit(address_of(str(tmp_path / name)))
    assert address.path == OPENED[name]
    assert parse_qs(address.query) == ({"model": [str(tmp_path / name)]} if name in MODELS else {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.npz"], "There is neither a command nor a file 'absent.npz'. Commands: open, heads"),
        (["claim"], "neither a command nor a file 'claim'"),
        (["notes.txt"], "Headlight cannot open 'notes.txt'. It opens a GGUF file (.gguf), the folder of a model"),
        (["empty"], "Headlight cannot open 'empty'"),
        (["talk.json"], "Headlight cannot open 'talk.json'. It opens a GGUF file"),
        (["zero.json"], "Headlight cannot open 'zero.json'. It opens a GGUF file"),
        (["talk.json/x"], "neither a command nor a file 'talk.json/x'"),
        (["loop.npz"], "'loop.npz' cannot be opened: Too many levels of symbolic links"),
        (["x" * 300 + ".npz"], "cannot be opened: File name too long"),
        (["x\0.npz"], "cannot be opened: embedded null byte"),
        (["\udcff.npz"], "Headlight cannot open '\\udcff.npz'. Its name ends with a blank, or has characters"),
        (["two\nlines.npz"], "Headlight cannot open 'two\\nlines.npz'. Its name"),
        (["model "], "Headlight cannot open 'model '. Its name ends with a blank"),
        (["--port", "0"], "0 is not in the range 1<=x<=65535"),
        (["--host", "203.0.113.7"], "--host '203.0.113.7' is not an address of this machine"),
        (["heads", "The cat", "--by", "beauty"], "by: There is no metric 'beauty'. Choose one of entropy,"),
        (["heads", "The cat", "--by", "duplicate", "--model", "all-MiniLM-L6-v2"], "text: Nothing in this text"),
        (["why", "The cat", "--answer", "extraordinarily odd"], "answer: “extraordinarily odd” is"),
        (["why", "The cat", "--model", "all-MiniLM-L6-v2"], "has no language-model head"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_what_can(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "\udcff.npz", "two\nlines.npz"):
        Path(name).touch()
    for name in ("empty", "model "):
        Path(name).mkdir()
    Path("model ", "config.json").touch()
    os.mkfifo("talk.json")
    Path("zero.json").symlink_to("/dev/zero")
    Path("loop.npz").symlink_to("loop.npz")
    assert exit_status(command, *words) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "module", "how"),
    [("open", "streamlit", "-r requirements.txt"), ("mcp", "mcp", "-r requirements-agents.txt")],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(name, module, how, monkeypatch, capsys):
    monkeypatch.setattr("core.__main__.find_spec", {}.get)
    assert exit_status(command, name, "--help") == 1
    assert f"{module} is not installed. Install what this needs: pip install {how}" in capsys.readouterr().err


def test_a_server_lets_visitors_read_what_it_was_started_with_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("ui.settings.current", lambda: Settings(folders=False))
    for name in ("given", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(given.FILE, str(tmp_path / "given"))
    assert may_read(str(tmp_path / "given"))
    beside = ("other", "given/config.json", "given/../other", "given/.", "")
    assert not any(may_read(f"{tmp_path}/{name}") for name in beside)
    monkeypatch.delenv(given.FILE)
    assert not any(map(may_read, (str(tmp_path / "given"), "None")))


def test_heads_prints_those_that_have_most_of_a_metric(smollm, capsys):
    assert exit_status(command, "heads", TEXT, "--by", "induction", "--most", "5", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    table = head_metrics(capture(smollm, TEXT))
    strongest = table.sort_values("induction", ascending=False).head(5)
    assert [(row["layer"], row["head"]) for row in told["rows"]] == [
        *zip(strongest.layer, strongest["head"], strict=True)
    ]
    np.testing.assert_allclose([row["induction"] for row in told["rows"]], strongest.induction)


def test_why_prints_what_contributed_most(smollm, capsys):
    text = "The capital of France is"
    assert exit_status(command, "why", text, "--against", " Rome", "--most", "4", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    (rome,) = smollm.tokenizer(" Rome")["input_ids"]
    table = logit_attribution(capture(smollm, text, components=True), against=rome)
    strongest = table.assign(size=abs(table.contribution)).sort_values("size", ascending=False).head(4)
    assert (told["answer"], told["adds up"], told["logit difference"]) == (" Paris", True, table.number)
    assert {row["component"]: row["contribution"] for row in told["rows"]} == dict(
        zip(strongest.component, strongest.contribution, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "shared"), [("heads", "model text by most"), ("why", "model text answer against most")]
)
def test_a_command_and_a_call_have_the_same_words_for_the_same_things(name, shared):
    module, of, _ = COMMANDS[name]
    named = {option.name for option in getattr(import_module(f"core.{module}"), of).params}
    asked = {*signature(CALLS[name]).parameters}
    assert named & asked == {*shared.split()}
    assert named - asked == {"as_json"}


def test_models_says_where_the_models_of_this_disk_are(capsys):
    assert exit_status(command, "models") == 0
    said = capsys.readouterr().out
    assert all(f"{entry.name} " in said and str(entry.found()) in said for entry in CATALOGUE)
