"""A talk: a list of views, each with a page, its address, a title and speaker's notes; written to a file and read back.

Whatever can be put into a talk can be read again from its file: one function checks both.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from core import InputError
from ui import state

FORMAT, VERSION = "headlight-talk", 1
MAX_BYTES, MAX_VIEWS = 4 * 2**20, 100  # of its file: a browser keeps as much
MAX_TITLE, MAX_NOTES, MAX_LINK = 200, 10_000, 20_000  # characters
NOT_OF_A_VIEW = (state.PRESENT, state.TALK_AT, "embed", "embed_options")  # names that say how a view is shown, not what


@dataclass(frozen=True)
class TalkView:
    """One view of a talk.

    page        its path below the app's own address; "" for the start page
    parameters  its address: name -> words
    mark        a name of its own while the talk is open, which it keeps when it is moved or changed
    """

    title: str
    page: str
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: str = ""
    mark: str = field(default_factory=lambda: token_hex(4), compare=False, repr=False)

    @property
    def link(self) -> str:
        """Return its path and query below the app's own address."""
        return _link(self.page, self.parameters)

    def presented(self, index: int) -> str:
        """Return the link that presents it as view `index` of a talk, from 0; the address counts from 1, as people do."""
        return _link(self.page, {**self.parameters, state.PRESENT: "true", state.TALK_AT: index + 1})


def _link(page: str, parameters: Mapping[str, Any]) -> str:
    query = urlencode(parameters, doseq=True)
    return f"{quote(page)}?{query}" if query else quote(page)


@dataclass(frozen=True)
class Talk:
    """The views of a talk, in order; indices count from 0."""

    views: tuple[TalkView, ...] = ()

    def with_view(self, view: TalkView) -> "Talk":
        """Return the talk with a view added at its end. Raises InputError if it has too many or is too large."""
        return _checked(Talk((*self.views, view)))

    def without(self, index: int) -> "Talk":
        """Return the talk without one view."""
        return Talk((*self.views[:index], *self.views[index + 1 :]))

    def ordered(self, marks: Sequence[object]) -> "Talk":
        """Return the talk with its views in the order of these marks; those that are not named come last."""
        place = [marks.index(view.mark) if view.mark in marks else len(marks) for view in self.views]
        return Talk(tuple(self.views[at] for at in sorted(range(len(place)), key=place.__getitem__)))

    def index(self, mark: str) -> int | None:
        """Return the index of the view with this mark; None if it is gone."""
        return next((index for index, view in enumerate(self.views) if view.mark == mark), None)

    def changed(self, index: int, *, title: str | None = None, notes: str | None = None) -> "Talk":
        """Return the talk with another title or other notes of one view. Raises InputError if it is then too large."""
        view = self.views[index]
        title, notes = view.title if title is None else title, view.notes if notes is None else notes
        view = replace(view, title=title[:MAX_TITLE], notes=notes[:MAX_NOTES])
        return _checked(Talk((*self.views[:index], view, *self.views[index + 1 :])))

    def merged(self, other: "Talk", base: "Talk") -> "Talk":
        """Return the changes that this talk and another one made to `base`, together.

        It is the other talk, without the views that were removed here and with those that are new here, each after the view
        that it follows here, or at the end if no talk was known here. A view that both have changed is there twice.
        Raises InputError if together they have too many views or are too large.
        """
        if self == base or other == base:
            return other if self == base else self
        views = [view for view in other.views if view in self.views or view not in base.views]
        for index, view in enumerate(self.views):
            if view not in base.views and view not in views:
                before = next((earlier for earlier in reversed(self.views[:index]) if earlier in views), None)
                first = 0 if base.views else len(views)
                views.insert(first if before is None else views.index(before) + 1, view)
        return _checked(Talk(tuple(views)))


def _checked(talk: Talk) -> Talk:
    """Return the talk if its file can be read again. Raises InputError if it has become too large."""
    if len(talk.views) > MAX_VIEWS:
        raise _error(f"A talk has at most {MAX_VIEWS} views. Remove one first.")
    if (size := len(to_file(talk))) > MAX_BYTES:
        limit = f"{size:,} bytes; the maximum is {MAX_BYTES:,}"
        raise _error(f"The talk would have {limit}. Shorten texts or notes, or remove a view.")
    return talk


def _error(problem: str) -> InputError:
    return InputError(problem, field="talk")


