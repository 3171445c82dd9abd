"""Why: the numbers that `why` explains, each as a sum over components, and the path back to the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..capturing.capture import Capture
from ..errors import shortened
from ..heads import paths
from ..heads.attribution import Attribution, cosine, cosine_attribution, logit, logit_attribution, strongest
from ..models.inputs import one_token
from ..models.tokens import token_texts
from .addresses import MEAN_OF_ALL
from .answers import Contribution, PathStop


@dataclass(frozen=True, eq=False)
class Asked:
    """A number as a sum.

    words  of the address
    """

    table: Attribution
    about: str
    words: dict[str, Any]
    by_query: list[Contribution] = field(default_factory=list)
    path: list[PathStop] = field(default_factory=list)


def of_score(passed: Capture, hop: paths.Hop, most: int) -> Asked:
    (stop,) = paths.follow(passed, [hop]).stops
    against = "minus the mean of the other keys" if stop.others else "there is no other key"
    key = passed.tokens(hop.kind)[1][stop.key]
    about = f"The score of head {hop.component}, query {hop.query}, for key {hop.key} “{key}”, {against}."
    words = {"path": str(hop), "stop": 1, "side": "key"}
    return Asked(stop.of_key, about, words, by_query=contributions(stop.of_query, most))


def of_alike(passed: Capture, other: Capture, like: str) -> Asked:
    table = cosine_attribution(passed, other)
    path = paths.follow(passed, None, table, cosine(passed, other))
    return Asked(
        table, f"The cosine with the vector of “{shortened(like)}”.", {"like": like}, path=_stops(passed, path)
    )


def of_token(passed: Capture, answer: str | None, than: str | None) -> Asked:
    ids, model = [int(np.argmax(passed.predicted))], passed.model
    if answer is not None:
        ids = [one_token(model, answer, with_blank=True, field="answer")]
    other = "mean" if than is None else one_token(model, than, with_blank=True, field="than")
    first, *second = token_texts(model.tokenizer, [*ids, *([other] if isinstance(other, int) else [])])
    table = logit_attribution(passed, ids[0], other)
    path = paths.follow(passed, None, table, logit(passed, ids[0], other))
    about = f"The logit of “{first}”, minus {f'that of “{second[0]}”' if second else 'the mean of all logits'}."
    words = {"answer": first, "than": second[0] if second else MEAN_OF_ALL}
    return Asked(table, about, words, path=_stops(passed, path))


def contributions(table: Attribution, most: int) -> list[Contribution]:
    return [Contribution(component=name, contribution=gave) for name, gave in strongest(table, most)]


def _stops(passed: Capture, path: paths.Path) -> list[PathStop]:
    return [
        PathStop(
            head=stop.hop.component,
            token=passed.tokens(stop.hop.kind)[1][stop.key],
            **{name: getattr(stop, name) for name in ("gave", "query", "key", "score")},
        )
        for stop in path.stops
    ]
