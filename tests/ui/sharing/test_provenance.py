"""What stands above a picture about where its numbers come from, and the files of npm that save one as PDF."""

import hashlib
from types import SimpleNamespace

import pytest

from ui import links, state
from ui.sharing.dialog import full_address
from ui.sharing.pictures import lines
from ui.sharing.served import JSPDF, SVG2PDF

ABOUT = {"page": "Heads", "model": "a model", "revision": "sha256 53aa51172d142c89d9012cce", "dtype": "float32"}
ABOUT |= {"layer": "1", "head": "10", "text": "the cat", "date": "today"}


def test_model_and_text_and_the_hash_are_chosen_one_by_one():
    hash_of_model = "sha256 53aa51172d142c89d"
    model = "a model · layer 1, head 10 · float32"
    assert lines(ABOUT, with_text=True, with_hash=False) == [model, "Text: the cat"]
    assert lines(ABOUT, with_text=True, with_hash=True) == [f"{model} · {hash_of_model}", "Text: the cat"]
    assert lines(ABOUT, with_text=False, with_hash=True) == [hash_of_model]
    assert lines(ABOUT, with_text=False, with_hash=False) == []
    of = ABOUT | {"revision": f"sha256 {'a' * 64} + adapter sha256 {'b' * 64}"}
    assert lines(of, with_text=False, with_hash=True) == [f"sha256 {'a' * 17} + adapter sha256 {'b' * 17}"]
    assert lines({"page": "Softmax"}, with_text=True, with_hash=True) == ["Softmax"]


def test_an_exhibit_names_a_model_on_this_machine_without_its_folder(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    here = {state.MODEL: (str(tmp_path / "model"),), state.OTHER_MODEL: ("org/name",), state.TEXT: (str(tmp_path),)}
    monkeypatch.setattr(links, "here", lambda: here)
    address = full_address(SimpleNamespace(of=None))
    assert address == here | {state.MODEL: ("model",)}  # a text is a text


# Otherwise: npm pack jspdf@<version> or svg2pdf.js@<version>, and copy its dist/*.umd.min.js and LICENSE.
@pytest.mark.parametrize(
    ("file", "version", "digest"),
    [
        (JSPDF, "4.2.1", "e6551fcdc32f09d6853b2c5126d18d01d9447e0da618a41a11ebeee0f6c20d54"),
        (SVG2PDF, "2.8.1", "2f10c0d16959e9a0c4cfd8605cfce0830ddc384337f74fa0351a6eff1c1efb8b"),
    ],
)
def test_a_library_is_the_file_of_npm_in_the_version_that_its_name_says(file, version, digest):
    """Only this test finds a library that somebody has changed, or replaced without giving it another address."""
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    assert version in file.name
    assert "Permission is hereby granted" in file.with_name(f"{file.name.split('-')[0]}.LICENSE").read_text("utf-8")
