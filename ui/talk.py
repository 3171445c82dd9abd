"""A talk: a list of views, each a page with what its address says, a title and speaker's notes; as a file and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from core import InputError
from ui import state

FORMAT, VERSION = "headlight-talk", 1
MAX_BYTES, MAX_VIEWS = 2**20, 100
MAX_TITLE, MAX_NOTES, MAX_LINK = 200, 10_000, 20_000  # letters
NOT_OF_A_VIEW = (
    state.PRESENT,
    state.TALK_AT,
    state.ON_THE_WAY,
    "embed",
    "embed_options",
)  # they say how a view is shown, not what


@dataclass(frozen=True)
class View:
    """One view of a talk.

    page        its path, below the app's own address; "" for the start page
    parameters  what its address says: name -> words
    """

    title: str
    page: str
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: str = ""

    @property
    def link(self) -> str:
        """Path and query below the app's own address."""
        query = urlencode(self.parameters, doseq=True)
        return f"{self.page}?{query}" if query else self.page

    def presented(self, place: int) -> str:
        """The same link, to present it at this place of a talk, from 0; the address counts from 1, as people do."""
        return (
            f"{self.page}?{urlencode({**self.parameters, state.PRESENT: 'true', state.TALK_AT: place + 1}, doseq=True)}"
        )


@dataclass(frozen=True)
class Talk:
    views: tuple[View, ...] = ()

    def with_view(self, view: View) -> Talk:
        """Raises InputError where there are too many."""
        if len(self.views) >= MAX_VIEWS:
            raise InputError(f"A talk has at most {MAX_VIEWS} views. Remove one first.", field="talk")
        return Talk((*self.views, view))

    def without(self, place: int) -> Talk:
        return Talk((*self.views[:place], *self.views[place + 1 :]))

    def moved(self, place: int, by: int) -> Talk:
        """With the view at this place so many places further down, as far as there are."""
        rest = list(self.without(place).views)
        rest.insert(max(0, min(place + by, len(rest))), self.views[place])
        return Talk(tuple(rest))

    def changed(self, place: int, *, title: str | None = None, notes: str | None = None) -> Talk:
        view = self.views[place]
        view = replace(
            view,
            title=view.title if title is None else title[:MAX_TITLE],
            notes=view.notes if notes is None else notes[:MAX_NOTES],
        )
        return Talk((*self.views[:place], view, *self.views[place + 1 :]))


def view_of(title: str, page: str, parameters: Mapping[str, Sequence[str]], notes: str = "") -> View:
    """A view of what an address says now, without how it is shown. Raises InputError where it is too long."""
    kept = {name: tuple(words) for name, words in parameters.items() if name not in NOT_OF_A_VIEW}
    view = View(title[:MAX_TITLE], page, kept, notes)
    if len(view.link) > MAX_LINK:
        raise InputError(
            f"The address of this view has {len(view.link):,} letters; at most {MAX_LINK:,} fit into a talk. Shorten its text.",
            field="talk",
        )
    return view


def view_at(title: str, link: str) -> View:
    """A view from a link that somebody has copied, with or without the app's own address. Raises InputError."""
    parts = urlsplit(link.strip())
    page = parts.path.rstrip("/").rpartition("/")[2]
    return view_of(title or page or "Gallery", page, parse_qs(parts.query, keep_blank_values=True))


# --- as a file


def to_file(talk: Talk) -> bytes:
    views = [
        {"title": view.title, "page": view.page, "parameters": _plain(view.parameters), "notes": view.notes}
        for view in talk.views
    ]
    whole = {"format": FORMAT, "version": VERSION, "views": views}
    return json.dumps(whole, ensure_ascii=False, indent=1).encode()


def _plain(parameters: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(words) for name, words in parameters.items()}


def from_file(content: bytes) -> tuple[Talk, list[str]]:
    """The talk, and sentences about what of the file could not be used.

    Of a later version everything is used that is there as it is in this one. Raises InputError where it is no talk, or one that
    is larger than it may be.
    """
    if len(content) > MAX_BYTES:
        raise InputError(f"The file has {len(content):,} bytes; a talk has at most {MAX_BYTES:,}.", field="talk")
    try:
        whole = json.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise InputError("This file is no JSON. Choose a file that was saved on this page.", field="talk") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise InputError(
            f"This file is no talk: it does not say “format”: “{FORMAT}”. Choose a file that was saved on this page.",
            field="talk",
        )
    version, views = whole.get("version"), whole.get("views")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError("The talk's “version” is not a whole number from 1 on.", field="talk")
    if not isinstance(views, list):
        raise InputError("The talk's “views” are not a list.", field="talk")
    if len(views) > MAX_VIEWS:
        raise InputError(f"The talk has {len(views):,} views; at most {MAX_VIEWS} are allowed.", field="talk")
    remarks = []
    if version > VERSION:
        remarks.append(
            f"The file was saved by a later version of Headlight (format {version}, here {VERSION}): "
            f"what it has in common with this one is used."
        )
    read = []
    for place, one in enumerate(views, start=1):
        try:
            read.append(_view(one, place))
        except InputError as error:
            if version <= VERSION:
                raise
            remarks.append(f"Left out: {error}")
    return Talk(tuple(read)), remarks


def _view(one: Any, place: int) -> View:
    def refuse(what: str) -> InputError:
        return InputError(f"View {place} {what}", field="talk")

    if not isinstance(one, dict):
        raise refuse("is not an object with “title”, “page”, “parameters” and “notes”.")
    for name, most in (("title", MAX_TITLE), ("page", 60), ("notes", MAX_NOTES)):
        text = one.get(name, "")
        if not isinstance(text, str) or len(text) > most:
            raise refuse(f"has a “{name}” that is no text of at most {most:,} letters.")
        if not _is_unicode(text):
            raise refuse(f"has a “{name}” with half of a letter in it.")
    page = one.get("page", "")
    if page and not page.replace("_", "").isalnum():
        raise refuse("has a “page” that is no name of a page: letters, digits and _ only.")
    parameters = one.get("parameters", {})
    if not isinstance(parameters, dict):
        raise refuse("has “parameters” that are not an object of names and lists of texts.")
    for name, words in parameters.items():
        if not isinstance(words, list) or not all(isinstance(word, str) and _is_unicode(word) for word in words):
            raise refuse(f"has a parameter “{name[:40]}” that is not a list of texts.")
        if not name.isascii() or not name.replace("_", "").isalnum() or len(name) > 40:
            raise refuse(f"has a parameter “{name[:40]}”, which is no name: letters, digits and _ only.")
    try:
        return view_of(one.get("title", ""), page, parameters, one.get("notes", ""))
    except InputError as error:
        raise refuse(f"is too long. {error}") from None


def _is_unicode(text: str) -> bool:
    """JSON can hold halves of surrogate pairs, which no page can show."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
