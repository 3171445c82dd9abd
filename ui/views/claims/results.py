"""What the page Claims computes: the test of claims, examples of one, and what its head does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from core import InputError, Model
from core.claims import known
from core.claims.checking import MAX_TOKENS, ClaimCheck
from core.claims.claim import Claim
from core.claims.consequences import muting, patching
from core.claims.examples import ClaimExample, claim_examples
from core.claims.known import included_texts, known_claims
from core.models.passages import Passage, passages_of
from ui import state
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import Expression, call, expression
from ui.requests import ModelChoice
from ui.views.sources import models

SOME = 24  # of the included texts
MOST_CHARACTERS = 100_000  # of one's own texts: minutes for a small model. The command reads any number


@dataclass(frozen=True)
class Texts:
    """Texts that claims are tested on: the first `count` of those that come along (None: all), or one's own."""

    count: int | None = None
    own: tuple[str, ...] = ()

    def read(self) -> Sequence[str | Passage]:
        return self.own or included_texts()[: self.count]

    def written(self) -> Expression | list[str]:
        """These texts in Python."""
        if self.own:
            return list(self.own)
        every = expression(included_texts)
        return every if self.count is None else every.part(f"[:{self.count}]")


@dataclass(frozen=True)
class OneClaim:
    """A claim about a head, (layer, head), of a model, on these texts."""

    model: ModelChoice
    texts: Texts
    claim: Claim
    place: tuple[int, int]


def most_tokens() -> int:
    """Tokens of a passage at most."""
    return models.longest_text(MAX_TOKENS) or MAX_TOKENS


def known_address() -> dict[str, str]:
    """What the fields of the page hold that test the known claims."""
    return {state.CLAIMS: "\n".join(map(str, known_claims())), state.CHECKED_ON: "included"}


@cached(Store(4))
def passages(model: ModelChoice, texts: Texts) -> list[Passage]:
    """Raises InputError (field "text")."""
    if (characters := sum(map(len, texts.own))) > MOST_CHARACTERS:
        why = f"The texts have {characters:,} characters; this page reads at most {MOST_CHARACTERS:,}."
        raise InputError(f"{why} Shorten them, or use the command “python -m core.claims check”.", field="text")
    network, most = models.load(model), most_tokens()
    return passages_of([network], texts.read(), most)


def passages_written(network: Model, texts: Texts) -> Expression:
    """The passages in Python."""
    return expression(passages_of, [network], texts.written(), most_tokens())


@cached(MEMORY)
def checking(model: ModelChoice, claims: tuple[Claim, ...], texts: Texts) -> ClaimCheck:
    """The test of claims, as far as it has come. Raises InputError as `check_claims` does."""
    return ClaimCheck(models.load(model), claims, passages(model, texts), most_tokens())


@cached(Store(8))
def by_head(model: ModelChoice, _done: int) -> pd.DataFrame:
    """What the test of the known claims on all texts that come along says of every head, once so many passages are read."""
    return known.by_head(checking(model, known_claims(), Texts()).sums)


@cached(Store(16))
def examples(of: OneClaim, *, on_progress: OnProgress | None = None) -> tuple[list[ClaimExample], list[ClaimExample]]:
    given = of.claim, of.place, passages(of.model, of.texts)
    return call(claim_examples, models.load(of.model), *given, on_progress=on_progress)


@cached(Store(16))
def muted(of: OneClaim, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    return call(
        muting, models.load(of.model), of.claim, of.place, passages(of.model, of.texts), on_progress=on_progress
    )


@cached(Store(16))
def patched(of: OneClaim, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    given = of.claim, of.place, passages(of.model, of.texts)
    return call(patching, models.load(of.model), *given, on_progress=on_progress)
