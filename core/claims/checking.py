"""Claims tested on texts, in this process: one passage after another, whenever somebody asks for the next."""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..capturing.capture import Capture, capture, not_captured
from ..errors import InputError
from ..models.model import Model
from ..models.modules import Kind
from ..models.passages import Passage, PassageByPassage, passages_of
from ..progress import OnProgress
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
    read = [Claim.read(claim) if isinstance(claim, str) else claim for claim in claims]
    return ClaimCheck(model, read, texts, max_tokens).finished(on_progress).table(seed)


class ClaimCheck(PassageByPassage):
    """Claims under test, as far as it has come.

    sums    over the passages so far
    nbytes  about how much memory they take
    """

    def __init__(
        self, model: Model, claims: Iterable[Claim], texts: Iterable[str | Passage], max_tokens: int = MAX_TOKENS
    ) -> None:
        """Arguments and errors as those of `check_claims`."""
        if not model.captures:
            raise not_captured(model)
        if not 2 <= max_tokens <= MOST_TOKENS:
            why = f"A passage can have 2 to {MOST_TOKENS} tokens, not {max_tokens:,}."
            raise InputError(why, field="max_tokens")
        passages = passages_of([model], [texts] if isinstance(texts, str) else texts, max_tokens)
        super().__init__(passages, lambda passage, _: add_passage(self.sums, model, passage))
        claims = tuple(claims)
        if not claims:
            raise InputError("There is no claim to test. Write one.", field="claims")
        require_few(claims)
        require_annotation(claims, any(passage.words for passage in passages))
        self.sums = ClaimSums(claims, heads_of(capture(model, "a")))
        self.nbytes = 26 * self.sums.queries.size

    def table(self, seed: int = 0) -> pd.DataFrame:
        """The verdicts on what has been measured so far."""
        return verdicts(self.sums, seed=seed)


def add_passage(sums: ClaimSums, model: Model, passage: Passage) -> None:
    """Read a passage and add what every head does in it."""
    with one_thread():
        taken = capture(model, passage.text)
        facts = Facts.of(model.tokenizer, taken.input_ids, passage)
        sums.add(passage, measure(sums.claims, taken, facts))  # a passage is added as a whole or not at all


def heads_of(taken: Capture, kind: Kind | None = None) -> NDArray[np.int64]:
    """The layer and the number of every head: [H, 2]."""
    kind = taken.kinds[0] if kind is None else kind
    return np.array([*product(range(taken.layers(kind)), range(taken.heads(kind)))])
