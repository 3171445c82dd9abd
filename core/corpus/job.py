"""What is to be run: everything that decides the result, and nothing that does not."""

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
from .reading import Files, Reading, read_texts
from .texts import Problem


@dataclass(frozen=True)
class Job:
    """A run that was stopped can be gone on with where this is the same. Fields as the arguments of `core.corpus.run`, and

    revision  of the model, as in `core.models.model.Model`
    versions  as `versions_that_count` gives them
    """

    model: str
    revision: str
    versions: dict[str, str]
    dtype: str
    device: str
    folder: str
    reading: Reading
    heads: tuple[tuple[int, int], ...] | None
    tokens: int | None
    passage_tokens: int
    strongest: int
    sample: int
    examples_of: tuple[str, ...]

    def json(self, corpus: str) -> str:
        """corpus: as in `Census`"""
        return json.dumps(asdict(self) | {"corpus": corpus}, sort_keys=True, indent=1)


def versions_that_count() -> dict[str, str]:
    """Of what computes, on this machine. That of Python decides no number."""
    return {name: one for name, one in versions("torch", "transformers", "numpy").items() if name != "Python"}


def passages_of(files: Files, names: tuple[str, ...], job: Job, model: Model) -> Iterator[Passage | Problem]:
    """The passages of some files, in their order.

    model   its tokenizer is what counts; it may come without its weights (`load_outline`)
    """
    count = counter(model)
    for name in names:
        for text in read_texts(files, name, job.reading):
            if isinstance(text, Problem):
                yield text
            else:
                yield from cut(text, count, job.passage_tokens)


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
        """Passages drawn at random, as many as have at most so many tokens together; None: all.

        Ids are as good as drawn at random, so that these are the first.
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
