"""The page Generation: where each new token's query looks, what else could be written, and what the cache saves."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import Lock
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core import Capture, Generation, InputError, Model, generate
from core.attention.trace import Array
from core.capturing.costs import call_bytes, image_bytes, kept_bytes
from core.capturing.generation.generating import Generating
from core.capturing.rounding import between_passes
from core.capturing.sampling import Sampling, at_temperatures
from core.exporting.exhibit import KeptHead
from core.exporting.tables import Side
from core.figures.chart import Chart
from core.figures.heatmaps.heatmap import WIDTH, Axis, heatmap
from core.figures.labels import escaped, visible
from core.figures.plots.bars import share_bars
from core.figures.plots.lines import Series, lines
from core.heads.likeness import weight_differences
from core.heads.metrics import one_query
from core.models.images import read_image
from core.models.inputs import all_inputs, chat_ids, image_token
from core.models.modules import Kind
from core.models.words import special_ids
from core.notebook.figures import stage_figure
from core.progress import held
from core.units import listed, small_number
from ui import presenting, shown, state
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import call, expression, result, result_of
from ui.components import pin
from ui.components.keys import arrow_keys
from ui.components.token_view import IN_TEXT, part_in_text, token_view
from ui.controls.fields import choose, menu, number, switch, token_picker, whole_number
from ui.markdown import quoted, show_error
from ui.progress import fill, in_turn, run
from ui.requests import TextRequest, WritingRequest
from ui.views.certificates import show_certificate
from ui.views.charts import show_chart
from ui.views.grid_of_heads import choose_clicked, show_grid_of_heads
from ui.views.head_links import link_to_why_word
from ui.views.numbers import of_tokens, of_weights
from ui.views.patches import choose_clicked_patch, show_patches
from ui.views.sources import models
from ui.views.sources.heads import RealHead, choose_head
from ui.views.sources.models import MAX_TOKENS, longest_text
from ui.views.sources.passes import all_inputs_of, limits_of
from ui.views.sources.reading import InputFields, read_or_say

OPENING_TOKENS, MAX_NEW_TOKENS = 20, 200
CHOICES = {"greedy": "Most probable", "drawn": "Drawn"}
HEIGHT, LEAST_HEIGHT, PER_ROW, AXIS = 520, 280, 22, 90  # of the large picture in pixels
ENDED = {
    "end": " The model ended its text here.",
    "limit": " The model can read no more: the text is as long as it may be.",
}
CANDIDATES = 8
MAX_NAMED = 5  # steps that read the whole text
CURVES = 5  # candidates whose probability is drawn over the temperature
TEMPERATURES = tuple(np.round(np.linspace(0.1, 3.0, 30), 2).tolist())


# --- texts that a model writes, each kept as far as it is written for all sessions


@dataclass(frozen=True, eq=False)
class Writing:
    """A text that a model writes. It is kept as far as it is written; whoever wants more tokens continues from there.

    size      gives the bytes of the text with so many written tokens
    problems  why it goes no further, if a token cannot be written
    """

    generating: Generating
    size: Callable[[int], int]
    lock: Lock = field(default_factory=Lock)
    problems: list[InputError] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """As far as it is written, and at least with as many tokens as the page opens with."""
        return self.size(max(OPENING_TOKENS, self.generating.done))


@dataclass(frozen=True, eq=False)
class FirstTokens:
    """The first `most` tokens that a model writes, one a piece; fewer if it ends its text before."""

    writing: Writing
    most: int

    @property
    def done(self) -> int:
        return min(self.writing.generating.done, self.most)

    @property
    def total(self) -> int:
        return self.most if self.writing.generating.ended is None and not self.writing.problems else self.done

    @property
    def share(self) -> float:
        return self.done / self.most

    @property
    def may_pause(self) -> bool:
        return True

    def go_on(self) -> bool:
        """Have one more token written; False if there is none left. Sessions that want the same text take turns."""
        with held(self.writing.lock):
            try:
                return self.done < self.total and self.writing.generating.go_on()
            except InputError as error:
                self.writing.problems.append(error)
                return False

    def so_far(self) -> Generation:
        return self.writing.generating.so_far(self.most)


@cached(MEMORY)
def written_after(request: WritingRequest) -> Writing:
    """The text that answers a request, as far as it is written. Raises InputError as `new_writing` does."""
    return new_writing(request)


def new_writing(request: WritingRequest) -> Writing:
    """The text that answers a request, no token of which is written yet.

    Raises InputError for a model that writes nothing, for texts as `captured` does, and if the memory is too small.
    """
    network, text, tiles = models.load(request.text.model), request.text, None
    if request.chat:  # what is cut off its end would be where the answer begins
        limits: dict[str, Any] = limits_of(text) | {"truncate": False}
        inputs = all_inputs(network, input_ids=chat_ids(network, text.text), **limits)
    else:
        inputs, tiles = all_inputs_of(text)
    generating = Generating(network, inputs, request.sampling, max_tokens=longest_text(MAX_TOKENS), tiles=tiles)
    read = inputs["input_ids"].shape[1]
    of_image = 0 if tiles is None else sum(image_bytes(network, inputs))
    logits = 4 * network.network.config.get_text_config().vocab_size

    @cache
    def size(written: int) -> int:
        tokens, target = (read, written) if network.is_encoder_decoder else (read + written, 1)
        # Its rows as each pass has given them, all of them together, and the keys and values of the cache.
        return 5 * call_bytes(network, tokens, target_tokens=target) // 2 + written * logits + of_image

    MEMORY.check(size(MAX_NEW_TOKENS))
    return Writing(generating, size)


def first_tokens(request: WritingRequest, count: int) -> Generation:
    """The first tokens of a text that was written before: written again, in its turn, where it was forgotten since."""
    tokens = FirstTokens(written_after(request), count)
    if tokens.done < tokens.total:
        with in_turn(tokens.writing.nbytes):
            all(iter(tokens.go_on, False))
    return tokens.so_far()


@cached(Store(32))
def full_pass_difference(
    _request: WritingRequest, _steps: int, *, generation: Generation, on_progress: OnProgress | None = None
) -> float:
    """The largest difference of a weight, in any head, between the rows of all steps and a pass without a cache over the text
    of the last of them; where the model has left its cache, over that of the last step before too.

    generation  the first steps of the request's text
    """
    differences = [0.0]
    for last in (steps[-1] for steps in generation.runs if len(steps) > 1):  # else nothing came from a cache
        steps, whole = generation.capture_of(last), generation.full_pass(on_progress, step=last)
        differences += [float(weight_differences(steps, whole, kind).max()) for kind in steps.kinds]
    return max(differences)


@dataclass(frozen=True, eq=False)
class ShownStep:
    """A step of a text that a model writes, in one of its heads. As `ChosenHead`, it has not the passes, but reads them.

    count    how many steps there are
    number   from 0
    whole    the head in the passes of all steps
    head     the same in those up to this step, whose last query chooses the token that is written
    weights  [layers, heads, keys] of this query in every head
    key      the chosen one
    """

    request: WritingRequest
    count: int
    number: int
    whole: RealHead
    head: RealHead
    weights: NDArray[np.float32]
    key: int

    @property
    def generation(self) -> Generation:
        return first_tokens(self.request, self.count)

    @property
    def query(self) -> int:
        return self.head.shape[0] - 1

    def go_to(self, step: int) -> None:
        """Choose a step of the text, from 0, or the nearest one, before the page runs."""
        st.session_state[state.STEP] = str(max(0, min(step, self.count - 1)) + 1)


# --- the page


def show_generation(fields: InputFields) -> None:
    answer = st.container(gap=None)
    line = st.container(horizontal=True, vertical_alignment="bottom")
    with line, st.popover("How it writes", icon=":material/tune:"):
        most = whole_number("New tokens", state.NEW_TOKENS, OPENING_TOKENS, 1, MAX_NEW_TOKENS)
        sampling = choose_sampling()
        answers = "The model answers it, in the chat template that it was trained with."
        may_chat = fields.model.chats and fields.request.image is None  # a text beside an image is a message anyway
        chat = may_chat and switch("The text is a message", state.CHAT, help=answers)

    def begin(text: TextRequest) -> tuple[WritingRequest, FirstTokens] | None:
        request = WritingRequest(text, chat, sampling)
        needs = None if written_after.is_known(request) else new_writing(request).nbytes
        writing = run(written_after.task(request), "Writing", 1, needs=needs)
        return None if writing is None else (request, FirstTokens(writing, most))

    begun = read_or_say(fields, begin, lambda begun: begun[1].so_far().notes if begun else ())
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
    step = choose_step(request, len(generation.steps), fields, line)
    head = step.head
    _record(request, fields.model, step)
    shown.now().head = lambda: KeptHead.of(head.capture, head.layer, head.head, head.kind)
    with answer:
        pin.listen(lambda cell: _clicked(step, cell))
        _say_where_it_looks(step)
    large, small = st.columns([7, 5], gap="medium")
    with large:
        choose("Shown", state.STEP_SHOWS, SHOWS, look="buttons", label_visibility="collapsed")(step)
        places, words = ((0, step.number), (1, step.count)), "← → walk through the steps"
        label = f"Walk through the steps with the arrow keys. Chosen: {step.number + 1} of {step.count}."
        arrow_keys(state.picture("row"), label, *places, lambda _, column: step.go_to(column), words=words)
    with small:
        show = choose("Told", state.STEP_TELLS, TELLS, look="buttons", label_visibility="collapsed")
        show(generation, step.number)
        if not request.chat and request.text.image is None:
            before = head.capture.model.text_of((*generation.begun, *generation.token_ids[: step.number]))
            link_to_why_word(request.text, before, generation.tokens[step.number])
    show_certificate(head.capture.certificate(*head.place, head.kind))
    _compare_with_full_pass(request, generation)


def _record(request: WritingRequest, model: Model, step: ShownStep) -> None:
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


def _say_where_it_looks(step: ShownStep) -> None:
    queries, keys = step.head.tokens
    token, share = quoted(step.generation.tokens[step.number]), step.weights[step.head.place][step.key]
    presenting.title(f"Step {step.number + 1} of {step.count}: {token}")
    query, key = quoted(queries[-1]), quoted(keys[step.key])
    gives = f"which gives **{share:.1%}** of its attention to {key} in head {step.head}"
    presenting.finding(f"{token} is written after {query}, {gives}.")


def _compare_with_full_pass(request: WritingRequest, generation: Generation) -> None:
    """Say how far the rows of all steps are from those of one pass over the whole text."""
    model, count, read = generation.model, len(generation.steps), len(generation.input_ids)
    anew = [run.start for run in generation.runs[1:]]
    if count > 1 and len(anew) == count - 1:
        st.caption("Every step read the whole text: nothing came from a cache.")
        return
    if anew:
        said = "the whole text was read anew, without the cache. Each row is shown as its own step has it."
        st.caption(f"In step {listed([str(number + 1) for number in anew], MAX_NAMED)} {said}")
    written = len(generation.begun) + count
    tokens = {"tokens": read, "target_tokens": written} if model.is_encoder_decoder else {"tokens": written}
    task = full_pass_difference.task(request, count, generation=generation)
    needs = kept_bytes(model, **tokens)  # less than to begin another text: who holds one comes to an end first
    if (difference := run(task, "Comparing with one full pass", model.attention_calls or 1, needs=needs)) is None:
        return
    compared = f"Compared with one pass over the {'same texts' if anew else 'whole text'} without a cache"
    if difference > between_passes(model.network.dtype):
        why = "In transformers this model computes something else while it writes. Shown is what it did then."
        st.caption(f"{compared}, a weight of the {count} steps differs by {small_number(difference)}. {why}")
    else:
        differs = f"no weight of the {count} steps differs by more than {small_number(difference)} in any head"
        st.caption(f"{compared}, {differs}.")


def _clicked(step: ShownStep, cell: pin.Cell) -> None:
    """Choose what was clicked: the step of a row, the key of a column or a patch, or a head."""
    if choose_clicked(cell, step.whole.grid) or choose_clicked_patch(cell, step.whole, state.KEY):
        return
    single = {axis: places.start for axis, places in cell.items() if len(places) == 1}
    if "head" in single:
        st.session_state[state.HEAD] = min(single["head"], step.whole.grid[1] - 1)
    if "step" in single:
        step.go_to(single["step"] - 1)
    if "key" in single:
        st.session_state[state.KEY] = min(single["key"], step.whole.shape[1] - 1)


# --- a step


def choose_step(request: WritingRequest, count: int, fields: InputFields, line: DeltaGenerator) -> ShownStep:
    """count: how many steps there are"""

    def of_step(number: int, _: TextRequest) -> Capture:
        return first_tokens(request, count).capture_of(number)

    generation = first_tokens(request, count)
    # Those whose queries are written tokens; cross-attention comes first.
    kinds: list[Kind] = sorted(kind for kind in generation.capture_of(-1).kinds if kind not in ("encoder", "vision"))
    with line:
        whole = choose_head(request.text, fields.head_place, kinds, partial(of_step, -1))
        steps = {str(number): f"{number} · {visible(token)}" for number, token in enumerate(generation.tokens, start=1)}
        number = 0
        if len(steps) > 1:
            with st.container(width="stretch"):
                number = int(menu("Step", state.STEP, steps, look="line")) - 1
    head = replace(whole, read=partial(of_step, number))
    weights = one_query(head.capture, head.shape[0] - 1, head.kind)
    with line, st.container(width=150):
        key = token_picker("Key", state.KEY, head.tokens[1], int(weights[head.place].argmax()))
    return ShownStep(request, count, number, whole, head, weights, key)


# --- the large picture


def show_text(step: ShownStep) -> None:
    """The text, shaded by where the step's query looks. A click on a token goes to the step in which it is the query.

    An image that was read with it is coloured in the same way.
    """
    generation, whole = step.generation, step.whole
    if generation.tiles is not None:
        show_patches(step.head, step.weights[step.head.place], step.query)
    queries, keys = whole.tokens
    queries = (*queries, generation.tokens[-1])  # not read yet: it looks nowhere, and no token looks at it
    keys = keys if whole.kind == "cross" else queries
    rows = part_in_text(step.query, len(queries))
    columns = part_in_text(step.key, len(keys)) if whole.kind == "cross" else rows
    weights = _looks(step, rows, len(keys))
    begun, ids = len(generation.begun), (*generation.begun, *generation.token_ids)
    special = special_ids(whole.capture.model.tokenizer) - {image_token(whole.capture.model)}
    boxed = [position for position in rows if ids[position] in special]
    look: dict[str, Any] = {"pinned": [step.query], "written_from": begun, "special": boxed}
    look["on_token"] = lambda position: step.go_to(position - begun + 1)
    token_view((queries, keys), rows, columns, weights[:, columns.start : columns.stop], **look)
    longest = max(len(queries), len(keys))
    shortened = f" At most {IN_TEXT} of {longest:,} tokens are shown, around those chosen." if longest > IN_TEXT else ""
    ended = ENDED.get(generation.ended or "", "")
    click = "Click a token to see where it looks while the next one is written."
    st.caption(f"Underlined: written by the model.{ended}{shortened} {click}")


def _looks(step: ShownStep, rows: range, keys: int) -> NDArray[np.floating]:
    """What these tokens look at, NaN where they don't: [rows, keys]. What is written, as in its own step; the rest as in the
    chosen one."""
    weights = np.full((len(rows), keys), np.nan)
    first, of_steps = len(step.generation.begun) - 1, step.generation.step_weights(*step.whole.place, step.whole.kind)
    if rows.start < first:
        read = range(rows.start, min(rows.stop, first))
        trace = step.head.capture.trace(*step.head.place, step.head.kind, rows=read)
        weights[: len(read), : trace.shape[1]] = np.where(trace.mask, trace.weights, np.nan)
    start = max(rows.start, first)
    written = of_steps[start - first : rows.stop - first]
    weights[start - rows.start :][: len(written), : written.shape[1]] = written
    return weights


def show_every_step(step: ShownStep) -> None:
    whole, tokens = step.whole, step.generation.tokens
    queries, keys = whole.tokens
    first = len(step.generation.begun) - 1
    weights = step.generation.step_weights(*whole.place, whole.kind)
    notes = [f"<br>query {escaped(token)}" for token in queries[first:]]
    rows = Axis("step", tokens, step.query - first, notes, 1)
    chart = _picture(np.nan_to_num(weights), rows, Axis("key", keys, step.key), np.isnan(weights))
    presenting.lit(chart)
    alt = f"The rows of head {whole}, one for each step by what it writes, by keys."
    numbers = of_weights(weights, Side("step", tokens, start=1), Side("key", keys))
    show_chart(chart, "row", alt, title=f"Every step in head {whole}", numbers=numbers)
    st.caption("A row for each step, named after the token that it writes. Its query is the token before.")


def show_heads_of_layer(step: ShownStep) -> None:
    layer, head = step.head.place
    weights = step.weights[layer]
    rows = Axis("head", tuple(f"{layer}.{number}" for number in range(len(weights))), head)
    chart = _picture(weights, rows, Axis("key", step.head.tokens[1], step.key))
    alt = f"The step's row in every head of layer {layer}, by keys."
    show_chart(chart, "row", alt, title="This step in every head")


def _picture(weights: Array, rows: Axis, keys: Axis, forbidden: NDArray[np.bool_] | None = None) -> Chart:
    height = presenting.height(max(LEAST_HEIGHT, min(PER_ROW * len(weights) + AXIS, HEIGHT)), 0.66)
    width = presenting.width(WIDTH, 0.52)
    return heatmap(weights, rows, keys, name="weight", scale="share", forbidden=forbidden, height=height, width=width)


def show_all_heads(step: ShownStep) -> None:
    """How much of the step's attention every head gives to the chosen key."""
    key = step.head.tokens[1][step.key]
    named = {"name": "row", "title": f"Weight on “{visible(key)}” in every head", "numbers": "weight on the chosen key"}
    look: dict[str, Any] = {"alt": "Every head's weight on the chosen key", "height": 460, "on_stage": (0.55, 0.7)}
    show_grid_of_heads(step.weights[:, :, step.key], "weight", step.head.place, **named, **look)
    st.caption(f"The share that each head gives to {quoted(key)} in this step.")


