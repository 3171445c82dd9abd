"""A talk: a list of views, each a page with what its address says, a title and speaker's notes; as a file and back.

Whatever can be put into a talk can be read again from its file: one function checks both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from core import InputError
from ui import state

FORMAT, VERSION = "headlight-talk", 1
MAX_BYTES, MAX_VIEWS = 4 * 2**20, 100  # of its file: a browser keeps as much
MAX_TITLE, MAX_NOTES, MAX_LINK = 200, 10_000, 20_000  # letters
NOT_OF_A_VIEW = (state.PRESENT, state.TALK_AT, "embed", "embed_options")  # how a view is shown, not what


@dataclass(frozen=True)
class View:
    """One view of a talk.

    page        its path, below the app's own address; "" for the start page
    parameters  what its address says: name -> words
    mark        tells it from all others while the talk is open, wherever it is moved to and however it is changed
    """

    title: str
    page: str
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: str = ""
    mark: str = field(default_factory=lambda: token_hex(4), compare=False, repr=False)

    @property
    def link(self) -> str:
        """Path and query below the app's own address."""
        query = urlencode(self.parameters, doseq=True)
        return f"{quote(self.page)}?{query}" if query else quote(self.page)

    def presented(self, place: int) -> str:
        """The same link, to present it at this place of a talk, from 0; the address counts from 1, as people do."""
        shown = {**self.parameters, state.PRESENT: "true", state.TALK_AT: place + 1}
        return f"{quote(self.page)}?{urlencode(shown, doseq=True)}"


@dataclass(frozen=True)
class Talk:
    views: tuple[View, ...] = ()

    def with_view(self, view: View) -> Talk:
        """Raises InputError where there are too many, or together they are too large."""
        return _checked(Talk((*self.views, view)))

    def without(self, place: int) -> Talk:
        return Talk((*self.views[:place], *self.views[place + 1 :]))

    def moved(self, place: int, by: int) -> Talk:
        """With the view at this place so many places further down, as far as there are."""
        rest = list(self.without(place).views)
        rest.insert(max(0, min(place + by, len(rest))), self.views[place])
        return Talk(tuple(rest))

    def place(self, mark: str) -> int | None:
        """Where the view of this mark is; None where it is gone."""
        return next((place for place, view in enumerate(self.views) if view.mark == mark), None)

    def changed(self, place: int, *, title: str | None = None, notes: str | None = None) -> Talk:
        """Raises InputError where the talk then is too large."""
        view = self.views[place]
        view = replace(
            view,
            title=view.title if title is None else title[:MAX_TITLE],
            notes=view.notes if notes is None else notes[:MAX_NOTES],
        )
        return _checked(Talk((*self.views[:place], view, *self.views[place + 1 :])))

    def merged(self, other: Talk, base: Talk) -> Talk:
        """What two have made of `base`: the other's talk, without the views that are gone here, and with those that are new
        here, each behind the one that it stands behind here. A view that both have changed is there twice."""
        if self == base or other == base:
            return other if self == base else self
        views = [view for view in other.views if view in self.views or view not in base.views]
        for place, view in enumerate(self.views):
            if view not in base.views and view not in views:
                before = next((one for one in reversed(self.views[:place]) if one in views), None)
                views.insert(0 if before is None else views.index(before) + 1, view)
        return Talk(tuple(views))


def _checked(talk: Talk) -> Talk:
    """The talk, if its file could be read again. Raises InputError where it has become too large."""
    if len(talk.views) > MAX_VIEWS:
        raise InputError(f"A talk has at most {MAX_VIEWS} views. Remove one first.", field="talk")
    if (size := len(to_file(talk))) > MAX_BYTES:
        raise InputError(
            f"The talk would have {size:,} bytes; at most {MAX_BYTES:,} are kept. Shorten texts or notes, or remove a view.",
            field="talk",
        )
    return talk


def view_of(title: str, page: str, parameters: Mapping[str, Sequence[str]], notes: str = "") -> View:
    """A view of what an address says, without how it is shown. Raises InputError where it is too long or no text."""
    kept = {name: tuple(words) for name, words in parameters.items() if name not in NOT_OF_A_VIEW}
    texts = (title, page, notes, *kept, *(word for words in kept.values() for word in words))
    if not all(map(_is_unicode, texts)):
        raise InputError("The view has half of a letter in it. Write it anew.", field="talk")
    view = View(title[:MAX_TITLE], page, kept, notes[:MAX_NOTES])
    if len(view.link) > MAX_LINK:
        raise InputError(
            f"The address of this view has {len(view.link):,} letters; at most {MAX_LINK:,} fit into a talk. Shorten its text.",
            field="talk",
        )
    return view


def view_at(title: str, link: str) -> View:
    """A view from a link that somebody has copied, with or without the app's own address. Raises InputError."""
    try:
        parts = urlsplit(link.strip())
        parameters = parse_qs(parts.query, keep_blank_values=True, max_num_fields=MAX_LINK)
    except ValueError:
        raise InputError("This is no link that can be read. Copy one with “Share”.", field="talk") from None
    page = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return view_of(title or page or "Gallery", page, parameters)


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
    title, page, notes = (one.get(name, "") for name in ("title", "page", "notes"))
    for name, text, most in (("title", title, MAX_TITLE), ("page", page, MAX_LINK), ("notes", notes, MAX_NOTES)):
        if not isinstance(text, str) or len(text) > most:
            raise refuse(f"has a “{name}” that is no text of at most {most:,} letters.")
    if "/" in page:
        raise refuse("has a “page” that is no name of a page: the part of an address between the last “/” and “?”.")
    parameters = one.get("parameters", {})
    if not isinstance(parameters, dict):
        raise refuse("has “parameters” that are not an object of names and lists of texts.")
    for name, words in parameters.items():
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise refuse(f"has a parameter “{name[:40]}” that is not a list of texts.")
    try:
        return view_of(title, page, parameters, notes)
    except InputError as error:
        raise refuse(f"cannot be used. {error}") from None


def _is_unicode(text: str) -> bool:
    """JSON can hold halves of surrogate pairs, which no page can show."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
