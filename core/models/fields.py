"""What anybody may have written: the fields of a file, checked as they are read, and texts, before a tokenizer reads them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, model_error, shortened

MAX_TEXT = 1_000  # characters of a token, a name or a sentence
LARGEST = 1e30  # no number of a file may be larger: products of a few such numbers are not finite
MAX_LEVELS = 100  # of lists and objects within each other: whoever walks through more of them exhausts Python's stack


def broken(why: str) -> InputError:
    """The error for a file that cannot be opened, with the reason."""
    return InputError(
        f"This file cannot be opened: {why}. It is damaged, or was not written by Headlight. Make it again.",
        field="file",
    )


def read_json(text: bytes, most_lists: int, kind: type = dict) -> Any:
    """An object in JSON, or of kind `list` a list. Raises InputError for anything else, and for more lists and objects than
    `most_lists`: while Python makes them, all other sessions wait."""
    if lists_in(text) > most_lists:
        raise broken("its description is too large")
    try:
        return content_of(text, len(text), kind, parse_constant=refuse_constant)
    except ValueError:
        raise broken("its description cannot be read") from None


def read_object(path: Path, most_bytes: int, most_entries: int) -> dict[str, Any]:
    """The object in a JSON file of somebody else's. Raises ValueError, in words, for anything else, and OSError.

    most_entries  of all its lists and objects together
    """
    if not path.is_file():
        raise ValueError("it is not a file")
    if (size := path.stat().st_size) > most_bytes:
        raise ValueError(f"it has {size / 1e6:,.1f} MB, and at most {most_bytes // 1_000_000} MB are read")
    return content_of(path.read_bytes(), most_entries, dict)


def content_of(text: bytes, most_entries: int, kind: type, **options: Any) -> Any:
    """What a text in JSON says, of this kind. Raises ValueError, in words, for anything else, and for more than MAX_LEVELS
    levels. options: of json.loads"""
    if lists_in(text) > most_entries:
        raise ValueError("it has too many entries")
    try:
        content = json.loads(text.decode(), object_pairs_hook=said_once, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, kind):
        raise ValueError("it is not an object in JSON" if kind is dict else "it is not a list in JSON")
    level: list[Any] = [content]
    for _ in range(MAX_LEVELS):
        most_entries -= sum(map(len, level))
        if most_entries < 0:
            raise ValueError("it has too many entries")
        entries = (entry for part in level for entry in (part.values() if isinstance(part, dict) else part))
        level = [entry for entry in entries if isinstance(entry, dict | list)]
    if level:
        raise ValueError("it is nested too deeply")
    return content


def said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises ValueError if it says two things of one name, of which Python takes the last and others the first."""
    made = dict(pairs)
    if len(made) < len(pairs):
        for name, value in pairs:
            if value != made[name]:
                raise ValueError(
                    f"it gives {shortened(name)} twice, as {shortened(repr(value))} and {shortened(repr(made[name]))}"
                )
    return made


def lists_in(text: bytes) -> int:
    """Maximum number of lists and objects in a text in JSON: brackets within words count, too."""
    return text.count(b"[") + text.count(b"{")


def refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


