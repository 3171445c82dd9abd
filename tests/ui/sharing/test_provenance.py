"""What stands above a picture about where its numbers come from; all of it stays in the file."""

from types import SimpleNamespace

from ui import links, state
from ui.sharing.dialog import full_address
from ui.sharing.pictures import lines

ABOUT = {"page": "Heads", "model": "a model", "revision": "sha256 53aa51172d142c89d9012cce", "dtype": "float32"}
ABOUT |= {"layer": "1", "head": "10", "text": "the cat", "date": "today"}


def test_model_and_text_and_the_hash_are_chosen_one_by_one():
    hash_of_model = "sha256 53aa51172d142c89d"
    model = "a model · layer 1, head 10 · float32"
    assert lines(ABOUT, with_text=True, with_hash=False) == [model, "Text: the cat"]
    assert lines(ABOUT, with_text=True, with_hash=True) == [f"{model} · {hash_of_model}", "Text: the cat"]
    assert lines(ABOUT, with_text=False, with_hash=True) == [hash_of_model]
    assert lines(ABOUT, with_text=False, with_hash=False) == []


def test_two_adapters_of_one_model_have_hashes_of_their_own():
    of = ABOUT | {"revision": f"sha256 {'a' * 64} + adapter sha256 {'b' * 64}"}
    assert lines(of, with_text=False, with_hash=True) == [f"sha256 {'a' * 17} + adapter sha256 {'b' * 17}"]


def test_a_page_without_a_model_has_its_name_and_no_hash():
    assert lines({"page": "Softmax"}, with_text=True, with_hash=True) == ["Softmax"]


def test_an_exhibit_names_a_model_on_this_machine_without_its_folder(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    here = {state.MODEL: (str(tmp_path / "model"),), state.OTHER_MODEL: ("org/name",), state.TEXT: (str(tmp_path),)}
    monkeypatch.setattr(links, "here", lambda: here)
    address = full_address(SimpleNamespace(of=None))
    assert address == here | {state.MODEL: ("model",)}  # a text is a text
