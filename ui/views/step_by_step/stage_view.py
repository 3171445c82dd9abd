"""One head on the page: the equation as a line of small pictures, one stage large, the chosen pair explained, its weights."""

import time
from contextlib import nullcontext
from dataclasses import replace

import streamlit as st

from core import Ledger, head_weights
from core.attention.formulas import added, formula
from core.attention.ledger import OutputSum, lines
from core.attention.rowwise import Overview
from core.attention.stages import BY_KEY, Stage, number
from core.capturing.layer_labels import layer_labels
from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import WIDTH, Axis, heatmap
from core.figures.heatmaps.side_by_side import TERMS, equation, middle_of
from core.figures.heatmaps.views import colour_limit, stage_heatmap
from core.figures.plots.bars import passed_on, waterfall
from core.heads.views import pair_ranges
from core.notebook.figures import stage_figure
from ui import links, presenting, shown, state
from ui.calls import call, is_known, result, result_of
from ui.components import pin
from ui.components.keys import arrow_keys
from ui.controls.masks import change_in
from ui.controls.pinned import pinned_among
from ui.links import ChoiceForm, SwitchForm
from ui.markdown import errors_shown, plain, quoted
from ui.shown import Knob
from ui.views.certificates import show_certificate
from ui.views.charts import show_chart, show_magnified, table
from ui.views.frames import follow, player
from ui.views.head_links import link_to_heads, link_to_why_word
from ui.views.numbers import of_tokens
from ui.views.patches import choose_clicked_patch, show_patches
from ui.views.sources.heads import RealHead
from ui.views.step_by_step.scenes import Scene

HEIGHT = 270  # pixels of the large picture, below which the first screen of a small window ends
ONE_OF_TWO = 240  # pixels in a window 1024 wide, of a picture with another beside it
# Of the width, for the picture and the explanation: whether somebody presents, and whether there are two pictures.
SHARES = {(False, False): (7, 5), (False, True): (3, 2), (True, False): (3, 1), (True, True): (5, 1)}
KEYS, DIMENSIONS = 8, 4  # of the output's sum: keys, and numbers of each, that are shown one by one
ORDER = tuple(TERMS)
NAMES = {key: BY_KEY[key].name for key in ORDER}
OPEN_STAGE = ChoiceForm(NAMES, {"Q, K, V": "query", "inputs": "query"})
EXPORTED = 50  # next tokens
PLAYED = ("query", "raw", "scaled", "mask", "weights", "output")  # stages, when the equation is played
SECONDS_A_STAGE = 2.5
# Seconds by which the large picture is sent before the equation, whose nine small ones take the browser longer than all else.
# What comes at the same time is drawn at the same time, so the large picture would wait for them.
AHEAD = 0.08
MOST_PLAYED = 64  # tokens of a text of which frames are made
ONE_OF_FOUR = 190  # pixels: how wide each picture is in a window 1024 wide


