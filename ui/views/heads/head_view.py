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
from core.capturing.layers import layer_labels
from core.figures.chart import Chart
from core.figures.heatmaps.borders import with_borders
from core.figures.heatmaps.heatmap import WIDTH
from core.figures.heatmaps.views import view_heatmap
from core.heads.pairs import pair_ranges
from core.heads.patterns import read_pairs, write_pairs
from core.heads.quantities import Taken
from core.heads.views import SCORES, Labels, LeftOut, Part, Quantity, Seen, View, Viewed, around
from core.models.modules import Kind
from ui import links, presenting, shown, state, stores
from ui.components import pin
from ui.components.token_view import token_view
from ui.controls.fields import menu, menu_of_several, numbered, switch
from ui.controls.heads_by import PATTERN
from ui.controls.pinned import pinned_among
from ui.links import Choice
from ui.markdown import plain, quoted, show_error
from ui.progress import run
from ui.views.common.certificate import show_certificate
from ui.views.common.pictures import show_heatmap
from ui.views.head_links import link_to_steps, link_to_what_if
from ui.views.heads.heads_grid import choose, looks_like
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
PARTS: dict[str, Part] = {"both": "all", "there": "first to second", "back": "second to first"}
PART_NAMES = {"both": "Both texts", "there": "First → second", "back": "Second → first"}
DIRECTIONS = {"from": "what it attends to", "to": "what attends to it"}
HEIGHT, LEAST_HEIGHT = 560, 400  # of the heatmap in pixels: short texts leave room for what is below
PER_ROW, AXIS = 22, 80
CONTROLS = 40  # the height of a row of them
LOUPE = 32  # tokens a side of the exact part of a long text
IN_TEXT = 192  # tokens of a long text that are shown as text


def show_head(of: stores.KindRequest, taken: Taken, layer: int, head: int, measured: pd.DataFrame | None) -> None:
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
            show_certificate(stores.certificate(stores.HeadRequest(of.text, of.kind, layer, head)))
    else:
        with above:
            st.space(CONTROLS)  # there is nothing to choose, but the pictures begin at one height
        cell = show_weights(taken, layer, head, in_column=True)
    with link, st.container(horizontal=True):
        chosen = stores.HeadRequest(of.text, of.kind, layer, head)
        link_to_steps(chosen, cell)
        if isinstance(taken, Capture):
            link_to_what_if(chosen)


def _show_view(of: stores.KindRequest, capture: Capture, shown_as: str, view: View) -> tuple[int, int] | None:
    """The (query, key) that is chosen; None where it is none of tokens."""
    shown.now().asked.append(view)
    try:
        viewed = Viewed(capture, of.kind, view)
        whole = _overview(of, viewed)
    except InputError as error:
        show_error(error)
        return None
    if whole is None:
        return None

    def exact(rows: range, columns: range) -> NDArray[np.floating]:
        return viewed.window(rows, columns).cells.values

    labels, size = viewed.labels, viewed.shape
    picture = st.container()
    with st.container():
        cell = pinned_among(size, viewed.strongest(whole), exact)
        if shown_as != "picture":
            _list_pins(labels)
        _say_cell(exact(range(cell[0], cell[0] + 1), range(cell[1], cell[1] + 1)), viewed, cell)
        is_long = max(size) > LOUPE and view.part == "all"
        if shown_as == "heatmap" and is_long and not presenting.is_on():
            _loupe(viewed, cell)
    with picture:
        if shown_as == "picture":
            show_patches(
                of.text, capture, exact(range(cell[0], cell[0] + 1), range(size[1]))[0], cell[0], view.quantity
            )
        elif shown_as == "heatmap":
            _heatmap(viewed, whole, cell)
        else:
            _text(viewed, cell, lines=shown_as == "lines")
        _remarks(viewed, whole)
    return None if view.by_word else cell


