"""Views as one HTML page: a talk, a lesson or a single view that opens anywhere, without a network, a server or Python.

    save_page([PageView("Softmax", ["The weights add up to 1."], [Drawing("Weights", "A heatmap.", chart)])], "page.html")

The page holds plotly.js, its policy forbids loading anything, and all texts in it are data: they are never read as markup.
page.js shows one view after another, with the keys of a presentation. docs/exports.md says what the file holds.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plotly.utils import PlotlyJSONEncoder

from ..errors import InputError
from ..figures.heatmaps.frames import VEIL
from ..figures.labels import FITTING
from ..figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT_ON_DARK
from .documents import About, beside, html_page
from .exhibit import Drawing

MOST_VIEWS = 10
MOST_BYTES = 3_000_000  # of a page
_COLOURS = {"veil": VEIL, "text": TEXT_ON_DARK, "signed": DIVERGING, "signedOnDark": DIVERGING_ON_DARK}  # for page.js

Line = Sequence[tuple[str, bool]]  # texts, and whether each is bold


@dataclass(frozen=True, eq=False)
class PageKnob:
    """A knob of a view: what differs in the pictures and the words at each of its places.

    label   what it is called
    places  the name of each place
    frames  of each place: {"charts": {the number of a picture: {"data": [...], "layout": {...}}}, "said": {the number of a
            line: its texts}}; "all" instead of "data" replaces all traces
    at      the place at which the view stands
    rest    seconds for which it rests at each place while it is played; 0: it is not
    """

    label: str
    places: Sequence[str]
    frames: Sequence[Mapping[str, Any]]
    at: int
    rest: float = 0.0


@dataclass(frozen=True, eq=False)
class PageView:
    """What an audience sees of a view.

    title     its title
    words     what is said: texts, or lines with bold texts in them
    pictures  in the order of drawing
    knobs     what can be moved; the arrow keys move the first one
    notes     for the speaker
    about     where the numbers come from
    """

    title: str
    words: Sequence[str | Line] = ()
    pictures: Sequence[Drawing] = ()
    knobs: Sequence[PageKnob] = ()
    notes: str = ""
    about: About = field(default_factory=dict)


def save_page(views: Sequence[PageView], path: str | os.PathLike[str], *, title: str = "Headlight") -> None:
    """Write views as one HTML page. Raises InputError (field "views") as `to_page` does, OSError if it cannot be written."""
    Path(path).write_text(to_page(views, title=title), encoding="utf-8")


def to_page(views: Sequence[PageView], *, title: str = "Headlight") -> str:
    """Views as one HTML page.

    Raises InputError (field "views") for no views or more than 10, and for a page of more than 3 MB.
    """
    if not 1 <= len(views) <= MOST_VIEWS:
        raise InputError(f"A page holds 1 to {MOST_VIEWS} views, and these are {len(views)}.", field="views")
    written = [_json(_written(view)) for view in views]
    kinds = {trace["type"] for view in views for picture in view.pictures for trace in picture.chart.traces}
    script = f"const COLOURS = {_json(_COLOURS)};\n{FITTING.read_text('utf-8')}{beside('page.js')}"
    body = f'<script type="application/json" id="views">[{",".join(written)}]</script>'
    page = html_page(title, beside("page.css"), body, kinds, script)
    if (size := len(page.encode())) > MOST_BYTES:
        largest = max(range(len(views)), key=lambda at: len(written[at]))
        raise InputError(
            f"The page would have {size / 1e6:.1f} MB, and at most {MOST_BYTES / 1e6:.0f} MB are written. View {largest + 1}, "
            f"“{views[largest].title[:60]}”, is the largest: leave it out.",
            field="views",
        )
    return page


def _written(view: PageView) -> dict[str, Any]:
    return {
        "title": view.title,
        "words": [[[words, False]] if isinstance(words, str) else [list(one) for one in words] for words in view.words],
        "pictures": [
            {
                "title": picture.title,
                "alt": f"{picture.alt} {picture.chart.description}".strip(),
                "data": picture.chart.traces,
                "layout": picture.chart.layout,
            }
            for picture in view.pictures
        ],
        "knobs": [vars(knob) for knob in view.knobs],
        "notes": view.notes,
        "about": [list(entry) for entry in view.about.items()],
    }


def _json(value: Any) -> str:
    """JSON in which no text can end the script that holds it."""
    return json.dumps(value, cls=PlotlyJSONEncoder).replace("<", "\\u003c")
