"""Everything that reads what somebody else has written, as functions of one text: for the tests, and for bench/hostile.py."""

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import safetensors.numpy

from core.attention import masks, matrix_files, sources
from core.capturing.edits import lines as edit_lines
from core.capturing.edits.edits import Edits
from core.claims import claim, terms
from core.errors import InputError
from core.exporting import drawings, exhibit
from core.exporting.pictures import GROUNDS, portrait
from core.figures import labels
from core.heads import patterns
from core.lessons import self_and_cross
from core.models import inputs, loading, passages
from core.models.bounds import forbidden_length
from core.models.passages import Location, Passage
from tests.hostile import long_texts
from ui import allowed, markdown, talk
from ui.sharing import pictures

EDITS = (
    *("", "mute x", "mute 1", "mean 1 over", 'mean 1 over "', "token 3", "paint ", "scale 2 at", "mask window "),
    "block pair ",
)


class Parser(NamedTuple):
    """A parser, and how texts may begin so that it reads on."""

    read: Callable[[str], object]
    beginnings: tuple[str, ...] = ("",)

    def texts(self) -> Iterator[str]:
        return long_texts(*self.beginnings)

    def refuse_or_read(self, text: str) -> None:
        """Raises nothing for what the parser refuses in words."""
        with suppress(InputError):
            self.read(text)


FIGURE = {"data": [{"type": "scatter", "x": [1, 2], "y": [3, 4]}], "layout": {}}
NUMBERS = {"dtype": "f4", "bdata": "AACAPwAAAEA="}  # 1 and 2


def _npy(text: str) -> bytes:
    head = text[:9_990].encode()  # NumPy itself takes 10,000
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) % 2**16) + head


def _picture(text: str) -> dict[str, Any]:
    """A picture of an exhibit with as much text as it may have wherever a name stands."""
    name = text[: drawings.MAX_CHARACTERS]
    values = {"kind": "bars", "headings": [name], "rows": [name, name], "columns": [], "numbers": NUMBERS}
    values |= {"block": [1, 1], **dict.fromkeys(("part", "value", "opening", "closing", "prefix"), name)}
    return {"title": text[:999], "alt": text[:4_999], "figure": FIGURE, "values": [values]}


def _exhibit(text: str) -> bytes:
    said = {"format": exhibit.FORMAT, "version": 1, "page": "heads", "title": text[:999], "address": {"text": [text]}}
    said |= {"about": {"text": text}, "pictures": [_picture(text)]}
    return safetensors.numpy.save({"exhibit": np.frombuffer(json.dumps(said).encode(), np.uint8)})


def _talk(text: str) -> bytes:
    view = {"title": text[:200], "page": "heads", "parameters": {"edit": [text]}, "notes": text}
    return json.dumps({"format": talk.FORMAT, "version": 1, "views": [view]}).encode()


def _passages(text: str) -> None:
    list(passages.cut(Passage(Location("a.txt", 1), 0, text), lambda piece: len(piece.split()) + 2, 128))


PARSERS = {
    # links and lists of changes
    "a change": Parser(edit_lines.edits_of, EDITS),
    "a painted change": Parser(edit_lines.painted, EDITS),
    "a painted change divided": Parser(edit_lines.divided, ("", "paint ", "paint 1>0=1 ")),
    "a mask by name": Parser(lambda text: Edits(mask=text), ("", "window ", "causal ")),
    "a mask in rows": Parser(lambda text: masks.from_rows(text, 3, 3), ("", "101/")),
    "a link for a talk": Parser(lambda text: talk.view_at("", text), ("", "heads?edit=", "http://a/b?")),
    "a claim": Parser(claim.Claim.read, ("", "1.1: when ", "1.1: looks at ", "1.1: looks at itself, at least ")),
    "keys of a claim": Parser(
        lambda text: terms.read_joined(text, terms.KEYS), ("", "itself or ", 'words among "a", ')
    ),
    "a model's name": Parser(allowed.places_of, ("", "a/")),
    "a model's name, looked for": Parser(lambda text: loading.load_model(text, look_in=("folder",)), ("", "./")),
    # fields
    "a matrix": Parser(lambda text: matrix_files.read_matrix(text, field="query"), ("", "1,2\n3", "1;2\n")),
    "a mask": Parser(matrix_files.read_mask, ("", "1,0\n")),
    "a sentence": Parser(sources.toy_sentence),
    "words": Parser(sources.split_words),
    "pairs": Parser(patterns.read_pairs, ("", "1-2,")),
    "positions": Parser(patterns.read_keys, ("", "1,")),
    "token numbers": Parser(inputs.read_token_numbers, ("", "1, ")),
    "a date": Parser(lambda text: self_and_cross.origins(text, "2020-01-01")),
    # files
    "a CSV file": Parser(lambda text: matrix_files.read_matrix(text.encode(), field="query"), ("", "1,2\n")),
    "an NPY file": Parser(lambda text: matrix_files.read_matrix(_npy(text), field="query"), ("", "{'descr': ")),
    "a talk's file": Parser(lambda text: talk.from_file(text.encode()), ("", '{"format": "headlight-talk", "views": ')),
    "a file of claims": Parser(claim.read_claims, ("", "[[claim]]\n", "[[claim]]\nleast = ", "[[claim]]\na.")),
    "a talk": Parser(lambda text: talk.from_file(_talk(text))),
    "an exhibit": Parser(lambda text: exhibit.read(_exhibit(text))),
    "a configuration": Parser(lambda text: forbidden_length({text: {text: [text]}})),
    "texts of a corpus": Parser(_passages),
    # what is shown of them
    "as Markdown": Parser(markdown.quoted),
    "as a label": Parser(labels.escaped),
    "as a file's name": Parser(lambda text: pictures.file_name({"page": text, "model": text}, text)),
    "as lines of a picture": Parser(lambda text: portrait(go.Figure(), "", [text], GROUNDS["light"])),
}
