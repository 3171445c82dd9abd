"""Each card of the gallery says what its view shows, and has a picture of it."""

import re
from typing import NamedTuple
from urllib.parse import parse_qs

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.depth import thorough
from tests.pages.app import figure, go, new
from tests.source_files import ROOT
from tests.written_numbers import WRITTEN, number
from tools.gallery_passes import Passes
from tools.gallery_pictures import HEIGHT, PAINT, WIDTH, painted
from ui import links, state
from ui.gallery.views import CARDS, GROUPS, PICTURES
from ui.lessons import LESSONS

BOUND = "10⁻¹²"


class Claimed(NamedTuple):
    """A number that a card says: a share where it says per cent. unit: of its last digit."""

    value: float
    unit: float

    def holds(self, measured):
        """A little more than rounding: the last digit of a model's numbers is not the same on every machine."""
        return abs(measured - self.value) <= 0.6 * self.unit


def claimed(view):
    if BOUND in view.claim:
        return [Claimed(0.0, 1e-12)]
    found = []
    for digits, share in re.findall(r"(\d+(?:\.\d+)?)(%?)", view.claim):
        scale = 0.01 if share else 1.0
        found.append(Claimed(float(digits) * scale, 10.0 ** -len(digits.partition(".")[2]) * scale))
    return found


def disagreement(word, measured):
    """What is wrong with the card; None if it says what was measured."""
    said = claimed(CARDS[word])
    if len(said) == len(measured) and all(one.holds(number) for one, number in zip(said, measured, strict=True)):
        return None
    return f"{word}: the card says “{CARDS[word].claim}”, measured are {tuple(measured)}"


# What pages say of the numbers that the cards claim
WORDS = {
    "pronoun": r"“it” gives\s([\d.]+%)\sof its attention to “animal”",
    "induction": r"“·green” gives ([\d.]+%) of its attention to “·doors”",
    "paris": r"“·Paris” comes next: ([\d.]+%) → ([\d.]+%)",
    "generation": r"“·Paris” is written after “·is”, which gives ([\d.]+%) of its attention to “·France”",
    "patching": r"moves (?:the sentence vector most:|it) ([\d.]+%)",
    "two_sentences": r"“it” → “animal”: This text ([\d.]+%); Other text ([\d.]+%)",
    "two_heads": r"The rows are ([\d.]+) nats apart on average: 0 is the same, ([\d.]+) nothing in common\.",
    "unscaled": r"=\s*weight\s+([\d.]+)\s+([\d.]+)",
    "why": r"is (?=[\d.]+ above that of .* adds most: ([\d.]+))([\d.]+)",
    "circuit": r"scored \S+ (?=[\d.]+ above the mean of the other keys: .* adds most, ([\d.]*\d))([\d.]+)",
    "grouped": r"(\d+) query heads share (\d+) key/value heads",
    "saturation": r"\bweight\s+[\d.]+\s+[\d.]+\s+([\d.]+)",
    "leak": r"([\d.]+) of the weight leaks",
    "order": rf"in the two orders: ({WRITTEN})",
    "in_blocks": rf"float64 ({WRITTEN})",
    "costs": r"n = d = (\d+) tokens",
    "crossing": r"give weights (\d+) × (\d+)",
    "own_matrices": r"“q0” gives ([\d.]+%) of its attention to “k0”",
}


def smallest_and_largest(drawn):
    values = drawn("atlas").values
    return float(np.nanmin(values)), float(np.nanmax(values))


def sum_of_bands(drawn):
    _, parts = next(line for name, line in drawn("bands").lines.items() if name.startswith("here"))
    return float(parts.sum()), len(parts)


def between_the_ends(drawn):
    lines = drawn("gradients").lines
    return (float(lines["attention"][1][-1] - lines["RNN"][1][-1]),)


def rows_of_the_year(drawn):
    """The rows that write 1987 come first, and the four characters come last, before the end of the text."""
    return (float(np.diag(drawn("head").values[:4, -5:-1]).mean()),)


# Where the number is in a picture
DRAWN = {
    "sink": lambda drawn: (float(np.nanmean(drawn("atlas").values)),),
    "previous": lambda drawn: (float(np.diagonal(drawn("head").values, -1).mean()),),
    "entropy": smallest_and_largest,
    "date": rows_of_the_year,
    "rotary": sum_of_bands,
    "gradients": between_the_ends,
}


def shown(word, said, drawn):
    """The numbers of a view, from its words or its pictures; none where they are not there."""
    if word in DRAWN:
        return DRAWN[word](drawn)
    found = re.search(WORDS[word], said)
    return () if found is None else tuple(map(number, found.groups()))


def said(app):
    """All words of a page, without the marks of Markdown."""
    words = "\n".join(part.value for part in app.main if isinstance(getattr(part, "value", None), str))
    return re.sub(r"[\\*#|]", "", words).replace(":small[]", "")


@thorough
@pytest.mark.parametrize("word", CARDS)
def test_its_view_shows_what_the_card_says(word):
    card = CARDS[word]
    page = f"learn/{card.page}" if card.page in LESSONS else card.page
    app = go(new(), page, **links.lasting(card.address))
    assert disagreement(word, shown(word, said(app), lambda name: figure(app, name))) is None, said(app)
    assert not [*app.error, *app.warning, *app.info]


@thorough
def test_pictures_are_what_core_paints_now():
    """Within what the last digits of a model's numbers can change."""
    passes = Passes()
    assert sorted(PAINT) == sorted(CARDS) == sorted(path.stem for path in PICTURES.iterdir())
    for word in CARDS:
        with Image.open(PICTURES / f"{word}.png") as file:
            stored = np.asarray(file.convert("RGBA"), float)
        now = np.asarray(painted(word, passes), float)
        assert stored.shape == now.shape == (HEIGHT, WIDTH, 4)
        assert np.abs(stored - now).mean() < 1, f"{word}: `python -m tools.gallery_pictures` paints it anew"
        assert (PICTURES / f"{word}.png").stat().st_size < 15_000


def test_every_view_is_a_card_whose_link_says_all():
    app = AppTest.from_file(str(ROOT / "ui/shell.py")).run()
    assert not app.exception
    found = {link.proto.label: link.proto for link in app.get("page_link")}
    assert len(CARDS) >= 14
    assert sorted(word for words in GROUPS.values() for word in words) == sorted(CARDS)
    assert [group.value for group in app.subheader] == ["Start here", "Language", "Change", "Theory"]
    assert {view.sentence for view in CARDS.values()} <= {part.value for part in app.markdown}
    for view in CARDS.values():
        link = found[f"**{view.title}**"]
        assert link.page == view.page
        assert set(view.address) <= state.IN_ADDRESS
        assert parse_qs(link.query_string) == {name: [str(word)] for name, word in links.lasting(view.address).items()}
    shown = [picture.proto.imgs[0].alt for picture in app.get("image")]
    assert sorted(shown) == sorted(view.alt for view in CARDS.values())
    assert not [switch for switch in app.toggle if switch.key == state.TABLES]  # these pictures have no tables
