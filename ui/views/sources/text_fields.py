"""The fields for a text or an image and for the model that reads it: its precision, its device, and loading it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from core import Capture, Checkup, InputError, Model
from core.captures.opening import unchecked
from core.capturing.checking.checkup import CHECKS
from core.capturing.weights_only import WeightsOnly
from core.heads.examples import FRANCE
from core.models.catalogue import CATALOGUE
from core.models.checkups import known_checkup
from core.models.devices import devices
from core.models.inputs import read_token_numbers
from core.models.model import RecordedModel
from core.units import bytes_in_words
from core.whole_files import version_of
from ui import links, settings, shown, state
from ui.allowed import may_read, model_help, models_here, not_listed, offered, places_of
from ui.calls import uploaded
from ui.controls.fields import (
    forget_uploads,
    menu,
    name_uploads,
    suggested,
    text_area,
    text_line,
    upload,
    uploaded_file,
)
from ui.markdown import errors_shown, plain, quoted, show_error
from ui.progress import following, run
from ui.requests import GeneratedTarget, ModelChoice, Target, TextRequest
from ui.views.sources import models, passes
from ui.views.sources.heads import ExposedHead, choose_head, show_one_head
from ui.views.sources.reading import WRITTEN, InputFields, read_or_say, run_pass

SENTENCE = "The animal didn't cross the street because it was too tired."
OPENING_TEXTS = {"written-dates": "the 3rd of march 1987"}  # of models that were trained for texts of another kind
PASSAGES = """\
The old bridge was closed in March, so they took the long way home. In April the old bridge was open again, and they were glad.

Every winter the lake freezes and children skate on it. Every spring the ice breaks with a loud crack, and the boats come back.

Ann gave Tom the red book, and Tom gave Ann the blue one. Later, Ann said that she liked the red book better.

To bake bread you need flour, water, salt and yeast. Mix the flour with the water, add the salt and the yeast, and wait.

The capital of France is Paris, the capital of Italy is Rome, and the capital of Japan is Tokyo.

def area(width, height):
    return width * height

When the rain stopped, the street was empty. A dog crossed the street slowly, looked back once, and was gone.

