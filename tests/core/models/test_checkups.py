"""A check-up is kept for the model, files, versions and precision that it was made with, within bounds, and whatever else lies
in its place is not read."""

import json
import os
from pathlib import Path

import pytest

import core
from core import check_model, load_model
from core.models import checkups
from core.models.checkups import FINITE, Checkup, Finding, keep, known_checkup, outcome
from core.models.model import Model
from tests.core.tiny_models import TINY, randomised, tiny


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkups, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "checkups"


def checked(model: Model) -> Checkup:
    return Checkup.of(model, {FINITE: Finding(True, "All are.")})


@pytest.fixture
def model(tmp_path: Path, folder: Path) -> Path:
    randomised(TINY["Llama"]()).save_pretrained(tmp_path / "model")
    made = load_model(tmp_path / "model")
    keep(made, checked(made))
    assert len(list(folder.iterdir())) == 1
    return tmp_path / "model"


def test_it_is_known_to_whoever_loads_the_model_again(model: Path) -> None:
    made = load_model(model)
    keep(made, checkup := check_model(made, seconds=600))
    again = load_model(model)
    assert known_checkup(again) == checkup
    assert outcome(again).startswith("Checked: ")


OTHERS = {
    "files": lambda folder, _: (folder / "generation_config.json").write_text("{}"),
    "version": lambda _, patch: patch.setattr(core, "__version__", "0.0.0"),
    "machine": lambda _, patch: patch.setattr("platform.node", lambda: "elsewhere"),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_it_is_not_that_of_another(model: Path, change, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_checkup(load_model(model, dtype="bfloat16")) is None
    change(model, monkeypatch)
    assert known_checkup(load_model(model)) is None


def changed(text: bytes, **entry: object) -> bytes:
    content = json.loads(text)
    return json.dumps(content | {FINITE: entry}).encode()


DAMAGES = {
    "empty": lambda _: b"",
    "cut short": lambda text: text[:-9],
    "another form": lambda _: b"[1, 2]",
    "without findings": lambda _: b"{}",
    "a number": lambda text: changed(text, holds=1, detail="fine"),
    "no sentence": lambda text: changed(text, holds=True, detail=[]),
    "too long": lambda text: changed(text, holds=True, detail="x" * 10_000),
    "too large": lambda text: text + b" " * 200_000,
    "not text": lambda text: b"\xff" + text,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_or_foreign_file_is_not_read_and_written_again(model: Path, folder: Path, damage) -> None:
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    again = load_model(model)
    assert known_checkup(again) is None
    keep(again, checked(again))
    assert file.read_bytes() == whole
    assert known_checkup(load_model(model)) is not None


def test_only_a_whole_checkup_that_holds_is_kept(model: Path, folder: Path, monkeypatch) -> None:
    (file,) = folder.iterdir()
    file.unlink()
    again = load_model(model)
    keep(again, check_model(again, seconds=0))
    again.network.model.layers[0].self_attn.scaling = 1.0
    keep(again, failing := check_model(again, seconds=600))
    assert not list(folder.iterdir())
    assert known_checkup(again) is failing, "this process knows it"
    in_memory = load_model(tiny("Llama"))
    keep(in_memory, checked(in_memory))
    assert not list(folder.iterdir())
    monkeypatch.setattr(checkups, "cache_folder", lambda: model / "config.json")  # and a folder that cannot be written
    keep(again := load_model(model), checked(again))
    assert known_checkup(load_model(model)) is None


def test_there_are_only_so_many_and_the_oldest_goes_first(model: Path, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(checkups, "MAX_FILES", 3)
    (folder / "somebody else's").write_text("")
    made = load_model(model)
    for number in range(5):
        other = Model(made.name, made.network, None, str(number), folder=model)
        keep(other, Checkup.of(other, {FINITE: Finding(True, f"Revision {number}.")}))
        for file in folder.glob("checkup-*"):
            os.utime(file, ns=(file.stat().st_atime_ns - 10**9, file.stat().st_mtime_ns - 10**9))
    too_large = Model(made.name, made.network, None, "large", folder=model)
    keep(too_large, Checkup.of(too_large, {FINITE: Finding(True, "x" * checkups.MAX_BYTES)}))
    said = {json.loads(file.read_text())[FINITE]["detail"] for file in folder.glob("checkup-*")}
    assert said == {"Revision 2.", "Revision 3.", "Revision 4."}
    assert (folder / "somebody else's").exists()
