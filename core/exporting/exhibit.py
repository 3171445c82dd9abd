"""Exhibits: a whole view as one file, which opens with the same numbers whether the model is there or not.

The file is a safetensors file of arrays, one of which contains a text in JSON. docs/exports.md lists its contents. The author
of a file is not trusted: nothing in it is run, every part is checked before it is used, and its texts are only shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from ..errors import InputError
from ..figures.chart import Chart
from ..models.fields import Fields, broken, lists_in, read_json
from . import drawings
from .documents import About
from .kept_heads import KeptHead

ENDING = "headlight"
FORMAT, VERSION = "headlight exhibit", 1
MAX_BYTES = 20 * 2**20  # of a file; the largest upload has as many
MAX_JSON = 12 * 2**20  # bytes of the text in JSON
MAX_LISTS = 500_000  # lists and objects in this text: while Python makes them, all other sessions wait
MAX_ARRAYS, MAX_HEADS, MAX_PICTURES = 100, 8, 40
MAX_LINES, MAX_WORDS = 200, 200_000  # names in an address, and characters of a value
_PAGE, _NAME = re.compile(r"[a-z_]{0,40}"), re.compile(r"[a-z0-9_]{1,40}")
_IN_FILE = "exhibit"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A picture of the view. title: its name; alt: what kind of picture it is. The chart describes what it shows."""

    title: str
    alt: str
    chart: Chart


@dataclass(frozen=True, eq=False)
class Upload:
    """A file that was uploaded to the page."""

    name: str
    data: bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Exhibit:
    """One view of one page.

    page      the page's name in addresses; "" for the start page
    about     where its numbers come from, in words
    heads     the heads that it shows, the chosen one first, by their names on the page
    uploads   the uploaded files, by the key of their field
    """

    page: str
    title: str
    address: Mapping[str, tuple[str, ...]]
    about: About
    heads: Mapping[str, KeptHead] = field(default_factory=dict)
    drawings: tuple[Drawing, ...] = ()
    uploads: Mapping[str, Upload] = field(default_factory=dict)


def write(exhibit: Exhibit) -> bytes:
    """Write an exhibit as the bytes of a file. Raises InputError if it would be too large to be opened again."""
    arrays: dict[str, NDArray] = {}
    heads = []
    for number, (name, kept) in enumerate(exhibit.heads.items()):
        values, parts = kept.parts()
        heads.append(values | {"name": name})
        arrays |= {f"head{number}.{part}": array for part, array in parts.items()}
    for number, upload in enumerate(exhibit.uploads.values()):
        arrays[f"upload{number}"] = np.frombuffer(upload.data, dtype=np.uint8)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "page": exhibit.page,
        "title": exhibit.title,
        "address": {name: list(words) for name, words in exhibit.address.items()},
        "about": dict(exhibit.about),
        "heads": heads,
        "uploads": [{"field": name, "name": upload.name} for name, upload in exhibit.uploads.items()],
        "pictures": [
            {"title": drawing.title, "alt": drawing.alt, **drawings.written(drawing.chart)}
            for drawing in exhibit.drawings
        ],
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    arrays[_IN_FILE] = np.frombuffer(text, dtype=np.uint8)
    data = safetensors.numpy.save(arrays)
    if len(data) > MAX_BYTES or len(text) > MAX_JSON or lists_in(text) > MAX_LISTS:
        raise InputError(
            f"The file would have {len(data) / 2**20:.0f} MB; at most {MAX_BYTES / 2**20:.0f} MB can be opened again. "
            f"Take its numbers as NPZ, or a shorter text.",
            field="file",
        )
    return data


def read(data: bytes) -> Exhibit:
    """Read the exhibit in a file. Raises InputError for any other file, and for a damaged one."""
    content = _content(data)
    version = content.values.get("version")
    if content.values.get("format") != FORMAT or type(version) is not int or version < 1:
        raise broken("it does not say which exhibit it is")
    if version > VERSION:
        why = f"This exhibit has version {version}; this Headlight reads {VERSION}. Update Headlight to open it."
        raise InputError(why, field="file")
    heads = {}
    for number, head in enumerate(content.parts("heads", MAX_HEADS)):
        prefix = f"head{number}."
        arrays = {name.removeprefix(prefix): array for name, array in content.arrays.items() if name.startswith(prefix)}
        heads[head.text("name")] = KeptHead.from_parts(Fields(head.values, arrays))
    return Exhibit(
        page=content.name("page", _PAGE),
        title=content.text("title"),
        address=_address(content.values.get("address")),
        about=_about(content.values.get("about")),
        heads=heads,
        drawings=tuple(
            Drawing(picture.text("title"), picture.text("alt", 5_000), drawings.read(picture))
            for picture in content.parts("pictures", MAX_PICTURES)
        ),
        uploads={
            upload.name("field", _NAME): Upload(upload.text("name"), _bytes(content.arrays, f"upload{number}"))
            for number, upload in enumerate(content.parts("uploads", 5))
        },
    )


def _content(data: bytes) -> Fields:
    """The text in JSON, read, with the arrays beside it."""
    if not data:
        raise broken("it is empty")
    if len(data) > MAX_BYTES:
        why = f"This file has {len(data) / 2**20:.0f} MB; exhibits have at most {MAX_BYTES / 2**20:.0f}."
        raise InputError(why, field="file")
    try:
        arrays = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        raise broken("it is not an exhibit, or a part of it is missing") from None
    if len(arrays) > MAX_ARRAYS:
        raise broken(f"it holds {len(arrays):,} arrays")
    return Fields(read_json(_bytes(arrays, _IN_FILE), MAX_LISTS), arrays)


def _bytes(arrays: Mapping[str, NDArray], name: str) -> bytes:
    array = arrays.get(name)
    if array is None or array.dtype != np.uint8 or array.ndim != 1 or (name == _IN_FILE and len(array) > MAX_JSON):
        raise broken(f"it has no {name}")
    return array.tobytes()


def _address(content: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(content, dict) or len(content) > MAX_LINES or not all(map(_NAME.fullmatch, content)):
        raise broken("its address cannot be read")
    address = {name: Fields(content).texts(name, MAX_WORDS) for name in content}
    if any(len(values) > MAX_LINES for values in address.values()):
        raise broken("its address cannot be read")
    return address


def _about(content: object) -> dict[str, str]:
    if not isinstance(content, dict) or len(content) > MAX_LINES:
        raise broken("it does not say where it comes from")
    return {Fields({"name": name}).text("name", 100): Fields(content).text(name, MAX_WORDS) for name in content}