@dataclass(frozen=True)
class Fields:
    """The values and arrays of a part of a file. Its methods raise InputError for a field that is lacking or unusable."""

    values: Mapping[str, Any]
    arrays: Mapping[str, NDArray] = field(default_factory=dict)

    def _checked(self, name: str, is_sound: Callable[[Any], bool], words: str) -> Any:
        """The value of a field. words: what it has to be"""
        if not is_sound(value := self.values.get(name)):
            raise broken(f"its {name} is not {words}")
        return value

    def text(self, name: str, longest: int = MAX_TEXT) -> str:
        return self._checked(name, lambda value: _is_text(value, longest), f"a text of at most {longest:,} characters")

    def name(self, name: str, pattern: re.Pattern[str]) -> str:
        text = self.text(name)
        if not pattern.fullmatch(text):
            raise broken(f"its {name} is not a valid name")
        return text

    def texts(self, name: str, longest: int = MAX_TEXT) -> tuple[str, ...]:
        def are_texts(values: object) -> bool:
            return isinstance(values, list) and all(_is_text(value, longest) for value in values)

        return tuple(self._checked(name, are_texts, f"a list of texts of at most {longest:,} characters"))

    def word(self, name: str, words: tuple[str, ...]) -> Any:
        return self._checked(name, words.__contains__, f"one of {', '.join(words)}")

    def flag(self, name: str) -> bool:
        return self._checked(name, lambda value: isinstance(value, bool), "true or false")

    def number(self, name: str) -> float:
        return float(self._checked(name, is_number, "a number"))

    def number_or_none(self, name: str) -> float | None:
        return None if self.values.get(name) is None else self.number(name)

    def whole(self, name: str) -> int:
        return self._checked(name, lambda value: are_whole([value]), "a whole number from 0")

    def part(self, name: str) -> "Fields":
        """A part with fields of its own; without any if the file has no such part."""
        value = self.values.get(name)
        return Fields(value if isinstance(value, dict) else {})

    def parts(self, name: str, most: int) -> "list[Fields]":
        """A list of at most so many parts, each with fields of its own; empty if the file has no such list."""
        entries = self.values.get(name, [])
        is_sound = isinstance(entries, list) and len(entries) <= most and all(isinstance(one, dict) for one in entries)
        if not is_sound:
            raise broken(f"its {name} are not a list of at most {most}")
        return [Fields(entry) for entry in entries]

    def matrix(self, name: str, shape: tuple[int, int] | None = None, dtype: type | None = None) -> NDArray:
        """An array of two dimensions. dtype: None for any of floats"""
        array = self.arrays.get(name)
        if array is None or array.ndim != 2 or 0 in array.shape or (shape is not None and array.shape != shape):
            raise broken(f"its {name.replace('_', ' ')} does not fit the shape of the rest")
        if array.dtype != dtype if dtype is not None else array.dtype.kind != "f":
            raise broken(f"its {name.replace('_', ' ')} holds {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise broken(f"its {name.replace('_', ' ')} holds numbers that are not finite")
        return array


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def are_whole(numbers: Any, least: int = 0) -> bool:
    """Whether this is a list of whole numbers from `least` on."""
    return isinstance(numbers, list) and all(type(number) is int and least <= number < 2**31 for number in numbers)


def _is_text(value: object, longest: int) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= longest and half_of_a_pair(value) is None


# --- texts before a tokenizer reads them

MAX_CHARACTERS = 1_000_000  # a tokenizer needs a few seconds for so many


@contextmanager
def tokenizing(name: str, **texts: str) -> Iterator[None]:
    """Check texts before they are tokenized within this context, and report a tokenizer that fails there.

    name   the model's name
    texts  the texts by their fields

    Raises InputError for a text that is too long or contains half of a character (field: the text's), and if the tokenizer
    fails (field "model"): its regular expressions come with the model.
    """
    for of, text in texts.items():
        if len(text) > MAX_CHARACTERS:
            why = f"The text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read. Shorten it."
            raise InputError(why, field=of)
        if (half := half_of_a_pair(text)) is not None:
            raise InputError(f"Character {half + 1:,} of the text is half of a character. Remove it.", field=of)
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise model_error(
            f"The tokenizer of {name} fails on this text: {shortened(str(error), 200)}. Change the text, or choose another "
            f"model."
        ) from None


def is_panic(error: BaseException) -> bool:
    """Whether Rust code, such as a tokenizer's, has failed: that is not an Exception, and its class cannot be imported."""
    return type(error).__name__ == "PanicException"


def half_of_a_pair(text: str) -> int | None:
    """The place of the first half of a surrogate pair in a text, which UTF-8 cannot encode; None for any other text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