def show_stages(scene: Scene, changed: Scene | None) -> Ledger:
    """Show the head of a scene, and beside it the same head with another scale or mask. Return the chosen pair, explained."""
    current, real = changed or scene, scene.real
    if real is None:
        shown.now().head = scene.to_keep
    stage = BY_KEY[links.field(state.STAGE, OPEN_STAGE, "weights", "Stage")]
    answer = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
    line = st.container(gap=None)  # the listener takes no room
    with line:
        # Before the pictures: whoever sees one may click at once.
        pin.listen(lambda cell: (real is not None and choose_clicked_patch(cell, real)) or clicked(cell))
    with answer:
        presenting.title(plain(scene.origin.removesuffix(".")))
    shown.now().fields[state.STAGE] = stage.key
    picture, explanation = st.columns(SHARES[presenting.is_on(), changed is not None], gap="medium")
    sentence = (picture if presenting.is_on() else explanation).container(key=state.STEP_WORDS)
    with explanation:
        weights, tokens = current.head.stages("weights"), (scene.query_tokens, scene.key_tokens)
        cell = pinned_among(tokens, _suggested(scene, current), weights.exact)
    ledger = result(call(current.head.explain, *cell))
    with sentence:
        _say_step(current, stage, ledger)
    result_of(stage_figure, current.head, stage.key, tokens=_tokens(scene), cell=cell)
    # What a visitor looks at comes first: whoever changes the head has an eye on the large picture.
    with picture:
        _show_stage(scene, changed, stage, ledger)
        if not presenting.is_on() and stage.columns == "key":
            _show_magnified(current, stage, cell)
        if real is not None and stage.key == "weights" and real.capture.image_grids(real.kind):
            row = weights.exact(range(ledger.query, ledger.query + 1), range(current.head.shape[1]))[0]
            show_patches(real, row, ledger.query)
        if not presenting.is_on() and stage.key == "output":
            _show_sum(current, current.head.sum_of(ledger.query, KEYS))
        if scene.certificate is not None:
            show_certificate(scene.certificate, of_original=changed is not None)
        else:
            st.caption(plain(scene.origin))
    time.sleep(AHEAD)
    with line:
        show_equation(current, cell, stage.key)
    with answer if not presenting.is_on() else explanation:
        _say_pair(current, ledger)
    is_short = max(current.head.shape) <= MOST_PLAYED
    if is_short:
        holds: dict[float, dict[str, str]] = {place: {state.STAGE: key} for place, key in enumerate(PLAYED)}
        names: dict[float, str] = {place: NAMES[key] for place, key in enumerate(PLAYED)}
        shown.now().knobs[state.STAGE] = Knob(holds, "Stage", names)
    with answer:
        if is_short:
            player(state.STAGE, SECONDS_A_STAGE, "Play the equation")
        show_ways_on(current, cell, stage.key)
    with explanation:
        if not presenting.is_on():
            st.container(key=state.FORMULA).markdown(f"${formula(stage.key, current.head, current.overview, ledger)}$")
            _show_ledger(current, ledger, scene.head.explain(*cell) if changed else None)
    if not presenting.is_on():
        _show_bars(ledger)
    if is_short:
        follow(lambda: _again(scene, cell, is_changed=changed is not None))
    return ledger


def _suggested(scene: Scene, current: Scene) -> tuple[int, int]:
    """The pair worth looking at first: that of the head as it is, unless the changed one masks it. So it stays while a knob is
    turned."""
    query, key = scene.head.strongest(scene.overview)
    allowed = current.head.explain(query, key).allowed
    return (query, key) if allowed else current.head.strongest(current.overview)


def _again(scene: Scene, cell: tuple[int, int], *, is_changed: bool) -> tuple[()]:
    """Record what the page would show with other fields, as `show_stages` draws it."""
    fields = shown.now().given or {}
    change, stage = change_in(fields), BY_KEY[fields[state.STAGE]]
    head = scene.head if change.is_none else change.of(scene.head)
    current = replace(scene, head=head, overview=head.overview())
    ledger = head.explain(*cell)
    _say_step(current, stage, ledger)
    _show_stage(*((scene, current) if is_changed else (current, None)), stage, ledger)
    show_equation(current, cell, stage.key)
    _say_pair(current, ledger)
    if not presenting.is_on():
        _show_ledger(current, ledger, scene.head.explain(*cell) if is_changed else None)
        _show_bars(ledger)
    return ()


def _say_step(scene: Scene, stage: Stage, cell: Ledger) -> None:
    """Say what happens in a stage, and what it does to the chosen pair."""
    query, key = quoted(scene.query_tokens[cell.query]), quoted(scene.key_tokens[cell.key])
    size, passed = len(cell.products), len(cell.value)
    words = {
        "query": f"{query} asks with {size:,} numbers.",
        "key": f"{key} is found by {size:,} numbers.",
        "raw": f"{query} and {key}: {size:,} products add up to {number(cell.raw)}.",
        "scaled": f"{query} and {key}: {number(cell.raw)} × {number(cell.scale)} = {number(cell.scaled)}.",
        "mask": f"{query} may {'' if cell.allowed else 'not '}look at {key}.",
        "masked": f"{query} and {key}: {number(cell.masked)}.",
        "weights": f"{query} gives {key} a weight of {number(cell.weight)}.",
        "value": f"{key} passes on {passed:,} numbers.",
        "output": f"{key} adds {number(cell.weight)} of its value to that of {query}.",
    }
    presenting.tell(f"**{stage.name}** {stage.sentence} {words[stage.key]}")


