"""The page Generation: where each new token's query looks, what else could have been written, and what the key/value cache
saves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture, Generation, Model, generate
from core.attention.rowwise import around
from core.capturing.sampling import Sampling, at_temperatures
from core.exporting.kept_heads import KeptHead
from core.exporting.tables import Side
from core.figures.heatmaps.heatmap import WIDTH, Axis, heatmap
from core.figures.labels import escaped, visible
from core.figures.plots.bars import share_bars
from core.figures.plots.lines import Series, lines
from core.heads.one_query import one_query
from core.models.modules import Kind
from core.models.words import special_ids
from core.notebook.figures import stage_figure
from ui import models, presenting, shown, state
from ui.calls import expression, result, result_of
from ui.components import pin
from ui.components.arrows import arrow_keys
from ui.components.token_view import token_view
from ui.controls.fields import menu, number_picker, switch, whole_number
from ui.controls.sampling import choose_sampling
from ui.markdown import quoted
from ui.progress import fill, run
from ui.requests import HeadRequest, TextRequest, WritingRequest
from ui.views import writing
from ui.views.common.certificate import show_certificate
from ui.views.common.pictures import show_chart, show_heatmap
from ui.views.heads.grid import choose_clicked, show_grid_of_heads
from ui.views.numbers import of_tokens, of_weights
from ui.views.sources.heads import opening_head
from ui.views.sources.passes import InputFields, read_or_say

OPENING_TOKENS = 20
IN_TEXT = 192  # tokens of a long text that are shown as text
CANDIDATES = 8
CURVES = 5  # candidates whose probability is drawn over the temperature
TEMPERATURES = tuple(np.round(np.linspace(0.1, 3.0, 30), 2).tolist())
HEIGHT, LEAST_HEIGHT, PER_ROW, AXIS = 520, 280, 22, 90  # of the large picture in pixels
SHOWS = {"text": "Text", "steps": "Every step", "layer": "Heads of the layer", "heads": "All heads"}
TELLS = {"next": "Candidates", "heat": "Temperature", "cache": "Cache"}
ENDED = {
    "end": "The model ended its text here.",
    "limit": "The model can read no more: the text is as long as it may be.",
    None: "",
}


def show_generation(fields: InputFields) -> None:
    """The fields, the text as it is written, and one of its steps."""
    line = st.container(horizontal=True, vertical_alignment="bottom")
    with line:
        most, sampling, chat = _choose_writing(fields)

    def begin(text: TextRequest) -> tuple[WritingRequest, writing.FirstTokens]:
        request = WritingRequest(text, chat, sampling)
        return request, writing.written_after(request).first(most)

    begun = read_or_say(fields, begin)
    if begun is None:
        return
    request, tokens = begun

    def draw(last: bool) -> None:
        if last:
            _show_steps(request, tokens.so_far(), fields, line)
        else:
            st.code(tokens.so_far().text, language=None, wrap_lines=True)

    seconds = models.seconds_to_read(fields.model, len(tokens.so_far().input_ids))
    fill(tokens, (request, most), "Writing", draw, unit="token", seconds=seconds)


def _choose_writing(fields: InputFields) -> tuple[int, Sampling, bool]:
    """The number of tokens that are written, how each is chosen, and whether the text is a message."""
    with st.popover("How it writes", icon=":material/tune:"):
        most = whole_number("New tokens", state.NEW_TOKENS, OPENING_TOKENS, 1, writing.MAX_NEW_TOKENS)
        sampling = choose_sampling()
        chat = fields.model.chats and switch(
            "The text is a message",
            state.CHAT,
            help="The model answers it, in the chat template that it was trained with.",
        )
    return most, sampling, bool(chat)


def _show_steps(request: WritingRequest, generation: Generation, fields: InputFields, line: DeltaGenerator) -> None:
    """One step, which is chosen in the line above."""
    whole = generation.capture_of(-1)
    with line:
        kind, layer, head = _choose_head(request, whole, fields)
        step = _choose_step(generation)
    capture = generation.capture_of(step)
    query = capture.shape(kind)[0] - 1
    every_head = one_query(capture, query, kind)
    row = every_head[layer, head]
    with line, st.container(width=110):
        key = number_picker("Key", state.KEY, len(row), int(row.argmax()))
    _record(request, fields.model, (step, kind, layer, head), (query, key))
    shown.now().head = partial(KeptHead.of, capture, layer, head, kind)
    with st.container(gap=None):  # the listener takes no room
        pin.listen(partial(_clicked, generation, whole, kind))
        _say_row(generation, step, capture.tokens(kind), row, key)
    large, small = st.columns([7, 5], gap="medium")
    with large:
        shows = menu("Shown", state.STEP_SHOWS, SHOWS, look="buttons", label_visibility="collapsed")
        place = (layer, head)
        if shows == "text":
            _as_text(generation, whole, kind, place, (query, key))
        elif shows == "steps":
            _every_step(generation, whole, kind, place, (query, key))
        elif shows == "layer":
            _heads_of_layer(capture, kind, place, every_head[layer], key)
        else:
            _all_heads(capture, kind, place, every_head[:, :, key], key)
        _walk(generation, step)
    with small:
        tells = menu("Told", state.STEP_TELLS, TELLS, look="buttons", label_visibility="collapsed")
        {"next": _candidates, "heat": _over_temperature, "cache": _cache}[tells](generation, step)
    show_certificate(capture.certificate(layer, head, kind))
    _compare_with_full_pass(request, generation)


def _record(request: WritingRequest, model: Model, of: tuple[int, Kind, int, int], cell: tuple[int, int]) -> None:
    """Record the text and the head in the chosen step for "As Python"."""
    step, kind, layer, head = of
    text, sampling = request.text, request.sampling
    chosen = {name: getattr(sampling, name) for name in ("temperature", "seed", "top_k", "top_p")}
    cut = {"max_tokens": text.keep, "truncate": text.keep is not None}
    new_tokens = st.session_state[state.NEW_TOKENS]
    written = expression(generate, model, text.text, new_tokens=new_tokens, **chosen, chat=request.chat, **cut)
    result(written.part(".text"))
    passed = written.method("capture_of", step)
    trace = passed.method("trace", layer=layer, head=head, kind=kind)
    result_of(stage_figure, trace, "weights", tokens=passed.method("tokens", kind), cell=cell)


def _choose_head(request: WritingRequest, whole: Capture, fields: InputFields) -> tuple[Kind, int, int]:
    """Kind of attention, layer and head, among those whose queries are tokens of the growing text."""
    kinds: dict[Kind, str] = {kind: kind for kind in ("cross", "decoder", "self") if kind in whole.kinds}
    kind = menu("Attention", state.KIND, kinds, look="buttons") if len(kinds) > 1 else next(iter(kinds))
    opening = opening_head(request.text.model.name)
    with fields.places[0]:
        layer = number_picker("Layer", state.LAYER, whole.layers(kind), opening[0])
    with fields.places[1]:
        head = number_picker("Head", state.HEAD, whole.heads(kind), opening[1])
    shown.now().of = HeadRequest(request.text, kind, layer, head)
    return kind, layer, head


def _choose_step(generation: Generation) -> int:
    """The chosen step, from 0."""
    steps = {str(number): f"{number} · {visible(token)}" for number, token in enumerate(generation.tokens, start=1)}
    if len(steps) == 1:
        return 0
    with st.container(width="stretch"):
        return int(menu("Step, and the token that it writes", state.STEP, steps, look="line")) - 1


def _walk(generation: Generation, step: int) -> None:
    """The arrow keys lead through the steps."""
    count = len(generation.steps)
    arrow_keys(
        state.picture("row"),
        f"Walk through the steps with the arrow keys. Chosen: {step + 1} of {count}.",
        (0, step),
        (1, count),
        lambda _, column: go_to_step(column),
        words="← → walk through the steps",
    )


def go_to_step(step: int) -> None:
    """Choose a step, from 0, before the page runs."""
    st.session_state[state.STEP] = str(step + 1)


def _say_row(
    generation: Generation, step: int, tokens: tuple[tuple[str, ...], tuple[str, ...]], row: np.ndarray, key: int
) -> None:
    queries, keys = tokens
    written, looks, at = quoted(generation.tokens[step]), quoted(queries[-1]), quoted(keys[key])
    presenting.title(f"Step {step + 1} of {len(generation.steps)}: {written}")
    with presenting.told("number"):
        st.markdown(f"{written} is written after {looks}, which gives **{row[key]:.1%}** of its attention to {at}.")


def _as_text(generation: Generation, whole: Capture, kind: Kind, place: tuple[int, int], cell: tuple[int, int]) -> None:
    """The text, shaded by where the step's query looks. A click on a token goes to the step in which it is the query."""
    queries, keys = whole.tokens(kind)
    read = len(queries)
    queries = (*queries, generation.tokens[-1])  # not read yet: it looks nowhere, and no token looks at it
    keys = keys if kind == "cross" else queries
    rows = around(cell[0], len(queries), IN_TEXT)
    columns = around(cell[1], len(keys), IN_TEXT) if kind == "cross" else rows
    trace = whole.trace(*place, kind, rows=range(rows.start, min(rows.stop, read)))
    weights = np.full((len(rows), len(keys)), np.nan)
    weights[: trace.shape[0], : trace.shape[1]] = np.where(trace.mask, trace.weights, np.nan)
    begun = len(generation.begun)
    ids = (*generation.begun, *generation.token_ids)
    special = special_ids(whole.model.tokenizer)
    token_view(
        queries[rows.start : rows.stop],
        keys[columns.start : columns.stop],
        weights[:, columns.start : columns.stop],
        rows_from=rows.start,
        columns_from=columns.start,
        pinned=[cell[0]],
        written_from=begun,
        special=[position for position in rows if ids[position] in special],
        on_token=lambda position: go_to_step(max(0, min(position - begun + 1, len(generation.steps) - 1))),
        key=state.TOKEN_VIEW,
    )
    longest = max(len(queries), len(keys))
    shortened = f" At most {IN_TEXT} of {longest:,} tokens are shown, around those chosen." if longest > IN_TEXT else ""
    st.caption(
        f"Underlined: written by the model. {ENDED[generation.ended]}{shortened} Click a token to see where it looks while the "
        f"next one is written."
    )


