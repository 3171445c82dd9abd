"""One head of the grid in detail: its heatmap, its text, its lines; weighted, cleared of tokens, word by word, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core import Capture, InputError
from core.attention.rowwise import Overview, around
from core.capturing.layers import layer_labels
from core.figures.chart import Chart
from core.figures.heatmaps.borders import with_borders
from core.figures.heatmaps.heatmap import WIDTH
from core.figures.heatmaps.views import view_heatmap
from core.heads.pairs import pair_ranges
from core.heads.patterns import read_pairs, write_pairs
from core.heads.quantities import Pass
from core.heads.views import SCORES, HeadView, LeftOut, PairPart, Quantity, ViewLabels, ViewMatrix
from core.models.modules import Kind
from core.notebook.figures import stage_figure
from ui import links, passes, presenting, state
from ui.calls import call, expression, result, result_of
from ui.components import pin
from ui.components.token_view import token_view
from ui.controls.fields import menu, menu_of_several, numbered, switch
from ui.controls.heads_by import PATTERN
from ui.controls.pinned import pinned_among
from ui.links import Choice
from ui.markdown import plain, quoted, show_error
from ui.progress import run
from ui.requests import HeadRequest, KindRequest
from ui.views.common.certificate import show_certificate
from ui.views.common.magnified import show_magnified
from ui.views.common.pictures import show_heatmap
from ui.views.head_links import link_to_steps, link_to_what_if
from ui.views.heads import results
from ui.views.heads.grid import choose_clicked
from ui.views.heads.heads_grid import looks_like
from ui.views.heads.patches import choose_patch, show_patches
from ui.views.numbers import of_view
from ui.views.sources.weights_only import show_weights
from ui.views.step_by_step.head_notes import show_key_sharing

LOOKS = {"heatmap": "Heatmap", "text": "Text", "lines": "Lines", "picture": "On the picture"}
OF_TEXTS, OF_IMAGES = ("heatmap", "text", "lines"), ("heatmap", "picture")
QUANTITIES: dict[str, Quantity] = {
    "weights": "weights",
    "value-weighted": "values",
    "output-weighted": "outputs",
    "raw": "raw",
    "scaled": "scaled",
    "masked": "masked",
}
NUMBERS = {
    "weights": "Weights",
    "value-weighted": "Weights × value",
    "output-weighted": "Weights × value × W_O",
    "raw": "Raw scores",
    "scaled": "Scaled scores",
    "masked": "Masked scores",
}
NAMES_OF = {quantity: NUMBERS[word] for word, quantity in QUANTITIES.items()}
WORDS_ABOUT = {
    "values": "weight times the length of the key's value vector: how much arrives of what is found there",
    "outputs": "weight times the length of value times W_O: how much the key adds to what the head writes "
    "(Kobayashi et al. 2020)",
}
LEFT_OUT: dict[LeftOut, str] = {"first": "First token", "special": "Special tokens"}
PARTS: dict[str, PairPart] = {"both": "all", "there": "first to second", "back": "second to first"}
PART_NAMES = {"both": "Both texts", "there": "First → second", "back": "Second → first"}
DIRECTIONS = {"from": "what it attends to", "to": "what attends to it"}
HEIGHT, LEAST_HEIGHT = 560, 400  # of the heatmap in pixels: short texts leave room for what is below
PER_ROW, AXIS = 22, 80
CONTROLS = 40  # the height of a row of them
IN_TEXT = 192  # tokens of a long text that are shown as text


def show_head(of: KindRequest, taken: Pass, layer: int, head: int, measured: pd.DataFrame | None) -> None:
    pin.listen(partial(_clicked, taken, of.kind))  # before the pictures: whoever sees one may click at once
    above = st.container(gap="xsmall")
    with above:
        link = _title(of, taken, layer, head, measured)
    if isinstance(taken, Capture):
        with above:
            shown_as, view = _choose_view(of, taken, layer, head)
        cell = _show_view(of, taken, shown_as, view)
        with st.container():
            show_key_sharing(taken, layer, head, of.kind)
            show_certificate(passes.certificate(HeadRequest(of.text, of.kind, layer, head)))
    else:
        with above:
            st.space(CONTROLS)  # there is nothing to choose, but the pictures begin at one height
        cell = show_weights(taken, layer, head, in_column=True)
    with link, st.container(horizontal=True):
        chosen = HeadRequest(of.text, of.kind, layer, head)
        link_to_steps(chosen, cell)
        if isinstance(taken, Capture):
            link_to_what_if(chosen)


def _show_view(of: KindRequest, capture: Capture, shown_as: str, view: HeadView) -> tuple[int, int] | None:
    """Show the head as the view says. Return the chosen (query, key); None if it is not one of tokens."""
    try:
        matrix = call(ViewMatrix, capture, of.kind, view)
        whole = _overview(of, matrix)
    except InputError as error:
        show_error(error)
        return None
    if whole is None:
        return None

    labels, size, exact = matrix.labels, matrix.shape, matrix.exact
    picture = st.container()
    with st.container():
        cell = pinned_among(size, matrix.strongest(whole), exact)
        if shown_as != "picture":
            _list_pins(labels)
        _record(of, matrix, cell)
        _say_cell(exact(range(cell[0], cell[0] + 1), range(cell[1], cell[1] + 1)), matrix, cell)
        if shown_as == "heatmap" and view.part == "all":
            show_magnified(matrix, cell, lambda window: _magnified(matrix, window, cell), unit=labels.unit)
    with picture:
        if shown_as == "picture":
            show_patches(
                of.text, capture, exact(range(cell[0], cell[0] + 1), range(size[1]))[0], cell[0], view.quantity
            )
        elif shown_as == "heatmap":
            _heatmap(matrix, whole, cell)
        else:
            _text(matrix, cell, lines=shown_as == "lines")
        _remarks(matrix, whole)
    return None if view.by_word else cell


def _record(of: KindRequest, matrix: ViewMatrix, cell: tuple[int, int]) -> None:
    """Record what is shown for "As Python": the weights of one head as a picture, any other view as its numbers."""
    layer, head = matrix.view.heads[0]
    if matrix.view == HeadView(heads=((layer, head),)):
        one = passes.head(HeadRequest(of.text, of.kind, layer, head))
        result_of(stage_figure, one, "weights", tokens=expression(matrix.capture.tokens, of.kind), cell=cell)
    else:
        result(expression(matrix.overview).part(".matrices['view'].values"))


def _overview(of: KindRequest, matrix: ViewMatrix) -> Overview | None:
    """The whole view; None while its computation waits for the visitor, as for the mean of very many heads."""
    with st.container():  # keeps its place when there is nothing to show in it
        heads = len(matrix.view.heads)
        return run(
            results.overview.task(of, matrix.view, matrix=matrix),
            f"Taking the mean of {heads} heads" if heads > 1 else "Drawing the head",
            matrix.shape[0],
            unit=matrix.labels.unit,
        )


def _title(of: KindRequest, taken: Pass, layer: int, head: int, measured: pd.DataFrame | None) -> DeltaGenerator:
    """Show the name of the head and what it looks like; return the place for a link beside it."""
    label = layer_labels(taken, of.kind)[layer]
    in_model = f" (layer {label.number} of the model)" if label.number != layer else ""
    remarks = []
    if measured is not None:
        row = layer * taken.heads(of.kind) + head
        remarks += looks_like(of, taken, measured.iloc[row : row + 1])
    if label.words:
        remarks.append(f"this layer: {label.words}")
    presenting.title(f"Layer {layer}, head {head} of {plain(str(of.text.model))}")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(f"Layer {layer}{in_model}, head {head}", anchor=False, width="content")
        st.caption(plain(" · ".join(remarks)), width="stretch")
        return st.container(width="content")


def _choose_view(of: KindRequest, capture: Capture, layer: int, head: int) -> tuple[str, HeadView]:
    """Show the controls above the picture; return how the head is shown, and the view."""
    row = st.container(horizontal=True, horizontal_alignment="distribute")
    with row:
        looks_there = {word: LOOKS[word] for word in (OF_TEXTS if capture.grid is None else OF_IMAGES)}
        shown_as = menu("Shown as", state.SHOWN_AS, looks_there, look="buttons", label_visibility="collapsed")
    if pair_ranges(capture) is not None:
        part = PARTS[menu("Of the pair", state.PART_OF_PAIR, PART_NAMES, look="buttons", label_visibility="collapsed")]
    else:
        part = PARTS[links.field(state.PART_OF_PAIR, Choice({"both": PART_NAMES["both"]}), "both", "Of the pair")]
    with row, st.popover("What is shown", icon=":material/tune:"):
        quantity = QUANTITIES[menu("Numbers", state.QUANTITY, NUMBERS)]
        offered = {word: name for word, name in LEFT_OUT.items() if word == "first" or not capture.model.reads_images}
        left_out = menu_of_several("Leave out as keys", state.LEAVE_OUT, offered, disabled=quantity in SCORES)
        renormalise = switch(
            "What remains of a row sums to 1",
            state.RENORMALISE,
            disabled=not left_out or quantity in SCORES,
        )
        by_word = not capture.model.reads_images and switch(
            "Words instead of tokens",
            state.BY_WORD,
            help="Summed over the tokens of a word as key, averaged over the tokens of a word as query: no attention is lost.",
            disabled=quantity in SCORES,
        )
        every = [f"{at}.{one}" for at in range(capture.layers(of.kind)) for one in range(capture.heads(of.kind))]
        several = menu_of_several(
            "Mean of these heads",
            state.MEAN_OF,
            {name: name for name in every},
            look="box",
            placeholder="only the chosen head",
        )
    heads = tuple((int(at), int(one)) for at, _, one in (name.partition(".") for name in several)) or ((layer, head),)
    are_scores = quantity in SCORES  # nothing is left out of them, and words have none
    view = HeadView(
        heads=heads,
        quantity=quantity,
        left_out=frozenset() if are_scores else frozenset(word for word in LEFT_OUT if word in left_out),
        renormalise=bool(renormalise and left_out) and not are_scores,
        by_word=bool(by_word) and not are_scores,
        part=part,
    )
    return shown_as, view


def _chart(
    matrix: ViewMatrix, overview: Overview, cell: tuple[int, int], marked: Sequence[int] = (), *, height: int
) -> Chart:
    """The view or a window of it, with the chosen (query, key) framed if it lies in there; marked: further queries."""
    quantity, labels, cells = matrix.view.quantity, matrix.labels, overview.matrices["view"]
    rows, columns = (range(first, first + length) for first, length in zip(cells.start, cells.shape, strict=True))
    return view_heatmap(
        cells,
        labels.queries[rows.start : rows.stop],
        labels.keys[columns.start : columns.stop],
        removed=overview.row_numbers["removed"] if matrix.hidden.any() else None,
        name="score" if quantity in SCORES else "weight" if quantity == "weights" else "size",
        signed=quantity in SCORES,
        pin=_inside(cell, overview),
        marked=[query - rows.start for query in marked if query in rows],
        height=height,
        width=presenting.width(WIDTH, 0.52),
    )


def _inside(cell: tuple[int, int], overview: Overview) -> tuple[int, int] | None:
    """The chosen (query, key) counted from the first of an overview; None if it lies outside."""
    cells = overview.matrices["view"]
    row, column = (place - first for place, first in zip(cell, cells.start, strict=True))
    return (row, column) if row in range(cells.shape[0]) and column in range(cells.shape[1]) else None


def _heatmap(matrix: ViewMatrix, whole: Overview, cell: tuple[int, int]) -> None:
    labels = matrix.labels
    marked = [query for query in _pinned_tokens(len(labels.queries)) if query != cell[0]]
    height = presenting.height(max(LEAST_HEIGHT, min(PER_ROW * len(matrix.rows) + AXIS, HEIGHT)), 0.8)
    chart = _chart(matrix, whole, cell, marked, height=height)
    if matrix.texts is not None and matrix.view.part == "all":
        border = [matrix.texts[1].start]
        with_borders(chart, rows=border, columns=border)
    if (pinned := _inside(cell, whole)) is not None:
        presenting.lit(chart.figure, *pinned)
    show_heatmap(
        chart,
        "head",
        f"Heatmap of queries by keys, a {labels.unit} each.",
        title=NAMES_OF[matrix.view.quantity],
        numbers=of_view(matrix),
    )


def _magnified(matrix: ViewMatrix, window: Overview, cell: tuple[int, int]) -> None:
    show_heatmap(
        _chart(matrix, window, cell, height=460),
        "loupe",
        "The same heatmap around the chosen pair, every number exact.",
        title=f"{NAMES_OF[matrix.view.quantity]} near the chosen pair",
    )


def _text(matrix: ViewMatrix, cell: tuple[int, int], *, lines: bool) -> None:
    labels = matrix.labels
    direction = menu("Pointing at a token shows", state.DIRECTION, DIRECTIONS, look="buttons")
    rows = _in_text(matrix.rows, cell[0])
    one_text = labels.queries == labels.keys and matrix.view.part == "all"
    columns = rows if one_text else _in_text(matrix.columns, cell[1])
    looking_from = direction == "from"
    token_view(
        labels.queries[rows.start : rows.stop],
        labels.keys[columns.start : columns.stop],
        matrix.exact(rows, columns),
        rows_from=rows.start,
        columns_from=columns.start,
        direction="from" if looking_from else "to",
        lines=lines,
        pinned=_pinned_tokens(len(labels.queries if looking_from else labels.keys)),
        percent=matrix.view.quantity == "weights",
        on_token=_toggle_pin,
        key=state.TOKEN_VIEW,
    )
    if len(matrix.rows) > IN_TEXT or len(matrix.columns) > IN_TEXT:
        st.caption(
            f"{labels.unit.capitalize()}s {rows.start} to {rows.stop - 1} of {len(labels.queries):,}, around the chosen pair. "
            f"Choose another query to move on."
        )


def _in_text(seen: range, place: int) -> range:
    """As much of the shown positions around one of them as can be read as text."""
    found = around(min(max(place, seen.start), seen.stop - 1) - seen.start, len(seen), IN_TEXT)
    return range(seen.start + found.start, seen.start + found.stop)


def _list_pins(labels: ViewLabels) -> None:
    """Comes before what shows the pins, or those of an address would be missing from the first run."""
    places = numbered(range(max(len(labels.queries), len(labels.keys))))
    menu_of_several(
        f"Pinned {labels.unit}s", state.PINNED_TOKENS, places, look="box", placeholder="none: click one in the text"
    )


def _pinned_tokens(count: int) -> list[int]:
    return [place for place in st.session_state.get(state.PINNED_TOKENS, []) if place < count]


def _toggle_pin(place: int) -> None:
    pinned = list(st.session_state.get(state.PINNED_TOKENS, []))
    st.session_state[state.PINNED_TOKENS] = (
        [other for other in pinned if other != place] if place in pinned else [*pinned, place]
    )


def _remarks(matrix: ViewMatrix, whole: Overview) -> None:
    """Say whatever makes the picture other than the plain attention of one head."""
    view, hidden = matrix.view, matrix.hidden
    if len(view.heads) > 1:
        names = ", ".join(f"{layer}.{head}" for layer, head in view.heads[:8])
        st.caption(f"Mean of {len(view.heads)} heads: {names}{' …' if len(view.heads) > 8 else ''}.")
    if view.quantity in WORDS_ABOUT:
        st.caption(f"Shown: {WORDS_ABOUT[view.quantity]}.")
    if hidden.any():
        removed = whole.row_numbers["removed"]
        rest = "what remains of each row is scaled to sum to 1" if view.renormalise else "the rest is as it was"
        st.caption(
            f":material/visibility_off: {int(hidden.sum())} of {len(hidden)} tokens are left out as keys; {rest}. "
            f"Left out of a row: {removed.mean():.1%} on average, {removed.min():.1%} to {removed.max():.1%}."
        )
    if view.part != "all":
        inside = matrix.inside()
        st.caption(
            f"Only what goes from the {view.part.replace(' to ', ' text to the ')}: {inside.mean():.1%} of the attention of "
            f"these {matrix.labels.unit}s on average, {inside.min():.1%} to {inside.max():.1%}. The rest goes elsewhere."
        )
    if view.by_word:
        st.caption("Words: summed over a word's tokens as keys, averaged over them as queries.")


def _say_cell(values: NDArray[np.floating], matrix: ViewMatrix, cell: tuple[int, int]) -> None:
    query, key = quoted(matrix.labels.queries[cell[0]]), quoted(matrix.labels.keys[cell[1]])
    value = float(values[0, 0])
    if np.isnan(value):
        words = f"{query} → {key}: masked or left out."
    elif matrix.view.quantity == "weights":
        remains = matrix.view.renormalise and matrix.hidden.any()
        share = "of what remains of its attention" if remains else "of its attention"
        words = f"{query} gives **{value:.1%}** {share} to {key}."
    else:
        words = f"{query} → {key}: **{value:.4g}**"
    with presenting.told("number"):
        st.markdown(words)


def _clicked(taken: Pass, kind: Kind) -> None:
    """A click on the grid chooses a head; on the head it chooses a pair, or draws the pattern that is searched for."""
    if choose_clicked((taken.layers(kind), taken.heads(kind))):
        return
    if isinstance(taken, Capture) and (patch := _clicked_patch(taken)):
        choose_patch(taken, *patch)
    elif _is_drawing() and (pair := pin.clicked_in("query", "key", taken.shape(kind))):
        _toggle_pair(pair)
    else:
        pin.pin_clicked()


def _clicked_patch(capture: Capture) -> tuple[int, int] | None:
    return None if capture.grid is None else pin.clicked_in("patch_row", "patch_column", capture.grid)


def _is_drawing() -> bool:
    searches = st.session_state.get(state.METRIC) == PATTERN
    return searches and st.session_state.get(state.LOOK_FOR) == "pairs"


def _toggle_pair(pair: tuple[int, int]) -> None:
    try:
        cells = list(read_pairs(st.session_state.get(state.PAIRS, "")))
    except InputError:
        return  # said beside the field, whose text stays as it is
    cells = [other for other in cells if other != pair] if pair in cells else [*cells, pair]
    st.session_state[state.PAIRS] = write_pairs(cells)