def _tokens(scene: Scene) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The tokens of queries and keys as "As Python" writes them; None for matrices that have none."""
    if scene.real is not None:
        return call(scene.real.capture.tokens, scene.real.kind)
    return (scene.query_tokens, scene.key_tokens) if is_known(scene.query_tokens) else None


def _show_stage(scene: Scene, changed: Scene | None, stage: Stage, ledger: Ledger) -> None:
    cell = ledger.query, ledger.key
    versions = {"As it is": scene} | ({} if changed is None else {"Changed": changed})
    limit = colour_limit(stage, *(version.overview.matrices[stage.key] for version in versions.values()))
    texts = None if scene.real is None else pair_ranges(scene.real.capture)
    tokens = scene.query_tokens, scene.key_tokens
    width = presenting.width(WIDTH, 0.7) if changed is None else presenting.width(ONE_OF_TWO, 0.38)
    size = {"height": presenting.height(HEIGHT, 0.64), "width": width}
    for column, (name, version) in zip(shown.columns(len(versions)), versions.items(), strict=True):
        with column:
            if changed is not None:
                presenting.tell(f"**{name}**: scale {number(version.head.scale)}")
            chart = stage_heatmap(stage, version.overview.matrices, *tokens, pin=cell, limit=limit, **size)
            if texts is not None:
                border = [texts[1].start]  # where the second text begins
                with_borders(chart, rows=border, columns=border if stage.columns == "key" else [])
            presenting.lit(chart)
            alt = f"{stage.name}: heatmap of {stage.rows} by {stage.columns}. {stage.sentence}"
            title = stage.name if changed is None else f"{stage.name}, {name.lower()}"
            other = "" if version is scene else "As it is"
            show_chart(chart, name, alt, title=title, numbers=version.numbers([stage.key]), grows=True, beside=other)


def _show_magnified(scene: Scene, stage: Stage, cell: tuple[int, int]) -> None:
    """Show the exact numbers of a stage around the chosen pair, and of the stage that is read beside it."""

    def draw(window: Overview) -> None:
        tokens = scene.query_tokens, scene.key_tokens
        chart = stage_heatmap(stage, window.matrices, *tokens, pin=cell, height=430)
        alt = f"{stage.name} around the chosen pair, every number exact."
        show_chart(chart, "loupe", alt, title=f"{stage.name} near the chosen pair")

    beside = () if stage.beside is None else (stage.beside,)
    show_magnified(scene.head.stages(stage.key, *beside), cell, draw)


def _show_sum(scene: Scene, output: OutputSum) -> None:
    dimensions = min(DIMENSIONS, len(output.total))
    query = quoted(scene.query_tokens[output.query])
    st.markdown(f"**The output of {query} is a sum over all keys**, the largest weights first:")
    rows = [
        [quoted(scene.key_tokens[key]), number(weight), *map(number, term[:dimensions])]
        for key, weight, term in zip(output.keys, output.weights, output.terms, strict=True)
    ]
    if output.rest_count:
        others = f"{output.rest_count:,} further {'key' if output.rest_count == 1 else 'keys'}"
        rows.append([others, number(output.rest_weight), *map(number, output.rest_term[:dimensions])])
    total = float(output.weights.sum()) + output.rest_weight
    rows.append([f"**{cell}**" for cell in ("sum", number(total), *map(number, output.total[:dimensions]))])
    table(["key", "weight", *(f"dim {dimension}" for dimension in range(dimensions))], rows)
    if len(output.total) > dimensions:
        st.caption(f"Weight × value in the first {dimensions} of {len(output.total)} dimensions.")


def _say_pair(scene: Scene, cell: Ledger) -> None:
    query, key = quoted(scene.query_tokens[cell.query]), quoted(scene.key_tokens[cell.key])
    masked = f"{query} may not look at {key}: the pair is masked, its weight is exactly 0."
    presenting.finding(f"{query} gives **{cell.weight:.1%}** of its attention to {key}." if cell.allowed else masked)


def _show_ledger(scene: Scene, cell: Ledger, before: Ledger | None) -> None:
    has_bias = "B" in added(scene.head)
    columns = [lines(ledger, has_bias=has_bias) for ledger in ((cell,) if before is None else (before, cell))]
    rows = [[plain(steps[0][0]), *(plain(words) for _, words in steps)] for steps in zip(*columns, strict=True)]
    table(["step", "value"] if before is None else ["step", "as it is", "changed"], rows)


def _show_bars(cell: Ledger) -> None:
    to_weight, to_output = shown.columns(2, gap="medium")
    with to_weight, presenting.aside():
        alt = "Waterfall: the products of query and key one by one, their sum, and what becomes of it."
        show_chart(waterfall(cell), "waterfall", alt, title="From products to the score")
    with to_output, presenting.aside():
        alt = "Bars: the value vector of the key, and its share that reaches the query's output."
        show_chart(passed_on(cell), "passed on", alt, title="What the key passes on")


# --- the equation


def show_equation(scene: Scene, cell: tuple[int, int], opened: str) -> None:
    matrices = scene.overview.matrices
    chart = equation(matrices, pin=cell, opened=opened, scale=scene.head.scale, added=added(scene.head))
    shapes = (f"{name} {matrices[key].shape[0]} by {matrices[key].shape[1]}" for key, name in NAMES.items())
    with nullcontext() if shown.is_quiet() else st.container(key=state.EQUATION):
        alt = f"The equation of attention, a small heatmap for each matrix: {', '.join(shapes)}"
        numbers = scene.numbers(ORDER)
        show_chart(chart, "equation", alt, fills=False, title="The equation, all stages", numbers=numbers)


def show_ways_on(scene: Scene, cell: tuple[int, int], opened: str) -> None:
    """Show the line whose arrow keys walk through the equation, and a link to all heads of the model."""
    label = f"Open a stage with the arrow keys. Open: {NAMES[opened]}, {BY_KEY[opened].sentence}"
    look = {"words": "← → or a click opens a matrix", "line": (state.EQUATION, middle_of(opened))}
    places = (0, ORDER.index(opened)), (1, len(ORDER))
    arrow_keys(state.picture("equation"), label, *places, lambda _, place: _open(place), **look)
    if scene.real is not None:
        link_to_heads(scene.real.of, cell)


def clicked(cell: pin.Cell) -> None:
    """A click on the equation opens a stage, one on any other picture chooses a pair."""
    if place := pin.place_in(cell, "equation", "stage", (1, len(ORDER))):
        _open(place[1])
    else:
        pin.pin(cell)


def _open(place: int) -> None:
    st.session_state[state.STAGE] = ORDER[place]


# --- notes about the head


def show_layer_number(real: RealHead) -> None:
    """Show the layer's number in the model, if the model also has layers without attention."""
    number = layer_labels(real.capture, real.kind)[real.layer].number
    if number != real.layer:
        st.caption(f"Layer {real.layer} of those with softmax attention is layer {number} of the model.")