def _every_step(
    generation: Generation, whole: Capture, kind: Kind, place: tuple[int, int], cell: tuple[int, int]
) -> None:
    """The rows of all steps of the chosen head."""
    queries, keys = whole.tokens(kind)
    first = len(generation.begun) - 1
    trace = whole.trace(*place, kind, rows=range(first, len(queries)))
    chart = heatmap(
        trace.weights,
        Axis("step", generation.tokens, cell[0] - first, _notes(queries[first:]), 1),
        Axis("key", keys, cell[1]),
        name="weight",
        scale="share",
        forbidden=~trace.mask,
        height=_height(len(generation.steps)),
        width=presenting.width(WIDTH, 0.52),
    )
    presenting.lit(chart.figure, cell[0] - first, cell[1])
    show_heatmap(
        chart,
        "row",
        f"The rows of head {place[0]}.{place[1]}, one for each step by what it writes, by keys.",
        title=f"Every step in head {place[0]}.{place[1]}",
        numbers=of_weights(trace, Side("step", generation.tokens, start=1), Side("key", keys)),
    )
    st.caption("A row for each step, named after the token that it writes. Its query is the token before.")


def _notes(queries: Sequence[str]) -> list[str]:
    return [f"<br>query {escaped(token)}" for token in queries]


def _heads_of_layer(capture: Capture, kind: Kind, place: tuple[int, int], weights: np.ndarray, key: int) -> None:
    """The step's row in each head of the chosen layer."""
    keys = capture.tokens(kind)[1]
    chart = heatmap(
        weights,
        Axis("head", tuple(f"{place[0]}.{head}" for head in range(len(weights))), place[1]),
        Axis("key", keys, key),
        name="weight",
        scale="share",
        height=_height(len(weights)),
        width=presenting.width(WIDTH, 0.52),
    )
    show_heatmap(
        chart, "row", f"The step's row in every head of layer {place[0]}, by keys.", title="This step in every head"
    )


