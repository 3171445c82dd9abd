"""Results of the page Heads, each computed once for all sessions: metrics, probe, pattern matches, pictures, views."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.attention.masks import Predicate
from core.attention.rowwise import Pooled
from core.heads.metrics import head_metrics, pair_weights
from core.heads.patterns import match_heads
from core.heads.views import thumbnails
from ui.cache import OnProgress, Store, cached
from ui.calls import call
from ui.requests import KindRequest
from ui.views.sources import passes


@cached(Store(16))
def metrics(request: KindRequest, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    return call(head_metrics, passes.captured_or_weights(request.text), request.kind, on_progress=on_progress)


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