SHOWS = {
    "text": ("Text", show_text),
    "steps": ("Every step", show_every_step),
    "layer": ("Heads of the layer", show_heads_of_layer),
    "heads": ("All heads", show_all_heads),
}


# --- what is told beside it


def show_candidates(generation: Generation, step: int) -> None:
    candidates, written = generation.candidates(step, CANDIDATES), quoted(generation.tokens[step])
    groups = {"probability": np.array([candidate.probability for candidate in candidates])}
    if not generation.sampling.is_greedy:
        groups["as drawn"] = np.array([candidate.chance for candidate in candidates])
    tokens = [candidate.token for candidate in candidates]
    title, alt = f"What could be written in step {step + 1}", "Bars: the most probable next tokens."
    numbers = of_tokens(tokens, {"logit": [candidate.logit for candidate in candidates], **groups})
    show_chart(share_bars(tokens, groups), "candidates", alt, title=title, numbers=numbers)
    if generation.sampling.is_greedy:
        st.caption(f"{written} is the most probable one, and so it is written.")
        return
    left = sum(candidate.chance > 0 for candidate in candidates)
    leave = f"which leave {left if left < len(candidates) else 'all'} of these"
    st.caption(f"{written} was drawn. “As drawn”: after temperature, top-k and top-p, {leave}.")