def _overview(of: stores.KindRequest, viewed: Viewed) -> Seen | None:
    """The whole view; None while it is not wanted, as the mean of very many heads may not be."""
    with st.container():  # keeps its place when there is nothing to show in it
        if (of, viewed.view) in stores.views:
            return stores.overview(of, viewed)
        heads = len(viewed.view.heads)
        return run(
            lambda on_progress: stores.overview(of, viewed, on_progress),
            ("overview", of, viewed.view),
            f"Taking the mean of {heads} heads" if heads > 1 else "Drawing the head",
            viewed.shape[0],
            unit=viewed.labels.unit,
        )


def _title(
    of: stores.KindRequest, taken: Taken, layer: int, head: int, measured: pd.DataFrame | None
) -> DeltaGenerator:
    """Which head this is and what it looks like; gives the place for a link beside it."""
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


def _choose_view(of: stores.KindRequest, capture: Capture, layer: int, head: int) -> tuple[str, View]:
    """What the controls above the picture ask for: how it is shown, and the view."""
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
    view = View(
        heads=heads,
        quantity=quantity,
        left_out=frozenset() if are_scores else frozenset(word for word in LEFT_OUT if word in left_out),
        renormalise=bool(renormalise and left_out) and not are_scores,
        by_word=bool(by_word) and not are_scores,
        part=part,
    )
    return shown_as, view


def _chart(
    viewed: Viewed,
    seen: Seen,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    pinned: tuple[int, int] | None,
    marked: Sequence[int] = (),
    height: int,
) -> Chart:
    quantity = viewed.view.quantity
    return view_heatmap(
        seen.cells,
        queries,
        keys,
        removed=seen.removed if viewed.hidden.any() else None,
        name="score" if quantity in SCORES else "weight" if quantity == "weights" else "size",
        signed=quantity in SCORES,
        pin=pinned,
        marked=marked,
        height=height,
        width=presenting.width(WIDTH, 0.52),
    )


def _heatmap(viewed: Viewed, whole: Seen, cell: tuple[int, int]) -> None:
    labels, rows, columns = viewed.labels, viewed.rows, viewed.columns
    queries, keys = labels.queries[rows.start : rows.stop], labels.keys[columns.start : columns.stop]
    marked = [place - rows.start for place in _pinned_tokens(len(labels.queries)) if place in rows and place != cell[0]]
    height = presenting.height(max(LEAST_HEIGHT, min(PER_ROW * len(rows) + AXIS, HEIGHT)), 0.8)
    pinned = (cell[0] - rows.start, cell[1] - columns.start) if cell[0] in rows and cell[1] in columns else None
    chart = _chart(viewed, whole, queries, keys, pinned=pinned, marked=marked, height=height)
    if viewed.texts is not None and viewed.view.part == "all":
        border = [viewed.texts[1].start]
        with_borders(chart, rows=border, columns=border)
    if pinned is not None:
        presenting.lit(chart.figure, *pinned)
    show_heatmap(
        chart,
        "head",
        f"Heatmap of queries by keys, a {labels.unit} each.",
        title=NAMES_OF[viewed.view.quantity],
        numbers=of_view(viewed),
    )


def _loupe(viewed: Viewed, cell: tuple[int, int]) -> None:
    """The exact numbers around the chosen cell."""
    labels = viewed.labels
    rows, columns = around(cell[0], len(labels.queries), LOUPE), around(cell[1], len(labels.keys), LOUPE)
    st.markdown(
        f"**Every {labels.unit} near the chosen pair**: queries {rows.start} to {rows.stop - 1}, "
        f"keys {columns.start} to {columns.stop - 1}"
    )
    inside = (cell[0] - rows.start, cell[1] - columns.start)
    queries, keys = labels.queries[rows.start : rows.stop], labels.keys[columns.start : columns.stop]
    show_heatmap(
        _chart(viewed, viewed.window(rows, columns), queries, keys, pinned=inside, height=460),
        "loupe",
        "The same heatmap around the chosen pair, every number exact.",
        title=f"{NAMES_OF[viewed.view.quantity]} near the chosen pair",
    )


