"""Reading what the fields of a page hold: the pass of the chosen model over it, and what is said beside the text."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture, InputError, Model
from core.models.added_tokens import without_added
from core.models.inputs import TooLongError, all_inputs, target_ids
from core.models.model import RecordedModel
from ui import links, state
from ui.cache import Cached
from ui.controls.fields import tick
from ui.markdown import plain, quoted, show_error
from ui.progress import in_turn, run
from ui.requests import GeneratedTarget, TextRequest
from ui.views.sources import models, passes

Result = TypeVar("Result")
WRITTEN = 120  # letters that are shown of what a model has written


@dataclass(frozen=True, eq=False)
class InputFields:
    """What the fields of a page say: which model reads what.

    beside_model, beside_text  the containers for errors about these fields
    head_place                 the container for the choice of a head
    """

    request: TextRequest
    model: Model
    beside_model: DeltaGenerator
    beside_text: DeltaGenerator
    head_place: DeltaGenerator


def read_or_say(
    fields: InputFields, read: Callable[[TextRequest], Result], notes_of: Callable[[Result], Sequence[str]]
) -> Result | None:
    """Read the text, and say beside its field what is to be known of it. If that fails, say so there, and return None. Offer to
    cut a text that is too long.

    notes_of  the notes of a pass in what was read
    """
    with fields.beside_text:  # a note that comes and goes would push everything below it aside
        try:
            trained = _exceeded(fields)
            # A note explains the box that is ticked, so it stands above it.
            above = nullcontext() if trained is None else st.container(gap=None)
            if (result := _read_or_cut(fields, read, trained)) is not None:
                texts = {state.TEXT: fields.request.text, state.PAIR: fields.request.pair or ""}
                with above:
                    show_notes(fields.model, notes_of(result), texts)
            return result
        except InputError as error:
            with fields.beside_model if error.field in ("model", "dtype") else fields.beside_text:
                show_error(error)
            return None


def _read_or_cut(fields: InputFields, read: Callable[[TextRequest], Result], trained: int | None) -> Result | None:
    """Read the text, or its first tokens if it is too long and that is wished. None after saying that it is too long.

    trained  how many tokens the model was made for, if the text has more
    """
    request = fields.request
    if trained is not None and tick(_keep_first(trained), state.TRUNCATE):
        return read(replace(request, keep=trained))
    try:
        return read(request)
    except TooLongError as error:
        show_error(error)
        is_fixed = trained is not None or request.model.is_recorded  # nothing of a pass can be cut
        if is_fixed or not tick(_keep_first(error.limit), state.TRUNCATE):
            return None
        return read(replace(request, keep=error.limit))


def _keep_first(tokens: int) -> str:
    return f"Keep only the first {tokens:,} tokens"


def _exceeded(fields: InputFields) -> int | None:
    """The number of tokens that the model was made for, if the text has more."""
    request, trained = fields.request, fields.model.trained_tokens
    if trained is None or request.model.is_recorded:
        return None
    models.check_characters(request.text, request.pair)
    return trained if passes.token_count(request.model, request.text, request.pair, trained + 1) > trained else None


def show_notes(model: Model, notes: Sequence[str], texts: Mapping[str, str]) -> None:
    """Say what is to be known of a pass, and offer to take out of its texts what the tokenizer adds by itself.

    texts  by the keys of their fields
    """
    if notes:
        st.caption(f":material/info: {plain(' '.join(notes))}")
    if not notes or model.tokenizer is None or isinstance(model, RecordedModel):
        return
    without = {key: without_added(model.tokenizer, text) for key, text in texts.items() if text.strip()}
    changed = {key: text for key, text in without.items() if text.strip() and text != texts[key]}
    if changed:
        key = state.one_of(state.TAKE_OUT, next(iter(changed)))
        st.button("Take it out of the text", key=key, on_click=links.put_all, args=(changed,))


def run_pass(
    request: TextRequest,
    model: Model,
    max_tokens: int | None = None,
    *,
    near: TextRequest | None = None,
    components: bool = False,
) -> Capture | None:
    """Return the pass over this text, with its progress if it is not known yet; None as in `run`.

    near        as in `passes.captured`
    components  whether to keep what each component wrote

    Raises TooLongError for more than `max_tokens`, also if another page has read them already.
    """
    task = passes.with_components.task(request) if components else passes.captured.task(request, near=near)
    layers = 1 if task.is_known else (model.attention_calls if request.image is None else len(model.kinds)) or 1
    if request.image is not None and model.takes_images:
        tokens, needs = passes.size_with_image(passes.unedited(request))
        if max_tokens is not None and tokens > max_tokens:
            why = f"With this image the text has {tokens:,} tokens; at most {max_tokens:,} are shown here."
            raise InputError(f"{why} Give a smaller image.", field="image")
        capture = run(task, f"Reading the image, {tokens:,} tokens", layers, needs=needs)
    elif task.is_known or request.image is not None or request.model.is_recorded:  # which never takes long
        capture = run(task, "Reading the image", layers)
    elif not _is_written(request, model, max_tokens):
        return None
    else:
        tokens, written = _count(request, model, max_tokens)
        needs = models.needed_bytes(request.model, tokens, written, components=components)
        capture = run(task, f"Reading {tokens:,} tokens", layers, needs=needs)
    if capture is None:
        return None
    _say_written(request, model)
    for ids, field in ((capture.input_ids, "text"), (capture.target_ids, "target")):
        if max_tokens is not None and len(ids) > max_tokens:
            raise TooLongError(len(ids), max_tokens, field)
    return capture


def again(request: TextRequest) -> Any:
    """Return the pass over this text, or its weights, which the page has read before: read again, in its turn, where it was
    forgotten since."""
    if request.model.is_recorded or not passes.gives_passes(request):  # which never takes long
        return passes.captured_or_weights(request)
    return _in_its_turn(request, passes.captured)


def again_with_components(request: TextRequest) -> Capture:
    """`again`, with what each component wrote."""
    return _in_its_turn(request, passes.with_components)


def _in_its_turn(request: TextRequest, read: Cached[..., Capture]) -> Capture:
    if read.is_known(request):
        return read(request)
    if request.image is not None:
        needs = passes.size_with_image(passes.unedited(request))[1]
    else:
        counts = _count(request, models.load(request.model), None)
        needs = models.needed_bytes(request.model, *counts, components=read is passes.with_components)
    with in_turn(needs):
        return read(request)


def _is_written(request: TextRequest, model: Model, max_tokens: int | None) -> bool:
    """Have the model write a target that it generates; False as long as that is stopped."""
    task = passes.generated.task(passes.unedited(request))
    if not isinstance(request.target, GeneratedTarget) or task.is_known:
        return True
    tokens, _ = _count(replace(request, target=None), model, max_tokens)
    most = request.target.max_tokens
    return run(task, "Writing", most, unit="token", needs=models.needed_bytes(request.model, tokens, most)) is not None


def _say_written(request: TextRequest, model: Model) -> None:
    """Say what a decoder has written by itself. An edited pass reads the same, and it is said already."""
    if not isinstance(request.target, GeneratedTarget) or request.edits is not None:
        return
    target = passes.generated(passes.unedited(request))
    text = model.text_of(target.ids)
    shortened = quoted(text if len(text) <= WRITTEN else f"{text[:WRITTEN]}…") if target.ids else "nothing"
    ended = "" if target.has_ended else f" It stops after {len(target.ids)} tokens."
    st.caption(f"The model writes {shortened}.{ended} In the row of each token it chooses the next one.")


def _count(request: TextRequest, model: Model, max_tokens: int | None) -> tuple[int, int]:
    """Count the tokens that the model reads, and those that its decoder has written. Raises TooLongError for too many."""
    limit, cut = models.longest_text(request.keep or max_tokens), request.keep is not None
    target = request.target if isinstance(request.target, str) else None
    models.check_characters(request.text, request.pair, target)
    inputs = all_inputs(model, request.text, pair=request.pair, max_tokens=limit, truncate=cut)
    written = len(target_ids(model, passes.target_of(request), limit, cut)) if model.is_encoder_decoder else 1
    return inputs["input_ids"].shape[1], written
