"""Heads ranked by a metric, by the weight of a pair of tokens, or by what the keys of a claim get; and numbers as sums."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capturing.capture import Capture, capture
from ..claims.checking import MAX_TOKENS, ClaimCheck
from ..claims.claim import Claim
from ..claims.known import included_texts
from ..errors import InputError, shortened
from ..heads import paths
from ..heads.attribution import Attribution, cosine, cosine_attribution, logit, logit_attribution, strongest
from ..heads.metrics import METRICS, NAMES, head_metrics, pair_weights
from ..heads.probing import SCORES, longest, probe_heads, random_texts
from ..models.inputs import one_token
from ..models.model import Model
from ..models.modules import Kind
from ..models.tokens import token_texts
from .answers import Contribution, PathStop
from .host import MEAN_OF_ALL, Host

SOME = 24  # included texts on which claims are tested, as on the page Claims
PROBE_LENGTH, PROBE_SEEDS = 50, (0, 1, 2, 3)
CHARACTERS = 50  # of all texts of a claim together, for each token that one text may have


@dataclass(frozen=True, eq=False)
class HeadRanking:
    """Numbers of all heads.

    passed   a pass over what they were measured on
    columns  of `core.agents.answers.HeadValue`: name -> [heads]
    n        what each is a mean over
    words    of the address
    """

    passed: Capture
    about: str
    columns: dict[str, NDArray]
    n: int
    words: dict[str, Any]
    unit: str = "share"
    highest: float = 1.0


def by_pair(passed: Capture, query: int, key: int, kind: Kind | None) -> HeadRanking:
    weights, (queries, keys) = pair_weights(passed, query, key, kind), passed.tokens(kind)
    about = f"The weight that query {query} “{queries[query]}” gives to key {key} “{keys[key]}”."
    return HeadRanking(passed, about, {"value": weights.ravel()}, 1, {"metric": "pair", "query": query, "key": key})


def by_metric(host: Host, name: str, by: str, text: str | None, target: str | None, kind: Kind | None) -> HeadRanking:
    metric = METRICS[NAMES.index(by)]
    if text is not None:
        passed = host.passed(name, text, target)
        table, where, n = head_metrics(passed, kind), "on this text, the mean over its queries", passed.shape(kind)[0]
        columns = {"value": by, "spread": f"{by}_spread"}
    else:
        model = host.model(name)
        length = min(PROBE_LENGTH, longest(model), host.limits.tokens // 2 - 1)
        table, where, n = probe_heads(model, length, PROBE_SEEDS), "on random tokens, read twice", len(PROBE_SEEDS)
        passed = capture(model, input_ids=random_texts(model, length, PROBE_SEEDS[0])[0].ids)
        columns = {"value": by, "error": f"{by}_error"}
        columns |= {"null": f"{by}_null", "clear": f"is_{by}"} if by in SCORES else {}
    about = f"{metric.words} Measured {where}. {metric.source}."
    words = {"metric": by, "on": "random" if text is None else "text"}
    numbers = {name: table[column].to_numpy() for name, column in columns.items()}
    return HeadRanking(passed, about, numbers, n, words, metric.unit or "share", metric.highest(passed.shape(kind)[1]))


def by_claim(host: Host, name: str, line: str, text: str | None) -> HeadRanking:
    model = host.model(name)
    check = tested(host, model, [Claim.read(line)], [] if text is None else [text])
    with np.errstate(divide="ignore", invalid="ignore"):
        queries = check.sums.queries.sum(axis=(0, 1))[0]
        chance, usual = (of.values.sum(axis=0)[0] / queries for of in (check.sums.chance, check.sums.usual))
        columns = {"value": check.sums.shares.values.sum(axis=(0, 1))[0] / queries, "null": chance, "usual": usual}
    about = "What the keys of the claim get of the queries that it speaks of, in all passages."
    words = {"claims": line, "texts": text, "checked_on": "some" if text is None else "own"}
    return HeadRanking(capture(model, check.passages[0].text), about, columns, check.done, words)


def tested(host: Host, model: Model, claims: Sequence[Claim], texts: Sequence[str]) -> ClaimCheck:
    """Claims tested on as many passages of these texts, or of some that come along, as there is time for."""
    characters = sum(map(len, texts))
    if characters > (most := host.limits.tokens * CHARACTERS):
        raise InputError(f"The texts have {characters:,} characters; at most {most:,} are read.", field="texts")
    check = ClaimCheck(model, claims, texts or included_texts()[:SOME], min(MAX_TOKENS, host.limits.tokens))
    while check.go_on() and host.has_time:
        pass
    return check


# --- the numbers that `why` explains, each as a sum over components, and the path back to the text


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


def of_token(passed: Capture, answer: str | None, against: str | None) -> Asked:
    ids, model = [int(np.argmax(passed.predicted))], passed.model
    if answer is not None:
        ids = [one_token(model, answer, with_blank=True, field="answer")]
    other = "mean" if against is None else one_token(model, against, with_blank=True, field="against")
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
