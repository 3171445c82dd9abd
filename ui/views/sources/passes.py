"""A text or an image, and the pass of the chosen model over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture, InputError, Model
from core.capturing.weights_only import WeightsOnly
from core.models.catalogue import CATALOGUE
from core.models.inputs import TooLongError, target_ids, text_inputs
from ui import models, passes, shown, state
from ui.controls.fields import number_picker, text_area, text_line, tick
from ui.controls.precision import show_size
from ui.controls.target import choose_target
from ui.markdown import plain, quoted, show_error
from ui.progress import run
from ui.requests import GeneratedTarget, ModelChoice, TextRequest
from ui.views.sources.models import forget_places, model_picker, read_model
from ui.views.sources.weights_only import show_weights

SENTENCE = "The animal didn't cross the street because it was too tired."

OPENING_TEXTS = {"written-dates": "the 3rd of march 1987"}  # of models that were trained for texts of another kind

Read = TypeVar("Read")

WRITTEN = 120  # letters of what a model has written

NAMED = 3  # layers without attention that are named; the others are counted


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be read, and where its page says what.

    beside  where an error about a field of this name is shown
    places  what is left for the choice of layer and head
    """

    request: TextRequest
    model: Model
    beside: dict[str, DeltaGenerator]
    places: list[DeltaGenerator]


def choose_request(*, more: bool = False, writes: bool = False) -> Asked | None:
    """The model and what it is to read; None after saying what is wrong.

    more: also ask for the second text that some models read
    writes: while nobody has chosen, open with a model that writes
    """
    progress = st.empty()  # above the text, which on a phone fills most of the first screen
    words, which = st.columns(2)
    with words:
        text_place = st.container(horizontal=True)
        problem = st.container()
    with which, st.container(horizontal=True):
        model_place = st.container(width="stretch")
        places = [st.container(width=92), st.container(width=92)]
    with model_place:
        chosen, size_place = model_picker(writes=writes)
    model = read_model(chosen, progress, model_place)
    if model is not None:
        show_size(size_place, model)
    with text_place:
        if model is not None and model.reads_images:
            request = _image(chosen)
        else:
            text = _text_field(chosen.name)
            request = TextRequest(chosen, text)
            if more and model is not None and model.captures:
                request = _with_second_text(request, model, problem)
    _say_what_for(chosen.name, problem)
    if model is not None and model.tower_of is not None:
        whole, tower = model.tower_of, type(model.network).__name__
        problem.caption(plain(f"{whole} compares texts with images or sounds. Shown is what reads its texts: {tower}."))
    if model is None or request is None:
        return None
    return Asked(request, model, {"model": model_place, "text": problem, "image": problem}, places)


def choose_text(
    *,
    more: bool = False,
    max_tokens: int | None = models.MAX_TOKENS,
    measuring: bool = False,
    on_weights: Callable[[TextRequest, WeightsOnly, list], None] | None = None,
) -> tuple[TextRequest, Capture, list] | None:
    """The pass of the chosen model over the text, and the places left for the choice of layer and head.

    None after saying what is wrong, or after showing what there is of a model that exposes only its weights.

    more: also ask for the second text that some models read, and name the layers that cannot be shown
    max_tokens: a limit, where the page cannot show as many as the model can read
    measuring: whether the page goes on to measure every head, which belongs to what is announced
    on_weights: shows a model that exposes only its weights; None: one of its heads, which is chosen here
    """
    asked = choose_request(more=more)
    if asked is None:
        return None
    model, places = asked.model, asked.places
    if not model.captures and not model.reads_images:
        exposed = read_or_say(asked, _exposed)
        if exposed is not None:
            (on_weights or _show_exposed)(*exposed, places)
        return None
    passed = read_or_say(asked, lambda wanted: run_pass(wanted, model, max_tokens, measuring))
    if passed is not None:
        shown.now().asked.append(passed[0])
        if more:
            _name_missing(asked.request.model)
    return None if passed is None else (*passed, places)


def _say_what_for(model: str, place: DeltaGenerator) -> None:
    """What a model of the catalogue was trained for that answers any text as if it were of that kind."""
    for entry in CATALOGUE:
        if entry.name == model and entry.kind == "encoder-decoder":
            place.caption(plain(entry.description))


def _text_field(model: str) -> str:
    """The text; while nobody has touched it, what is told of a model in its own kind of text."""
    opening = OPENING_TEXTS.get(model, SENTENCE)
    if st.session_state.get(state.TEXT) in {SENTENCE, *OPENING_TEXTS.values()} - {opening}:
        st.session_state[state.TEXT] = opening
    return text_area("Text", state.TEXT, opening, height=68, on_change=forget_places)


def _name_missing(chosen: ModelChoice) -> None:
    missing = models.missing_layers(chosen)
    if missing:
        further = f", and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        count = "1 layer has" if len(missing) == 1 else f"{len(missing)} layers have"
        named = "; ".join(missing[:NAMED])
        st.caption(plain(f"{count} no softmax attention and cannot be shown: {named}{further}."))


