"""The files below a local folder, each once, however many links lead to it; and the names that a pattern matches."""

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from functools import reduce
from typing import NamedTuple

from ..progress import stop_point

MOST_CHARACTERS = 1_000  # of a pattern
TOLD = 10_000  # entries between two calls of `on_progress`

# How many parts of a pattern a path may have matched: several numbers, since ** may stand for none or many folders.
State = frozenset[int]


class Glob:
    """Names with / between folders: * is anything within a name, ? a character, ** as a whole part any number of folders."""

    def __init__(self, pattern: str) -> None:
        # To Python's own matcher, a bracket begins a set of letters.
        signs = (None if part == "**" else translate(part.replace("[", "[[]")) for part in pattern.split("/"))
        self._parts = [None if part is None else re.compile(part) for part in signs]
        self.begin = self._with_none({0})

    def step(self, at: State, name: str) -> State:
        """The state of a path after a further name; empty where nothing below it can match."""
        after = set()
        for place in at - {len(self._parts)}:
            if (part := self._parts[place]) is None:
                after.add(place)
            elif part.fullmatch(name):
                after.add(place + 1)
        return self._with_none(after)

    def ends(self, at: State) -> bool:
        """Return whether a path in this state matches."""
        return len(self._parts) in at

    def fits(self, path: str) -> bool:
        stop_point()
        return self.ends(reduce(self.step, path.split("/"), self.begin))

    def _with_none(self, at: set[int]) -> State:
        """The state with all further numbers that follow because ** may stand for no folder."""
        for place, part in enumerate(self._parts):
            if place in at and part is None:
                at.add(place + 1)
        return frozenset(at)


class _Entry(NamedTuple):
    """An entry of a folder: its name below the root, with / between; its path; its state in the pattern."""

    name: str
    path: str
    at: State


def files_below(folder: str, pattern: Glob, on_progress: Callable[[int], None]) -> dict[str, str]:
    """The files that a pattern matches: name -> real path.

    Links are followed, and each file is listed once: under its name without links where it has one, so that a link that is
    added to a corpus changes no name; else through the first link, by how many folders it stands in, then by the alphabet.
    A link that leads nowhere is listed as well, since it names a file that cannot be read.

    on_progress  called now and then with how many entries of folders have been read
    Raises OSError for a folder that cannot be read.
    """
    walk = _Walk(pattern, on_progress)
    walk.enter(_Entry("", os.path.realpath(folder), pattern.begin))
    while links := sorted(walk.links, key=lambda link: (link.name.count("/"), link.name)):
        walk.links = []
        for link in links:
            walk.follow(link)
    return {name: path for path, name in walk.names.items()}


class _Walk:
    """A walk through folders. names: by real path; links: those that have not been followed yet"""

    def __init__(self, pattern: Glob, on_progress: Callable[[int], None]) -> None:
        self.names: dict[str, str] = {}
        self.links: list[_Entry] = []
        self._pattern, self._on_progress = pattern, on_progress
        # A folder is entered once for each state of the pattern: no circle of links is walked twice.
        self._entered: set[tuple[str, State]] = set()
        self._entries = 0

    def enter(self, folder: _Entry) -> None:
        """Collect the files and the links of a folder and of all folders in it."""
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            if (folder.path, folder.at) not in self._entered:
                self._entered.add((folder.path, folder.at))
                waiting += self._folders_in(folder)

    def _folders_in(self, folder: _Entry) -> Iterator[_Entry]:
        with os.scandir(folder.path) as inside:
            for item in inside:
                stop_point()
                self._entries += 1
                if self._entries % TOLD == 0:
                    self._on_progress(self._entries)
                if at := self._pattern.step(folder.at, item.name):
                    entry = _Entry(f"{folder.name}/{item.name}" if folder.name else item.name, item.path, at)
                    if item.is_symlink():
                        self.links.append(entry)
                    elif item.is_dir(follow_symlinks=False):
                        yield entry
                    elif item.is_file(follow_symlinks=False):
                        self._add(entry)

    def follow(self, link: _Entry) -> None:
        there = link._replace(path=os.path.realpath(link.path))
        if os.path.isdir(there.path):
            self.enter(there)
        elif os.path.isfile(there.path):
            self._add(there)
        elif not os.path.exists(there.path):
            self._add(link)

    def _add(self, file: _Entry) -> None:
        if self._pattern.ends(file.at):
            self.names.setdefault(file.path, file.name)
