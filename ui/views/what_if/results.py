"""Results of the page What if, each computed once for all sessions: comparisons, effects, patching, and worked examples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

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
from ui.requests import EffectRequest, HeadRequest, KindRequest, ModelChoice, PatchRequest, TextRequest
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
def effects(request: EffectRequest) -> Growing:
    """The effect of each head [layers, heads], each layer [layers], or each token [keys]: see `core.heads.effects.Effects`.

    Of heads, the suspects come first. Raises InputError if the memory is too small.
    """
    of, pass_ = request.of, captured(request.of.text)
    layers, inputs = pass_.layers(of.kind), inputs_of(of.text)
    method = {"heads": "suspects_first", "layers": "layers_in_pieces", "tokens": "keys_in_pieces"}[request.taken_away]

    def pieces() -> Iterator[Piece]:
        return getattr(Effects(pass_.model, inputs, request.token, of.kind), method)()

    shapes = {"heads": (layers, pass_.heads(of.kind)), "layers": (layers,), "tokens": pass_.shape(of.kind)[1:]}
    cost = {} if request.taken_away == "tokens" else {"cost": lambda layer: layers - layer}  # layers computed again
    MEMORY.check(2 * pass_.nbytes)
    first = SUSPECTS if request.taken_away == "heads" else 0  # each may be in a batch of its own
    growing = Growing(shapes[request.taken_away], pieces, nbytes=2 * pass_.nbytes, first=first, **cost)
    if request.taken_away == "heads" and of.text.keep is None:
        target = target_of(of.text) or None
        read = {"token": request.token, "pair": of.text.pair, "target": target, "kind": of.kind}
        return made_by(growing, head_effects, pass_.model, of.text.text, **read)
    each = {"heads": "of_heads", "layers": "of_layers", "tokens": "of_keys"}[request.taken_away]
    return made_by(growing, dict, expression(Effects, pass_.model, inputs, request.token, of.kind).method(each))


@cached(MEMORY)
def patching(of: KindRequest, source: str) -> Patching:
    """The passes over both texts. Raises InputError if they cannot be compared."""
    text = of.text
    check_characters(source)
    return Patching(load(text.model), text.text, source, target=target_of(text), kind=of.kind, **limits_of(text))


@cached(MEMORY)
def patch_effects(request: PatchRequest) -> Growing:
    """[layers that can act, heads] how far each head moves the answer: see `core.heads.effects.Patching`."""
    both = patching(request.of, request.source)
    layers = both.layers if request.through is None else request.through[0]
    pieces = partial(both.heads_in_pieces, request.through)
    growing = Growing((layers, max(both.heads)), pieces, nbytes=both.nbytes, cost=lambda layer: both.layers - layer)
    text = request.of.text
    if text.keep is not None:
        return growing
    more = {"target": target_of(text), "kind": request.of.kind, "through": request.through}
    return made_by(growing, measure_patching, load(text.model), text.text, request.source, **more)


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