Light travels about 300,000 kilometres in a second. Light from the sun needs eight minutes, and light from the moon one second.
"""
RECORDED_ONLY = (
    "is not here: this file holds one pass of it, which Step by step and Heads can show. Choose a model for this page."
)
NAMED = 3  # layers without attention that are named; the others are counted


def choose_request(
    *, more: bool = False, writes: bool = False, images: bool = False, recorded: bool = False
) -> InputFields | None:
    """Show the fields for the model and what it reads. Returns None after saying what is wrong.

    more      also ask for the second text that some models read
    writes    open with a model that writes
    images    also ask for an image where the model reads one with its text
    recorded  whether the page can show a recorded pass, whose model is not here
    """
    progress = st.empty()  # above the text, which on a phone fills most of the first screen
    words, which = st.columns([6, 5], gap="small")
    with words, st.container(gap="xxsmall"):
        text_place = st.container(horizontal=True, gap="xsmall")
        problem = st.container(gap="xxsmall")
    with which, st.container(horizontal=True, gap="xsmall"):
        model_place = st.container(key=state.MODEL_PLACE, width="stretch", gap=None)
        head_place = st.container(width=125)
        further = st.container(width="content")
    with model_place:
        name = choose_model(problem, writes=writes)
    with further:
        chosen, further = choose_precision(name)
    model = read_model(chosen, progress, model_place, problem)
    # A file that is needed again has its field in sight.
    with model_place if model is None and chosen.is_recorded else further:
        upload("Open a recorded pass, or attention weights", state.RECORDED, RECORDED, on_change=_keep_recorded)
    second_place = further.container()
    if model is None:
        model_place.caption("No model.", help=model_help())
    else:
        with further:
            say_size(model)
        say_checked(chosen, model, _what_it_does(model), model_place, further)
    with text_place:
        if model is None or not (chosen.is_recorded or model.reads_images):
            request = TextRequest(chosen, _text_field(chosen.name))
            st.button("Apply", key=state.APPLY, help="Read the text. Ctrl+Enter does the same.")
        elif chosen.is_recorded:
            request = _recorded_text(chosen)
        else:
            image = _image_file("This model reads images.")
            request = None if image is None else TextRequest(chosen, "", image=image)
    if model is None:
        _say_what_for(chosen.name, problem)
        return None
    if chosen.is_recorded and not recorded:
        with problem:
            show_error(InputError(f"{model.name} {RECORDED_ONLY}", field="model"))
        return None
    if images and request is not None and model.takes_images:
        with text_place, st.popover("Image", icon=":material/image:"):
            request = replace(request, image=_image_file("This model also reads a text alone."))
            if request.image is not None:
                st.button("Without the image", key=state.FORGET_IMAGE, on_click=_forget_image)
    if not chosen.is_recorded and (model.reads_images or (images and model.takes_images)):
        with problem:
            kept = st.session_state.get(state.SHOWN_IMAGE)
            name_uploads([] if kept is None else [kept[0]])
    reads_more = not (chosen.is_recorded or model.reads_images) and models.QUERIES_AND_KEYS.is_met(model)
    if more and request is not None and reads_more:
        with second_place:
            request = _with_second_text(request, model, problem)
    _say_what_for(chosen.name, problem)
    if model.tower_of is not None:
        problem.caption("This model compares texts with images or sounds. Shown is the part that reads texts.")
    return None if request is None else InputFields(request, model, model_place, problem, head_place)


def choose_text(
    *,
    more: bool = False,
    max_tokens: int | None = models.MAX_TOKENS,
    recorded: bool = False,
    on_weights: Callable[[ExposedHead], None] = show_one_head,
) -> tuple[TextRequest, DeltaGenerator] | None:
    """Let the chosen model read the text. Return what it has read, and the container for the choice of a head.

    Returns None after saying what is wrong, or after showing the weights of a model that exposes nothing else.

    more        also ask for the second text that some models read, and name the layers that cannot be shown
    max_tokens  the most tokens that the page can show; None: as many as the model reads
    recorded    as in `choose_request`
    on_weights  shows the chosen head of a model that exposes only its weights
    """
    if (fields := choose_request(more=more, images=True, recorded=recorded)) is None:
        return None
    model = fields.model
    if not models.QUERIES_AND_KEYS.is_met(model):
        exposed = read_or_say(fields, _exposed, lambda read: read[1].notes)
        if exposed is not None:
            on_weights(choose_head(exposed[0], fields.head_place))
        return None

    def read(request: TextRequest) -> tuple[TextRequest, Capture | None]:
        return request, run_pass(request, model, max_tokens)

    passed = read_or_say(fields, read, lambda read: () if read[1] is None else read[1].notes)
    if passed is None or passed[1] is None:
        return None
    if more:
        _name_missing(fields.request.model)
    return passed[0], fields.head_place


def _what_it_does(model: Model) -> str:
    if isinstance(model, RecordedModel) and not model.captures:
        return "Attention weights."
    if isinstance(model, RecordedModel):
        return f"A recorded pass of {plain(model.name)}."
    if model.reads_images:
        return "Reads images."
    if model.takes_images:
        return "Reads an image with a text, writes texts."
    if model.is_encoder_decoder:
        return "Reads a text, writes another."
    return "Writes texts." if model.has_language_model_head else "Reads texts only."


def _say_what_for(model: str, place: DeltaGenerator) -> None:
    """Say what a model of the catalogue was trained for if it takes every text for one of that kind."""
    for entry in CATALOGUE:
        if entry.name == model and entry.kind == "encoder-decoder":
            place.caption(plain(entry.description))


def _text_field(model: str) -> str:
    """Until somebody edits it, it holds an opening text of the kind that the model reads."""
    opening = OPENING_TEXTS.get(model, SENTENCE)
    of_another_kind = {SENTENCE, FRANCE} if model in OPENING_TEXTS else {*OPENING_TEXTS.values()}
    if st.session_state.get(state.TEXT) in of_another_kind:
        st.session_state[state.TEXT] = opening
    return text_area("Text", state.TEXT, opening, height=68, label_visibility="collapsed", placeholder="Text")


def typed_passages(height: int) -> tuple[str, ...]:
    """Show the field for several texts, with an empty line between two, and return them."""
    text = text_area("Texts, with an empty line between two", state.TEXTS, PASSAGES, height=height)
    return tuple(part.strip("\n") for part in text.replace("\r\n", "\n").split("\n\n") if part.strip())


def _name_missing(chosen: ModelChoice) -> None:
    if layers := models.missing_layers(chosen):
        further = f", and {len(layers) - NAMED} more" if len(layers) > NAMED else ""
        count = "1 layer has" if len(layers) == 1 else f"{len(layers)} layers have"
        named = "; ".join(layers[:NAMED])
        st.caption(plain(f"{count} no softmax attention and cannot be shown: {named}{further}."))


def _recorded_text(chosen: ModelChoice) -> TextRequest:
    """Show the text of a recorded pass, which cannot be changed, or the size of the weights in a file.

    Tokens of an image are left out.
    """
    capture = models.opened(chosen)
    if isinstance(capture, WeightsOnly):
        (queries, keys), grid = capture.shape(), f"{capture.layers():,} layers × {capture.heads():,} heads"
        st.caption(f"From a file: {grid}, {queries:,} queries × {keys:,} keys.")
        return TextRequest(chosen, "")
    is_text = np.isnan(capture.image_boxes()[:, 0])
    tokens = [token for token, is_one in zip(capture.tokens()[1], is_text, strict=True) if is_one]
    text = ("" if any(token.startswith(" ") for token in tokens) else " ").join(tokens)
    shortened = text if len(text) <= WRITTEN else f"{text[:WRITTEN]}…"
    of_image = "" if is_text.all() else "The file also holds an image. "
    more = f"To read another text or change a head, load the model itself. {unchecked(capture)}"
    st.caption(f"Text of the file: {quoted(shortened)}. {of_image}{more}")
    return TextRequest(chosen, "")


def _image_file(what_for: str) -> bytes | None:
    """The image that was last uploaded, on this page or another: an upload field forgets its file when its page is left."""
    file = upload("Image", state.IMAGE, ["png", "jpg", "jpeg", "webp"], on_change=_keep_image)
    kept = st.session_state.get(state.SHOWN_IMAGE)
    still = "" if kept is None or file is not None else f"{plain(kept[0])} is still shown. "
    st.caption(f"{still}{what_for} An uploaded image is not part of the page's address.")
    return None if kept is None else uploaded(*kept)


def _forget_image() -> None:
    st.session_state[state.SHOWN_IMAGE] = None
    forget_uploads()


def _keep_image() -> None:
    file = uploaded_file(state.IMAGE)
    st.session_state[state.SHOWN_IMAGE] = None if file is None else (file.name, file.getvalue())
    forget_uploads()


def _with_second_text(request: TextRequest, model: Model, problem: DeltaGenerator) -> TextRequest | None:
    """Add what the second field holds: a text to pair with, or what the decoder has written. None: said what is wrong."""
    if model.takes_pairs:
        pair = text_line("Second text (optional)", state.PAIR, width=170)
        return replace(request, pair=pair or None)
    if not model.is_encoder_decoder:
        return request
    with errors_shown(problem):
        return replace(request, target=choose_target(model))
    return None


def _exposed(request: TextRequest) -> tuple[TextRequest, WeightsOnly]:
    with st.spinner("Reading the text"):
        return request, passes.weights_only(request)


# --- the model

DEVICES = {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}
PRECISION, DEVICE = "Precision", "Device"
RECORDED = ["safetensors", "npz"]  # endings of files that take the place of a model
# Models that write nothing, and those that take their place on a page where something is written.
WRITERS = {"all-MiniLM-L6-v2": "SmolLM2-135M-Instruct"}


def open_with_a_writer() -> None:
    """Choose a model that writes if the chosen one does not, with the head that it opens with."""
    chosen = st.session_state[state.CHOSEN]
    if (name := chosen.get(state.MODEL, offered()[0])) in WRITERS:
        chosen[state.MODEL] = WRITERS[name]
        for key in (state.PAIR, state.KIND, state.LAYER, state.HEAD):
            chosen.pop(key, None)


def _keep_recorded() -> None:
    if (file := uploaded_file(state.RECORDED)) is not None:
        keep_recorded(file)


def keep_recorded(file: UploadedFile) -> None:
    """Make a file with a recorded pass or attention weights the model of this visitor."""
    st.session_state[state.SHOWN_RECORDED] = (file.name, file.getvalue())
    st.session_state[state.MODEL] = file.name


def choose_model(beside: DeltaGenerator, *, writes: bool = False) -> str:
    """Show the field for a model, and return its name.

    beside  says which models on this disk are not listed, where a line has room
    writes  open with a model that writes
    """
    recorded = st.session_state.get(state.SHOWN_RECORDED)
    names: list[str] = [*offered(), *([] if recorded is None else [recorded[0]])]
    opening = WRITERS.get(names[0], names[0]) if writes else names[0]
    here = models_here()
    look = {"label_visibility": "collapsed", "format_func": lambda name: here.get(name, name)}
    further = [name for name in here if name not in names]
    if said := not_listed():
        beside.caption(plain(said))
    return suggested("Model", state.MODEL, names, opening, further, **look)


def read_model(
    chosen: ModelChoice, place: DeltaGenerator, problem: DeltaGenerator, beside: DeltaGenerator, *needs: models.Need
) -> Model | None:
    """Load the model. `place` says what takes time, and `beside` what is to be known of the model, where a line has room. None
    after saying in `problem` what is wrong, or what the page needs and the model lacks."""
    with errors_shown(problem):
        model = _read(chosen, place)
        if model is not None and model.notes:
            beside.caption(f":material/info: {plain(' '.join(model.notes))}")
        if model is not None and (lacking := models.missing(model, *needs)) is not None:
            raise InputError(lacking, field="model")
        return model
    return None


def _read(chosen: ModelChoice, place: DeltaGenerator) -> Model | None:
    if chosen.is_recorded:
        with place.container():
            passed = run(models.opened.task(chosen), "Reading the file", 1)
        return None if passed is None else passed.model
    places_of(chosen.name)
    if models.loaded.is_known(chosen):
        return models.load(chosen)
    with following(place, f"Reading {chosen}") as tell:
        return models.load(chosen, tell)


def say_checked(
    chosen: ModelChoice, model: Model, says: str, place: DeltaGenerator, more: DeltaGenerator | None = None
) -> None:
    """Say, after other words, whether the model was checked on this machine. If that is not known, it is checked once the page
    is drawn.

    more  lists what was found; None: nothing does
    """
    line = place.empty()

    def say(checkup: Checkup) -> None:
        if checkup.holds:
            line.caption(f"{says} {checkup.summary.partition(':')[0]}.", help=model_help())
        else:
            place.warning(f"{plain(checkup.summary)}{' *More* says what was found.' * (more is not None)}")
        if more is not None:
            with more:
                _list_checks(checkup)

    def check() -> None:
        made = None
        with place, errors_shown(place):
            made = run(models.checked.task(chosen), f"Checking {chosen} on this machine", len(CHECKS), unit="check")
        if made is None:
            line.caption(says, help=model_help())
        elif made.holds:
            say(made)
        else:
            st.rerun()  # what the page shows as right is so no longer

    if isinstance(model, RecordedModel) and model.checkup:
        says += f" Where it was recorded: {plain(model.checkup)}"
    if (known := known_checkup(model)) is not None:
        say(known)
    elif model.captures and not chosen.is_recorded:
        line.caption(f"{says} To be checked on this machine.", help=model_help())  # as long as what comes of it
        shown.now().later.append(check)
    else:
        line.caption(says, help=model_help())


def _list_checks(checkup: Checkup) -> None:
    """Say what was checked of the model, and what could not be."""
    made = {name: finding for name, finding in checkup.findings.items() if finding.holds is not None}
    with st.container(gap="xxsmall"):
        for name, finding in made.items():
            icon = ":material/check:" if finding.holds else ":material/warning:"
            st.caption(f"{icon} **{name.capitalize()}.** {plain(finding.detail)}")
        if others := [name for name in checkup.findings if name not in made]:
            st.caption(f"Could not be checked for this model: {', '.join(others)}.")


# --- its precision and device


def choose_precision(name: str) -> tuple[ModelChoice, DeltaGenerator]:
    """Show the popover "More", whose label names another precision or device than usual. Returns the model of this name, that
    of the uploaded pass if the name is that of its file, and the popover."""
    names = {device: DEVICES.get(device, device.replace("cuda:", "GPU ")) for device in devices()}
    dtypes = {dtype: dtype for dtype in settings.current().dtypes}
    usual = next(iter(dtypes))
    dtype = links.field(state.DTYPE, links.ChoiceForm(dtypes), usual, PRECISION)
    device = links.field(state.DEVICE, links.ChoiceForm(names), "cpu", DEVICE)
    unusual = [dtype] * (dtype != usual) + [names[device]] * (device != "cpu")
    popover = st.popover(f"More: {', '.join(unusual)}" if unusual else "More")
    with popover:  # the menus are there, open or not
        menu(PRECISION, state.DTYPE, dtypes, look="buttons")
        if len(names) > 1:
            menu(DEVICE, state.DEVICE, names, look="buttons")
    recorded = st.session_state.get(state.SHOWN_RECORDED)
    contents = uploaded(*recorded) if recorded is not None and recorded[0] == name else None
    chosen = ModelChoice(name, dtype, device, contents)
    if chosen.is_recorded and contents is None and may_read(name.strip()):
        chosen = replace(chosen, version=version_of(name.strip()))
    return chosen, popover


def say_size(model: Model) -> None:
    """Say how much memory the model needs in each precision, according to the headers of its files."""
    if model.size is None:
        return
    whole, half = (bytes_in_words(model.size.needed(dtype)) for dtype in ("float32", "bfloat16"))
    needs = plain(f"{model.name} needs {whole} of memory in float32, {half} in bfloat16 or float16.")
    rounds = "In half precision the model rounds its numbers, so its results differ. Headlight traces heads in float32."
    st.caption(f"{needs} {rounds}")


# --- the target of an encoder-decoder


UNFINISHED, WHOLE = "unfinished", "generated"
TARGET_WAYS = {UNFINISHED: "Generated", WHOLE: "Generated, whole", "text": "Text", "numbers": "Token numbers"}
TARGET_HELP = (
    "The text that the decoder has written so far; its tokens are the queries. Generated: the model writes it, always with the "
    "most probable token. Its last token then comes next, unless the whole text is read."
)


def choose_target(model: Model) -> Target:
    """Show the menu and the field of its choice, and return the target. Raises InputError (field "target")."""
    writes = model.has_language_model_head
    offered = {way: words for way, words in TARGET_WAYS.items() if writes or way not in (UNFINISHED, WHOLE)}
    way = menu("Target", state.TARGET_AS, offered, width=150, help=TARGET_HELP)
    if way == "text":
        return text_line("Its text", state.TARGET, placeholder="nothing yet", width=170)
    if way == "numbers":
        return read_token_numbers(text_line("Its numbers", state.TARGET_IDS, placeholder="such as 5, 17, 8", width=170))
    return GeneratedTarget(whole=way == WHOLE)


def target_in_address(target: Target) -> dict[str, str]:
    """Return the address of a target; empty for None."""
    if target is None:
        return {}
    if isinstance(target, GeneratedTarget):
        return {state.TARGET_AS: WHOLE if target.whole else UNFINISHED}
    if isinstance(target, str):
        return {state.TARGET_AS: "text", state.TARGET: target}
    return {state.TARGET_AS: "numbers", state.TARGET_IDS: ", ".join(map(str, target))}


def target_from_address(word: Callable[[str], str | None]) -> Target:
    """Return the target of an address. word: name -> its word there, if any. Raises InputError (field "target")."""
    way = word(state.TARGET_AS)
    if way in (UNFINISHED, WHOLE):
        return GeneratedTarget(whole=way == WHOLE)
    return read_token_numbers(word(state.TARGET_IDS) or "") if way == "numbers" else word(state.TARGET)
