"""What a host may be told, and what is said where it cannot be meant."""

import os
import subprocess
import sys

import pytest

from tests.conftest import PATIENCE
from tests.source_files import ROOT
from ui.settings import Settings, SettingsError, read


def test_the_file_for_a_public_address_opens_nothing_and_bounds_everything():
    public = read(ROOT / "headlight.public.toml", {})
    assert (public.hub, public.folders, public.models) == (False, False, ())
    for name in ("tokens", "seconds", "sessions", "memory", "upload_mb"):
        assert getattr(public, name) is not None
        assert getattr(public, name) <= (getattr(Settings(), name) or 10**9)


def test_the_environment_wins_over_the_file_and_says_nothing_when_it_is_empty(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('tokens = 100\nhub = false\nmemory = "2.5 GB"\nfolders = ["/a", "/b c"]\nsessions = "none"\n')
    said = {"HEADLIGHT_SETTINGS": str(file), "HEADLIGHT_TOKENS": "200", "HEADLIGHT_SECONDS": " "}
    said |= {"HEADLIGHT_CACHE": "/x"}
    found = read(environment=said | {"HEADLIGHT_MODELS": "org/one, org/two", "OTHER": "1"})
    assert found == Settings(
        tokens=200, hub=False, memory=2_500_000_000, folders=("/a", "/b c"), models=("org/one", "org/two")
    )
    assert read(environment=said | {"HEADLIGHT_FOLDERS": "no", "HEADLIGHT_TOKENS": "none"}).tokens is None


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("tokns = 100", r"there is no setting 'tokns'. Did you mean 'tokens'\?"),
        ("xyz = 1", r"There are: hub, folders, models, dtypes, tokens"),
        ("tokens = 0", r"tokens cannot be 0. It has to be a whole number from 8 to 1,000,000, or \"none\""),
        ("tokens = 1.5", "whole number"),
        ("tokens = true", "whole number"),
        ("hub = 2", "It has to be true or false"),
        ("memory = 2", "at least 100 MB"),
        ('memory = "two GB"', "at least 100 MB"),
        ("memory = true", "at least 100 MB"),
        ('folders = ["models"]', "each with its whole path"),
        ("folders = []", "each with its whole path"),
        ("models = 3", "a list of texts"),
        ('dtypes = ["int8"]', "a list of float32, bfloat16, float16"),
        ("hub = ", "not a TOML file"),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_place(tmp_path, written, words):
    file = tmp_path / "own.toml"
    file.write_text(written)
    with pytest.raises(SettingsError, match=words) as error:
        read(file, {})
    assert str(file) in str(error.value)


def test_a_variable_that_is_no_setting_and_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match="HEADLIGHT_TOKENZ: there is no setting 'tokenz'"):
        read(environment={"HEADLIGHT_TOKENZ": "3"})
    with pytest.raises(SettingsError, match=r"absent\.toml: cannot be read"):
        read(environment={"HEADLIGHT_SETTINGS": str(tmp_path / "absent.toml")})


@pytest.mark.thorough
def test_a_server_with_a_bad_setting_does_not_start_and_says_why_in_one_line():
    asked = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true", "--server.port", "0"]
    environment = os.environ | {"HEADLIGHT_SECONDS": "soon"}
    said = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert said.returncode != 0
    assert "Headlight cannot start. HEADLIGHT_SECONDS: seconds cannot be 'soon'." in said.stderr + said.stdout
    assert "Traceback" not in said.stderr + said.stdout