def _all_heads(capture: Capture, kind: Kind, place: tuple[int, int], weights: np.ndarray, key: int) -> None:
    """How much of the step's attention every head gives to the chosen key."""
    show_grid_of_heads(
        weights,
        "weight",
        place,
        name="row",
        title=f"Weight on “{visible(capture.tokens(kind)[1][key])}” in every head",
        alt="Every head's weight on the chosen key",
        numbers="weight on the chosen key",
        height=presenting.height(460, 0.7),
    )
    st.caption(f"The share that each head gives to {quoted(capture.tokens(kind)[1][key])} in this step.")


def _height(rows: int) -> int:
    return presenting.height(max(LEAST_HEIGHT, min(PER_ROW * rows + AXIS, HEIGHT)), 0.66)


# --- beside the large picture


def _candidates(generation: Generation, step: int) -> None:
    """The most probable tokens, and with which probability each is chosen."""
    candidates = generation.candidates(step, CANDIDATES)
    groups = {"probability": np.array([candidate.probability for candidate in candidates])}
    if not generation.sampling.is_greedy:
        groups["as drawn"] = np.array([candidate.chance for candidate in candidates])
    tokens = [candidate.token for candidate in candidates]
    show_chart(
        share_bars(tokens, groups),
        "candidates",
        "Bars: the most probable next tokens.",
        title=f"What could be written in step {step + 1}",
        numbers=of_tokens(tokens, {"logit": [candidate.logit for candidate in candidates], **groups}),
    )
    if generation.sampling.is_greedy:
        st.caption(f"{quoted(generation.tokens[step])} is the most probable one, and so it is written.")
    else:
        left = sum(candidate.chance > 0 for candidate in candidates)
        st.caption(
            f"{quoted(generation.tokens[step])} was drawn. “As drawn”: after temperature, top-k and top-p, which leave "
            f"{left if left < len(candidates) else 'all'} of these."
        )