def _image(chosen: ModelChoice) -> TextRequest | None:
    """The image that was last uploaded, on this page or another: an upload field forgets its file when one leaves."""
    types = ["png", "jpg", "jpeg", "webp"]
    file = st.file_uploader("Image", types, key=state.IMAGE, on_change=_keep_image)
    kept = st.session_state.get(state.SHOWN_IMAGE)
    still = "" if kept is None or file is not None else f"{plain(kept[0])} is still shown. "
    st.caption(f"{still}This model reads images. An uploaded image is not part of the page's address.")
    return None if kept is None else TextRequest(chosen, "", image=kept[1])


def _keep_image() -> None:
    file = st.session_state[state.IMAGE]
    st.session_state[state.SHOWN_IMAGE] = None if file is None else (file.name, file.getvalue())


def _with_second_text(request: TextRequest, model: Model, problem: DeltaGenerator) -> TextRequest | None:
    """With what the second field holds that the model has a use for: a text to pair with, or what its decoder has written.

    None after saying what is wrong with it.
    """
    if model.takes_pairs:
        pair = text_line("Second text (optional)", state.PAIR, width=170, on_change=forget_places)
        return replace(request, pair=pair or None)
    if not model.is_encoder_decoder:
        return request
    try:
        return replace(request, target=choose_target(model))
    except InputError as error:
        with problem:
            show_error(error)
        return None


def read_or_say(asked: Asked, read: Callable[[TextRequest], Read]) -> Read | None:
    """What reading the text gives. Says beside the field what is wrong, offers to cut a text that is too long."""
    # In the text's own place: a note that comes and goes would push everything below it aside.
    with asked.beside["text"]:
        try:
            try:
                return read(asked.request)
            except TooLongError as error:
                show_error(error)
                if not tick(f"Keep only the first {error.limit:,} tokens", state.TRUNCATE):
                    return None
                return read(replace(asked.request, keep=error.limit))
        except InputError as error:
            with asked.beside.get(error.field, asked.beside["text"]):
                show_error(error)
            return None


def run_pass(
    request: TextRequest, model: Model, max_tokens: int | None, measuring: bool
) -> tuple[TextRequest, Capture] | None:
    """The pass over this text, with its progress shown if it is not known yet; None while it is not wanted.

    Raises TooLongError for more than `max_tokens`, also where another page has read them already.
    """
    task, layers = passes.captured.task(request), model.attention_calls or 1
    if task.is_known or request.image is not None:  # an image has few patches, always as many: nothing to announce
        capture = run(task, "Reading the image", layers)
    elif not _is_written(request, model, max_tokens):
        return None
    else:
        tokens, written = _count(request, model, max_tokens)
        announce = partial(models.announced, request.model, tokens, target_tokens=written, measuring=measuring)
        needs = models.needed_bytes(request.model, tokens, written)
        capture = run(task, f"Reading {tokens:,} tokens", layers, announce=announce, needs=needs)
    if capture is None:
        return None
    _say_written(request, model)
    for ids, field in ((capture.input_ids, "text"), (capture.target_ids, "target")):
        if max_tokens is not None and len(ids) > max_tokens:
            raise TooLongError(len(ids), max_tokens, field)
    return request, capture


def _is_written(request: TextRequest, model: Model, max_tokens: int | None) -> bool:
    """Have the model write a target that it is to generate; False while that is not wanted."""
    task = passes.generated.task(passes.unedited(request))
    if not isinstance(request.target, GeneratedTarget) or task.is_known:
        return True
    tokens, _ = _count(replace(request, target=None), model, max_tokens)
    most = request.target.max_tokens
    needs = models.needed_bytes(request.model, tokens, most)
    return run(task, "Writing", most, unit="token", needs=needs) is not None


def _say_written(request: TextRequest, model: Model) -> None:
    """What a decoder has written by itself."""
    if isinstance(request.target, GeneratedTarget):
        written = passes.generated(passes.unedited(request))
        text = model.text_of(written.ids)
        shown_of_it = quoted(text if len(text) <= WRITTEN else f"{text[:WRITTEN]}…") if written.ids else "nothing"
        ended = "" if written.has_ended else f" It was not gone on with after {len(written.ids)} tokens."
        st.caption(f"The model writes {shown_of_it}.{ended} In the row of each token it chooses the next one.")


def _exposed(request: TextRequest) -> tuple[TextRequest, WeightsOnly]:
    with st.spinner("Reading the text"):
        return request, passes.weights_only(request)


def _show_exposed(_: TextRequest, weights: WeightsOnly, places: list) -> None:
    with places[0]:
        layer = number_picker("Layer", state.LAYER, weights.layers(), 0)
    with places[1]:
        head = number_picker("Head", state.HEAD, weights.heads(), 0)
    show_weights(weights, layer, head)


def _count(request: TextRequest, model: Model, max_tokens: int | None) -> tuple[int, int]:
    """How many tokens the model will read, and how many its decoder has written. Raises TooLongError if they are too many."""
    limit, cut = models.longest_text(request.keep or max_tokens), request.keep is not None
    target = request.target if isinstance(request.target, str) else None
    models.check_characters(request.text, request.pair, target)
    inputs = text_inputs(model, request.text, pair=request.pair, max_tokens=limit, truncate=cut)
    written = len(target_ids(model, passes.target_of(request), limit, cut)) if model.is_encoder_decoder else 1
    return inputs["input_ids"].shape[1], written
