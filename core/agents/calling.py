"""Calls by their names: arguments are checked by their types, answers bounded, and errors are the library's own sentences."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ..errors import InputError, first_line, shown
from .answers import Answer
from .calls import CALLS
from .host import Host

MOST_BYTES = 8_000  # of an answer as JSON

logger = logging.getLogger(__name__)


class CheckedCall:
    """One call as an agent sees it."""

    def __init__(self, name: str, function: Callable[..., Answer]) -> None:
        self.name, self._function = name, function
        hints = get_type_hints(function, include_extras=True)
        self._answer: type[Answer] = hints.pop("return")
        given = {word: of.default for word, of in inspect.signature(function).parameters.items() if word != "host"}
        fields: dict[str, Any] = {
            word: (hints[word], ... if value is inspect.Parameter.empty else value) for word, value in given.items()
        }
        self._arguments: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)

    @cached_property
    def description(self) -> dict[str, Any]:
        """Its name, what it does, and the JSON schemas of its arguments and of its answer."""
        schemas = {
            "input": self._arguments.model_json_schema(),
            "output": self._answer.model_json_schema(mode="serialization"),
        }
        return {"name": self.name, "about": inspect.getdoc(self._function) or "", **_without_titles(schemas)}

    def answer(self, host: Host, arguments: object) -> dict[str, Any]:
        """Raises InputError for arguments that do not fit, and what the call raises."""
        try:
            given = self._arguments.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = shown(".".join(map(str, first["loc"])), 60) or "arguments"
            why = {
                "missing": f"“{field}” is missing.",
                "extra_forbidden": f"There is no “{field}” here, only {', '.join(self._arguments.model_fields)}.",
            }.get(first["type"], f"“{field}” cannot be {shown(repr(first['input']), 80)}: {first['msg']}.")
            raise InputError(why, field=field) from None
        return bounded(self._function(host, **dict(given)))


class Calls:
    """All calls of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.each = {name: CheckedCall(name, function) for name, function in CALLS.items()}

    def answer(self, name: object, arguments: object, is_wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """The answer as JSON values, at most `MOST_BYTES`. Raises InputError for everything that goes wrong, and
        `core.agents.host.Ended` once `is_wanted` says that nobody waits for it."""
        if (call := self.each.get(name) if isinstance(name, str) else None) is None:
            raise InputError(
                f"There is no call {shown(repr(name), 60)}: there are {', '.join(self.each)}.", field="call"
            )
        try:
            return self._host.run(partial(call.answer, self._host, arguments), is_wanted)
        except InputError:
            raise
        except Exception as error:
            logger.exception("%s failed", call.name)
            what = f"{type(error).__name__}: {first_line(error)}"
            raise InputError(
                f"This failed inside Headlight, not by what you asked ({what}). Ask for something else.", field="call"
            ) from error


def bounded(answer: Answer) -> dict[str, Any]:
    """An answer as JSON values; while it is too large, the longest of its lists loses its last entries."""
    said = json.loads(answer.model_dump_json())
    lists = {name: len(value) for name, value in said.items() if isinstance(value, list)}
    while len(json.dumps(said, ensure_ascii=False).encode()) > MOST_BYTES:
        name = max(lists, key=lambda name: len(json.dumps(said[name])))
        said[name] = said[name][: len(said[name]) * 3 // 4]
        said["cut"][name] = lists[name]
    return said


def _without_titles(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names: they say nothing, and an agent reads every byte."""
    if isinstance(schema, list):
        return [*map(_without_titles, schema)]
    if not isinstance(schema, dict):
        return schema
    return {name: _without_titles(of) for name, of in schema.items() if not (name == "title" and isinstance(of, str))}
