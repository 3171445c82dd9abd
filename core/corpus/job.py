"""A run that has been begun, and the passages that it has to read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.model import Model
from ..versions import versions
from .passages import Passage, counter, cut
from .reading import Files, read_texts
from .settings import RunSettings
from .texts import Problem


@dataclass(frozen=True)
class Job:
    """A run as it was begun. A stopped run goes on only where all of this is the same.

    model     a name, or an absolute path
    revision  of the model, as in `core.models.model.Model`
    folder    of the texts
    versions  as `versions_that_count` gives them
    """

    model: str
    revision: str
    folder: str
    versions: dict[str, str]
    settings: RunSettings

    def json(self, corpus: str) -> str:
        """The text of job.json. corpus: as in `Census`"""
        facts = asdict(self)
        return json.dumps(facts.pop("settings") | facts | {"corpus": corpus}, sort_keys=True, indent=1)


def versions_that_count() -> dict[str, str]:
    """The versions of what computes, on this machine. That of Python changes no number."""
    return {name: version for name, version in versions("torch", "transformers", "numpy").items() if name != "Python"}


def passages_of(files: Files, names: tuple[str, ...], job: Job, model: Model) -> Iterator[Passage | Problem]:
    """The passages of some files, in their order.

    model   only its tokenizer is used; it may come without its weights (`load_outline`)
    """
    count = counter(model)
    for name in names:
        for text in read_texts(files, name, job.settings):
            if isinstance(text, Problem):
                yield text
            else:
                yield from cut(text, count, job.settings.passage_tokens)


@dataclass(eq=False)
class Census:
    """All passages of a corpus, without their texts.

    ids     [passages] uint64, sorted
    tokens  [passages] of each
    hashes  [passages] uint64, of the text of each
    """

    ids: NDArray[np.uint64]
    tokens: NDArray[np.int64]
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, ids: NDArray[np.uint64], tokens: NDArray[np.int64], hashes: NDArray[np.uint64]) -> Census:
        order = np.argsort(ids)
        return cls(ids[order], tokens[order], hashes[order])

    def limited(self, most: int | None) -> Census:
        """Passages drawn at random that have at most this many tokens together; None: all.

        Ids are as good as random, so these are the first.
        """
        if most is None:
            return self
        stop = int(np.searchsorted(self.tokens.cumsum(), most, side="right"))
        return Census(self.ids[:stop], self.tokens[:stop], self.hashes[:stop])

    @property
    def total(self) -> int:
        """Tokens of all of them."""
        return int(self.tokens.sum())

    @property
    def corpus(self) -> str:
        """A hash of all passages: where they stand and what they say."""
        return hashlib.blake2b(np.stack([self.ids, self.hashes]).tobytes(), digest_size=16).hexdigest()


def text_hash(text: str) -> int:
    """64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
