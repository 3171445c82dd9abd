"""Sharing one picture of a page as SVG, PNG or HTML, and its numbers as CSV or NPZ."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from core.exporting.about import About
from core.exporting.pictures import GROUNDS, portrait, to_html
from core.exporting.tables import MAX_CSV_CELLS, MAX_NPZ_CELLS, Table, tables_of, to_csv, to_npz
from ui import state
from ui.sharing import plotly_js
from ui.sharing.provenance import about, file_name, lines
from ui.shown import Numbers, PageContents, Picture

_HERE = Path(__file__)
_SAVE = component(
    "headlight_pictures",
    html='<div class="row"><button data-format="svg">SVG</button><button data-format="png">PNG</button></div>'
    '<div class="said" role="status"></div>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)
GROUND_NAMES = {"light": "White", "dark": "Dark"}
_UNFINISHED = re.compile(r"(.+) \d+")  # the name of a picture that was drawn while its numbers came


def show_pictures(shown: PageContents) -> None:
    """Show a menu of pictures and buttons for their files; each file is made when its button is pressed."""
    pictures = offered(shown)
    if pictures:
        _show_picture(shown, pictures)
    else:
        st.caption("This page shows no picture now.")
    if shown.lists:
        _show_lists(shown)


def offered(shown: PageContents) -> dict[str, Picture]:
    """Return the pictures by their names: those of queries and keys first, and of these whole ones first."""
    finished = {
        name: picture
        for name, picture in shown.pictures.items()
        if not ((match := _UNFINISHED.fullmatch(name)) and match[1] in shown.pictures)
    }
    return dict(sorted(finished.items(), key=lambda item: _rank(item[1])))


def _rank(picture: Picture) -> tuple[bool, bool]:
    is_of_pairs = any(values.columns and values.headings[0] in ("query", "key") for values in picture.chart.values)
    return not is_of_pairs, picture.numbers is None


def _show_picture(shown: PageContents, pictures: dict[str, Picture]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Picture", list(pictures), key=state.SHARED_PICTURE, format_func=lambda name: pictures[name].title
        )
        ground = st.segmented_control(
            "Background",
            list(GROUND_NAMES),
            default="light",
            key=state.GROUND,
            format_func=GROUND_NAMES.__getitem__,
            required=True,
        )
    picture, known = pictures[name], about(shown)
    numbers = picture.numbers or Numbers(0, partial(tables_of, picture.chart))
    known = {"figure": picture.title} | known | dict(numbers.about)
    figure = portrait(picture.chart.figure, picture.title, lines(known), GROUNDS[ground])
    data = {"figure": figure.to_json(), "name": file_name(known, picture.title), "script": plotly_js.ADDRESS}
    with st.container(horizontal=True):
        _SAVE(key=state.SAVE_PICTURE, data=data, width="content")
        page = partial(to_html, figure, picture.title, known)
        _download("HTML", page, file_name(known, picture.title, ".html"), "text/html")
        _offer_numbers(numbers, known, picture.title)
    st.caption(
        "Each picture includes its title, model, head and text. HTML opens without a network. CSV and NPZ hold the numbers."
    )
    if picture.numbers is None:
        st.caption(_what_is_drawn(picture))


def _what_is_drawn(picture: Picture) -> str:
    rows, columns = picture.chart.block
    if rows * columns == 1:
        return "The numbers are those in the picture."
    return f"The numbers are those in the picture. Each is the strongest of a block of {rows} × {columns} cells."


def _show_lists(shown: PageContents) -> None:
    name = st.selectbox("Further numbers", list(shown.lists), key=state.SHARED_LIST)
    numbers = shown.lists[name]
    with st.container(horizontal=True):
        _offer_numbers(numbers, {"numbers of": name} | about(shown) | dict(numbers.about), name)


def _offer_numbers(numbers: Numbers, known: About, title: str) -> None:
    for label, ending, kind, write, most in (
        ("CSV", ".csv", "text/csv", to_csv, MAX_CSV_CELLS),
        ("NPZ", ".npz", "application/octet-stream", to_npz, MAX_NPZ_CELLS),
    ):
        fits = numbers.cells <= most
        too_large = f"There are {numbers.cells:,} numbers; {label} holds at most {most:,}."
        _download(
            label,
            partial(_made, write, numbers, known),
            file_name(known, title, ending),
            kind,
            help=None if fits else too_large,
            disabled=not fits,
        )


def _made(write: Callable[[tuple[Table, ...], About], str | bytes], numbers: Numbers, known: About) -> str | bytes:
    return write(numbers.make(), known)


def _download(
    label: str,
    make: Callable[[], str | bytes],
    name: str,
    kind: str,
    *,
    help: str | None = None,
    disabled: bool = False,
) -> None:
    """Show a button that makes its file when it is pressed."""
    st.download_button(
        label, make, name, kind, key=state.download(name), on_click="ignore", help=help, disabled=disabled
    )
