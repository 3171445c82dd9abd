"""The record of a finished run, which every file of it holds as its metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin, get_type_hints

from ..models.model import Model
from ..models.texts import half_of_a_pair
from .tally import Tally

FORMAT = 1  # raised when a file means something else than before
METADATA = b"headlight"


@dataclass(frozen=True)
class About:
    """The record of a finished run. Its JSON form is the metadata of every file.

    model, revision, dtype, device   as in `core.models.model.Model`
    captures    whether the model exposes which pairs are masked; where not, every `chance` is missing
    kind        of attention
    layers, heads, wanted   how many layers the model has, heads in each of them, and heads that were measured
    data, column, by        what was read
    files, passages, tokens how much of it
    corpus      a hash of all passages: of where they stand and of their texts
    unread      how many texts, or parts of them, could not be read
    limit       the maximum number of tokens that was asked for (`RunSettings.tokens`); None: all
    passage_tokens, strongest, sample, examples_of   as in `RunSettings`
    versions    of headlight, Python, torch, transformers, numpy, ray
    seconds     from start to end, of the last start
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
    def of(
        cls, tally: Tally, model: Model, *, data: str, files: int, corpus: str, versions: dict[str, str], seconds: float
    ) -> About:
        """The record of a run from its tally and its model, which may come without its weights; other arguments as the
        fields."""
        settings, heads = tally.settings, tally.heads
        return cls(
            model=model.name,
            revision=heads.revision,
            dtype=settings.dtype,
            device=settings.device,
            captures=model.captures,
            kind=heads.kind,
            layers=heads.layers,
            heads=heads.per_layer,
            wanted=len(heads.measured),
            data=data,
            column=settings.column,
            by=settings.by,
            files=files,
            passages=len(tally.ids),
            tokens=tally.tokens_read,
            corpus=corpus,
            unread=tally.problem_count,
            limit=settings.tokens,
            passage_tokens=settings.passage_tokens,
            strongest=settings.strongest,
            sample=settings.sample,
            examples_of=settings.examples_of,
            versions=versions,
            seconds=seconds,
        )

    @classmethod
    def read(cls, metadata: bytes) -> About:
        """Read the JSON form. Raises ValueError or TypeError for anything else, KeyError where a field is missing."""
        written = json.loads(metadata)
        values: dict[str, Any] = {field.name: written[field.name] for field in fields(cls)}
        for name, kind in get_type_hints(cls).items():
            if not _is(values[name], kind):
                raise TypeError(f"{name} is {values[name]!r}")
        values["examples_of"] = tuple(values["examples_of"])
        return cls(**values)


def _is(value: Any, kind: Any) -> bool:
    """Whether a value from JSON has the type of a field: numbers finite and not negative, texts without half characters."""
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_is(one, str) for one in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_is(one, str) for pair in value.items() for one in pair)
    if get_args(kind):
        return any(_is(value, one) for one in get_args(kind))
    if kind is str:
        return isinstance(value, str) and half_of_a_pair(value) is None
    if kind in (int, float) and isinstance(value, kind | int) and not isinstance(value, bool):
        return 0 <= value < 2**63
    return isinstance(value, kind) and kind not in (int, float)