def _text(viewed: Viewed, cell: tuple[int, int], *, lines: bool) -> None:
    labels = viewed.labels
    direction = menu("Pointing at a token shows", state.DIRECTION, DIRECTIONS, look="buttons")
    rows = _in_text(viewed.rows, cell[0])
    one_text = labels.queries == labels.keys and viewed.view.part == "all"
    columns = rows if one_text else _in_text(viewed.columns, cell[1])
    looking_from = direction == "from"
    token_view(
        labels.queries[rows.start : rows.stop],
        labels.keys[columns.start : columns.stop],
        viewed.window(rows, columns).cells.values,
        rows_from=rows.start,
        columns_from=columns.start,
        direction="from" if looking_from else "to",
        lines=lines,
        pinned=_pinned_tokens(len(labels.queries if looking_from else labels.keys)),
        percent=viewed.view.quantity == "weights",
        on_token=_toggle_pin,
        key=state.TOKEN_VIEW,
    )
    if len(viewed.rows) > IN_TEXT or len(viewed.columns) > IN_TEXT:
        st.caption(
            f"{labels.unit.capitalize()}s {rows.start} to {rows.stop - 1} of {len(labels.queries):,}, around the chosen pair. "
            f"Choose another query to move on."
        )


def _in_text(seen: range, place: int) -> range:
    """Of what is seen, as much around a place as can be read as text."""
    found = around(min(max(place, seen.start), seen.stop - 1) - seen.start, len(seen), IN_TEXT)
    return range(seen.start + found.start, seen.start + found.stop)


def _list_pins(labels: Labels) -> None:
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


def _remarks(viewed: Viewed, whole: Seen) -> None:
    """What is not plain attention of one head is said, whenever it is on."""
    view, hidden = viewed.view, viewed.hidden
    if len(view.heads) > 1:
        names = ", ".join(f"{layer}.{head}" for layer, head in view.heads[:8])
        st.caption(f"Mean of {len(view.heads)} heads: {names}{' …' if len(view.heads) > 8 else ''}.")
    if view.quantity in WORDS_ABOUT:
        st.caption(f"Shown: {WORDS_ABOUT[view.quantity]}.")
    if hidden.any():
        rest = "what remains of each row is scaled to sum to 1" if view.renormalise else "the rest is as it was"
        st.caption(
            f":material/visibility_off: {int(hidden.sum())} of {len(hidden)} tokens are left out as keys; {rest}. "
            f"Left out of a row: {whole.removed.mean():.1%} on average, {whole.removed.min():.1%} to {whole.removed.max():.1%}."
        )
    if view.part != "all":
        inside = viewed.inside()
        st.caption(
            f"Only what goes from the {view.part.replace(' to ', ' text to the ')}: {inside.mean():.1%} of the attention of "
            f"these {viewed.labels.unit}s on average, {inside.min():.1%} to {inside.max():.1%}. The rest goes elsewhere."
        )
    if view.by_word:
        st.caption("Words: summed over a word's tokens as keys, averaged over them as queries.")


def _say_cell(values: NDArray[np.floating], viewed: Viewed, cell: tuple[int, int]) -> None:
    query, key = quoted(viewed.labels.queries[cell[0]]), quoted(viewed.labels.keys[cell[1]])
    value = float(values[0, 0])
    if np.isnan(value):
        words = f"{query} → {key}: masked or left out."
    elif viewed.view.quantity == "weights":
        remains = viewed.view.renormalise and viewed.hidden.any()
        share = "of what remains of its attention" if remains else "of its attention"
        words = f"{query} gives **{value:.1%}** {share} to {key}."
    else:
        words = f"{query} → {key}: **{value:.4g}**"
    with presenting.told("number"):
        st.markdown(words)


def _clicked(taken: Taken, kind: Kind) -> None:
    """A click on the grid chooses a head; on the head it chooses a pair, or draws the pattern that is searched for."""
    if head := pin.clicked_in("layer", "head", (taken.layers(kind), taken.heads(kind))):
        choose(*head)
    elif isinstance(taken, Capture) and (patch := _clicked_patch(taken)):
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
