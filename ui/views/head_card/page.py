"""The card of one head: what it looks at here and in general, what it reads and writes, what muting it does, heads like it.

Each is a line with its number, what it was measured on, and a link to its view. What takes long comes last, with its progress.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from core import InputError
from core.attention.rowwise import Overview
from core.capturing.calls.head_places import Place
from core.capturing.edits.edits import Edits
from core.capturing.edits.lines import lines_of
from core.claims.claim import Claim
from core.claims.known import known_claims, measured
from core.claims.verdicts import share_of
from core.exporting.documents import CardLine
from core.figures.heatmaps.views import view_heatmap
from core.figures.labels import visible
from core.heads.attribution import Attribution, main_reason
from core.heads.effects import Effects, probability_after
from core.heads.likeness import PAIRS
from core.heads.views import HeadView, ViewMatrix
from core.notebook.figures import stage_figure
from core.units import counted, distance_in_words, in_rounding_errors
from ui import presenting, shown
from ui.cache import Store, cached
from ui.calls import call, expression, result_of
from ui.components import pin
from ui.controls.pinned import pinned_among
from ui.markdown import plain
from ui.progress import fill, run
from ui.requests import AnswerRequest, HeadRequest
from ui.views import head_links
from ui.views.charts import show_chart
from ui.views.claims.results import Known, Texts, checking, known_of
from ui.views.corpus.run import corpora, corpus_run, listed_runs
from ui.views.numbers import of_view
from ui.views.sources import models, passes
from ui.views.sources.heads import RealHead
from ui.views.what_if import results as what_if
from ui.views.why import results as why
from ui.views.why.page import in_words, opening_answer, signed, text_of

HEIGHT = 280  # pixels of the picture
LIKE = 3  # heads that are named as being like it
Cell = tuple[int, int]


@cached(Store(64))
def effect_of_muting(of: HeadRequest) -> float:
    """What muting this head alone does to the answer, as `head_effects` measures it."""
    effects = Effects(models.load(of.text.model), passes.inputs_of(of.text), kind=of.kind)
    return effects.muted([[(of.layer, of.head)]])[0]


def run_with_claims(real: RealHead) -> Known | None:
    """Which claims a run over a corpus has found to hold: of all runs here with claims and the same weights, the one that read
    most. None where there is no such run."""
    revision, runs = real.capture.model.revision, []
    with suppress(InputError):  # what cannot be opened is said on the page Corpus
        runs = [] if (folder := corpora()) is None else [(one.about, folder / one.name) for one in listed_runs(folder)]
    for about, place in sorted(runs, key=lambda run: -run[0].tokens if run[0] else 0):
        if about is not None and (about.revision, about.kind) == (revision, real.kind):
            with suppress(InputError):
                if (table := corpus_run(place).claims_by_head) is not None:
                    return Known(table, f"of {about.passages:,} passages of the run {place.name}")
    return None


def show_card(real: RealHead) -> None:
    pin.listen()
    finding = st.container(gap=None)
    drawn, beside = st.columns([5, 7], gap="medium")
    with drawn:
        looked = _show_look(real)
    if looked is None:
        return
    cell, here = looked
    of_claims = beside.container()
    with finding:
        presenting.title(f"Head {real} of {plain(str(real.request.model))}")
        presenting.finding(f"Head {real} gives **{here.number}** {plain(here.says)}.")
    lines = [here]
    below = [beside] * 2 if presenting.is_on() else st.columns(2, gap="medium")
    for place, about in zip(below * 2, SECTIONS, strict=True):
        with place:
            lines += _show_section(about, real, cell)
    with of_claims:  # what may take long comes last
        shown.now().card = _show_claims(real) + lines


def _show_look(real: RealHead) -> tuple[Cell, CardLine] | None:
    """Draw the weights on this text, small. Return the chosen (query, key) and its line; None where that was stopped."""

    def weights() -> ViewMatrix:
        return call(ViewMatrix, real.capture, real.kind, HeadView(heads=(real.place,)))

    matrix = weights()
    task = passes.overview.task(real.of_kind, matrix.view, matrix=matrix)
    whole: Overview | None = run(task, "Drawing the head", matrix.shape[0], unit="token")
    if whole is None:
        return None
    picture, labels = st.container(), matrix.labels
    query, key = cell = pinned_among((labels.queries, labels.keys), matrix.strongest(whole), matrix.exact)
    look = {"name": "weight", "height": presenting.height(HEIGHT, 0.6), "width": presenting.width(430, 0.4)}
    chart = view_heatmap(
        whole.matrices["view"], labels.queries, labels.keys, removed=None, signed=False, pin=cell, **look
    )
    with picture:
        show_chart(chart, "head", "Heatmap of queries by keys.", title="Weights", numbers=of_view(matrix, weights))
    tokens = expression(real.capture.tokens, real.kind)
    result_of(stage_figure, passes.head(real.of), "weights", tokens=tokens, cell=cell)
    head_links.link_to_heads(real.of, cell)
    weight = matrix.exact(range(query, query + 1), range(key, key + 1))[0, 0]
    says = f"from “{visible(labels.queries[query])}” to “{visible(labels.keys[key])}”"
    on = f"one text, {counted(len(labels.queries), 'query')}"
    return cell, CardLine("Here", f"{weight:.1%}", says, on)


def _show_section(about: str, real: RealHead, cell: Cell) -> list[CardLine]:
    """Show a line, or why it cannot be measured, and return it; none where that was stopped, which is said."""
    measure, link = SECTIONS[about]
    with st.container():
        try:
            line = measure(real, cell)
        except InputError as error:
            line = CardLine(about, "", f"Not known. {error}")
        if line is None:
            return []
        _show(line, lambda: link(real, cell))
        return [line]


def _show(line: CardLine, link: Callable[[], None]) -> None:
    number = f" **{plain(line.number)}**" if line.number else ""
    with st.container(gap=None):
        presenting.tell(f"{line.about}:{number} {plain(line.says)}")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(plain(line.measured), width="content")
            link()


# --- on this text


def _has_components(real: RealHead) -> bool:
    """Keep what each component wrote; False where that was stopped."""
    tokens, written = len(real.capture.input_ids), max(1, len(real.capture.target_ids))
    needs = models.needed_bytes(real.request.model, tokens, written, components=True)
    calls = real.capture.model.attention_calls or 1
    return run(passes.with_components.task(real.request), "Keeping what was read", calls, needs=needs) is not None


def _reads(real: RealHead, cell: Cell) -> CardLine | None:
    """Which components made the query look at the key."""
    if not _has_components(real):
        return None
    kind = "" if real.kind == "self" else f"{real.kind} "
    words = f"score {kind}{real}@{cell[0]}>{cell[1]}"
    path = run(why.path.task(AnswerRequest(real.request, None, "mean"), words), "Reading from what it looked", 1)
    if path is None:
        return None
    stop = path.stops[0]
    named = {"key": stop.of_key, "query": stop.of_query}
    says = "; ".join(f"{side} {_reason(table)}" for side, table in named.items())
    of = f"{counted(stop.of_key.sources, 'component')}, which add up to within {in_rounding_errors(stop.of_key.rounding)}"
    above = "above the mean score of the other keys" if stop.others else "is the score of the only key"
    return CardLine("Reads", signed(stop.score), f"{above}: {says}", of)


def _reason(table: Attribution) -> str:
    reason = main_reason(table)
    return "from many" if reason is None else f"from {in_words(reason.component)}, {signed(reason.gave)}"


def _writes(real: RealHead, _cell: Cell) -> CardLine | None:
    """What it adds to the answer itself, to which the page Why opens."""
    if real.kind == "encoder":
        return CardLine("Writes", "", "Nothing into the answer itself: only other heads read what an encoder writes.")
    of = opening_answer(real.request, real.capture)
    table = run(why.answer.task(of), "Reading what each head writes", 1) if _has_components(real) else None
    if table is None:
        return None
    if not table.holds:
        raise InputError("What the components write does not add up to the answer.", field="model")
    of_kind = table[(table["role"] == "head") & (table["kind"] == ("" if real.kind == "self" else real.kind))]
    number = of_kind.set_index(["layer", "head"])["contribution"].loc[real.place]
    answer, than = (f"“{visible(text)}”" for text in text_of(real.capture, of))
    what = (
        f"of the cosine with {than}" if of.token is None else f"by which the logit of {answer} is above that of {than}"
    )
    on = "one text; what later layers make of it is not in it"
    return CardLine("Writes", signed(number), f"to the {signed(table.number)} {what}", on)


def _muted(real: RealHead, _cell: Cell) -> CardLine | None:
    """What the answer is without it."""
    effect = run(effect_of_muting.task(real.of), "Muting the head", 1, needs=2 * real.capture.nbytes)
    if effect is None:
        return None
    if not models.NEXT_TOKENS.is_met(real.capture.model):
        return CardLine("Muted", distance_in_words(effect), "turn of the sentence vector (1 − cosine)", "one text")
    token, before = _next_token(real)
    number = f"{before:.1%} → {probability_after(before, effect):.1%}"
    return CardLine("Muted", number, f"for {token} as the next token", "one text")


def _next_token(real: RealHead) -> tuple[str, float]:
    """The most probable one in quotation marks, and its probability."""
    ((token, share),) = real.capture.next_tokens(1)
    return f"“{visible(token)}”", share


def _like(real: RealHead, _cell: Cell) -> CardLine | None:
    """The heads whose weights are nearest, beside heads drawn at random."""
    table = run(what_if.heads_like.task(real.of, (real.request,)), "Comparing every head", real.grid[0])
    if (
        table is None
        or (pairs := run(what_if.random_pairs.task(real.of_kind), "Comparing random heads", PAIRS, unit="pair")) is None
    ):
        return None
    nearest = ["{divergence:.3f} to {layer}.{head}".format(**row) for row in table.head(LIKE).to_dict("records")]
    number, _, says = ", ".join(nearest).partition(" ")
    says += f"; two random heads {pairs.mean:.3f} ({pairs.low:.3f} to {pairs.high:.3f})"
    on = f"one text, {counted(real.shape[0], 'query')}; {pairs.pairs} random pairs"
    return CardLine("Like it", f"{number} nats", says, on)


def _link_to_muting(real: RealHead, _cell: Cell) -> None:
    head_links.link_to_what_if(real.of, lines_of(Edits(mute_heads={Place(*real.place, real.named_kind)})), "Mute it")


# Lines about the head on this text: what measures each, and shows the link to its view.
SECTIONS: dict[str, tuple[Callable[[RealHead, Cell], CardLine | None], Callable[[RealHead, Cell], None]]] = {
    "Reads": (_reads, lambda real, cell: head_links.link_to_why(real.of, cell)),
    "Writes": (_writes, lambda real, _: head_links.link_to_answer(real.request)),
    "Muted": (_muted, _link_to_muting),
    "Like it": (_like, lambda real, _: head_links.link_to_comparison(real.of)),
}


# --- over many passages


def _show_claims(real: RealHead) -> list[CardLine]:
    """Show which claims hold for this head: those of a run over a corpus, if there is one of this model with claims, and the
    known ones, which are tested where that has not been done. Return the lines."""
    lines: list[CardLine] = []

    def show(further: Iterable[CardLine]) -> None:
        said = {line.says for line in lines}
        for line in (one for one in further if one.says not in said):
            _show(line, lambda: head_links.link_to_claims(real.of))
            lines.append(line)

    def show_known(done: bool) -> None:
        if done and (known := known_of(real)) is not None:
            show(_on_known(known, real, is_there=bool(lines)))

    try:
        if (run := run_with_claims(real)) is not None:
            show(_holding(run, real))
        if real.kind != (first := real.capture.kinds[0]):
            raise InputError(f"They are about {first} attention.", field="kind")
        if measured(real.capture.model.revision) is not None:
            show_known(True)
        else:
            choice, claims, texts = job = real.request.model, known_claims(), Texts()
            check = checking(choice, claims, texts)
            fill(check, job, "Testing known claims", show_known, unit="passage", done="read")
    except InputError as error:
        show([CardLine("Known claims", "", f"Not tested. {error}")])
    return lines


def _holding(known: Known, real: RealHead) -> list[CardLine]:
    """A line for each claim that holds for this head, the clearest first."""
    return [
        _line("Claim holds", row, f"“{replace(Claim.read(row['claim']), head=str(real))}”", known)
        for row in known.holding_for(str(real))
    ]


def _on_known(known: Known, real: RealHead, *, is_there: bool) -> list[CardLine]:
    """The same of known claims, and what the head does most where that is not among them. is_there: whether any claim holds"""
    lines = _holding(known, real)
    if not lines and not is_there:
        says = "No known claim holds for this head." if known.is_whole else "None holds so far."
        on = counted(len(known_claims()), "claim") + ("" if known.is_whole else f", {known.texts}")
        lines = [CardLine("Known claims", "", says, on)]
    others = [row for row in known.table.to_dict("records") if row["head"] == str(real) and row["verdict"] != "holds"]
    return lines + [_line("In general", row, row["name"], known) for row in others]


def _line(about: str, row: dict, says: str, known: Known) -> CardLine:
    queries, passages = counted(row["queries"], "query"), f"{row['passages']:,} {known.texts}, half for testing"
    return CardLine(about, share_of(row), says, f"{queries} in {passages}; chance {row['null']:.1%}")
