"""The clearest examples of a claim, and the clearest counter-examples, as queries with their weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..capturing.capture import Capture, capture
from ..models.model import Model
from ..models.passages import Passage, text_hash
from ..models.tokens import token_texts
from ..progress import OnProgress, step_counter
from .claim import Claim
from .facts import Facts
from .shares import TESTING, half_and_group
from .writing import looked_at

MOST, MOST_PASSAGES = 10, 40
DRAWN = 8  # queries of each passage, of which the clearest is shown


@dataclass(frozen=True, eq=False)
class ClaimExample:
    """A query that a claim speaks of.

    share    of its attention on the claim's keys, in [0, 1]; 1 or 0 where the claim says what the head writes
    query    its position among the tokens
    weights  [tokens] all its weights
    keys     [tokens] bool: the keys that the claim names
    """

    share: float
    query: int
    tokens: tuple[str, ...]
    weights: NDArray[np.floating]
    keys: NDArray[np.bool_]


def claim_examples(
    model: Model,
    claim: Claim,
    place: tuple[int, int],
    passages: Sequence[Passage],
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> tuple[list[ClaimExample], list[ClaimExample]]:
    """The queries with the largest and with the smallest share, MOST of each at most, and one of each passage at most.

    They are among DRAWN queries of each passage that are drawn at random: of a claim about positions the clearest is the first
    of every passage, which says little.

    place        (layer, head)
    passages     the first MOST_PASSAGES of the half for testing are read
    seed         of the draw, which does not depend on the order of the passages
    on_progress  called after each passage
    """
    found: list[tuple[ClaimExample, ClaimExample]] = []
    step = step_counter(on_progress)
    for passage in for_testing(passages, MOST_PASSAGES):
        taken, _, keys, shares = spoken(model, claim, place, passage)
        if keys.any():
            weights, tokens = taken.trace(*place).weights, token_texts(model.tokenizer, taken.input_ids)
            rng = np.random.default_rng([seed, text_hash(passage.text)])
            drawn = rng.permutation(np.flatnonzero(keys.any(axis=1)))[:DRAWN]
            most, least = (
                ClaimExample(float(shares[one]), int(one), tokens, weights[one], keys[one])
                for one in (drawn[shares[drawn].argmax()], drawn[shares[drawn].argmin()])
            )
            found.append((most, least))
        step()
    clearest = sorted((most for most, _ in found), key=lambda example: -example.share)
    return clearest[:MOST], sorted((least for _, least in found), key=lambda example: example.share)[:MOST]


def for_testing(passages: Sequence[Passage], most: int) -> list[Passage]:
    """The first passages of the half for testing."""
    return [passage for passage in passages if half_and_group(passage.text)[0] == TESTING][:most]


def spoken(
    model: Model, claim: Claim, place: tuple[int, int], passage: Passage
) -> tuple[Capture, Facts, NDArray[np.bool_], NDArray[np.floating]]:
    """A pass over a passage, its facts, the keys of each query that a claim speaks of: [queries, keys], and its share:
    [queries]. Where it says what the head writes, the key is the one that the query looks at."""
    taken = capture(model, passage.text)
    facts = Facts.of(model.tokenizer, taken.input_ids, passage)
    if claim.is_about_writing:
        keys, written = looked_at(taken, facts, place, taken.kinds[0])
        return taken, facts, keys & claim.speaks(facts)[:, None], written.astype(np.float64)
    trace = taken.trace(*place)
    keys = claim.wanted(facts) & (True if trace.mask is None else trace.mask)
    return taken, facts, keys, (trace.weights * keys).sum(axis=1)
