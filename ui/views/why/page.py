"""The page Why: an answer, the path from it back to the text, and what happens when a hop of it is cut."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import streamlit as st

from core import Capture
from core.attention.trace import Array
from core.capturing.edits.edits import every
from core.capturing.sampling import most_probable, next_probabilities
from core.figures.chart import Chart
from core.figures.heatmaps.heatmap import WIDTH, Axis, Scale, heatmap
from core.figures.labels import escaped, visible
from core.figures.palette import ABOVE, BELOW
from core.figures.plots.bars import bars
from core.figures.plots.diagrams import Node, path_chart
from core.heads.attribution import Attribution, as_grid, main_pair, main_reason, strongest, strongest_pairs
from core.heads.examples import WIDE
from core.heads.lens import POSITIONS, ranks_first_after
from core.heads.paths import MOST_HOPS, CutEffect, Path, Stop, cut_effect
from core.models.checkups import fault_of
from core.models.inputs import MAX_PIECES, one_token, word_tokens
from core.models.tokens import token_texts
from core.units import in_rounding_errors, small_number
from ui import links, presenting, state
from ui.calls import result
from ui.components import pin
from ui.components.keys import arrow_keys
from ui.components.token_view import part_in_text, shaded_text
from ui.controls.fields import menu, menu_of_several, suggested_or_none, text_line
from ui.markdown import errors_shown, plain, quoted
from ui.progress import run
from ui.requests import AnswerRequest, TextRequest
from ui.views.certificates import verdict
from ui.views.charts import show_chart
from ui.views.head_links import link_to_effects
from ui.views.numbers import of_table
from ui.views.sources.models import MAX_TOKENS, NEXT_TOKENS, TEXTS, load, missing
from ui.views.sources.reading import InputFields, again_with_components, read_or_say, run_pass
from ui.views.why import results

LONGEST_PATH = 300  # characters
LABEL = 24  # pixels of the label above a field
SIDES = {"key": "Into the key", "query": "Into the query", "pairs": "Pairs"}
OFFERED = 12  # tokens
MEAN_OF_ALL = "the mean of all tokens"
BARS = 8  # components
HEIGHT = 290  # pixels of the grid
ANSWER_SHOWS = {"components": "Contributions", "lens": "Logit lens"}


@dataclass(frozen=True, eq=False)
class ShownPath:
    """What the page shows in one run.

    at     the stop: 0 is the answer
    side   what is shown of its score: one of `SIDES`
    texts  those of the answer and of what it is compared with
    """

    of: AnswerRequest
    path: Path
    at: int
    side: str
    texts: tuple[str, str]

    @property
    def capture(self) -> Capture:
        """The pass, which is much larger than the rest and need not outlive this run."""
        return again_with_components(self.of.text)

    @property
    def stop(self) -> Stop | None:
        """The head of this stop; None at the answer."""
        return self.path.stops[self.at - 1] if self.at else None

    @property
    def after(self) -> Stop | None:
        """The next head on the path; None at its end."""
        return self.path.stops[self.at] if self.at < len(self.path.stops) else None

    def looked_at(self, stop: Stop) -> str:
        """The token at which the head of a stop looked."""
        return self.capture.tokens(stop.hop.kind)[1][stop.key]


def show_path(fields: InputFields) -> None:
    if (words := missing(fields.model, TEXTS)) is not None:
        st.info(plain(words), icon=":material/visibility_off:")
        return
    finding = st.container(gap=None)
    line = st.container(horizontal=True, vertical_alignment="top", gap="small")

    def follow(request: TextRequest) -> tuple[AnswerRequest, Path] | None:
        if run_pass(request, fields.model, MAX_TOKENS, components=True) is None:
            return None
        hops = links.field(state.PATH, links.TextForm(LONGEST_PATH), "", "Path")
        if hops.startswith("score "):
            with line, st.container(width="content", gap=None):
                st.space(LABEL)
                st.button("Follow the answer", key=state.FOLLOW_ANSWER, on_click=follow_path, args=([],))
            of = AnswerRequest(request, None, "mean")
        else:
            with line:
                of = choose_answer(request, again_with_components(request))
        path = run(results.path.task(of, hops), "Following the answer", 1)
        return None if path is None else (of, path)

    def notes_of(followed: tuple[AnswerRequest, Path] | None) -> tuple[str, ...]:
        return () if followed is None else again_with_components(followed[0].text).notes

    followed = read_or_say(fields, follow, notes_of)
    if followed is None:
        return
    of, path = followed
    if path.answer is not None:
        result(path.answer)
    names = {} if path.answer is None else {"0": "Answer"}
    names |= {str(number): stop.hop.component for number, stop in enumerate(path.stops, start=1)}
    with line:
        at = int(menu("Path", state.STOP, names, look="buttons"))
        choose_cuts(path)
    side = links.field(state.SIDE, links.ChoiceForm(SIDES), opening_side(path, at), "Side") if at else ""
    view = ShownPath(of, path, at, side, text_of(again_with_components(of.text), of))
    with finding:
        pin.listen(lambda cell: _clicked(view, cell))
        say(view)
    draw(view)


def _clicked(view: ShownPath, cell: pin.Cell) -> None:
    """Go on to the head that was clicked."""
    grid = as_grid(attribution_of(view))
    place = pin.place_in(cell, "layer", "component", grid.values.shape)
    if place is None or place[1] == grid.values.shape[1] - 1:
        return
    kind, layer = grid.rows[place[0]]
    name = f"{kind} {layer}.{place[1]}".strip()
    side = "" if view.stop is None else f"{view.side} "
    follow_path([str(stop.hop) for stop in view.path.stops[: view.at]] + [f"{side}{name}"])


# --- what is shown in one run


def attribution_of(view: ShownPath) -> Attribution:
    if view.stop is None:
        assert view.path.answer is not None
        return view.path.answer
    return view.stop.of_query if view.side == "query" else view.stop.of_key


def pairs_of(view: ShownPath, stop: Stop) -> pd.DataFrame:
    with st.spinner("Multiplying what both sides were made from"):
        return results.pairs(view.of.text, stop.hop, stop.query, stop.key)


def signed(number: float) -> str:
    return f"{number:z.2f}".replace("-", "−") if abs(number) >= 0.005 or not number else small_number(number)


def opening_side(path: Path, at: int) -> str:
    """What the path goes on from."""
    return path.stops[at].hop.side if at < len(path.stops) else "key"


def follow_path(hops: Sequence[str]) -> None:
    st.session_state[state.PATH] = ", ".join(hops[:MOST_HOPS])
    go_to(min(len(hops), MOST_HOPS))
    st.session_state[state.CUTS] = []


def go_to(stop: int) -> None:
    st.session_state[state.STOP] = str(stop)
    st.session_state[state.SIDE] = None


# --- what is asked


def choose_answer(request: TextRequest, capture: Capture) -> AnswerRequest:
    """Show the fields. Raises InputError (field "answer" or "than") for a word that the model has no token for."""
    if capture.logits is None:
        like = text_line("Compared with", state.LIKE_TEXT, WIDE, width=340)
        return AnswerRequest(request, None, "mean", like or WIDE)
    numbers = most_probable(capture.logits, OFFERED)
    offered = dict(zip(token_texts(capture.model.tokenizer, numbers), numbers, strict=True))
    answer = _token(capture, "Answer", state.ANSWER, offered)
    others = {text: number for text, number in offered.items() if number != answer}
    than = _token(capture, "Against", state.RATHER_THAN, others | {MEAN_OF_ALL: "mean"})
    return AnswerRequest(request, answer, than)


def opening_answer(request: TextRequest, capture: Capture) -> AnswerRequest:
    """What the page asks of a text while nobody has chosen anything else."""
    if capture.logits is None:
        return AnswerRequest(request, None, "mean", WIDE)
    answer, than = most_probable(capture.logits, 2)
    return AnswerRequest(request, answer, than)


def _token(capture: Capture, label: str, key: str, offered: dict) -> int:
    """A token that is offered, the first one while nobody has chosen, or a typed one. Of several tokens one is chosen."""
    first = next(iter(offered))
    words = suggested_or_none(label, key, [*offered], visible(first), format_func=visible, width=170)
    if words is None:
        return offered[first]
    if words in offered:
        return offered[words]
    numbers = word_tokens(capture.model, words, with_blank=True, field=key)[:MAX_PIECES]
    if len(numbers) < 2:
        return one_token(capture.model, words, with_blank=True, field=key)
    pieces = {str(place): visible(text) for place, text in enumerate(token_texts(capture.model.tokenizer, numbers))}
    return numbers[int(menu("Token of this word", state.PIECES[key], pieces, width=170))]


def text_of(capture: Capture, of: AnswerRequest) -> tuple[str, str]:
    if of.token is None:
        return "the cosine", of.like or "no text"
    answer, *than = token_texts(capture.model.tokenizer, [of.token, *([] if of.than == "mean" else [of.than])])
    return answer, than[0] if than else MEAN_OF_ALL


# --- what is said


def say(view: ShownPath) -> None:
    answer, than = map(quoted, view.texts)
    begins = "Why does it look there?" if view.path.answer is None else "Why are these texts alike?"
    presenting.title(begins if view.of.token is None else f"Why {answer}?")
    presenting.finding(_of_answer(view, answer, than) if view.stop is None else _of_score(view, view.stop), level=4)
    say_cuts(view)


def _of_answer(view: ShownPath, answer: str, than: str) -> str:
    table, size, above = attribution_of(view), *_apart(attribution_of(view).number)
    if view.of.token is not None:
        beside = "the mean of all logits" if view.of.than == "mean" else f"that of {than}"
        told, what = f"The logit of {answer} is **{size}** {above} {beside}.", "the difference"
    elif view.of.like == view.of.text.text:
        told, what = f"The cosine of this text with itself is **{size}**.", "the cosine"
    else:
        told, what = f"The cosine with {than} is **{signed(table.number)}**.", "the cosine"
    if (reason := main_reason(table)) is None:
        return told
    head, stop = main_reason(table, "head"), view.after
    words = in_words(reason.component)
    told += f" {words[0].upper()}{words[1:]} {_most(table.number)}: {signed(reason.gave)}"
    if stop is None:
        return f"{told}. No head adds a tenth of {what}."
    read = f"{'looking most at' if stop.is_weights else 'read from'} {quoted(view.looked_at(stop))}"
    component = stop.hop.component
    if reason.component == component:
        return f"{told}, {read}."
    if head is not None and head.component == component:
        return f"{told}; of the heads, {component} {_most(table.number)}: {signed(stop.gave)}, {read}."
    return f"{told}. Head {component} adds {signed(stop.gave)}, {read}."


def _of_score(view: ShownPath, stop: Stop) -> str:
    head, key, (size, above) = stop.hop.component, quoted(view.looked_at(stop)), _apart(stop.score)
    scored = f"Head {head} scored {key} **{size}** {above} the mean of the other keys"
    if not stop.others:
        scored = f"Head {head} scored {key} **{signed(stop.score)}**, and may look at no other key"
    if view.side == "pairs":
        pair = main_pair(pairs_of(view, stop))
        reason = pair and (f"{in_words(pair[0])} (query) × {in_words(pair[1])} (key)", pair[2])
    else:
        row = main_reason(attribution_of(view))
        reason = None if row is None else (in_words(row.component), row.gave)
    return f"{scored}." if reason is None else f"{scored}: {reason[0]} {_most(stop.score)}, {signed(reason[1])}."


def _apart(number: float) -> tuple[str, str]:
    """The size of a difference, and its direction."""
    return signed(abs(number)), "below" if number < 0 else "above"


def _most(number: float) -> str:
    """What the main reason for a number does with it."""
    return "lowers it most" if number < 0 else "adds most"


def in_words(component: str) -> str:
    if "." in component:
        return f"head {component}"
    return component.replace("mlp", "MLP") if component[-1].isdecimal() else f"the {component}"


# --- cuts


def choose_cuts(path: Path) -> None:
    names = {}
    for number, stop in enumerate(path.stops):
        if stop.hop.side == "answer":
            names[str(number)] = f"mute {stop.hop.component}"
        elif stop.hop.side != "score":
            of = path.stops[number - 1].hop.component
            names[str(number)] = f"{stop.hop.component} from the {stop.hop.side} of {of}"
    if names and menu_of_several("Cut", state.CUTS, names, width="content"):
        placeholder = "Nothing, or a text of as many tokens"
        text_line("As in another text", state.CUT_TO, width=230, placeholder=placeholder)


@errors_shown()
def say_cuts(view: ShownPath) -> None:
    chosen = [int(word) for word in st.session_state.get(state.CUTS) or [] if word.isdecimal()]
    cuts = [number for number in chosen if (view.path.answer is None) <= number < len(view.path.stops)]
    if not cuts:
        return
    other = (st.session_state.get(state.CUT_TO) or "").strip() or None
    edited = replace(view.of.text, edits=every(view.path.cut(number, other) for number in cuts))
    if (after := run_pass(edited, view.capture.model, MAX_TOKENS, components=True)) is None:
        return
    answer_after = 0.0 if view.path.answer is None else results.number_after(view.of, edited)
    told = [_cut_in_numbers(view, number, cut_effect(view.path, number, after, answer_after), other) for number in cuts]
    if view.of.token is not None:
        both = [one.logits for one in (view.capture, after) if one.logits is not None]
        shares = " → ".join(f"{next_probabilities(logits)[view.of.token]:.1%}" for logits in both)
        told.append(f"{quoted(view.texts[0])} comes next: {shares}.")
    presenting.tell(" ".join(told))


def _cut_in_numbers(view: ShownPath, number: int, effect: CutEffect, other: str | None) -> str:
    hop = view.path.stops[number].hop
    where = f" in the {hop.side} of {view.path.stops[number - 1].hop.component}" if number else ""
    said = f"Without {hop.component}{where}" if other is None else f"With {hop.component} as in {quoted(other)}{where}"
    what = "its score" if number else "the cosine" if view.of.token is None else "the difference"
    change = f"{said} {what} goes {signed(effect.before)} → **{signed(effect.after)}**"
    return f"{change}." if effect.predicted is None else f"{change}; predicted {signed(effect.predicted)}."


# --- what is drawn


def draw(view: ShownPath) -> None:
    large, beside = st.columns([5, 7], gap="medium")
    with large:
        shows = "components"
        if view.stop is not None:
            opening = opening_side(view.path, view.at)
            menu("Side", state.SIDE, SIDES, opening=opening, look="buttons", label_visibility="collapsed")
            shows = "pairs" if view.side == "pairs" else "components"
        elif NEXT_TOKENS.is_met(view.capture.model):
            shows = menu("Shown", state.ANSWER_SHOWS, ANSWER_SHOWS, look="buttons", label_visibility="collapsed")
        {"components": _draw_grid, "lens": _draw_lens, "pairs": _draw_pairs}[shows](view)
    with beside:
        _draw_path(view)
        _draw_text(view)
        _draw_bars(view)


def _chart(values: Array, rows: Axis, columns: Axis, name: str = "contribution", scale: Scale = "signed") -> Chart:
    height, width = presenting.height(HEIGHT, 0.7), presenting.width(WIDTH, 0.4)
    return heatmap(values, rows, columns, name=name, scale=scale, height=height, width=width, printed=0)


def _draw_grid(view: ShownPath) -> None:
    """The contribution of every head, and of every feed-forward layer in the last column."""
    table, grid = attribution_of(view), as_grid(attribution_of(view))
    rows, columns = grid.names
    hop = None if view.after is None else view.after.hop
    row, head = (None, None) if hop is None else (grid.row_of(hop.kind, hop.layer), hop.head)
    chart = _chart(grid.values, Axis("layer", rows, row), Axis("component", columns, head))
    alt = "What every head and every feed-forward layer contributed: a grid of layers by heads."
    names, numbers = zip(*strongest(table, len(table)), strict=True)
    values = np.array(numbers, dtype=np.float64)[:, None]
    exact = of_table("components", "Contributions", values, ("component", names), ("number", ["contribution"]))
    show_chart(chart, "components", alt, title="Contributions of all components", numbers=exact)
    label = f"Walk along the path with the arrow keys. Chosen: stop {view.at} of {len(view.path.stops)}."
    first, words = view.path.answer is None, "← → walk along the path"
    places = (0, view.at - first), (1, len(view.path.stops) + 1 - first)
    arrow_keys(state.picture("components"), label, *places, lambda _, place: go_to(place + first), words=words)


def _draw_pairs(view: ShownPath) -> None:
    """The score by pairs of components; the last row and the last column are what all others add."""
    assert view.stop is not None
    table = pairs_of(view, view.stop)
    rows, columns = ([str(name).replace("mlp", "MLP") for name in names] for names in (table.index, table.columns))
    chart = _chart(table.to_numpy(), Axis("of the query", rows), Axis("of the keys", columns))
    alt = "The score by pairs of components, one of the query and one of the keys."
    show_chart(chart, "pairs", alt, title="Contributions of pairs of components")
    words = "The strongest components of either side; “rest” is what all others add."
    st.caption(f"{words} Bars name that of the query first.")


def _draw_lens(view: ShownPath) -> None:
    """The probability of the answer after each layer at each position, if the model stopped there."""
    passed = run_pass(view.of.text, view.capture.model, MAX_TOKENS)
    if passed is None or view.of.token is None:
        return
    layers = passed.layers(passed.kinds[0]) + 1
    task = results.lens.task(view.of.text, view.of.token, capture=passed)
    lens = run(task, "Reading after each layer", layers * min(POSITIONS, len(passed.input_ids)), unit="pair")
    if lens is None:
        return
    chosen = lens.chosen.pivot(index="layer", columns="position", values="probability")
    last = lens[(lens["position"] == lens["position"].max()).to_numpy()]
    firsts = zip(last["text"], last["probability"], strict=True)
    best = [f"<br>first at the end: {escaped(text)} {share:.1%}" for text, share in firsts]
    tokens = passed.tokens("decoder" if passed.target_ids else None)[0][int(chosen.columns[0]) :]
    names = ("input", *map(str, range(len(best) - 1)))
    chart = _chart(chosen.to_numpy(), Axis("layer", names, notes=best), Axis("after", tokens), "probability", "share")
    show_chart(chart, "lens", "The probability of the answer after each layer, by position.", title="Logit lens")
    told = f"At the end of the text {quoted(view.texts[0])} {_ranks_first(ranks_first_after(lens), names)}."
    st.caption(f"If the model stopped after a layer. {told} The last norm is trained for the last layer only.")


def _ranks_first(rows: list[int], names: Sequence[str]) -> str:
    """Say in which rows of the lens the answer ranks first. names: of all rows"""
    last = len(names) - 1
    if not rows or rows == [last]:
        return "ranks first only after the last layer" if rows else "does not rank first"
    if rows == list(range(rows[0], len(names))):
        return f"ranks first from {'layer ' if rows[0] else 'the '}{names[rows[0]]} on"
    return f"ranks first in {len(rows)} of {len(names)} rows, {'also' if last in rows else 'not'} in the last one"


def _draw_path(view: ShownPath) -> None:
    """The whole path: the answer, every head with the token at which it looked, and the component at its end."""
    stops = view.path.stops
    looked = [visible(view.looked_at(stop)) for stop in stops]
    answer = view.path.answer
    nodes = [] if answer is None else [Node(visible(view.texts[0]))]
    number = 0.0 if answer is None else answer.number  # of the stop before
    for stop, at in zip(stops, looked, strict=True):
        nodes.append(Node(stop.hop.component, f"→ {at}", stop.gave, stop.gave / number if number else 0.0))
        number = stop.score
    if stops and (reason := main_reason(stops[-1].of_key)) is not None:
        share = reason.gave / number if number else 0.0
        nodes.append(Node(reason.component.replace("mlp", "MLP"), f"at {looked[-1]}", reason.gave, share))
    chart, title = path_chart(nodes, view.at - (answer is None)), "The path from the answer to the text"
    show_chart(chart, "path", f"{title}, from left to right.", title=title, fills=False)


def _draw_text(view: ShownPath) -> None:
    """The text, shaded by what the head of this stop passed on from each token; at the answer, that of the next one."""
    if (stop := view.stop or view.after) is None:
        return
    queries, tokens = view.capture.tokens(stop.hop.kind)
    part = part_in_text(stop.key, len(tokens))
    added = np.maximum(stop.by_token * (1 if stop.is_weights else np.sign(stop.gave)), 0)
    shares = added / (added.sum() or 1.0)
    query = stop.query if queries == tokens and stop.query in part else stop.key
    key = state.one_of(state.TOKEN_VIEW, stop.hop.component)
    here = slice(part.start, part.stop)
    verb = "attends" if stop.is_weights else "takes"
    shaded_text(tokens[here], shares[here], query - part.start, start=part.start, limit=1.0, verb=verb, key=key)
    shortened = f" Shown are {len(part)} of {len(tokens):,} tokens." if len(part) < len(tokens) else ""
    does = "looks from" if stop.is_weights else "read what it wrote at"
    shaded = f"Shaded: where head {stop.hop.component} {does} the framed token."
    st.caption(f"Numbers: what each stop adds to the one before. {shaded}{shortened}")


def _draw_bars(view: ShownPath) -> None:
    table, listed = attribution_of(view), strongest(attribution_of(view), BARS)
    if view.stop is not None and view.side == "pairs":
        pairs, others = strongest_pairs(pairs_of(view, view.stop), BARS - 2)
        listed = [(f"{of_query} · {of_key}", gave) for of_query, of_key, gave in pairs] + [("rest", others)]
    names, numbers = zip(*listed, strict=True)
    colours = [ABOVE if number >= 0 else BELOW for number in numbers]
    names = [name.replace("mlp", "MLP") for name in names]
    height = presenting.height(210, 0.3)
    chart = bars(names, {"contribution": np.array(numbers)}, y="contribution", colours=[colours], height=height)
    show_chart(chart, "strongest", f"The {len(names)} largest contributions.", title="The largest contributions")
    sums = f"{table.sources:,} contributions add up to {signed(table.total)}, and the number is {signed(table.number)}"
    differ = f"{sums}: they differ by {in_rounding_errors(table.rounding)}"
    fault = fault_of(load(view.of.text.model))
    verdict(table.holds, differ, f"{differ}, more than rounding explains", fault=fault)
    if view.stop is None:
        st.caption("Contributions are direct. Muting a head also counts what later layers make of it:")
        link_to_effects(view.of.text)
