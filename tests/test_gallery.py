"""Each card of the gallery says what core measures, and shows a picture of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.conftest import eager_attentions
from tests.source_files import ROOT
from tools.gallery_numbers import MEASURE, Passes
from tools.gallery_pictures import HEIGHT, PAINT, WIDTH, painted
from ui import links, state
from ui.gallery.views import GROUPS
from ui.gallery.views import CARDS, PICTURES, Card

BOUND = "10⁻¹²"


class Claimed(NamedTuple):
    """A number that a card says: a share where it says per cent. unit: of its last digit."""

    value: float
    unit: float

    def holds(self, measured: float) -> bool:
        """A little more than rounding: the last digit of a model's numbers is not the same on every machine."""
        return abs(measured - self.value) <= 0.6 * self.unit


def claimed(view: Card) -> list[Claimed]:
    if BOUND in view.claim:
        return [Claimed(0.0, 1e-12)]
    found = []
    for digits, share in re.findall(r"(\d+(?:\.\d+)?)(%?)", view.claim):
        scale = 0.01 if share else 1.0
        found.append(Claimed(float(digits) * scale, 10.0 ** -len(digits.partition(".")[2]) * scale))
    return found


def disagreement(word: str, measured: Sequence[float]) -> str | None:
    """What is wrong with the card; None if it says what was measured."""
    said = claimed(CARDS[word])
    if len(said) == len(measured) and all(one.holds(number) for one, number in zip(said, measured, strict=True)):
        return None
    return f"{word}: the card says “{CARDS[word].claim}”, measured are {tuple(measured)}"


@pytest.fixture(scope="module")
def passes() -> Passes:
    return Passes()


@pytest.mark.parametrize("word", CARDS)
def test_the_card_says_what_is_measured(word, passes):
    assert disagreement(word, MEASURE[word](passes)) is None


def test_a_wrong_card_is_seen():
    assert disagreement("paris", (0.7725, 0.15)) is not None
    assert disagreement("paris", (0.7725,)) is not None
    assert disagreement("order", (1e-9,)) is not None


def test_heads_are_measured_as_transformers_own_eager_code_has_them(passes, minilm, smollm):
    """The weights that cards speak of, from another computation than ours."""
    for word, model in (("pronoun", minilm), ("induction", smollm), ("unscaled", smollm), ("previous", minilm)):
        address = CARDS[word].address
        layer, head = int(address[state.LAYER]), int(address[state.HEAD])
        weights = eager_attentions(model, passes.of(model.name, address[state.TEXT])).attentions[layer][0, head].numpy()
        if word == "previous":
            expected = np.diagonal(weights, -1).mean()
        else:
            expected = weights[int(address[state.QUERY]), int(address[state.KEY])]
        assert claimed(CARDS[word])[0].holds(float(expected)), word


def test_pictures_are_what_core_paints_now(passes):
    """Within what the last digits of a model's numbers can change."""
    assert sorted(PAINT) == sorted(MEASURE) == sorted(CARDS) == sorted(path.stem for path in PICTURES.iterdir())
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
        assert links.lasting(view.address)[state.VERSION] == str(links.VERSION)
        assert f"{state.VERSION}={links.VERSION}" in link.query_string
    shown = [picture.proto.imgs[0].alt for picture in app.get("image")]
    assert sorted(shown) == sorted(view.alt for view in CARDS.values())
    assert not [switch for switch in app.toggle if switch.key == state.TABLES]  # these pictures have no tables


def test_each_sentence_is_one_glance():
    for word, view in CARDS.items():
        assert len(view.sentence.split()) <= 20, word
        assert len(view.claim) <= 24, word
