"""Results of the page What if, each computed once for all sessions: comparisons, effects, patching, and worked examples."""

from collections.abc import Iterator
from functools import partial
from typing import Literal

import pandas as pd

from core import Capture
from core.attention.trace import Array
from core.capturing.answers import NextToken, next_token
from core.capturing.generation.generating import Generating
from core.heads import examples, likeness
from core.heads.effects import SUSPECTS, Effects, Patching, Piece, head_effects
from core.heads.effects import patch_effects as measure_patching
from core.heads.examples import INDUCTION_STEPS, LANGUAGE_MODEL, SENTENCE_MODEL, needs_previous
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import call, expression, made_by
from ui.progress import Growing
from ui.requests import HeadRequest, KindRequest, ModelChoice, TextRequest
from ui.views.sources.models import check_characters, load, longest_text
from ui.views.sources.passes import PROBE_SEEDS, all_inputs_of, captured, inputs_of, limits_of, probe, target_of

# --- two heads, or two passes


@cached(Store(8))
def moved(_before: TextRequest, _after: TextRequest, *, before: Capture, after: Capture) -> NextToken:
    """The prediction of the next token in two passes."""
    return next_token(before, after)


@cached(Store(16))
def heads_like(
    of: HeadRequest, texts: tuple[TextRequest, ...], *, on_progress: OnProgress | None = None
) -> pd.DataFrame:
    """All other heads of the model over some texts, most alike first."""
    read = [captured(text) for text in texts]
    return likeness.heads_like(read, of.layer, of.head, of.kind, on_progress=on_progress)


@cached(Store(16))
def random_pairs(request: KindRequest, *, on_progress: OnProgress | None = None) -> likeness.RandomPairs:
    """How far apart random pairs of heads are. Raises InputError for a model with a single head."""
    return likeness.random_pairs_divergence(captured(request.text), request.kind, on_progress=on_progress)


@cached(Store(16))
def head_changes(before: KindRequest, after: KindRequest, *, on_progress: OnProgress | None = None) -> Array:
    """[layers, heads] how much the weights of every head differ between two passes."""
    return likeness.head_changes(captured(before.text), captured(after.text), before.kind, on_progress=on_progress)


NEW_TOKENS = 20


@cached(Store(32))
def continuation(request: TextRequest, *, on_progress: OnProgress | None = None) -> tuple[int, ...]:
    """The tokens that a model writes after a text, with the request's edits."""
    inputs, tiles = all_inputs_of(request)
    model, longest = load(request.model), longest_text()
    generating = Generating(model, inputs, edits=request.edits, max_tokens=longest, tiles=tiles)
    return generating.write(NEW_TOKENS, on_progress).token_ids


# --- what happens if something is taken away, or put in from another text


@cached(Store(32))
def suspect(of: KindRequest) -> tuple[int, int] | None:
    """The (layer, head) that should matter most for the answer, by its gradient; None for a network without one."""
    pass_ = captured(of.text)
    return next(iter(Effects(pass_.model, inputs_of(of.text), kind=of.kind).suspects(1)), None)


@cached(MEMORY)
def effects(of: KindRequest, taken_away: Literal["heads", "layers", "tokens"], token: int | None) -> Growing:
    """The effect of each head [layers, heads], each layer [layers], or each token [keys]: see `core.heads.effects.Effects`.

    token  the number of the next token that is the answer; None: the sentence vector

    Of heads, the suspects come first. Raises InputError if the memory is too small.
    """
    pass_, inputs = captured(of.text), inputs_of(of.text)
    layers = pass_.layers(of.kind)
    method = {"heads": "suspects_first", "layers": "layers_in_pieces", "tokens": "keys_in_pieces"}[taken_away]

    def pieces() -> Iterator[Piece]:
        return getattr(Effects(pass_.model, inputs, token, of.kind), method)()

    shapes = {"heads": (layers, pass_.heads(of.kind)), "layers": (layers,), "tokens": pass_.shape(of.kind)[1:]}
    cost = {} if taken_away == "tokens" else {"cost": lambda layer: layers - layer}  # layers computed again
    MEMORY.check(2 * pass_.nbytes)
    first = SUSPECTS if taken_away == "heads" else 0  # each may be in a batch of its own
    growing = Growing(shapes[taken_away], pieces, nbytes=2 * pass_.nbytes, first=first, **cost)
    if taken_away == "heads" and of.text.keep is None:
        read = {"token": token, "pair": of.text.pair, "target": target_of(of.text) or None, "kind": of.kind}
        return made_by(growing, head_effects, pass_.model, of.text.text, **read)
    each = {"heads": "of_heads", "layers": "of_layers", "tokens": "of_keys"}[taken_away]
    return made_by(growing, dict, expression(Effects, pass_.model, inputs, token, of.kind).method(each))


@cached(MEMORY)
def patching(of: KindRequest, source: str) -> Patching:
    """The passes over both texts. Raises InputError if they cannot be compared."""
    text = of.text
    check_characters(source)
    return Patching(load(text.model), text.text, source, target=target_of(text), kind=of.kind, **limits_of(text))


@cached(MEMORY)
def patch_effects(of: KindRequest, source: str, through: tuple[int, int] | None) -> Growing:
    """[layers that can act, heads] how far each head moves the answer: see `core.heads.effects.Patching`.

    through  (layer, head) of the only later head through which they may act; None: all
    """
    both = patching(of, source)
    layers = both.layers if through is None else through[0]
    pieces = partial(both.heads_in_pieces, through)
    growing = Growing((layers, max(both.heads)), pieces, nbytes=both.nbytes, cost=lambda layer: both.layers - layer)
    text = of.text
    if text.keep is not None:
        return growing
    more = {"target": target_of(text), "kind": of.kind, "through": through}
    return made_by(growing, measure_patching, load(text.model), text.text, source, **more)


# --- worked examples, each a few hundred numbers at most

INDUCTION_PASSES = 2 * len(PROBE_SEEDS) + INDUCTION_STEPS  # the probe's, which choose the heads, and then the example's


@cached(Store(1))
def paris(*, on_progress: OnProgress | None = None) -> tuple[examples.NextWord, ...]:
    return call(examples.knows_paris, load(LANGUAGE_MODEL), on_progress=on_progress)


@cached(Store(1))
def induction(*, on_progress: OnProgress | None = None) -> examples.Induction:
    def further(done: int) -> None:
        if on_progress is not None:
            on_progress(INDUCTION_PASSES - INDUCTION_STEPS + done)

    probed = probe(ModelChoice(LANGUAGE_MODEL), on_progress=on_progress)
    return call(needs_previous, load(LANGUAGE_MODEL), probed, on_progress=further)


@cached(Store(1))
def pronoun(*, on_progress: OnProgress | None = None) -> examples.Pronoun:
    return call(examples.patch_pronoun, load(SENTENCE_MODEL), on_progress=on_progress)
