"""The typeface of all pictures, and how wide texts are in it.

It is Source Sans, in which the pages are set, too. Files that leave them hold its letters: see tools/letters.py.
"""

import base64
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path

from PIL import ImageFont

from .labels import without_markup

NAME = "Source Sans"
FAMILY = f"{NAME}, sans-serif"
REGULAR, BOLD = 400, 700
LETTERS = Path(__file__).with_name("letters")
FILES = {REGULAR: LETTERS / "HeadlightSans-Regular.ttf", BOLD: LETTERS / "HeadlightSans-Bold.ttf"}

GAP = 0.2  # between texts that stand beside each other, in heights of their letters: that of a blank
_EM = 1000  # of the font's own units: at this size its widths are whole numbers


@cache
def _font(weight: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FILES[weight], _EM, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=2**13)  # a figure asks for each of its labels several times
def ems(text: str, *, bold: bool = False) -> float:
    """Return the width of a plain text in heights of its letters.

    A letter that the typeface lacks, such as 東 or 😀, counts as wide as it is high; marks above or below letters and signs
    that are not seen count nothing.
    """
    seen = "".join(letter for letter in text if unicodedata.category(letter) not in ("Mn", "Me", "Cf"))
    return _font(BOLD if bold else REGULAR).getlength(seen) / _EM


@lru_cache(maxsize=2**13)
def ems_of_label(label: str) -> float:
    """Return the width of a label with Plotly's markup in heights of its letters."""
    return ems(without_markup(label), bold=label.startswith("<b>"))


def wrapped(text: str, room: float, *, bold: bool = False) -> Iterator[str]:
    """Break a plain text into lines that are at most `room` heights of its letters wide; words too where they are longer."""
    line = ""
    for word in re.findall(r" *[^ ]+", re.sub(r"\s", " ", text)):
        if ems(line + word, bold=bold) <= room:
            line += word
            continue
        if line:
            yield line.strip()
        line = word.lstrip()
        while ems(line, bold=bold) > room:
            fitting = sum(end <= room for end in accumulate(ems(letter, bold=bold) for letter in line)) or 1
            yield line[:fitting]
            line = line[fitting:]
    if line:
        yield line.strip()


@cache
def faces() -> str:
    """Return CSS that brings the letters into a page or an SVG."""
    return "\n".join(
        f'@font-face {{ font-family: "{NAME}"; font-weight: {weight}; '
        f'src: url("data:font/ttf;base64,{base64.b64encode(file.read_bytes()).decode()}"); }}'
        for weight, file in FILES.items()
    )