def show_next_tokens(real: RealHead, *, of_original: bool) -> None:
    """Show the most probable next tokens. of_original: the page changes something that the model knows nothing of"""
    st.subheader("What the model would write next", anchor=False)
    likely = real.capture.next_tokens(EXPORTED)
    tokens, probabilities = zip(*likely, strict=True)
    shown.now().lists["Next tokens"] = of_tokens(tokens, {"probability": probabilities})
    for column, (token, probability) in zip(st.columns(5, wrap=False), likely, strict=False):
        column.markdown(f"{quoted(token)}  \n**{probability:.1%}**")
    if not real.request.reads_both:
        link_to_why_word(real.request, real.request.text, likely[0][0])
    if of_original:
        st.caption("Of the original: the change above does not reach the rest of the model.")


def show_head_weights(real: RealHead) -> None:
    """Show W_Q, W_K, W_V and W_O as pictures. They are read only when somebody opens them."""
    words = "The head's own weight matrices"
    links.field(state.WEIGHTS, SwitchForm(), False, words)
    opened = st.expander(words, key=state.WEIGHTS, icon=":material/grid_view:", on_change="rerun")
    if not opened.open:
        return
    into_head = Axis("input dimension"), Axis("head dimension")
    axes = dict.fromkeys(("W_Q", "W_K", "W_V"), into_head) | {"W_O": (into_head[1], Axis("output dimension"))}
    with opened, errors_shown():
        weights = head_weights(real.capture.model, *real.place, real.kind)
        d_model, d_head = weights.W_Q.shape
        of_query = f"A position's {d_model} numbers times W_Q (plus its bias) are its query of {d_head}."
        st.caption(f"{of_query} W_O turns what the head found back into {d_model} numbers.")
        for column, (name, sides) in zip(st.columns(4), axes.items(), strict=True):
            matrix = getattr(weights, name)
            rows, columns = matrix.shape
            with column:
                st.markdown(f"**${name}$**  {rows} × {columns}")
                picture = heatmap(matrix, *sides, name="weight", height=360, width=ONE_OF_FOUR, compact=True)
                show_chart(picture, name, f"{name}: heatmap of {rows} by {columns} weights.", tools=False)
