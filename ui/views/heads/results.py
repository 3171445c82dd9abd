"""Results of the page Heads, each computed once for all sessions: metrics, probe, pattern matches, pictures, views."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core import direct_contributions
from core.attention.masks import Predicate
from core.attention.pooling import Pooled
from core.attention.rowwise import Overview, RowwiseMatrix
from core.figures.labels import visible
from core.heads.metrics import head_metrics, in_words, nameable_keys
from core.heads.one_query import pair_weights
from core.heads.patterns import match_heads
from core.heads.probing import longest, probe_heads
from core.heads.quantities import Pass
from core.heads.thumbnails import thumbnails
from ui import passes
from ui.cache import OnProgress, Store, cached
from ui.calls import call
from ui.models import load
from ui.requests import KindRequest, ModelChoice

PROBE_LENGTH, PROBE_SEEDS = 50, (0, 1, 2, 3)


@cached(Store(16))
def metrics(request: KindRequest, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    """The metrics of every head, a row a head."""
    return call(head_metrics, passes.captured_or_weights(request.text), request.kind, on_progress=on_progress)


@cached(Store(16))
def descriptions(
    of: KindRequest, _is_probed: bool, *, capture: Pass, measured: pd.DataFrame, probed: pd.DataFrame | None
) -> tuple[str, ...]:
    """What each head looks like, in words, from the metrics of every head and, where it is known, the probe."""
    keys = [None if key is None else visible(key) for key in nameable_keys(capture, of.kind)]
    probes = [None] * len(measured) if probed is None else probed.to_dict("records")
    return tuple(in_words(row, probe, keys) for row, probe in zip(measured.to_dict("records"), probes, strict=True))


def probe_length(choice: ModelChoice) -> int:
    """How many random tokens the probe reads twice: 50, or what a model with a short memory can read."""
    return min(PROBE_LENGTH, longest(load(choice)))


@cached(Store(4))
def probe(choice: ModelChoice, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    """The metrics of every head on random tokens read twice, a row a head."""
    return call(probe_heads, load(choice), probe_length(choice), PROBE_SEEDS, on_progress=on_progress)


@cached(Store(4))
def small_pictures(request: KindRequest, *, on_progress: OnProgress | None = None) -> Pooled:
    """The weights of every head, small enough to draw all of them."""
    return call(thumbnails, passes.captured_or_weights(request.text), request.kind, on_progress=on_progress)


@cached(Store(16))
def of_pair(request: KindRequest, query: int, key: int) -> NDArray[np.floating]:
    """[layers, heads] the weight that a query gives to a key, NaN where the pair is masked."""
    return call(pair_weights, passes.captured_or_weights(request.text), query, key, request.kind)


@cached(Store(16))
def matches(
    of: KindRequest, _pattern: str, _details: str, *, predicate: Predicate, on_progress: OnProgress | None = None
) -> NDArray[np.floating]:
    """[layers, heads] how well every head matches a pattern: `predicate`, which the pattern's name and details describe."""
    return call(match_heads, passes.captured(of.text), predicate, of.kind, on_progress=on_progress)


@cached(Store(16))  # one to three pictures each: at most 2 MB
def overview(
    _of: Hashable, _view: Hashable, *, matrix: RowwiseMatrix, on_progress: OnProgress | None = None
) -> Overview:
    """The whole of `matrix`, small enough to draw: a view of the heads of a pass, or a head beside another one."""
    return matrix.overview(on_progress=on_progress)


@cached(Store(16))
def contributions(of: KindRequest, token: int | None = None, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    """What each head itself writes into the answer, a row a head: see `core.direct_contributions`."""
    return call(direct_contributions, passes.with_components(of.text, on_progress=on_progress), token, of.kind)
