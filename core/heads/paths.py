"""A path from an answer back to the text: which head wrote it, where that head looked, and which component made it look there.

Each stop of a path is about one number: first the logit or the cosine of the answer, then the score of a head. Its attribution
says which components the number was read from, and the next hop goes to one of them. A path is a way of reading exact sums; it
does not claim that nothing else matters. Cutting a hop shows what the model does without it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..attention.trace import AttentionTrace
from ..capturing.calls.head_places import Place
from ..capturing.capture import Capture
from ..capturing.edits.edits import Edits
from ..errors import InputError, check_index, shortened
from ..models.modules import Kind
from .attribution import Attribution, ScoreAttribution, Scores, contributions_by_key, main_reason, score_attribution

Side = Literal["answer", "score", "key", "query"]
MOST_HOPS = 6
LEAST_SHARE = 0.1  # of the number before, that a head must give for an opening path to go on to it

_HOP = re.compile(
    r"(?:(score|key|query) )?(?:(encoder|decoder|cross) )?(\d{1,6})\.(\d{1,6})(?:@(\d{1,9}))?(?:>(\d{1,9}))?"
)


@dataclass(frozen=True)
class Hop:
    """A step of a path to a head that the number before was read from, in words such as "23.4>3" or "key 16.0".

    side   what the head wrote into: the "answer", or the "key" or "query" of the head before; "score" where the path begins
           with the score of a head, "score 5.11@10>2"
    key    the token that it looked at; None: the one from which most of its contribution came
    query  the token at which it looked, where the path begins with its score
    """

    side: Side
    kind: Kind
    layer: int
    head: int
    key: int | None = None
    query: int | None = None

    @property
    def component(self) -> str:
        """The name of the head among the components."""
        return f"{'' if self.kind == 'self' else f'{self.kind} '}{self.layer}.{self.head}"

    def __str__(self) -> str:
        side = "" if self.side == "answer" else f"{self.side} "
        query, key = "" if self.query is None else f"@{self.query}", "" if self.key is None else f">{self.key}"
        return f"{side}{self.component}{query}{key}"


def read_hops(words: str) -> list[Hop]:
    """The hops of a path in words, such as "18.6>2, key 16.0>1". Raises InputError (field "path")."""
    parts = words.split(",")
    if len(parts) > MOST_HOPS:
        raise InputError(f"A path has at most {MOST_HOPS} hops, and this one {len(parts)}.", field="path")
    return list(map(_read_hop, parts))


def _read_hop(words: str) -> Hop:
    if (found := _HOP.fullmatch(words.strip())) is None:
        why = f"“{shortened(words)}” is not a hop of a path. Write, for example, 23.4>3 or key 16.0."
        raise InputError(why, field="path")
    side, kind, layer, head, query, key = found.groups()
    names: dict[str, Any] = {"side": side or "answer", "kind": kind or "self"}  # only these can match
    if (side == "score") != (query is not None) or (side == "score" and key is None):
        raise InputError(f"“{shortened(words)}” needs a query and a key: score 5.11@10>2.", field="path")
    at, to = (None if position is None else int(position) for position in (query, key))
    return Hop(**names, layer=int(layer), head=int(head), key=to, query=at)


@dataclass(frozen=True, eq=False)
class Stop:
    """A head on a path.

    query, key  the token at which it wrote, and the one at which it looked
    gave        its contribution to the number before, in the unit of that number; where the path begins, its weight on the key
    by_token    [keys] the part that it wrote at this query, by the token whose value it passed on; or its weights
    is_weights  whether it is its weights: where the path begins
    score       of this key, minus the mean of the others where there are any
    others      how many other keys the query may attend to
    of_key      why it looked there: the score by the components that wrote what the keys were made from
    of_query    the same for the query
    """

    hop: Hop
    query: int
    key: int
    gave: float
    by_token: NDArray[np.float64]
    is_weights: bool
    score: float
    others: int
    of_key: Attribution
    of_query: Attribution


@dataclass(frozen=True, eq=False)
class Path:
    """An answer and the stops on the way from it to the text. answer: None where the path begins with the score of a head"""

    answer: Attribution | None
    stops: tuple[Stop, ...]

    def cut(self, place: int, other: str | None = None) -> Edits:
        """The edit that cuts the hop to the stop of this number: the head before no longer reads what this one wrote.

        The first head writes into the answer itself, from where it cannot be taken alone: it is muted.

        other  a text with as many tokens: what the head writes there takes the place of what it wrote; None: nothing does
        """
        hop = self.stops[place].hop
        if hop.side == "answer":
            heads = {Place(hop.layer, hop.head, hop.kind)}
            return Edits(patch_heads=heads, patch_from=other) if other else Edits(mute_heads=heads)
        before = self.stops[place - 1].hop
        kind = () if before.kind == "self" else (before.kind,)
        path = hop.component, (before.layer, before.head, hop.side, *kind)
        return Edits(cut_paths={path: "patch" if other else "zero"}, patch_from=other)


@dataclass(frozen=True)
class CutEffect:
    """What cutting a hop does to the number that it leads to.

    before     the number: of the answer, or the score of the head before
    predicted  the same without the contribution that is cut; None where that of another text takes its place
    after      the number in the edited pass. It differs from the prediction where norms, a softmax or later heads react
    """

    before: float
    predicted: float | None
    after: float


def cut_effect(path: Path, place: int, edited: Capture, answer_after: float) -> CutEffect:
    """The effect of cutting the hop to the stop of this number.

    edited        the pass with the edit of `Path.cut`, perhaps with further cuts
    answer_after  the number of the answer in that pass
    """
    stop = path.stops[place]
    if place == 0:
        assert path.answer is not None, "nothing is cut where a path begins"
        before, after = path.answer.number, answer_after
    else:
        before, after = path.stops[place - 1].score, _score_in(edited, path.stops[place - 1])
    return CutEffect(before, None if edited.edits.texts else before - stop.gave, after)


def _score_in(capture: Capture, stop: Stop) -> float:
    """The score of a stop in another pass over the same text."""
    trace = _row(capture, stop.hop, stop.query)
    row, others = trace.scaled[0] + trace.bias[0], trace.mask[0].copy()
    others[stop.key] = False
    return float(row[stop.key] - (row[others].mean() if others.any() else 0))


def follow(
    capture: Capture, hops: Sequence[Hop] | None, answer: Attribution | None = None, number: Tensor | None = None
) -> Path:
    """The path along these hops.

    hops    None: to the head that is the main reason for the answer, and on, as long as a head is that for a score's keys
    number  a `logit` or a `cosine` of core.heads.attribution; None: the path begins with the score that the first hop names
    answer  the attribution of the number

    Raises InputError (field "path") for a hop to a head that wrote nothing into the number before, and those of
    `score_attribution`.
    """
    stops: list[Stop] = []
    asked: Scores | None = None
    while hops is None or len(stops) < len(hops):
        hop = _opening_hop(answer, stops) if hops is None else hops[len(stops)]
        if hop is None:
            break
        if (hop.side in ("key", "query")) != bool(stops):
            raise InputError(f"“{hop}” is in the wrong place: the first hop, alone, leads to the answer.", field="path")
        if hop.side == "score":
            stop, asked = _begin(capture, hop)
        elif asked is None:
            assert answer is not None
            assert number is not None
            stop, asked = _stop(capture, hop, number, answer, _writes_at(capture, number, hop))
        elif hop.side == "key":
            stop, asked = _stop(capture, hop, asked.by_keys, stops[-1].of_key, stops[-1].key)
        else:
            stop, asked = _stop(capture, hop, asked.by_query, stops[-1].of_query, stops[-1].query)
        stops.append(stop)
    return Path(answer, tuple(stops))


def _opening_hop(answer: Attribution | None, stops: Sequence[Stop]) -> Hop | None:
    """Where an opening path goes on to; None where it ends."""
    if not stops:
        return None if answer is None else _to_strongest(answer, "answer")
    reason = main_reason(stops[-1].of_key)
    goes_on = reason is not None and reason.role == "head" and len(stops) < MOST_HOPS
    return _to_strongest(stops[-1].of_key, "key") if goes_on else None


def _writes_at(capture: Capture, number: Tensor, hop: Hop) -> int:
    """The token at which a head writes most into an answer: for a logit the one that is asked about."""
    components = capture.components
    assert components is not None
    part = next((part for part in components.each if part.name == hop.component), None)
    if part is None:
        raise InputError(f"There is no head {hop.component}.", field="path")
    owed = components.owed(number)
    by_token = max((owed[index][:, head].abs() for index, head in part.places), key=lambda share: float(share.max()))
    return int(by_token.argmax())


def _stop(capture: Capture, hop: Hop, number: Tensor, table: Attribution, query: int) -> tuple[Stop, Scores]:
    """The stop of a hop from a number with this attribution to what was written at a token, and the score there."""
    gave = table.loc[(table["component"] == hop.component).to_numpy(), "contribution"].to_numpy()
    if not len(gave) or not gave[0]:
        raise InputError(f"Head {hop.component} wrote nothing that is read there.", field="path")
    by_token = contributions_by_key(capture, number, hop.layer, hop.head, hop.kind, query=query)
    key = int(np.argmax(by_token * np.sign(gave[0]))) if hop.key is None else hop.key
    return _scored(capture, hop, (query, key), float(gave[0]), by_token, is_weights=False)


def _begin(capture: Capture, hop: Hop) -> tuple[Stop, Scores]:
    """The stop at which a path begins with a score."""
    query, key = hop.query or 0, hop.key or 0
    check_index(query, capture.shape(hop.kind)[0], "query", field="path")
    check_index(key, capture.shape(hop.kind)[1], "key", field="path")
    weights = _row(capture, hop, query).weights[0].astype(np.float64)
    return _scored(capture, hop, (query, key), float(weights[key]), weights, is_weights=True)


def _row(capture: Capture, hop: Hop, query: int) -> AttentionTrace:
    """The head of a hop, with this query alone."""
    return capture.trace(hop.layer, hop.head, hop.kind, rows=range(query, query + 1))


def _scored(
    capture: Capture, hop: Hop, cell: tuple[int, int], gave: float, by_token: NDArray[np.float64], *, is_weights: bool
) -> tuple[Stop, Scores]:
    """A stop with the score of its (query, key), and that score."""
    of, others = attribution_at(capture, hop, *cell), _allowed(capture, hop, cell[0]) - 1
    return Stop(hop, *cell, gave, by_token, is_weights, of.score, others, of.by_key, of.by_query), of.asked


def attribution_at(capture: Capture, hop: Hop, query: int, key: int) -> ScoreAttribution:
    """Why the head of a hop looked from the query to the key: relative to the other keys, if there are any."""
    against = "others" if _allowed(capture, hop, query) > 1 else None
    return score_attribution(capture, hop.layer, hop.head, query, key, against, kind=hop.kind)


def _allowed(capture: Capture, hop: Hop, query: int) -> int:
    """To how many keys a query of the head of a hop may attend."""
    return int(_row(capture, hop, query).mask.sum())


def _to_strongest(table: Attribution, side: Side) -> Hop | None:
    """A hop to the head that is the main reason for the number; None if it gives less than `LEAST_SHARE` of it."""
    head = main_reason(table, "head")
    if head is None or abs(head.gave) < LEAST_SHARE * abs(table.number):
        return None
    return replace(_read_hop(head.component), side=side)
