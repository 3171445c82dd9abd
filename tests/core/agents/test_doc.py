"""docs/agents.md: every answer in its sessions is what the call gives, to the digits that are written."""

import json
import re
from decimal import Decimal

import pytest
from click.testing import CliRunner

from core.agents.__main__ import command
from core.agents.calls import CALLS
from core.agents.host import Limits
from core.agents.serving import MOST_BYTES
from tests.source_files import ROOT

DOC = (ROOT / "docs/agents.md").read_text("utf-8")
LINES = [json.loads(line, parse_float=Decimal) for line in re.findall(r"^    (\{.*\})$", DOC, re.M)]
SESSIONS = [*zip(LINES[::2], LINES[1::2], strict=True)]


@pytest.mark.thorough
@pytest.mark.parametrize("place", range(len(SESSIONS)), ids=[asked["call"] for asked, _ in SESSIONS])
def test_the_answers_of_the_sessions_are_true(calls, place):
    asked, written = SESSIONS[place]
    assert differences(written["answer"], calls.answer(asked["call"], asked["arguments"])) == []


def differences(written, found, where=""):
    """Where an answer is not what is written of it, of which parts may be left out."""
    if isinstance(written, dict):
        return [one for name in written for one in differences(written[name], found[name], f"{where} {name}")]
    if isinstance(written, list):
        return [one for place in range(len(written)) for one in differences(written[place], found[place], where)]
    if isinstance(written, Decimal):
        found = round(Decimal(found), -written.as_tuple().exponent)
    return [] if found == written else [f"{where}: {written} is {found}"]


def test_calls_options_and_bounds_are_those_of_the_code():
    assert re.findall(r"^\| `(\w+)` \|", DOC, re.M) == [*CALLS]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {*re.findall(r"`(--\w+)", DOC)} <= options
    assert f"at most {MOST_BYTES // 1000} kB" in " ".join(DOC.split())
    assert (f"{Limits.tokens:,}", f"{Limits.seconds:g}") == ("2,048", "60")


@pytest.mark.parametrize(
    ("words", "said", "expected"),
    [
        ([], {}, {"tokens": 2048, "seconds": 60, "hub": False, "folders": ()}),
        (["--tokens", "99"], {"HEADLIGHT_SECONDS": "7"}, {"tokens": 99, "seconds": 7}),
        (["--settings", "host.toml"], {}, {"tokens": 512, "hub": True, "folders": (str(ROOT),), "models": ("a/b",)}),
        (["--tokens", "99"], {"HEADLIGHT_SETTINGS": "host.toml"}, {"tokens": 99, "hub": True}),
        (["--settings", "open.toml"], {}, {"folders": (), "tokens": 2048, "seconds": 9, "hub": False}),
        (["--settings", "commas.toml"], {}, {"folders": ()}),
    ],
)
def test_the_settings_of_a_host_hold(words, said, expected, tmp_path, monkeypatch):
    (tmp_path / "host.toml").write_text(
        f'hub = true\nfolders = ["{ROOT}"]\nmodels = ["a/b"]\ntokens = 512\nmemory = "2 GB"\n'
    )
    (tmp_path / "open.toml").write_text('folders = true\ntokens = "none"\nseconds = "9"\nhub = "false"\n')
    (tmp_path / "commas.toml").write_text('folders = "/,/etc"\n')
    monkeypatch.chdir(tmp_path)
    hosts = []
    monkeypatch.setattr("core.agents.serving.serve_lines", lambda host, *_: hosts.append(host))
    done = CliRunner().invoke(command, ["--lines", *words], env=said)
    assert done.exit_code == 0, done.output
    limits = vars(hosts[0].limits)
    assert {name: limits[name] for name in expected} == expected
