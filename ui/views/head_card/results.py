"""Results of the page Head, each computed once for all sessions."""

from __future__ import annotations

from contextlib import suppress

from core import InputError
from core.heads.effects import Effects
from ui.cache import Store, cached
from ui.requests import HeadRequest
from ui.views.claims.known import Known
from ui.views.corpus.results import corpora, corpus_run, listed_runs
from ui.views.sources import models, passes
from ui.views.sources.heads import RealHead


@cached(Store(64))
def muted(of: HeadRequest) -> float:
    """What muting this head alone does to the answer, as `head_effects` measures it."""
    effects = Effects(models.load(of.text.model), passes.inputs_of(of.text), kind=of.kind)
    return effects.muted([[(of.layer, of.head)]])[0]


def run_with_claims(real: RealHead) -> Known | None:
    """Which claims a run over a corpus has found to hold: of all runs here with claims and the same weights, the one that read
    most. None where there is no such run."""
    revision, runs = real.capture.model.revision, []
    with suppress(InputError):  # what cannot be opened is said on the page Corpus
        runs = [] if (folder := corpora()) is None else [(one.about, folder / one.name) for one in listed_runs(folder)]
    for about, place in sorted(runs, key=lambda run: -run[0].tokens if run[0] else 0):
        if about is not None and (about.revision, about.kind) == (revision, real.kind):
            with suppress(InputError):
                if (table := corpus_run(place).claims_by_head) is not None:
                    return Known(table, f"of {about.passages:,} passages of the run {place.name}")
    return None
