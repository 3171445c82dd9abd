"""What is found out about claims: their test on texts, examples, what a head does, and what is known of all heads."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core import InputError, Model
from core.claims import known
from core.claims.checking import MAX_TOKENS, ClaimCheck
from core.claims.claim import Claim
from core.claims.consequences import muting, patching
from core.claims.examples import ClaimExample, claim_examples
from core.claims.known import included_texts, known_claims, measured
from core.claims.verdicts import share_of
from core.models.passages import Passage, passages_of
from ui import state
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import Expression, call, expression
from ui.requests import ModelChoice
from ui.views.sources import models
from ui.views.sources.heads import AnyHead

SOME = 24  # of the included texts
INCLUDED = "included passages"
MOST_CHARACTERS = 100_000  # of one's own texts: minutes for a small model. The command reads any number


@dataclass(frozen=True)
class Texts:
    """Texts that claims are tested on: the first `count` of those that come along (None: all), or one's own."""

    count: int | None = None
    own: tuple[str, ...] = ()

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
    read = texts.own or included_texts()[: texts.count]
    return passages_of([models.load(model)], read, most_tokens())


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
    return call(claim_examples, *_given(of), on_progress=on_progress)


@cached(Store(16))
def muted(of: OneClaim, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    return call(muting, *_given(of), on_progress=on_progress)


@cached(Store(16))
def patched(of: OneClaim, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    return call(patching, *_given(of), on_progress=on_progress)


def _given(of: OneClaim) -> tuple[Model, Claim, tuple[int, int], list[Passage]]:
    return models.load(of.model), of.claim, of.place, passages(of.model, of.texts)


# --- what is known of all heads


@dataclass(frozen=True, eq=False)
class Known:
    """What heads do, as `core.claims.known.by_head` gives it.

    texts     the passages on which it was tested, in words
    is_whole  whether that test has come to its end
    """

    table: pd.DataFrame
    texts: str
    is_whole: bool = True

    @property
    def holding(self) -> list[dict[Any, Any]]:
        """The rows that hold."""
        return [row for row in self.table.to_dict("records") if row["verdict"] == "holds"]

    def holding_for(self, head: str) -> list[dict[Any, Any]]:
        """The rows that hold for a head, "17.3", the clearest first."""
        return [row for row in self.holding if row["head"] == head]

    def in_words(self, layers: int, heads: int) -> NDArray[np.object_]:
        """[layers, heads] the claims that hold for each head, with their shares and intervals; "" where none does."""
        words = np.full((layers, heads), "", object)
        for row in self.holding:
            place = tuple(map(int, row["head"].split(".")))
            words[place] += f"{'; ' if words[place] else ''}{row['name']} {share_of(row)}"
        return words


def known_of(head: AnyHead) -> Known | None:
    """What is known of all heads of this kind: kept for the included models, of others as far as somebody has tested the known
    claims on the texts that come along. None for what has not been tested."""
    choice, claims = head.request.model, known_claims()
    if head.kind != head.capture.kinds[0]:
        return None
    if (table := measured(head.capture.model.revision)) is not None:
        return Known(table, INCLUDED)
    if not checking.is_known(choice, claims, Texts()):
        return None
    check = checking(choice, claims, Texts())
    part = "" if (is_whole := check.done == check.total) else f" (the first {check.done} of {check.total})"
    return Known(by_head(choice, check.done), f"{INCLUDED}{part}", is_whole) if check.done else None
