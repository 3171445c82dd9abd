"""The record of a finished run, which every file of it holds as its metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin, get_type_hints

from ..models.fields import half_of_a_pair
from ..models.model import Model
from .tally import Tally

FORMAT = 1  # raised when a file means something else than before
METADATA = b"headlight"
# What reading JSON raises that somebody else has written.
NOT_JSON = (ValueError, LookupError, TypeError, RecursionError)


@dataclass(frozen=True)
class About:
    """The record of a finished run. Its JSON form is the metadata of every file. Settings are those of `RunSettings`.

    captures  whether the model exposes which pairs are masked; where not, every `chance` is missing
    kind      of attention
    layers, heads, wanted   how many layers the model has, heads in each of them, and heads that were measured
    corpus    a hash of all passages: of where they stand and of their texts
    unread    how many texts, or parts of them, could not be read
    limit     `RunSettings.tokens`
    seconds   from start to end, of the last start
    """

    model: str
    revision: str
    dtype: str
    device: str
    captures: bool
    kind: str
    layers: int
    heads: int
    wanted: int
    data: str
    column: str
    by: str
    files: int
    passages: int
    tokens: int
    corpus: str
    unread: int
    limit: int | None
    passage_tokens: int
    strongest: int
    sample: int
    examples_of: tuple[str, ...]
    versions: dict[str, str]
    seconds: float
    format: int = FORMAT

    @classmethod
    def of(cls, tally: Tally, model: Model, **others: Any) -> About:
        """The record of a run. model: may come without its weights; others: data, files, corpus, versions and seconds"""
        settings, heads = tally.settings, tally.heads
        same = ("column", "by", "dtype", "device", "passage_tokens", "strongest", "sample", "examples_of")
        return cls(
            model=model.name,
            revision=heads.revision,
            captures=model.captures,
            kind=heads.kind,
            layers=heads.layers,
            heads=heads.per_layer,
            wanted=len(heads.measured),
            passages=len(tally.ids),
            tokens=tally.tokens_read,
            unread=tally.problem_count,
            limit=settings.tokens,
            **{name: getattr(settings, name) for name in same},
            **others,
        )

    @classmethod
    def read(cls, metadata: bytes) -> About:
        """Read the JSON form. Raises ValueError or TypeError for anything else, KeyError where a field is missing."""
        written = json.loads(metadata)
        values: dict[str, Any] = {field.name: written[field.name] for field in fields(cls)}
        for name, kind in get_type_hints(cls).items():
            if not has_type(values[name], kind):
                raise TypeError(f"{name} is {values[name]!r}")
        values["examples_of"] = tuple(values["examples_of"])
        return cls(**values)


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value from JSON is of a type: numbers finite and not negative, texts without half characters."""
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(has_type(item, str) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(has_type(word, str) for item in value.items() for word in item)
    if get_args(kind):
        return any(has_type(value, each) for each in get_args(kind))
    if kind is str:
        return isinstance(value, str) and half_of_a_pair(value) is None
    if kind in (int, float) and isinstance(value, kind | int) and not isinstance(value, bool):
        return 0 <= value < 2**63
    return isinstance(value, kind) and kind not in (int, float)
