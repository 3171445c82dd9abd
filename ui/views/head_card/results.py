"""Results of the page Head, each computed once for all sessions."""

from __future__ import annotations

from core.claims.checking import ClaimCheck
from core.claims.known import included_texts, known_check
from core.heads.effects import Effects
from ui.cache import MEMORY, Store, cached
from ui.requests import HeadRequest, ModelChoice
from ui.views.sources import models, passes

EACH = 3  # of how many texts that come along one is read: enough for a first verdict


@cached(MEMORY)
def known(choice: ModelChoice) -> ClaimCheck:
    """The test of all known claims, for all heads of a model, as far as it has come. Raises InputError as `ClaimCheck` does."""
    return known_check(models.load(choice), included_texts()[::EACH])


@cached(Store(64))
def muted(of: HeadRequest) -> float:
    """What muting this head alone does to the answer, as `head_effects` measures it."""
    effects = Effects(models.load(of.text.model), passes.inputs_of(of.text), kind=of.kind)
    return effects.muted([[(of.layer, of.head)]])[0]
