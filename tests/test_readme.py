"""The pictures of the README: whether the app still shows their words. `python -m tools.readme_pictures` takes them anew."""

import json
import re

import pytest
from PIL import Image

from tests.pages.app import go, new
from tests.source_files import ROOT
from tools.readme_pictures import PLAYING, SHOTS
from ui.markdown import pieces

PICTURES = {**SHOTS, "playing": PLAYING}
SHELL = (ROOT / "ui/shell.py").read_text("utf-8")


def menu() -> list[str]:
    """The words of the menu: pages, and lists of pages."""
    listed, *others = re.findall(r'^    "(.*)": \[?([^\]\n]*)', SHELL[SHELL.index("menu = {") :], re.MULTILINE)
    pages = dict(re.findall(r'^(\w+) = st\.Page\((?!.*hidden).*title="([^"]+)"', SHELL, re.MULTILINE))
    return [*(pages[name] for name in listed[1].split(", ") if name in pages), *(name for name, _ in others)]


def test_the_readme_shows_each_picture() -> None:
    assert set(re.findall(r"\(docs/([\w-]+)\.png\)", (ROOT / "README.md").read_text("utf-8"))) == PICTURES.keys()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_words_of_today(name: str) -> None:
    with Image.open(ROOT / f"docs/{name}.png") as picture:
        words, frames = json.loads(picture.text["words"]), getattr(picture, "n_frames", 1)
    assert words["menu"] == menu()
    app = go(new(), PICTURES[name].page or "gallery", **PICTURES[name].address)
    said = [one.value for one in app.markdown if one.value.startswith("#")]
    said += [f"# {one.value}" for one in app.subheader]
    assert len(words["headings"]) > 1
    assert set(words["headings"]) <= {"".join(pieces(one)).strip() for one in said}
    assert (frames > 1) == (name == "playing")
    assert (ROOT / f"docs/{name}.png").stat().st_size < 1_500_000
