"""Passes of a model over a text, and the heads of a pass: each computed once for all sessions, as a request asks for it."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from core import Capture, capture, direct_contributions
from core.attention.head import Head
from core.attention.rowwise import Overview, RowwiseMatrix
from core.capturing.certifying import Certificate
from core.capturing.costs import image_bytes
from core.capturing.edits.edits import Edits
from core.capturing.generation.generating import Generating
from core.capturing.weights_only import WeightsOnly, attention_weights
from core.errors import InputError
from core.exporting.exhibit import KeptHead
from core.heads.probing import longest, probe_heads
from core.heads.quantities import Pass
from core.models.images import Tiles, read_image
from core.models.inputs import all_inputs, image_text_inputs
from core.models.model import require_model
from core.units import bytes_in_words
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import call
from ui.requests import GeneratedTarget, HeadRequest, KindRequest, ModelChoice, TextRequest
from ui.views.sources.models import check_characters, load, longest_text, opened

# --- the pass


def limits_of(request: TextRequest) -> dict[str, Any]:
    """The limits of a text as arguments of `capture`. Raises InputError for a text that is too long for this host."""
    edits = request.edits or Edits()
    target = request.target if isinstance(request.target, str) else None
    check_characters(request.text, request.pair, target, *edits.texts.values())
    for other in edits.texts.values():  # edits read it as well
        all_inputs(load(request.model), other, max_tokens=longest_text())
    return {"max_tokens": longest_text(request.keep), "truncate": request.keep is not None}


def inputs_of(request: TextRequest) -> dict:
    """The tensors that the model reads."""
    if request.image is not None:
        raise InputError("This is computed from texts alone. Take the image out.", field="image")
    model, target = load(request.model), target_of(request)
    return call(all_inputs, model, request.text, pair=request.pair, target=target, **limits_of(request))


def all_inputs_of(request: TextRequest) -> tuple[dict, Tiles | None]:
    """The tensors that the model reads of a text, also with an image, and the areas of the image."""
    if request.image is None:
        return inputs_of(request), None
    network = load(request.model)
    return image_text_inputs(network, image=read_image(request.image), **_text_beside(request))


@cached(Store(64))
def token_count(choice: ModelChoice, text: str, pair: str | None, most: int) -> int:
    """How many tokens of a text a model reads if it reads at most so many."""
    inputs = all_inputs(load(choice), text, pair=pair, max_tokens=most, truncate=True)
    return inputs["input_ids"].shape[1]


@cached(Store(16, waits=True))
def size_with_image(request: TextRequest) -> tuple[int, int]:
    """Tokens of the image and the text together, and the bytes that reading them takes with the result, before they are read.

    Raises InputError if the memory is too small.
    """
    network = load(request.model)
    inputs, _ = all_inputs_of(request)
    tokens, needs = inputs["input_ids"].shape[1], sum(image_bytes(network, inputs))
    if needs > MEMORY.most:
        words = f"The image and the text have {tokens:,} tokens together, and reading them needs about "
        words += f"{bytes_in_words(needs)}; this host allows {bytes_in_words(MEMORY.most)}. Give a smaller image."
        raise InputError(words, field="image")
    return tokens, needs


@cached(MEMORY)
def captured(
    request: TextRequest, *, near: TextRequest | None = None, on_progress: OnProgress | None = None
) -> Capture:
    """The pass.

    near  another request, which may differ in a few edits only: where its pass is known, this one continues from it
    """
    return _recorded(request) if request.model.is_recorded else _read(request, on_progress, near=near)


@cached(MEMORY)
def with_components(request: TextRequest, *, on_progress: OnProgress | None = None) -> Capture:
    """The pass with what each component wrote into the residual stream."""
    require_model(load(request.model), "Attribution")
    return _read(request, on_progress, components=True)


def _read(
    request: TextRequest, on_progress: OnProgress | None, *, near: TextRequest | None = None, components: bool = False
) -> Capture:
    """Let the model read the text, the image or both."""
    network = load(request.model)
    options: dict[str, Any] = {"edits": request.edits, "components": components, "on_progress": on_progress}
    options |= limits_of(request) if request.image is None else _text_beside(request)
    if not components:
        options["known"] = _known(request, near)
    if request.image is not None:
        return call(capture, network, image=call(read_image, request.image), **options)
    return call(capture, network, request.text, pair=request.pair, target=target_of(request), **options)


def _recorded(request: TextRequest) -> Capture:
    """The pass of a file. Raises InputError where it is to be changed, and for a file of weights alone."""
    network, passed = load(request.model), opened(request.model)
    if request.edits is not None:
        require_model(network, "A what-if")
    if isinstance(passed, WeightsOnly):
        raise InputError(f"{network.name} holds only attention weights. Choose another model.", field="model")
    return passed


def _text_beside(request: TextRequest) -> dict[str, Any]:
    """The text that is read with an image, and its limit; nothing for a model that reads an image alone."""
    if load(request.model).reads_images:
        return {}
    check_characters(request.text)
    return {"text": request.text, "max_tokens": longest_text()}


def _known(request: TextRequest, near: TextRequest | None) -> list[Capture]:
    """Known passes with other edits, and the passes over the texts that the edits read, which are kept for further edits."""
    if request.edits is None:
        return []
    plain = unedited(request)
    read_too = [
        replace(plain, text=text, pair=None, target=target_of(request), keep=None)
        for text in request.edits.other_texts.values()
    ]
    known = [one for one in (plain, near) if one is not None and captured.is_known(one)]
    return [captured(one) for one in (*known, *read_too)]


@cached(MEMORY)
def weights_only(request: TextRequest) -> WeightsOnly:
    """The weights of a model that exposes nothing else, or those in a file."""
    if request.model.is_recorded:
        passed = opened(request.model)
        if isinstance(passed, WeightsOnly):
            return passed
    limits = {name: limit for name, limit in limits_of(request).items() if limit is not None}
    return call(attention_weights, load(request.model), request.text, **limits)


def captured_or_weights(request: TextRequest) -> Pass:
    """The pass, or the weights of a model that exposes nothing else."""
    return captured(request) if gives_passes(request) else weights_only(request)


def gives_passes(request: TextRequest) -> bool:
    """Whether the model exposes more than its weights."""
    network = load(request.model)
    return network.captures or network.reads_images


# --- the target that a decoder writes by itself


@dataclass(frozen=True)
class TargetTokens:
    """The tokens of a target that the decoder wrote by itself, without the one that ends it.

    has_ended  whether the model ended its text; otherwise it reached the limit
    """

    ids: tuple[int, ...]
    has_ended: bool


def unedited(request: TextRequest) -> TextRequest:
    """The request without its edits. An edited pass has the target that the model writes without edits."""
    return replace(request, edits=None)


@cached(Store(32))
def generated(request: TextRequest, *, on_progress: OnProgress | None = None) -> TargetTokens:
    """What the model writes by itself. on_progress: called after every token with how many there are"""
    of = request.target if isinstance(request.target, GeneratedTarget) else GeneratedTarget()
    limits = [limit - 1 for limit in (load(request.model).max_tokens, longest_text(request.keep)) if limit is not None]
    from_nothing = inputs_of(replace(request, target=None))
    generating = Generating(load(request.model), from_nothing, edits=request.edits)
    generation = generating.write(min([of.max_tokens, *limits]), on_progress)
    has_ended = generation.ended == "end"
    return TargetTokens(generation.token_ids[:-1] if has_ended else generation.token_ids, has_ended)


def target_of(request: TextRequest) -> str | tuple[int, ...] | None:
    """The target that the decoder is given. One that the model writes by itself is written now if it is not known yet."""
    if not isinstance(request.target, GeneratedTarget):
        return request.target
    ids = generated(unedited(request)).ids
    return ids if request.target.whole else ids[:-1]


# --- what several pages say of all heads

PROBE_LENGTH, PROBE_SEEDS = 50, (0, 1, 2, 3)


def probe_length(choice: ModelChoice) -> int:
    """How many random tokens the probe reads twice: 50, or what a model with a short memory can read."""
    return min(PROBE_LENGTH, longest(load(choice)))


@cached(Store(4))
def probe(choice: ModelChoice, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    """The metrics of every head on random tokens read twice, a row a head."""
    return call(probe_heads, load(choice), probe_length(choice), PROBE_SEEDS, on_progress=on_progress)


@cached(Store(16))  # one to three pictures each: at most 2 MB
def overview(
    _of: Hashable, _view: Hashable, *, matrix: RowwiseMatrix, on_progress: OnProgress | None = None
) -> Overview:
    """The whole of `matrix`, small enough to draw: a view of the heads of a pass, or a head beside another one."""
    return matrix.overview(on_progress=on_progress)


@cached(Store(16))
def contributions(of: KindRequest, token: int | None = None, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    """What each head itself writes into the answer, a row a head: see `core.direct_contributions`."""
    return call(direct_contributions, with_components(of.text, on_progress=on_progress), token, of.kind)


# --- one head of a pass

_OVERVIEWS = Store(16)  # all stages of a head, small enough to draw: at most 3 MB


def head(request: HeadRequest) -> Head:
    return call(captured(request.text).head, layer=request.layer, head=request.head, kind=request.kind)


@cached(_OVERVIEWS)
def head_overview(request: HeadRequest) -> tuple[Overview, Certificate]:
    """All stages of a head, and the certificate of exactly these numbers."""
    return captured(request.text).certified_overview(request.layer, request.head, request.kind)


@cached(_OVERVIEWS)
def kept_overview(kept: KeptHead) -> tuple[Overview, Certificate | None]:
    """All stages of a head from a file, and their certificate."""
    return kept.overview()


@cached(_OVERVIEWS)
def changed_overview(_request: HeadRequest, _change: Hashable, *, changed: Head) -> Overview:
    """All stages of a head with another scale or mask: `changed`, made from the head and the change."""
    return changed.overview()


@cached(Store(64, waits=True))
def certificate(request: HeadRequest) -> Certificate:
    """The certificate of a head as the page Heads shows it: computed some rows at a time, on texts of any length."""
    return captured(request.text).certificate(request.layer, request.head, request.kind)