def _over_temperature(generation: Generation, step: int) -> None:
    """The probabilities of the best candidates at each temperature."""
    candidates = generation.candidates(step, CURVES)[:CURVES]
    token_ids = [candidate.token_id for candidate in candidates]
    curves = at_temperatures(generation.steps[step].scores, token_ids, TEMPERATURES)
    series = [
        Series(f"{rank}. {visible(candidate.token)}", TEMPERATURES, curve)
        for rank, (candidate, curve) in enumerate(zip(candidates, curves.T, strict=True), start=1)
    ]
    show_chart(
        lines(series, x="temperature", y="probability", height=presenting.height(340, 0.6)),
        "temperature",
        "Curves: how probable the best candidates are at each temperature.",
        title=f"Temperature in step {step + 1}",
    )
    st.caption("The logits are divided by the temperature. Near 0 the best token takes all; the hotter, the more even.")


def _cache(generation: Generation, step: int) -> None:
    """What came from the key/value cache and what was computed, its bytes, and the multiplications that it saves."""
    pass_ = generation.steps[step]
    costs = np.array([generation.multiplications(number) for number in range(len(generation.steps))], dtype=np.float64)
    numbers = np.arange(1, len(costs) + 1)
    series = [
        Series("with the cache", numbers, costs[:, 0], kind="measured"),
        Series("everything anew", numbers, costs[:, 1], kind="measured"),
    ]
    show_chart(
        lines(series, x="step", y="multiplications", log_y=True, height=presenting.height(300, 0.6)),
        "cache",
        "Curves: the multiplications of every step, with the cache and without.",
        title="Multiplications of every step",
        numbers=of_tokens(generation.tokens, {"with the cache": costs[:, 0], "everything anew": costs[:, 1]}),
    )
    with_cache, without = (int(number) for number in costs[step])
    tokens = "1 token was" if pass_.computed == 1 else f"{pass_.computed:,} tokens were"
    st.markdown(
        f"Step {step + 1}: {tokens} computed, **{pass_.cached:,}** came from the cache, which then holds "
        f"**{pass_.cache_bytes / 1e6:,.2f} MB** of keys and values. {with_cache:,} multiplications; {without:,} if everything "
        f"were read anew."
    )
    total = costs.sum(axis=0)
    st.caption(f"All steps together: {1 - total[0] / total[1]:.1%} of the multiplications are saved.")


def _compare_with_full_pass(request: WritingRequest, generation: Generation) -> None:
    """Say how far the rows of all steps are from those of one pass over the whole text."""
    last = generation.steps[-1]
    model = models.load(request.text.model)
    difference = run(
        writing.full_pass_difference.task(request, len(generation.steps), generation=generation),
        "Comparing with one full pass",
        model.attention_calls or 1,
        announce=partial(
            models.announced,
            request.text.model,
            len(generation.input_ids) if model.is_encoder_decoder else last.cached + last.computed,
            target_tokens=last.cached + last.computed if model.is_encoder_decoder else 1,
        ),
    )
    if difference is not None:
        st.caption(
            f"The rows of all {len(generation.steps)} steps, beside one pass over the whole text without a cache: the largest "
            f"difference of a weight in any head is {difference:.1e}."
        )


def _clicked(generation: Generation, whole: Capture, kind: Kind) -> None:
    """Choose what was clicked: the step of a row, the key of a column, or a head."""
    clicked = pin.clicked()
    if choose_clicked((whole.layers(kind), whole.heads(kind))):
        return
    if "head" in clicked and len(clicked["head"]) == 1:
        st.session_state[state.HEAD] = min(clicked["head"].start, whole.heads(kind) - 1)
    if "step" in clicked and len(clicked["step"]) == 1:
        go_to_step(max(0, min(clicked["step"].start - 1, len(generation.steps) - 1)))
    if "key" in clicked and len(clicked["key"]) == 1:
        st.session_state[state.KEY] = min(clicked["key"].start, whole.shape(kind)[1] - 1)
