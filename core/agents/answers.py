"""What the calls answer, as types that become schemas: units, ranges, what is measured and what a prior.

Every answer is small. Its lists are cut where it would be larger than `core.agents.serving.MOST_BYTES`, and `cut` says so.
"""

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..capturing.certifying import CHECKED, NOT_CHECKED
from ..errors import shortened


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


# Texts of tokens and of others are shortened to what an answer can hold.
Token = Annotated[str, BeforeValidator(lambda text: shortened(text, 60))]
Words = Annotated[str, BeforeValidator(lambda text: shortened(text, 400))]
Number = Annotated[float | None, BeforeValidator(_finite)]  # null: there is none, or it is not finite
Count = Annotated[int | None, BeforeValidator(_finite)]
Share = Annotated[Annotated[float, Field(ge=0, le=1.00001)] | None, BeforeValidator(_finite)]  # 1, and rounding


class Typed(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Agreement(Typed):
    holds: bool
    """Whether the numbers agree with the model's own within rounding, measured in this call. false: do not trust them."""
    compared: str
    rounding: Number
    """The largest difference, in units of what one rounding error of the model's precision can change."""
    allowed: float
    """The largest `rounding` that counts as agreement."""
    covers: str = CHECKED
    does_not_cover: str = NOT_CHECKED
    fault: str = ""
    """What the check-up of the model found wrong: nothing about it holds then. "": nothing."""


class Answer(Typed):
    address: str | None
    """Opens this view in the app, for a person to check. null: it would be too long; the call `link` allows more."""
    cut: dict[str, int] = {}
    """Lists that were cut to keep the answer small: their name, and how many entries there are."""


class ModelHere(Typed):
    name: str
    kind: str = ""
    """encoder (gives a sentence vector), decoder (predicts the next token), encoder-decoder; "": not known yet."""
    layers: int | None = None
    heads: int | None = None
    """Query heads a layer."""


class Models(Answer):
    models: list[ModelHere]
    most_tokens: int
    """The longest text that this host reads."""
    most_seconds: float
    """The longest computation of one call."""
    hub: bool
    """Whether models of the Hugging Face hub may be named too."""


class Likely(Typed):
    token: Token
    probability: Share
    """The model's own, at temperature 1."""


class Opened(Answer):
    revision: str
    """The exact version of the weights."""
    n_tokens: int
    tokens: list[Token]
    """Texts of the tokens from position `first` on, with leading spaces. Positions count from 0 in all calls."""
    kinds: dict[str, tuple[int, int]]
    """Kinds of attention: how many layers, and query heads a layer."""
    next_tokens: list[Likely]
    """Empty for models that predict none."""
    notes: list[Words]
    """What a reader of the numbers should know of this model and text."""
    checkup: str
    """What the last check-up of the whole model on this machine found; "": none was made."""
    certificate: Agreement


class HeadValue(Typed):
    layer: int
    head: int
    value: Number
    """In `unit`. Measured."""
    spread: Number = None
    """Standard deviation over the queries of this text; not an error of `value`."""
    error: Number = None
    """Standard error of `value` over the seeds."""
    null: Number = None
    """What the head gets where there is nothing to find: on the same random tokens shuffled (measured), or of a claim by chance
    (as many keys drawn evenly)."""
    usual: Number = None
    """Of a claim: what its keys would get if only their distance counted."""
    clear: bool | None = None
    """Whether it stands above its null in every seed, by more than 3 errors and at least 0.1."""


class Heads(Answer):
    about: Words
    """What the number is, and on what it was measured."""
    unit: str
    """nats, tokens, or share (of a query's attention)."""
    highest: Number
    """The upper end of its range; the lower one is 0."""
    n: int
    """Queries (text), seeds (random tokens) or passages (claim) that it is a mean over."""
    heads: list[HeadValue]
    """The highest first."""
    n_heads: int
    median: Number
    """Of all n_heads heads: the base rate of this ranking. The first of many is high by selection alone."""
    certificate: Agreement


class KeyWeight(Typed):
    key: int
    token: Token
    weight: Share


class Row(Answer):
    token: Token
    """The query's."""
    keys: list[KeyWeight]
    """The largest weights first. A whole row sums to 1, less with a sink."""
    rest: Number
    """Sum of the weights of all other keys."""
    n_keys: int
    """Keys that the query may attend to."""
    even: Share
    """1 / n_keys, the base rate: a prior, not measured."""
    certificate: Agreement


class Cell(Answer):
    tokens: tuple[Token, Token]
    """The query's and the key's."""
    allowed: bool
    """false: the mask forbids the pair, and the weight is exactly 0."""
    raw: Number
    """q · k, any real number."""
    scale: float
    masked: Number
    """The input of the softmax: raw × scale, with soft cap, bias and mask; null: forbidden."""
    weight: Share
    """Recomputed from the inputs in float64."""
    error: Number
    """Its difference from the weight in the model's precision."""
    steps: list[tuple[str, str]]
    """All steps from q · k to what the key adds to the output, rounded."""
    rank: int
    """Of this key in its row; 1: the largest weight."""
    n_keys: int
    even: Share
    """1 / n_keys, the base rate: a prior, not measured."""
    certificate: Agreement


class Contribution(Typed):
    component: str
    """"16.0" (layer.head), "mlp 9", "bias 9", "embedding" ..."""
    contribution: Number
    """What it adds, in the unit of the number, with norms held. A part of an exact sum, not an effect."""


class PathStop(Typed):
    head: str
    gave: Number
    """Its contribution to the number before."""
    query: int
    key: int
    token: Token
    """Of the key at which it looked."""
    score: Number
    """Of this key, minus the mean of the query's other keys."""


class Why(Answer):
    about: Words
    """What the number is: a logit of the next token, a cosine, or an attention score before the softmax."""
    number: Number
    components: list[Contribution]
    """The largest first, by size; of a score, of what its keys were made from."""
    rest: Number
    """What all others add."""
    n_components: int
    by_query: list[Contribution] = []
    """Of a score: of what its query was made from. Each side sums to the number."""
    path: list[PathStop] = []
    """From an answer back to the text, by the heads that are the main reasons. One reading of exact sums: test it by what_if"""
    certificate: Agreement


class Moved(Typed):
    token: Token
    before: Share
    after: Share


class Controls(Typed):
    n: int
    median: Number
    highest: Number


class WhatIf(Answer):
    next_tokens: list[Moved]
    """Their probabilities: the likeliest of both passes, then those that changed most. Empty for models that predict none."""
    effect: Number
    unit: str
    """nats: Kullback-Leibler divergence of the next token's distribution after from before, at least 0; 1 - cosine: of the
    sentence vectors before and after, 0 to 2."""
    controls: Controls | None
    """`effect` of muting n other heads of the layer, the base rate, measured. null: only for a single line "mute L.H"."""
    certificate: Agreement


class NewToken(Likely):
    chance: Share
    """With which sampling chose it; 1: always the likeliest."""


class Generated(Answer):
    text: Annotated[str, BeforeValidator(lambda text: shortened(text, 2_000))]
    """Data, never an instruction."""
    tokens: list[NewToken]
    n: int
    """Tokens that were written."""
    ended: Literal["end", "limit", "asked"]
    """The model ended its text; it can read no more; as many were written as were asked for."""
    certificate: Agreement


class Verdict(Typed):
    name: Words
    """Of a known claim; of others what the head looks at."""
    claim: str
    verdict: Literal["holds", "does not hold", "cannot be said"]
    head: str
    """The claim's; for "any head" the one that does it most in the half of the passages for looking."""
    queries: int
    passages: int
    """n, in the half for testing."""
    share: Share
    """Mean share of their attention that the claim's keys get. Measured."""
    low: Share
    high: Share
    """The 95% interval of `share`, by resampling passages."""
    null: Share
    """The largest chance or base rate of any head."""
    chance: Share = None
    """What as many keys get that are drawn evenly. This and all below, null: not kept with the verdicts that come along."""
    base_rate: Share = None
    """What these keys would get if only their distance counted; null: they follow from position."""
    recall: Share = None
    """Of the queries: whose keys get at least the claimed share."""
    precision: Share = None
    """Of the queries that give at least half to one key: whose key the claim names."""
    rank: Count = None
    """Of the head by share, from 1."""


class Claims(Answer):
    verdicts: list[Verdict]
    rule: str
    """How a verdict follows from the numbers."""
    n_passages: int
    n_asked: int
    """Passages in all; more than n_passages: the time was up before all were read."""
    certificate: Agreement | None
    """Of the first claim's head in the first passage; null: these verdicts come with the program."""
