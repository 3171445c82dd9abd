"""Results of the page Why, each computed once for all sessions."""

import pandas as pd
from torch import Tensor

from core import Capture, Lens, cosine_attribution, logit_attribution, logit_lens
from core.heads.attribution import Attribution, cosine, logit
from core.heads.paths import Hop, Path, attribution_at, follow, read_hops
from ui.cache import OnProgress, Store, cached
from ui.calls import call
from ui.requests import AnswerRequest, TextRequest
from ui.views.sources.passes import captured, with_components


@cached(Store(16))
def answer(of: AnswerRequest) -> Attribution:
    capture = with_components(of.text)
    if of.token is None:
        return call(cosine_attribution, capture, _like(of))
    return call(logit_attribution, capture, of.token, of.than)


@cached(Store(16))
def path(of: AnswerRequest, words: str) -> Path:
    """The path from the answer to the text, or from the score with which it begins. Raises InputError (field "path").

    words  of its hops, as `core.heads.paths.read_hops` reads them; "": the opening ones. A path from a score has no answer
    """
    capture, hops = with_components(of.text), read_hops(words) if words.strip() else None
    if hops is not None and hops[0].side == "score":
        return follow(capture, hops)
    return follow(capture, hops, answer(of), _number(of, capture))


@cached(Store(16))
def pairs(of: TextRequest, hop: Hop, query: int, key: int) -> pd.DataFrame:
    """The score of a stop by pairs of components, one of the query and one of the keys."""
    return attribution_at(with_components(of), hop, query, key).table


@cached(Store(16))
def number_after(of: AnswerRequest, edited: TextRequest) -> float:
    """The number of the answer in an edited pass over the same text."""
    return float(_number(of, with_components(edited)).detach())


def _number(of: AnswerRequest, capture: Capture) -> Tensor:
    return cosine(capture, _like(of)) if of.token is None else logit(capture, of.token, of.than)


def _like(of: AnswerRequest) -> Capture:
    """The pass over the text with which the sentence is compared."""
    return captured(TextRequest(of.text.model, of.like, keep=of.text.keep))


@cached(Store(8))
def lens(_of: TextRequest, token: int, *, capture: Capture, on_progress: OnProgress | None = None) -> Lens:
    """The best next token after each layer, and the probability of this one."""
    return call(logit_lens, capture, 1, token, on_progress=on_progress)
