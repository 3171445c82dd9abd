"""One head of the grid in detail: its heatmap, its text, its lines; weighted, cleared of tokens, word by word, averaged."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.attention.rowwise import Numbers, Overview, Whole, strongest_cell
from core.capturing.layer_labels import layer_labels
from core.claims.verdicts import share_of
from core.figures.chart import Chart
from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import WIDTH
from core.figures.heatmaps.views import view_heatmap
from core.figures.labels import all_placed
from core.heads.patterns import read_pairs, write_pairs
from core.heads.quantities import text_of
from core.heads.views import SCORES, HeadView, LeftOut, PairPart, Quantity, ViewLabels, ViewMatrix, pair_ranges
from core.notebook.figures import stage_figure
from ui import links, presenting, state
from ui.calls import call, expression, result, result_of
from ui.components import pin
from ui.components.token_view import IN_TEXT, part_in_text, token_view
from ui.controls.fields import choose, label_again, menu, menu_of_several, numbered, switch
from ui.controls.pinned import Tokens, from_to, pinned_among
from ui.markdown import errors_shown, plain, quoted
from ui.progress import run
from ui.requests import HeadRequest
from ui.views.certificates import check_head
from ui.views.charts import show_chart, show_magnified
from ui.views.claims.results import known_of
from ui.views.grid_of_heads import choose_clicked
from ui.views.head_links import link_to_steps, link_to_what_if, link_to_why
from ui.views.heads.all_heads import PATTERN
from ui.views.numbers import of_view
from ui.views.patches import choose_clicked_patch, noun, show_patches
from ui.views.sources import passes
from ui.views.sources.heads import AnyHead, ExposedHead, RealHead, say_what_is_missing, show_key_sharing, show_weights

LOOKS = {"heatmap": "Heatmap", "text": "Text", "lines": "Lines", "picture": "On the picture"}
OF_TEXTS, OF_IMAGES = ("heatmap", "text", "lines"), ("heatmap", "picture")
OF_BOTH = ("picture", *OF_TEXTS)
QUANTITIES: dict[str, tuple[str, Quantity]] = {
    "weights": ("Weights", "weights"),
    "value-weighted": ("Weights × value", "values"),
    "output-weighted": ("Weights × value × W_O", "outputs"),
    "raw": ("Raw scores", "raw"),
    "scaled": ("Scaled scores", "scaled"),
    "masked": ("Masked scores", "masked"),
}
NAMES_OF = {quantity: name for name, quantity in QUANTITIES.values()}
WORDS_ABOUT = {
    "values": "weight times the length of the key's value vector: how much arrives of what is found there",
    "outputs": "weight times the length of value times W_O: how much the key adds to what the head writes "
    "(Kobayashi et al. 2020)",
}
LEFT_OUT: dict[LeftOut, str] = {"first": "First token", "special": "Special tokens", "sinks": "Sinks on the image"}
PARTS: dict[str, tuple[PairPart, str]] = {
    "both": ("all", "Both texts"),
    "there": ("first to second", "First → second"),
    "back": ("second to first", "Second → first"),
}
DIRECTIONS: dict[Literal["from", "to"], str] = {"from": "what it attends to", "to": "what attends to it"}
HEIGHT, LEAST_HEIGHT = 560, 380  # of the heatmap in pixels: short texts leave room for what is below
PER_ROW, AXIS = 18, 80
CONTROLS = 40  # the height of a row of them

Place = TypeVar("Place", int, tuple[int, int])


def show_head(real: RealHead, boxes: DeltaGenerator | None) -> tuple[int, int] | None:
    """Show a head whose queries and keys are known. Return the chosen (query, key); None if it is not one of tokens.

    boxes  where the boxes of the chosen pair stand, if all heads are ranked by it; None: below the picture
    """
    pin.listen(lambda cell: _clicked(real, cell))  # before the pictures: whoever sees one may click at once
    with st.container(gap="xsmall"):
        link = _title(real)
        shown_as, view = _choose_view(real)
    cell = _show_view(real, shown_as, view, boxes)
    with st.container():
        show_key_sharing(real)
        check_head(real.of)
        link_to_why(real.of, cell)
    with link, st.container(horizontal=True):
        link_to_steps(real.of, cell)
        link_to_what_if(real.of)
    return cell


def show_exposed_head(head: ExposedHead, boxes: DeltaGenerator | None) -> tuple[int, int]:
    """Show a head of which only the weights are known; otherwise like `show_head`."""
    pin.listen(lambda cell: choose_clicked(cell, head.grid) or pin.pin(cell))
    with st.container(gap="xsmall"):
        _title(head)
        st.space(CONTROLS)  # there is nothing to choose, but the pictures begin at one height
    picture = st.container()
    say_what_is_missing(head.capture)
    weights = head.capture.weights(*head.place)
    beside = st.container()
    with beside:
        cell = _choose_cell(head.tokens, strongest_cell(weights), Whole(weights).exact, boxes)
    show_weights(head, cell, picture, beside, 440)
    return cell


def _matrix(real: RealHead, view: HeadView) -> ViewMatrix:
    return call(ViewMatrix, real.capture, real.kind, view)


def _show_view(real: RealHead, shown_as: str, view: HeadView, boxes: DeltaGenerator | None) -> tuple[int, int] | None:
    """Show the head as the view says. Return the chosen (query, key); None if it is not one of tokens."""
    whole = None
    with errors_shown():
        matrix = _matrix(real, view)
        what = f"Taking the mean of {len(view.heads)} heads" if len(view.heads) > 1 else "Drawing the head"
        task = passes.overview.task(real.of_kind, matrix.view, matrix=matrix)
        with st.container():  # keeps its place when there is nothing to show in it
            whole = run(task, what, matrix.shape[0], unit=matrix.labels.unit)
    if whole is None:
        return None
    labels, size, exact = matrix.labels, matrix.shape, matrix.exact
    picture = st.container()
    with st.container():
        tokens, of_tokens = (labels.queries, labels.keys), None if view.by_word else boxes
        cell = query, key = _choose_cell(tokens, matrix.strongest(whole), exact, of_tokens)
        # Before what shows the pins, or those of an address would be missing from the first run.
        if shown_as != "picture":
            label_again(state.PINNED_TOKENS)
            look: dict[str, Any] = {"look": "box", "placeholder": "none: click one in the text"}
            menu_of_several(f"Pinned {labels.unit}s", state.PINNED_TOKENS, _places(labels), **look)
        _record(real, matrix, cell)
        row = exact(range(query, query + 1), range(size[1]))[0]
        _say_cell(float(row[key]), matrix, cell)
        if shown_as == "heatmap" and view.part == "all":
            show_magnified(matrix, cell, lambda window: _magnified(matrix, window, cell), unit=labels.unit)
    with picture:
        if shown_as == "picture":
            show_patches(real, row, query, view.quantity)
        elif shown_as == "heatmap":
            _heatmap(real, matrix, whole, cell)
        else:
            _text(matrix, cell, lines=shown_as == "lines")
        _remarks(matrix, whole)
    return None if view.by_word else cell


def _choose_cell(
    tokens: Tokens, suggested: tuple[int, int], exact: Numbers, boxes: DeltaGenerator | None
) -> tuple[int, int]:
    if boxes is None:
        return pinned_among(tokens, suggested, exact)
    with boxes:
        return from_to(tokens, suggested, exact)


def _places(labels: ViewLabels) -> dict[int, str]:
    """Every position with its name, which is only a number where it may be one of either text."""
    if labels.queries == labels.keys:
        return dict(enumerate(all_placed(labels.keys)))
    return numbered(range(max(len(labels.queries), len(labels.keys))))


def _record(real: RealHead, matrix: ViewMatrix, cell: tuple[int, int]) -> None:
    """Record what is shown for "As Python": the weights of one head as a picture, any other view as its numbers."""
    place = matrix.view.heads[0]
    if matrix.view == HeadView(heads=(place,)):
        head = passes.head(HeadRequest(real.request, real.kind, *place))
        result_of(stage_figure, head, "weights", tokens=expression(matrix.capture.tokens, real.kind), cell=cell)
    else:
        result(expression(matrix.overview).part(".matrices['view'].values"))


def _title(head: AnyHead) -> DeltaGenerator:
    """Show the name of the head and the known claims that hold for it; return the place for a link beside it."""
    layer = head.layer
    label = layer_labels(head.capture, head.kind)[layer]
    in_model = f" (layer {label.number} of the model)" if label.number != layer else ""
    held = [] if (known := known_of(head)) is None else known.holding_for(str(head))
    shares = [
        share_of(row) if len(held) == 1 else f"{row['share']:.1%}" for row in held
    ]  # there is room for one interval
    said = ", ".join(f"{row['name']} {share}" for row, share in zip(held, shares, strict=True))
    remarks = [f"holds: {said}"] if held else []
    remarks += [f"this layer: {label.words}"] if label.words else []
    presenting.title(f"Layer {layer}, head {head.head} of {plain(str(head.request.model))}")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(f"Layer {layer}{in_model}, head {head.head}", anchor=False, width="content")
        st.caption(plain(" · ".join(remarks)), width="stretch")
        return st.container(width="content")


def _choose_view(real: RealHead) -> tuple[str, HeadView]:
    """Show the controls above the picture; return how the head is shown, and the view."""
    row = st.container(horizontal=True, horizontal_alignment="distribute")
    with row:
        has_text, has_image = bool(real.capture.ids(real.kind)[0]), bool(real.capture.image_grids(real.kind))
        offered = (OF_BOTH if has_image else OF_TEXTS) if has_text else OF_IMAGES if has_image else OF_TEXTS
        looks = {word: LOOKS[word] for word in offered}
        shown_as = menu("Shown as", state.SHOWN_AS, looks, look="buttons", label_visibility="collapsed")
    names = {word: name for word, (_, name) in PARTS.items()}
    if pair_ranges(real.capture) is not None:
        part = menu("Of the pair", state.PART_OF_PAIR, names, look="buttons", label_visibility="collapsed")
    else:
        part = links.field(state.PART_OF_PAIR, links.ChoiceForm({"both": names["both"]}), "both", "Of the pair")
    with row, st.popover("Numbers"):
        view = _choose_numbers(real)
    return shown_as, replace(view, part=PARTS[part][0])


def _choose_numbers(real: RealHead) -> HeadView:
    quantity = choose("Numbers", state.QUANTITY, QUANTITIES)
    reads_texts = bool(real.capture.ids(real.kind)[0])
    is_score = quantity in SCORES  # nothing is left out of scores, and words have none
    has_image = bool(real.capture.image_grids(real.kind))
    has_special = reads_texts or bool(text_of(real.capture, real.kind).special.any())
    is_there = {"first": True, "special": has_special, "sinks": has_image}
    offered: dict[LeftOut, str] = {word: name for word, name in LEFT_OUT.items() if is_there[word]}
    left_out = menu_of_several("Leave out as keys", state.LEAVE_OUT, offered, disabled=is_score)
    renormalise = switch("What remains of a row sums to 1", state.RENORMALISE, disabled=not left_out or is_score)
    words = "Summed over the tokens of a word as key, averaged over the tokens of a word as query: "
    words += "no attention is lost."
    by_word = reads_texts and switch("Words instead of tokens", state.BY_WORD, help=words, disabled=is_score)
    every = {f"{layer}.{head}": (layer, head) for layer, head in np.ndindex(real.grid)}
    names, placeholder = {name: name for name in every}, "only the chosen head"
    several = menu_of_several("Mean of these heads", state.MEAN_OF, names, look="box", placeholder=placeholder)
    return HeadView(
        heads=tuple(every[name] for name in several) or (real.place,),
        quantity=quantity,
        left_out=frozenset() if is_score else frozenset(left_out),
        renormalise=bool(left_out) and renormalise and not is_score,
        by_word=by_word and not is_score,
    )


def _chart(
    matrix: ViewMatrix, overview: Overview, cell: tuple[int, int], marked: Sequence[int] = (), *, height: int
) -> Chart:
    """The view or a window of it, with the chosen (query, key) framed if it lies in there; marked: further queries."""
    quantity, labels = matrix.view.quantity, matrix.labels
    removed = overview.row_numbers["removed"] if matrix.hidden.any() else None
    look: dict[str, Any] = {"name": noun(quantity), "signed": quantity in SCORES, "pin": cell, "marked": marked}
    look |= {"removed": removed, "height": height, "width": presenting.width(WIDTH, 0.52)}
    return view_heatmap(overview.matrices["view"], labels.queries, labels.keys, **look)


def _heatmap(real: RealHead, matrix: ViewMatrix, whole: Overview, cell: tuple[int, int]) -> None:
    marked = [query for query in _pinned_tokens(len(matrix.labels.queries)) if query != cell[0]]
    height = presenting.height(max(LEAST_HEIGHT, min(PER_ROW * len(matrix.rows) + AXIS, HEIGHT)), 0.8)
    chart = _chart(matrix, whole, cell, marked, height=height)
    if matrix.texts is not None and matrix.view.part == "all":
        border = [matrix.texts[1].start]
        with_borders(chart, rows=border, columns=border)
    presenting.lit(chart)
    alt = f"Heatmap of queries by keys, a {matrix.labels.unit} each."
    numbers = of_view(matrix, partial(_matrix, real, matrix.view))
    show_chart(chart, "head", alt, title=NAMES_OF[matrix.view.quantity], numbers=numbers)


def _magnified(matrix: ViewMatrix, window: Overview, cell: tuple[int, int]) -> None:
    alt = "The same heatmap around the chosen pair, every number exact."
    title = f"{NAMES_OF[matrix.view.quantity]} near the chosen pair"
    show_chart(_chart(matrix, window, cell, height=460), "loupe", alt, title=title)


def _text(matrix: ViewMatrix, cell: tuple[int, int], *, lines: bool) -> None:
    labels = matrix.labels
    direction = menu("Pointing at a token shows", state.DIRECTION, DIRECTIONS, look="buttons")
    shaded_by = labels.queries if direction == "from" else labels.keys
    rows = _in_text(matrix.rows, cell[0])
    one_text = labels.queries == labels.keys and matrix.view.part == "all"
    columns = rows if one_text else _in_text(matrix.columns, cell[1])
    look = {"direction": direction, "lines": lines, "percent": matrix.view.quantity == "weights"}
    pins = {"pinned": _pinned_tokens(len(shaded_by)), "on_token": _toggle_pin}
    token_view((labels.queries, labels.keys), rows, columns, matrix.exact(rows, columns), **look, **pins)
    if len(matrix.rows) > IN_TEXT or len(matrix.columns) > IN_TEXT:
        part = f"{labels.unit.capitalize()}s {rows.start} to {rows.stop - 1} of {len(labels.queries):,}"
        st.caption(f"{part}, around the chosen pair. Choose another query to move on.")


def _in_text(seen: range, place: int) -> range:
    """As much of the shown positions around one of them as can be read as text."""
    part = part_in_text(min(max(place, seen.start), seen.stop - 1) - seen.start, len(seen))
    return seen[part.start : part.stop]


def _pinned_tokens(count: int) -> list[int]:
    return [place for place in st.session_state.get(state.PINNED_TOKENS, []) if place < count]


def _toggle_pin(place: int) -> None:
    st.session_state[state.PINNED_TOKENS] = _toggled(st.session_state.get(state.PINNED_TOKENS, []), place)


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
        of_row = f"Left out of a row: {removed.mean():.1%} on average, {removed.min():.1%} to {removed.max():.1%}."
        words = f"{int(hidden.sum())} of {len(hidden)} tokens are left out as keys; {rest}. {of_row}"
        st.caption(f":material/visibility_off: {words}")
    if view.part != "all":
        inside = matrix.inside()
        part, units = view.part.replace(" to ", " text to the "), f"these {matrix.labels.unit}s"
        share = f"{inside.mean():.1%} of the attention of {units} on average, {inside.min():.1%} to {inside.max():.1%}"
        st.caption(f"Only what goes from the {part}: {share}. The rest goes elsewhere.")
    if view.by_word:
        st.caption("Words: summed over a word's tokens as keys, averaged over them as queries.")


def _say_cell(value: float, matrix: ViewMatrix, cell: tuple[int, int]) -> None:
    query, key = quoted(matrix.labels.queries[cell[0]]), quoted(matrix.labels.keys[cell[1]])
    if np.isnan(value):
        words = f"{query} → {key}: masked or left out."
    elif matrix.view.quantity == "weights":
        remains = matrix.view.renormalise and matrix.hidden.any()
        share = "of what remains of its attention" if remains else "of its attention"
        words = f"{query} gives **{value:.1%}** {share} to {key}."
    else:
        words = f"{query} → {key}: **{value:.4g}**"
    presenting.tell(words, "number")


def _clicked(real: RealHead, cell: pin.Cell) -> None:
    """A click on the grid chooses a head; on the head it chooses a pair, or draws the pattern that is searched for."""
    if choose_clicked(cell, real.grid) or choose_clicked_patch(cell, real):
        return
    searches = st.session_state.get(state.METRIC) == PATTERN
    is_drawing = searches and st.session_state.get(state.LOOK_FOR) == "pairs"
    if is_drawing and (pair := pin.place_in(cell, "query", "key", real.shape)):
        _toggle_pair(pair)
    else:
        pin.pin(cell)


def _toggle_pair(pair: tuple[int, int]) -> None:
    try:
        cells = read_pairs(st.session_state.get(state.PAIRS, ""))
    except InputError:
        return  # said beside the field, whose text stays as it is
    st.session_state[state.PAIRS] = write_pairs(_toggled(list(cells), pair))


def _toggled(chosen: list[Place], one: Place) -> list[Place]:
    """The list without one of its places, or with one more."""
    return [other for other in chosen if other != one] if one in chosen else [*chosen, one]
