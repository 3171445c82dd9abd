"""Sharing one picture of a page as PDF, SVG, PNG or HTML, and its numbers as CSV or NPZ; and where they come from, in words."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.capturing.edits.lines import lines_of
from core.exporting.documents import PACKAGES, About, now, to_html
from core.exporting.pictures import COLUMN, COLUMNS, GROUNDS, panels, portrait, print_widths
from core.exporting.tables import MAX_CSV_CELLS, MAX_NPZ_CELLS, Table, tables_of, to_csv, to_npz
from core.figures.typeface import NAME
from core.installed import versions
from core.models.adapters import AND
from core.models.checkups import outcome
from ui import state
from ui.in_browser import component_beside
from ui.markdown import pieces
from ui.progress import for_its_visitor
from ui.requests import HeadRequest, TextRequest
from ui.sharing import served
from ui.shown import PageContents, Picture, ShownNumbers
from ui.views.sources import models, passes

_SAVE = component_beside(__file__, "buttons", "png", "pdf", "pictures")
GROUND_NAMES = {"light": "White", "dark": "Dark"}
WIDTHS = {0: "Screen", COLUMN: f"{COLUMN} mm", COLUMNS: f"{COLUMNS} mm"}
WORDS = {"sentence": "Sentence", "title": "Title", "text": "Model and text", "hash": "Hash", "marks": "Marks"}


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

    return {name: shown.pictures[name] for name in sorted(shown.pictures, key=rank)}


def _show_picture(shown: PageContents, pictures: dict[str, Picture]) -> None:
    """A picture that is compared with another one is also offered together with that."""
    compared = [picture for picture in pictures.values() if picture.beside in pictures]
    choices = {f"{picture.name} beside": (pictures[picture.beside], picture) for picture in compared}
    choices |= {name: (picture,) for name, picture in pictures.items()}
    titles = {name: " and ".join(one.title for one in of) for name, of in choices.items()}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Picture", list(titles), key=state.SHARED_PICTURE, format_func=titles.__getitem__)
        ground = _choice("Background", GROUND_NAMES, state.GROUND)
    of, title, known = choices[name], titles[name], about(shown)
    sentence = next(("".join(pieces(said.words)) for said in shown.said if said.told == "number"), "")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        width = _choice("Width", WIDTHS, state.SHARED_WIDTH)
        offered_words = [word for word in WORDS if sentence or word != "sentence"]
        several = {"default": [word for word in offered_words if word != "hash"], "selection_mode": "multi"}
        words = st.pills("With", offered_words, key=state.WORDS_ABOVE, format_func=WORDS.__getitem__, **several)
    possible = print_widths(of[0].chart.figure) if len(of) == 1 else (COLUMNS,)
    if width and width not in possible:
        st.caption(f"In {WIDTHS[width]} nobody could read this picture: it is {WIDTHS[possible[0]]} wide.")
        width = possible[0]
    numbers = _numbers(of)
    known = {"figure": title} | known | dict(numbers.about)
    above = [sentence] * ("sentence" in words) + [title] * ("title" in words)
    notes = above[1:] * (len(of) == 1) + lines(known, with_text="text" in words, with_hash="hash" in words)
    heading, look = "".join(above[:1]), {"millimetres": width or None, "marks": "marks" in words}
    figures = {one.title: one.chart.figure for one in of}
    draw = partial(portrait, *figures.values()) if len(of) == 1 else partial(panels, figures)
    figure = draw(heading, notes, GROUNDS[ground], **look)
    with st.container(horizontal=True):
        _SAVE(key=state.SAVE_PICTURE, data=_to_draw(figure, title, known, width), width="content")
        file = file_name(known, title, ".html")
        download("HTML", lambda: to_html(figure, title, known), file, "text/html", key=state.download(file))
        _offer_numbers(numbers, known, title)
    st.caption(
        "Each file says where its numbers come from, also without words above the picture: PDF, SVG and PNG in their metadata. "
        "HTML opens without a network. CSV and NPZ hold the numbers."
    )
    if of[0].numbers is None:
        rows, columns = of[0].chart.block
        pooled = f" Each is the strongest of a block of {rows} × {columns} cells." if rows * columns > 1 else ""
        st.caption(f"The numbers are those in the picture.{pooled}")


def _numbers(pictures: Sequence[Picture]) -> ShownNumbers:
    """Return the numbers of one picture, or of several: then their tables and the notes on them are numbered."""
    all_of = [one.numbers or ShownNumbers(0, partial(tables_of, one.chart)) for one in pictures]
    if len(all_of) == 1:
        return all_of[0]

    def make() -> tuple[Table, ...]:
        return tuple(table.numbered(number) for number, of in enumerate(all_of, 1) for table in of.make())

    notes = {f"{name} {number}": note for number, of in enumerate(all_of, 1) for name, note in of.about.items()}
    return ShownNumbers(sum(of.cells for of in all_of), make, notes)


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
        "family": NAME,
        "letters": served.FONTS,
        "faces": served.FACES,
    }


def _offer_numbers(numbers: ShownNumbers, known: About, title: str) -> None:
    for label, kind, write, most in (
        ("CSV", "text/csv", to_csv, MAX_CSV_CELLS),
        ("NPZ", "application/octet-stream", to_npz, MAX_NPZ_CELLS),
    ):
        name, fits = file_name(known, title, f".{label.lower()}"), numbers.cells <= most
        too_many = None if fits else f"There are {numbers.cells:,} numbers; {label} holds at most {most:,}."
        look = {"key": state.download(name), "help": too_many, "disabled": not fits}
        download(label, lambda write=write: write(numbers.make(), known), name, kind, **look)


def download(label: str, make: Callable[[], str | bytes], name: str, kind: str, *, key: str, **widget: Any) -> None:
    """Show a button that makes its file when it is pressed."""
    st.download_button(label, for_its_visitor(make), name, kind, key=key, on_click="ignore", **widget)


# --- where the numbers come from


_UNFIT = re.compile(r"[^A-Za-z0-9.]+")


def about(shown: PageContents) -> dict[str, str]:
    """Return the page, the model with revision and dtype, the head, its text, changes, versions and date, each as text."""
    if shown.about is not None:  # from a file, whose numbers are older than today
        return {"page": shown.title, **shown.about}
    facts = {"page": shown.title}
    if shown.of is not None:
        facts |= _of_model(shown.of)
    if shown.head is not None:
        facts["numbers"] = shown.head().says
    for name, other in shown.beside.items():
        facts |= {f"{name}, {fact}": text for fact, text in _of_model(other).items() if facts.get(fact) != text}
    return facts | {f"version of {name}": version for name, version in versions(*PACKAGES).items()} | {"date": now()}


def _of_model(of: HeadRequest) -> dict[str, str]:
    text, model = of.text, models.load(of.text.model)
    facts = {"model": model.name, "revision": model.revision, "dtype": model.dtype}
    facts |= {"check-up": checked} if (checked := outcome(model)) else {}
    facts |= {"device": text.model.device} if text.model.device != "cpu" else {}
    facts |= {"attention": of.kind, "layer": str(of.layer), "head": str(of.head), "layer.head": f"{of.layer}.{of.head}"}
    facts |= {"text": text.text} if text.text or text.image is None else {}
    facts |= {} if text.image is None else {"image": "as uploaded"}
    facts |= {"second text": text.pair} if text.pair else {}
    facts |= _target(text)
    facts |= {"cut to": f"{text.keep} tokens"} if text.keep is not None else {}
    facts |= {"changes": "; ".join(lines_of(text.edits))} if text.edits else {}
    return facts


def _target(text: TextRequest) -> dict[str, str]:
    """Return what the decoder has written, and whether the model generated it or it was given as token numbers."""
    if not (target := passes.target_of(text)):
        return {}
    if isinstance(target, str):
        return {"written by the decoder": target}
    how = "generated, the most probable token at each step" if text.target != target else "given as token numbers"
    written = models.load(text.model).text_of(target)
    return {"written by the decoder": written, "its tokens": f"{', '.join(map(str, target))} ({how})"}


def lines(about: About, *, with_text: bool, with_hash: bool) -> list[str]:
    """Return the lines about the origin that stand in a picture.

    with_text  whether they name the model, the head and the text
    with_hash  whether they give the beginning of the model's revision, and of its adapter's
    """
    whole = about.get("revision") if with_hash else None
    revision = [] if whole is None else [AND.join(part[:24] for part in whole.split(AND))]
    if not with_text:
        return revision
    model = [about["model"], f"layer {about['layer']}, head {about['head']}"] if "model" in about else [about["page"]]
    texts = {"text", "second text", "written by the decoder", "changes"}
    return [
        " · ".join([*model, *([about["dtype"]] if "dtype" in about else []), *revision]),
        *([about["numbers"]] if "numbers" in about else []),
        *(f"{name[:1].upper()}{name[1:]}: {text}" for name, text in about.items() if name.rpartition(", ")[2] in texts),
    ]


def file_name(about: About, what: str, ending: str = "") -> str:
    """Return a file name that any system accepts: what the file shows, its model and its head."""
    words = [what, about.get("model", about["page"]), about.get("layer.head", "")]
    return "_".join(_UNFIT.sub("-", word).strip("-.")[:40] for word in words if word) + ending