def show_temperature(generation: Generation, step: int) -> None:
    candidates = generation.candidates(step, CURVES)[:CURVES]
    names = [f"{rank}. {visible(candidate.token)}" for rank, candidate in enumerate(candidates, start=1)]
    scores, numbers = generation.steps[step].scores, [candidate.token_id for candidate in candidates]
    curves = at_temperatures(scores, numbers, TEMPERATURES).T
    series = [Series(name, TEMPERATURES, curve) for name, curve in zip(names, curves, strict=True)]
    chart = lines(series, x="temperature", y="probability", height=presenting.height(340, 0.6))
    alt = "Curves: how probable the best candidates are at each temperature."
    show_chart(chart, "temperature", alt, title=f"Temperature in step {step + 1}")
    st.caption("The logits are divided by the temperature. Near 0 the best token takes all; the hotter, the more even.")


def show_cache(generation: Generation, step: int) -> None:
    """What came from the key/value cache and what was computed, its bytes, and the multiplications that it saves."""
    pass_ = generation.steps[step]
    tokens = "1 token was" if pass_.computed == 1 else f"{pass_.computed:,} tokens were"
    holds = f"which then holds **{pass_.cache_bytes / 1e6:,.2f} MB** of keys and values"
    st.markdown(f"Step {step + 1}: {tokens} computed, **{pass_.cached:,}** came from the cache, {holds}.")
    if generation.tiles is not None:
        st.caption("Multiplications are counted for texts alone.")
        return
    costs = np.array([generation.multiplications(number) for number in range(len(generation.steps))], dtype=np.float64)
    curves = {name: costs[:, at] for at, name in enumerate(("with the cache", "everything anew"))}
    series = [Series(name, np.arange(1, len(costs) + 1), curve, kind="measured") for name, curve in curves.items()]
    chart = lines(series, x="step", y="multiplications", log_y=True, height=presenting.height(300, 0.6))
    alt = "Curves: the multiplications of every step, with the cache and without."
    numbers = of_tokens(generation.tokens, curves)
    show_chart(chart, "cache", alt, title="Multiplications of every step", numbers=numbers)
    with_cache, without = (int(number) for number in costs[step])
    total = costs.sum(axis=0)
    words = f"{with_cache:,} multiplications; reading everything anew takes {without:,}."
    st.caption(f"{words} All steps together: {1 - total[0] / total[1]:.1%} of the multiplications are saved.")


TELLS = {
    "next": ("Candidates", show_candidates),
    "heat": ("Temperature", show_temperature),
    "cache": ("Cache", show_cache),
}