def view_of(title: str, page: str, parameters: Mapping[str, Sequence[str]], notes: str = "") -> TalkView:
    """Return a view of a page with this address, less the names that say how it is shown.

    Raises InputError for an address that is too long, and for half of a surrogate pair.
    """
    kept = {name: tuple(words) for name, words in parameters.items() if name not in NOT_OF_A_VIEW}
    texts = (title, page, notes, *kept, *(word for words in kept.values() for word in words))
    # JSON can hold half of a surrogate pair; no page shows it.
    if any(re.search(r"[\ud800-\udfff]", text) for text in texts):
        raise _error("The view contains half of a character. Type it again.")
    view = TalkView(title[:MAX_TITLE], page, kept, notes[:MAX_NOTES])
    if len(view.link) > MAX_LINK:
        limit = f"{len(view.link):,} characters; the maximum is {MAX_LINK:,}"
        raise _error(f"The address of this view has {limit}. Shorten its text.")
    return view


def view_at(title: str, link: str) -> TalkView:
    """Return the view of a copied link, with or without the app's own address. Raises InputError for what is not a link."""
    try:
        parts = urlsplit(link.strip())
        parameters = parse_qs(parts.query, keep_blank_values=True, max_num_fields=MAX_LINK)
    except ValueError:
        raise _error("This is not a link that can be read. Copy one with “Share”.") from None
    page = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return view_of(title or page.replace("_", " ").capitalize() or "Gallery", page, parameters)


# --- as a file


def to_file(talk: Talk) -> bytes:
    """Return the talk as a JSON file."""
    views = [
        {"title": view.title, "page": view.page, "parameters": dict(view.parameters), "notes": view.notes}
        for view in talk.views
    ]
    content = {"format": FORMAT, "version": VERSION, "views": views}
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def from_file(content: bytes) -> tuple[Talk, list[str]]:
    """Return the talk in a file, and a sentence about each thing in the file that could not be used.

    Raises InputError for a file that is not a talk, or is too large. From a file of a later version it takes what this version
    knows.
    """
    version, views = _version_and_views(content)
    remarks = []
    if version > VERSION:
        later = f"a later version of Headlight (format {version}, here {VERSION})"
        remarks.append(f"The file was saved by {later}. Only what this version knows is used.")
    read = []
    for number, entry in enumerate(views, start=1):
        try:
            read.append(_view(entry))
        except InputError as error:
            problem = f"View {number} {error}"
            if version <= VERSION:
                raise _error(problem) from None
            remarks.append(f"Left out: {problem}")
    return Talk(tuple(read)), remarks


def _version_and_views(content: bytes) -> tuple[int, list[Any]]:
    """Return the version of a talk's file, and its views as they stand there. Raises InputError for any other file."""
    if len(content) > MAX_BYTES:
        raise _error(f"The file has {len(content):,} bytes; the maximum for a talk is {MAX_BYTES:,}.")
    try:
        parsed = json.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise _error("This file is not JSON. Choose a file that was saved on this page.") from None
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        missing = f"it does not say “format”: “{FORMAT}”"
        raise _error(f"This file is not a talk: {missing}. Choose a file that was saved on this page.")
    version, views = parsed.get("version"), parsed.get("views")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _error("The talk's “version” is not a whole number of 1 or more.")
    if not isinstance(views, list):
        raise _error("The talk's “views” are not a list.")
    if len(views) > MAX_VIEWS:
        raise _error(f"The talk has {len(views):,} views; the maximum is {MAX_VIEWS}.")
    return version, views


def _view(entry: Any) -> TalkView:
    """Return the view that one entry of a talk's file describes. Raises InputError, whose words follow “View 3”."""
    if not isinstance(entry, dict):
        raise _error("is not an object with “title”, “page”, “parameters” and “notes”.")
    title, page, notes = (entry.get(name, "") for name in ("title", "page", "notes"))
    for name, text, most in (("title", title, MAX_TITLE), ("page", page, MAX_LINK), ("notes", notes, MAX_NOTES)):
        if not isinstance(text, str) or len(text) > most:
            raise _error(f"has a “{name}” that is not a text of at most {most:,} characters.")
    if "/" in page:
        why = "has a “page” that is not the name of a page: the part of an address between the last “/” and “?”."
        raise _error(why)
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise _error("has “parameters” that are not an object of names and lists of texts.")
    for name, words in parameters.items():
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise _error(f"has a parameter “{name[:40]}” that is not a list of texts.")
    try:
        return view_of(title, page, parameters, notes)
    except InputError as error:
        raise _error(f"cannot be used: {error}") from None
