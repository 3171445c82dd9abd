"""Three worked examples of what heads do, each with the numbers that this machine has just measured."""

from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st

from core.capturing.edits.edits import Edits
from core.capturing.edits.lines import lines_of
from core.heads import examples
from core.heads.examples import FRANCE, KNOWS_PARIS, LANGUAGE_MODEL, LENGTH, PRONOUN_HEAD, SENTENCE_MODEL
from ui import links, presenting, state
from ui.cache import Cached
from ui.calls import result
from ui.controls.fields import choose
from ui.markdown import quoted
from ui.progress import run
from ui.shown import say
from ui.views.charts import numbers, table
from ui.views.sources import models
from ui.views.what_if import results

REPEATED = "seven green doors and a cold river seven green doors and a cold river"


class Told(NamedTuple):
    """What the page tells of an example, and what it holds for a visitor who goes on from there."""

    words: str
    headings: list[str]
    rows: list[list[str]]
    opens: dict[str, object]


# What measures an example, in how many passes, and what is told of what that has found.
WorkedExample = tuple[Cached, Callable[[], int], Callable[[Any], Told]]


def show_examples() -> None:
    """A menu of the examples, and the chosen one: measured when somebody first looks at it."""
    look = {"look": "buttons", "label_visibility": "collapsed"}
    measure, passes, tell = choose("Worked example", state.EXAMPLE, EXAMPLES, **look)
    if (measured := run(measure.task(), "Measuring", passes(), unit="pass")) is not None:
        told = tell(result(measured))
        with presenting.told():
            say(told.words)
            table(told.headings, told.rows)
        opening = {"on_click": links.put_all, "args": (told.opens | {state.VIEW: "change"},)}
        st.button(
            "Change it yourself", key=state.button("example", hash(measure.key())), icon=":material/tune:", **opening
        )


def _at(head: examples.OneHead, text: str, model: str, edits: Edits) -> dict[str, object]:
    """What the page holds: a head, and changes as lines."""
    place: dict[str, object] = {state.LAYER: head.layer, state.HEAD: head.head}
    place |= {state.MODEL: model, state.DTYPE: "float32", state.DEVICE: "cpu"}  # as they were measured
    return place | {state.TEXT: text, state.EDITS: lines_of(edits)}


def paris(found: tuple[examples.NextWord, ...]) -> Told:
    """The head that knows Paris."""
    plain, muted, patched, doubled = found
    words = (
        f"“{FRANCE}”: {LANGUAGE_MODEL} continues with {quoted(plain.says)}, probability **{plain.paris:.3f}**. Without "
        f"head {KNOWS_PARIS} it falls to **{muted.paris:.3f}**. With the output of this head in the sentence about Italy, "
        f"the model says {quoted(patched.says)}. With every scale doubled, attention is sharper in all heads, and “Paris” "
        f"keeps **{doubled.paris:.3f}**."
    )
    rows = [[said.name, *numbers(said.paris), quoted(said.says), *numbers(said.share)] for said in found]
    opens = _at(KNOWS_PARIS, FRANCE, LANGUAGE_MODEL, muted.edits)
    return Told(words, ["", "Paris", "most probable", "its probability"], rows, opens)


def induction(found: examples.Induction) -> Told:
    """What an induction head needs."""
    head, cut = found.heads[0], found.rivals[0]
    cost, of_controls = (f"{found.costs(one):.2f}".replace("-", "−") for one in (found.cut, found.all_controls))
    words = (
        f"{LENGTH} random tokens, twice. Head {head} looks at the token after the earlier copy. It needs head {cut}, which "
        f"looks at the previous token: if that head is muted, the stripe falls from **{found.plain.scores[0]:.2f}** to "
        f"**{found.cut.scores[0]:.2f}**, and the loss rises by **{cost}** nats. Five other heads of that layer together cost "
        f"**{of_controls}**."
    )

    def row(one: examples.Repetition, name: str | None = None) -> list[str]:
        return [name or one.name, *(f"{score:.2f}" for score in one.scores), *numbers([one.loss, found.costs(one)])]

    unseen = ["–"] * len(found.heads)
    looks = (f"{one.name}, previous {share:.2f}" for one, share in zip(found.by_rival, found.previous, strict=True))
    rows = [
        row(found.plain),
        *map(row, found.by_rival, looks),
        row(found.all_rivals),
        *(row(one, f"{one.name}, control") for one in found.by_control),
        row(found.all_controls),
        row(found.itself),
        ["shuffled, as it is", *unseen, *numbers([found.shuffled, 0])],
        [f"shuffled, {found.cut.name}", *unseen, *numbers([found.shuffled_cut, found.shuffled_cut - found.shuffled])],
    ]
    headings = ["", *map(str, found.heads), "loss, nats", "costs"]
    return Told(words, headings, rows, _at(head, REPEATED, LANGUAGE_MODEL, found.cut.edits))


def pronoun(found: examples.Pronoun) -> Told:
    """A pronoun between two sentences."""
    words = (
        f"In one sentence “it” is the animal, in the other the street. Head {PRONOUN_HEAD} looks at “animal” in both. Its "
        f"output in the other sentence moves the vector of “it” **{found.known.word:.0%}** of the way there, rank "
        f"{found.rank} of {len(found.by_head)}; {found.strongest.name} moves it most, **{found.strongest.word:.0%}**. Only "
        f"the heads can tell both sentences apart."
    )
    patched = (found.known, found.strongest, found.one_layer, found.every_head)
    shown = [(found.tired.name, found.tired), (found.wide.name, found.wide)]
    shown += [(f"“… tired”, {one.name} from “… wide”", one) for one in patched]
    rows = [[name, *numbers([one.word, one.sentence, one.animal, one.street])] for name, one in shown]
    head = f"{PRONOUN_HEAD}: it →"
    headings = ["", "way of “it”", "way of the sentence", f"{head} animal", f"{head} street"]
    return Told(words, headings, rows, _at(PRONOUN_HEAD, examples.TIRED, SENTENCE_MODEL, found.strongest.edits))


def pronoun_passes() -> int:
    return examples.pronoun_steps(models.load(SENTENCE_MODEL))


EXAMPLES: dict[str, tuple[str, WorkedExample]] = {
    "paris": ("The head that knows Paris", (results.paris, lambda: examples.PARIS_STEPS, paris)),
    "induction": ("What induction needs", (results.induction, lambda: results.INDUCTION_PASSES, induction)),
    "pronoun": ("A pronoun in two sentences", (results.pronoun, pronoun_passes, pronoun)),
}
