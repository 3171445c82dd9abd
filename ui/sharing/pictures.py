"""Sharing one picture of a page as PDF, SVG, PNG or HTML, and its numbers as CSV or NPZ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.exporting.documents import About, to_html
from core.exporting.pictures import COLUMN, COLUMNS, GROUNDS, portrait, print_widths
from core.exporting.tables import MAX_CSV_CELLS, MAX_NPZ_CELLS, tables_of, to_csv, to_npz
from ui import state
from ui.in_browser import component_beside
from ui.progress import for_its_visitor
from ui.sharing import served
from ui.sharing.provenance import about, file_name, lines
from ui.shown import Numbers, PageContents, Picture

_SAVE = component_beside(__file__, "buttons", "png", "pdf")
GROUND_NAMES = {"light": "White", "dark": "Dark"}
WIDTHS = {0: "Screen", COLUMN: f"{COLUMN} mm", COLUMNS: f"{COLUMNS} mm"}
WORDS = {"title": "Title", "text": "Model and text", "hash": "Hash"}
_UNFINISHED = re.compile(r"(.+) \d+")  # the name of a picture that was drawn while its numbers came


def show_pictures(shown: PageContents) -> None:
    """Show a menu of pictures and buttons for their files; each file is made when its button is pressed."""
    pictures = offered(shown)
    if pictures:
        _show_picture(shown, pictures)
    else:
        st.caption("This page shows no picture now.")
    if shown.lists:
        name = st.selectbox("Further numbers", list(shown.lists), key=state.SHARED_LIST)
        numbers = shown.lists[name]
        with st.container(horizontal=True):
            _offer_numbers(numbers, {"numbers of": name} | about(shown) | dict(numbers.about), name)


def offered(shown: PageContents) -> dict[str, Picture]:
    """Return the pictures by their names: those of queries and keys first, and of these whole ones first."""

    def rank(name: str) -> tuple[bool, bool]:
        picture = shown.pictures[name]
        is_of_pairs = any(values.columns and values.headings[0] in ("query", "key") for values in picture.chart.values)
        return not is_of_pairs, picture.numbers is None

    unfinished = {name for name in shown.pictures if (of := _UNFINISHED.fullmatch(name)) and of[1] in shown.pictures}
    return {name: shown.pictures[name] for name in sorted(shown.pictures, key=rank) if name not in unfinished}


def _show_picture(shown: PageContents, pictures: dict[str, Picture]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = {name: picture.title for name, picture in pictures.items()}
        name = st.selectbox("Picture", list(titles), key=state.SHARED_PICTURE, format_func=titles.__getitem__)
        ground = _choice("Background", GROUND_NAMES, state.GROUND)
    picture, known = pictures[name], about(shown)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        width = _choice("Width", WIDTHS, state.SHARED_WIDTH)
        several = {"default": ["title", "text"], "selection_mode": "multi", "format_func": WORDS.__getitem__}
        words = st.pills("Above the picture", list(WORDS), key=state.WORDS_ABOVE, **several)
    possible = print_widths(picture.chart.figure)
    if width and width not in possible:
        st.caption(f"In {WIDTHS[width]} nobody could read this picture: it is {WIDTHS[possible[0]]} wide.")
        width = possible[0]
    numbers = picture.numbers or Numbers(0, lambda: tables_of(picture.chart))
    known = {"figure": picture.title} | known | dict(numbers.about)
    title = picture.title if "title" in words else ""
    notes = lines(known, with_text="text" in words, with_hash="hash" in words)
    figure = portrait(picture.chart.figure, title, notes, GROUNDS[ground], millimetres=width or None)
    with st.container(horizontal=True):
        _SAVE(key=state.SAVE_PICTURE, data=_to_draw(figure, picture.title, known, width), width="content")
        _download(
            "HTML", lambda: to_html(figure, picture.title, known), file_name(known, picture.title, ".html"), "text/html"
        )
        _offer_numbers(numbers, known, picture.title)
    st.caption(
        "Each file says where its numbers come from, also without words above the picture: PDF, SVG and PNG in their metadata. "
        "HTML opens without a network. CSV and NPZ hold the numbers."
    )
    if picture.numbers is None:
        rows, columns = picture.chart.block
        pooled = f" Each is the strongest of a block of {rows} × {columns} cells." if rows * columns > 1 else ""
        st.caption(f"The numbers are those in the picture.{pooled}")


def _choice(label: str, names: dict[Any, str], key: str) -> Any:
    """Show buttons of which one is always pressed, at first the first one."""
    look = {"default": next(iter(names)), "format_func": names.__getitem__, "required": True}
    return st.segmented_control(label, list(names), key=key, **look)


def _to_draw(figure: go.Figure, title: str, known: About, width: int) -> dict[str, Any]:
    """What the browser needs to draw a picture and to save it; its script describes the same."""
    return {
        "figure": figure.to_json(),
        "millimetres": width,
        "name": file_name(known, title),
        "title": title,
        "about": json.dumps(dict(known), ensure_ascii=False),
        "scripts": served.SCRIPTS,
        "letters": served.FONTS,
    }


def _offer_numbers(numbers: Numbers, known: About, title: str) -> None:
    for label, kind, write, most in (
        ("CSV", "text/csv", to_csv, MAX_CSV_CELLS),
        ("NPZ", "application/octet-stream", to_npz, MAX_NPZ_CELLS),
    ):
        name, fits = file_name(known, title, f".{label.lower()}"), numbers.cells <= most
        too_many = None if fits else f"There are {numbers.cells:,} numbers; {label} holds at most {most:,}."
        _download(label, lambda write=write: write(numbers.make(), known), name, kind, help=too_many, disabled=not fits)


def _download(label: str, make: Callable[[], str | bytes], name: str, kind: str, **widget: Any) -> None:
    """Show a button that makes its file when it is pressed."""
    st.download_button(label, for_its_visitor(make), name, kind, key=state.download(name), on_click="ignore", **widget)
