"""docs/agents.md: every answer in its sessions is what the call gives, to the digits that are written."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner

from core.agents.__main__ import command
from core.agents.calls import CALLS
from core.agents.host import PASSES, Host, Limits
from core.agents.serving import MOST_BYTES, Calls
from tests.source_files import ROOT

DOC = (ROOT / "docs/agents.md").read_text("utf-8")
LINES = [json.loads(line, parse_float=Decimal) for line in re.findall(r"^    (\{.*\})$", DOC, re.M)]
SESSIONS = [*zip(LINES[::2], LINES[1::2], strict=True)]


@pytest.mark.parametrize("place", range(len(SESSIONS)), ids=[asked["call"] for asked, _ in SESSIONS])
def test_the_answers_of_the_sessions_are_true(calls: Calls, place: int) -> None:
    asked, written = SESSIONS[place]
    assert differences(written["answer"], calls.answer(asked["call"], asked["arguments"])) == []


def differences(written: Any, found: Any, where: str = "") -> list[str]:
    """Where an answer is not what is written of it, of which parts may be left out."""
    if isinstance(written, dict):
        return [one for name in written for one in differences(written[name], found[name], f"{where} {name}")]
    if isinstance(written, list):
        return [
            one for place, part in enumerate(written) for one in differences(part, found[place], f"{where} {place}")
        ]
    same = (
        round(Decimal(found), -written.as_tuple().exponent) == written
        if isinstance(written, Decimal)
        else found == written
    )
    return [] if same else [f"{where}: {written} is {found}"]


def test_calls_options_and_bounds_are_those_of_the_code() -> None:
    assert re.findall(r"^\| `(\w+)` \|", DOC, re.M) == [*CALLS]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {*re.findall(r"`(--\w+)", DOC)} <= options
    assert f"at most {MOST_BYTES // 1000} kB" in " ".join(DOC.split())
    assert PASSES == 6
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
def test_the_settings_of_a_host_hold(words, said, expected, tmp_path, monkeypatch) -> None:
    (tmp_path / "host.toml").write_text(
        f'hub = true\nfolders = ["{ROOT}"]\nmodels = ["a/b"]\ntokens = 512\nmemory = "2 GB"\n'
    )
    (tmp_path / "open.toml").write_text('folders = true\ntokens = "none"\nseconds = "9"\nhub = "false"\n')
    (tmp_path / "commas.toml").write_text('folders = "/,/etc"\n')
    monkeypatch.chdir(tmp_path)
    hosts: list[Host] = []
    monkeypatch.setattr("core.agents.serving.serve_lines", lambda host, *_: hosts.append(host))
    done = CliRunner().invoke(command, ["--lines", *words], env=said)
    assert done.exit_code == 0, done.output
    limits = vars(hosts[0].limits)
    assert {name: limits[name] for name in expected} == expected
