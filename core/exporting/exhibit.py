"""An exhibit: all of a view as one file, which opens the same view again with the same numbers, model present or not.

The file is a safetensors file: arrays, and one of bytes that holds a text in JSON. docs/exports.md lists what is in it. Whoever
wrote it is not trusted: nothing in it is run, every part is checked before it is used, and its texts are only shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from ..errors import InputError
from ..figures.chart import Chart
from . import drawings
from .about import About
from .kept_heads import KeptHead, broken, text_in

ENDING = "headlight"
FORMAT, VERSION = "headlight exhibit", 1
MAX_BYTES = 20 * 2**20  # of a file, which is also as much as may be uploaded
MAX_SAID = 12 * 2**20  # of these, the text in JSON
MAX_LISTS = 500_000  # and objects in it: Python holds everybody up while it makes them
MAX_ARRAYS, MAX_HEADS, MAX_PICTURES = 100, 8, 40
MAX_LINES, MAX_WORDS = 200, 200_000  # of an address: names, and characters of a text
_PAGE, _NAME = re.compile(r"[a-z_]{0,40}"), re.compile(r"[a-z0-9_]{1,40}")
_IN_FILE = "exhibit"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A picture of the view. title: what it is called; alt: what kind of picture it is; its chart says what it shows."""

    title: str
    alt: str
    chart: Chart


@dataclass(frozen=True, eq=False)
class Upload:
    """A file that somebody had given to the page."""

    name: str
    data: bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Exhibit:
    """One view of one page.

    page      the page's name in addresses; "" for the first one
    title     what the page is called
    address   all that its address says
    about     where its numbers come from, in words
    heads     the heads that it shows, the chosen one first, by what each is called there
    drawings  all its pictures, as they were drawn
    uploads   by the key of their field
    """

    page: str
    title: str
    address: Mapping[str, tuple[str, ...]]
    about: About
    heads: Mapping[str, KeptHead] = field(default_factory=dict)
    drawings: tuple[Drawing, ...] = ()
    uploads: Mapping[str, Upload] = field(default_factory=dict)


def write(exhibit: Exhibit) -> bytes:
    """The exhibit as a file. Raises InputError where it would be too large to be opened again."""
    arrays: dict[str, NDArray] = {}
    heads = []
    for number, (name, kept) in enumerate(exhibit.heads.items()):
        said, held = kept.parts()
        heads.append(said | {"name": name})
        arrays |= {f"head{number}.{part}": array for part, array in held.items()}
    for number, upload in enumerate(exhibit.uploads.values()):
        arrays[f"upload{number}"] = np.frombuffer(upload.data, dtype=np.uint8)
    said = {
        "format": FORMAT,
        "version": VERSION,
        "page": exhibit.page,
        "title": exhibit.title,
        "address": {name: list(words) for name, words in exhibit.address.items()},
        "about": dict(exhibit.about),
        "heads": heads,
        "uploads": [{"field": name, "name": upload.name} for name, upload in exhibit.uploads.items()],
        "pictures": [{"title": one.title, "alt": one.alt, **drawings.written(one.chart)} for one in exhibit.drawings],
    }
    text = json.dumps(said, ensure_ascii=False, allow_nan=False).encode()
    arrays[_IN_FILE] = np.frombuffer(text, dtype=np.uint8)
    data = safetensors.numpy.save(arrays)
    if len(data) > MAX_BYTES or len(text) > MAX_SAID or _lists(text) > MAX_LISTS:
        raise InputError(
            f"The file would have {len(data) / 2**20:.0f} MB; at most {MAX_BYTES / 2**20:.0f} MB can be opened again. "
            f"Take its numbers as NPZ, or a shorter text.",
            field="file",
        )
    return data


def read(data: bytes) -> Exhibit:
    """The exhibit in a file. Raises InputError for any file that is none, is damaged, or holds what no view has."""
    arrays = _arrays(data)
    said = _said(arrays)
    version = said.get("version")
    if said.get("format") != FORMAT or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise broken("it does not say which exhibit it is")
    if version > VERSION:
        raise InputError(
            f"This exhibit has version {version}; this Headlight reads {VERSION}. Update Headlight to open it.",
            field="file",
        )
    heads = _listed(said, "heads", MAX_HEADS)
    pictures = _listed(said, "pictures", MAX_PICTURES)
    return Exhibit(
        page=_matching(said, "page", _PAGE),
        title=text_in(said, "title"),
        address=_address(said.get("address")),
        about=_about(said.get("about")),
        heads={
            text_in(one, "name"): KeptHead.from_parts(one, _those_of(arrays, f"head{n}."))
            for n, one in enumerate(heads)
        },
        drawings=tuple(
            Drawing(text_in(one, "title"), text_in(one, "alt", 5_000), drawings.read(one)) for one in pictures
        ),
        uploads={
            _matching(one, "field", _NAME): Upload(text_in(one, "name"), _bytes(arrays, f"upload{number}"))
            for number, one in enumerate(_listed(said, "uploads", 5))
        },
    )


def _arrays(data: bytes) -> dict[str, NDArray]:
    if not data:
        raise broken("it is empty")
    if len(data) > MAX_BYTES:
        raise InputError(
            f"This file has {len(data) / 2**20:.0f} MB; exhibits have at most {MAX_BYTES / 2**20:.0f}.", field="file"
        )
    try:
        arrays = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        raise broken("it is no exhibit, or a part of it is missing") from None
    if len(arrays) > MAX_ARRAYS:
        raise broken(f"it holds {len(arrays):,} arrays")
    return arrays


def _said(arrays: Mapping[str, NDArray]) -> dict[str, Any]:
    text = _bytes(arrays, _IN_FILE)
    if _lists(text) > MAX_LISTS:
        raise broken("what it says of itself is too large")
    try:
        said = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise broken("what it says of itself cannot be read") from None
    if not isinstance(said, dict):
        raise broken("what it says of itself cannot be read")
    return said


def _lists(text: bytes) -> int:
    """How many lists and objects there are at most in a text in JSON; brackets in its words count as well."""
    return text.count(b"[") + text.count(b"{")


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are no JSON


def _bytes(arrays: Mapping[str, NDArray], name: str) -> bytes:
    array = arrays.get(name)
    if array is None or array.dtype != np.uint8 or array.ndim != 1 or (name == _IN_FILE and len(array) > MAX_SAID):
        raise broken(f"it has no {name}")
    return array.tobytes()


def _those_of(arrays: Mapping[str, NDArray], prefix: str) -> dict[str, NDArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _listed(said: Mapping[str, Any], name: str, most: int) -> list[dict[str, Any]]:
    found = said.get(name, [])
    if not isinstance(found, list) or len(found) > most or not all(isinstance(one, dict) for one in found):
        raise broken(f"its {name} are no list of at most {most}")
    return found


def _matching(said: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    text = text_in(said, name)
    if not pattern.fullmatch(text):
        raise broken(f"its {name} is no name")
    return text


def _address(said: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(said, dict) or len(said) > MAX_LINES or not all(map(_NAME.fullmatch, said)):
        raise broken("its address is none")
    found = {}
    for name, words in said.items():
        if not isinstance(words, list) or len(words) > MAX_LINES:
            raise broken("its address is none")
        found[name] = tuple(text_in({name: word}, name, MAX_WORDS) for word in words)
    return found


def _about(said: object) -> dict[str, str]:
    if not isinstance(said, dict) or len(said) > MAX_LINES:
        raise broken("it does not say where it comes from")
    return {text_in({"name": name}, "name", 100): text_in(said, name, MAX_WORDS) for name in said}
