"""The widths of texts are those of the page's own font, and lines are as wide as there is room for."""

from pathlib import Path

import pytest
import streamlit
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageFont

from core.figures.labels import without_effect
from core.figures.typeface import BOLD, REGULAR, ems, ems_of_label, wrapped

MEDIA = Path(streamlit.__file__).parent / "static" / "static" / "media"
# What labels are made of: Latin, Romanian, Vietnamese, Greek, Cyrillic, and the signs that the pages write.
LETTERS = [*map(chr, range(33, 127)), *"éßőŁșțệữΑΩλЖяґ·…−×±√∞≈≠≤≥→←↑↓²“”’–€▲▼"]


@pytest.fixture(scope="module")
def of_page():
    return ImageFont.truetype(next(MEDIA.glob("SourceSansVF-Upright.*.woff2")), 1000)


@pytest.mark.parametrize(("weight", "bold"), [(REGULAR, False), (BOLD, True)])
def test_letters_are_as_wide_as_on_the_page(of_page, weight, bold):
    """Only this test finds letters that were left out, or made of another font than the one that the page has now."""
    of_page.set_variation_by_axes([weight])
    expected = [of_page.getlength(letter) / 1000 for letter in LETTERS]
    assert [ems(letter, bold=bold) for letter in LETTERS] == pytest.approx(expected, abs=0.0011)  # a unit of the font
    assert ems("".join(LETTERS), bold=bold) == pytest.approx(sum(expected), abs=0.02)


def test_letters_of_other_scripts_are_as_wide_as_they_are_high():
    assert [ems(text) for text in ("", "東京", "😀", "ن", "e\u0301", "\u200b")] == [0, 2, 1, 1, ems("e"), 0]


@pytest.mark.parametrize("text", ["<b>", "&amp;", "$x$", "a < b"])
def test_a_label_is_as_wide_as_what_is_seen_of_it(text):
    assert ems_of_label(without_effect(text)) == ems(text)
    assert ems_of_label(f"<b>{without_effect(text)}</b>") == ems(text, bold=True) > ems(text)


@given(st.text(st.sampled_from("aWi. \n東"), max_size=40), st.floats(1, 9), st.booleans())
def test_lines_hold_the_whole_text_and_no_more_than_there_is_room_for(text, room, bold):
    lines = list(wrapped(text, room, bold=bold))
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(ems(line, bold=bold) <= room for line in lines)


@pytest.mark.parametrize("bold", [False, True])
def test_a_line_is_as_long_as_it_can_be(bold):
    """Up to the last word that fits, or the last letter of a word that is longer than a line."""
    room = ems("the cat", bold=bold)
    assert [*wrapped("the cat\nthe cat", room, bold=bold)] == ["the cat", "the cat"]
    assert [*wrapped("the cats the", room, bold=bold)] == ["the", "cats", "the"]
    assert [*wrapped("catcatcat", room, bold=bold)] == ["catcat", "cat"]
