"""Claims tested on texts, in this process: one passage after another, whenever somebody asks for the next."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from threading import Lock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..capturing.capture import Capture, capture, not_captured
from ..errors import InputError
from ..models.model import Model
from ..models.modules import Kind
from ..models.passages import Location, Passage, counter, cut
from ..progress import OnProgress, held, step_counter
from ..threads import one_thread
from .claim import Claim, require_few
from .facts import Facts
from .shares import MOST_TOKENS, ClaimSums, measure
from .verdicts import require_annotation, verdicts

MAX_TOKENS = 128  # of a passage


def check_claims(
    model: Model,
    claims: Iterable[Claim | str],
    texts: Iterable[str | Passage],
    *,
    seed: int = 0,
    max_tokens: int = MAX_TOKENS,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Test claims about the heads of a model: a row a claim, with the columns of `core.claims.verdicts.verdicts`.

    claims       or the lines of claims
    texts        are cut into passages of at most `max_tokens` tokens; annotated sentences are `Passage`s
    seed         of the resamples from which the intervals follow
    on_progress  called after each passage with the number of passages so far

    The order of the texts does not matter, to the last bit. Raises InputError: field "claims" for heads that the model does not
    have and for what no text can say; field "text" where there is no text, field "model" for a model whose heads cannot be
    captured.
    """
    check = ClaimCheck(
        model, [Claim.read(claim) if isinstance(claim, str) else claim for claim in claims], texts, max_tokens
    )
    step = step_counter(on_progress)
    while check.go_on():
        step()
    return check.table(seed)


class ClaimCheck:
    """Claims under test, as far as it has come: `go_on` reads the next passage. Threads may share it.

    sums         over the passages so far
    total, done  number of passages, and of those that are measured
    may_pause    always: verdicts on what is there are worth looking at
    nbytes       about how much memory the sums take
    """

    may_pause = True

    def __init__(
        self, model: Model, claims: Iterable[Claim], texts: Iterable[str | Passage], max_tokens: int = MAX_TOKENS
    ) -> None:
        """Arguments and errors as those of `check_claims`."""
        if not model.captures:
            raise not_captured(model)
        if not 2 <= max_tokens <= MOST_TOKENS:
            why = f"A passage can have 2 to {MOST_TOKENS} tokens, not {max_tokens:,}."
            raise InputError(why, field="max_tokens")
        self.passages = passages_of(model, [texts] if isinstance(texts, str) else texts, max_tokens)
        claims = tuple(claims)
        if not claims:
            raise InputError("There is no claim to test. Write one.", field="claims")
        require_few(claims)
        require_annotation(claims, any(passage.words for passage in self.passages))
        self._model: Model | None = model
        self.sums = ClaimSums(claims, heads_of(capture(model, "a")))
        self.total, self.done = len(self.passages), 0
        self.nbytes = 26 * self.sums.queries.size
        self._lock = Lock()

    @property
    def share(self) -> float:
        return self.done / self.total

    def go_on(self) -> bool:
        """Measure one more passage; False if none is left."""
        with held(self._lock):
            if self._model is None:
                return False
            with one_thread():
                add_passage(self.sums, self._model, self.passages[self.done])
            self.done += 1
            if self.done == self.total:
                self._model = None  # it is not held any longer
            return True

    def table(self, seed: int = 0) -> pd.DataFrame:
        """The verdicts on what has been measured so far."""
        return verdicts(self.sums, seed=seed)


def add_passage(sums: ClaimSums, model: Model, passage: Passage) -> None:
    """Read a passage and add what every head does in it."""
    taken = capture(model, passage.text)
    facts = Facts.of(model.tokenizer, taken.input_ids, passage)
    sums.add(passage, measure(sums.claims, taken, facts))  # a passage is added as a whole or not at all


def heads_of(taken: Capture, kind: Kind | None = None) -> NDArray[np.int64]:
    """The layer and the number of every head: [H, 2]."""
    kind = taken.kinds[0] if kind is None else kind
    return np.array([*product(range(taken.layers(kind)), range(taken.heads(kind)))])


def passages_of(model: Model, texts: Iterable[str | Passage], max_tokens: int) -> list[Passage]:
    """The passages of these texts, which the model can read at once. Raises InputError (field "text")."""
    longest = max_tokens if model.max_tokens is None else min(max_tokens, model.max_tokens)
    whole = (
        text if isinstance(text, Passage) else Passage(Location("", row), 0, text)
        for row, text in enumerate(texts, start=1)
    )
    passages = []
    for passage in (part for text in whole for part in cut(text, counter(model), longest)):
        if not isinstance(passage, Passage):
            raise InputError(passage.why, field="text")
        passages.append(passage)
    if not passages:
        raise InputError("There is no text to test on. Write some.", field="text")
    return passages
