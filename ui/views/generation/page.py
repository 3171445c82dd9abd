"""The page Generation: where each new token's query looks, what else could be written, and what the cache saves."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Generation, Model, generate
from core.capturing.sampling import Sampling
from core.exporting.kept_heads import KeptHead
from core.models.images import read_image
from core.notebook.figures import stage_figure
from core.units import small_number
from ui import presenting, shown, state
from ui.calls import call, expression, result, result_of
from ui.components import pin
from ui.components.keys import arrow_keys
from ui.controls.fields import menu, number, switch, whole_number
from ui.markdown import quoted, show_error
from ui.progress import fill, run
from ui.requests import TextRequest, WritingRequest
from ui.views.certificates import show_certificate
from ui.views.generation import results
from ui.views.generation.beside import show_cache, show_candidates, show_temperature
from ui.views.generation.pictures import show_all_heads, show_every_step, show_heads_of_layer, show_text
from ui.views.generation.step import Step, choose_step, go_to_step
from ui.views.grid_of_heads import choose_clicked
from ui.views.head_links import link_to_why_word
from ui.views.patches import choose_clicked_patch
from ui.views.sources import models
from ui.views.sources.reading import InputFields, read_or_say

OPENING_TOKENS = 20
SHOWS = {"text": "Text", "steps": "Every step", "layer": "Heads of the layer", "heads": "All heads"}
CHOICES = {"greedy": "Most probable", "drawn": "Drawn"}
TELLS = {"next": "Candidates", "heat": "Temperature", "cache": "Cache"}


def show_generation(fields: InputFields) -> None:
    """Show the fields, the text as it is written, and one of its steps."""
    answer = st.container(gap=None)
    line = st.container(horizontal=True, vertical_alignment="bottom")
    with line, st.popover("How it writes", icon=":material/tune:"):
        most = whole_number("New tokens", state.NEW_TOKENS, OPENING_TOKENS, 1, results.MAX_NEW_TOKENS)
        sampling = choose_sampling()
        answers = "The model answers it, in the chat template that it was trained with."
        may_chat = fields.model.chats and fields.request.image is None  # a text beside an image is a message anyway
        chat = may_chat and switch("The text is a message", state.CHAT, help=answers)

    def begin(text: TextRequest) -> tuple[WritingRequest, results.FirstTokens]:
        request = WritingRequest(text, chat, sampling)
        return request, results.written_after(request).first(most)

    begun = read_or_say(fields, begin, lambda begun: begun[1].so_far().notes)
    if begun is None:
        return
    request, tokens = begun

    def draw(last: bool) -> None:
        if last:
            _show_step(request, tokens.so_far(), fields, answer, line)
        else:
            st.code(tokens.so_far().text, language=None, wrap_lines=True)

    fill(tokens, (request, most), "Writing", draw, unit="token", done="written")
    for problem in tokens.writing.problems if tokens.done < most else ():
        with fields.beside_text:
            show_error(problem)


def choose_sampling() -> Sampling:
    """Show the fields for the choice of the next token. Raises InputError for numbers outside their range."""
    choice = menu("Next token", state.CHOICE, CHOICES, look="buttons")
    if choice == "greedy":
        return Sampling()
    temperature = number("Temperature", state.HEAT, 1.0, 0.1, 5.0, step=0.1)
    top_k = whole_number("top-k (0: all)", state.TOP_K, 0, 0, 1_000)
    top_p = number("top-p", state.TOP_P, 1.0, 0.05, 1.0, step=0.05)
    seed = whole_number("Seed", state.SEED, 0, 0, 9999)
    return Sampling(temperature, top_k or None, None if top_p == 1 else top_p, seed)


def _show_step(
    request: WritingRequest, generation: Generation, fields: InputFields, answer: DeltaGenerator, line: DeltaGenerator
) -> None:
    step = choose_step(request, generation, fields, line)
    head = step.head
    _record(request, fields.model, step)
    shown.now().head = partial(KeptHead.of, head.capture, head.layer, head.head, head.kind)
    with answer:
        pin.listen(lambda cell: _clicked(step, cell))
        _say_where_it_looks(step)
    large, small = st.columns([7, 5], gap="medium")
    with large:
        shows = menu("Shown", state.STEP_SHOWS, SHOWS, look="buttons", label_visibility="collapsed")
        {"text": show_text, "steps": show_every_step, "layer": show_heads_of_layer, "heads": show_all_heads}[shows](
            step
        )
        _walk(step)
    with small:
        tells = menu("Told", state.STEP_TELLS, TELLS, look="buttons", label_visibility="collapsed")
        {"next": show_candidates, "heat": show_temperature, "cache": show_cache}[tells](generation, step.number)
        if not request.chat and request.text.image is None:
            before = head.capture.model.text_of((*generation.begun, *generation.token_ids[: step.number]))
            link_to_why_word(request.text, before, generation.tokens[step.number])
    show_certificate(head.capture.certificate(*head.place, head.kind))
    _compare_with_full_pass(request, generation)


def _record(request: WritingRequest, model: Model, step: Step) -> None:
    """Record the text and the head in the chosen step for "As Python"."""
    text, head = request.text, step.head
    chosen = {name: getattr(request.sampling, name) for name in ("temperature", "seed", "top_k", "top_p")}
    cut = {"max_tokens": text.keep, "truncate": text.keep is not None}
    if text.image is not None:
        cut["image"] = call(read_image, text.image)
    new_tokens = st.session_state[state.NEW_TOKENS]
    written = expression(generate, model, text.text, new_tokens=new_tokens, **chosen, chat=request.chat, **cut)
    result(written.part(".text"))
    passed = written.method("capture_of", step.number)
    trace = passed.method("trace", layer=head.layer, head=head.head, kind=head.kind)
    cell = (step.query, step.key)
    result_of(stage_figure, trace, "weights", tokens=passed.method("tokens", head.kind), cell=cell)


def _walk(step: Step) -> None:
    count = len(step.generation.steps)
    arrow_keys(
        state.picture("row"),
        f"Walk through the steps with the arrow keys. Chosen: {step.number + 1} of {count}.",
        (0, step.number),
        (1, count),
        lambda _, column: go_to_step(column),
        words="← → walk through the steps",
    )


def _say_where_it_looks(step: Step) -> None:
    queries, keys = step.head.tokens
    token, share = quoted(step.generation.tokens[step.number]), step.weights[step.head.place][step.key]
    presenting.title(f"Step {step.number + 1} of {len(step.generation.steps)}: {token}")
    query, key = quoted(queries[-1]), quoted(keys[step.key])
    gives = f"which gives **{share:.1%}** of its attention to {key} in head {step.head}"
    presenting.finding(f"{token} is written after {query}, {gives}.")


def _compare_with_full_pass(request: WritingRequest, generation: Generation) -> None:
    """Say how far the rows of all steps are from those of one pass over the whole text."""
    count, model = len(generation.steps), models.load(request.text.model)
    difference = run(
        results.full_pass_difference.task(request, count, generation=generation),
        "Comparing with one full pass",
        model.attention_calls or 1,
    )
    if difference is not None:
        st.caption(
            f"Compared with one pass over the whole text without a cache, no weight of the {count} steps differs by more than "
            f"{small_number(difference)} in any head."
        )


def _clicked(step: Step, cell: pin.Cell) -> None:
    """Choose what was clicked: the step of a row, the key of a column or a patch, or a head."""
    if choose_clicked(cell, step.whole.grid) or choose_clicked_patch(cell, step.whole, state.KEY):
        return
    single = {axis: places.start for axis, places in cell.items() if len(places) == 1}
    if "head" in single:
        st.session_state[state.HEAD] = min(single["head"], step.whole.grid[1] - 1)
    if "step" in single:
        go_to_step(max(0, min(single["step"] - 1, len(step.generation.steps) - 1)))
    if "key" in single:
        st.session_state[state.KEY] = min(single["key"], step.whole.shape[1] - 1)
