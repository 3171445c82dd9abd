"""The frame of a lesson: its heading, its experiments, a place for controls, real heads, and Next, which leads through all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

import streamlit as st
from numpy.typing import ArrayLike
from streamlit.delta_generator import DeltaGenerator

from core import AttentionTrace, InputError
from core.attention.sources import Matrices, toy_sentence
from core.figures.chart import Chart
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.lines import Series
from ui import links, presenting, shown, state
from ui.calls import call
from ui.controls.fields import menu, text_line
from ui.lessons import after
from ui.markdown import errors_shown
from ui.views.charts import show_chart
from ui.views.frames import follow
from ui.views.lesson import results
from ui.views.sources.heads import RealHead, choose_head
from ui.views.sources.text_fields import choose_text

IN_A_MODEL = "In a real model"
MAX_WORDS = 12  # of a sentence for an untrained head


@dataclass(frozen=True)
class Experiment:
    """One experiment of a lesson: its name in the menu, its sentences, and what draws it."""

    name: str
    words: str
    show: Callable[["Experiment"], None]


Free = Callable[[Experiment], None]
Parts = Iterator[None]  # of an experiment: controls, and after each `yield` the picture, or controls again


class Lesson:
    """A lesson: its title, a sentence, and its experiments in the order in which they are declared.

        @lesson.experiment("shift", "Shift", "One matrix moves every position forward by k.")
        def shift_by_k() -> Iterator[None]:
            k = slider("Tokens forward (k)", state.ONWARD, 5, 0, 100, 1)
            yield
            show_chart(heatmap(shift_map(k, 32), ...

    Each has a word for the address, a name for the menu, and a few sentences of Markdown. It shows its controls; `yield` goes
    on to the place of the picture.
    """

    def __init__(self, title: str, sentence: str) -> None:
        self._title, self._sentence = title, sentence
        self._experiments: dict[str, Experiment] = {}  # by their words in the address
        self._formerly: dict[str, str] = {}  # names that older addresses say -> words

    def experiment(
        self, word: str, name: str, words: str, *, formerly: str = ""
    ) -> Callable[[Callable[[], Parts]], Free]:
        """Declare an experiment that `lay_out` shows. formerly: its name in older addresses"""
        self._formerly |= {formerly: word} if formerly else {}

        def declare(show: Callable[[], Parts]) -> Free:
            def show_and_follow(experiment: Experiment) -> None:
                lay_out(experiment, show())
                walk_through_knob()
                follow(show)

            return self.free_experiment(word, name, words)(show_and_follow)

        return declare

    def in_a_model(self, words: str) -> Callable[[Callable[[Experiment, RealHead, AttentionTrace], None]], Free]:
        """Declare the experiment on a head of a real model, which a visitor chooses first, and on its whole trace.

        Text, model, layer and head are shared with the other pages.
        """

        def declare(show: Callable[[Experiment, RealHead, AttentionTrace], None]) -> Free:
            def show_chosen(experiment: Experiment) -> None:
                if (passed := choose_text()) is not None:
                    real = choose_head(*passed)
                    show(experiment, real, results.trace(real.of))

            return self.free_experiment("model", IN_A_MODEL, words)(show_chosen)

        return declare

    def free_experiment(self, word: str, name: str, words: str) -> Callable[[Free], Free]:
        """Declare an experiment that lays itself out, and shows its words."""

        def declare(show: Free) -> Free:
            self._experiments[word] = Experiment(name, words, show)
            return show

        return declare

    def show(self) -> None:
        """Show the heading, the menu of the experiments with Next beside it, and the chosen one."""
        presenting.show_heading(self._title, self._sentence)
        names = {word: experiment.name for word, experiment in self._experiments.items()}
        line: dict[str, Any] = {"vertical_alignment": "center", "horizontal_alignment": "distribute"}
        with st.container(horizontal=True, key=state.WAY_ON, **line):
            look: dict[str, Any] = {"look": "buttons", "wrap": True, "label_visibility": "collapsed"}
            word = menu("Experiment", state.PART, names, formerly=self._formerly, **look)
            _lead_on(self._title, names, word)
        chosen = self._experiments[word]
        presenting.title(f"{self._title}: {chosen.name}")
        with errors_shown():
            chosen.show(chosen)


def _lead_on(title: str, names: Mapping[str, str], word: str) -> None:
    """Lead from an experiment to the next one, and from the last one to the first of the next lesson."""
    words, icon = list(names), ":material/arrow_forward:"
    following = words[words.index(word) + 1 :]
    if following:
        label, choice = f"Next: {names[following[0]]}", (state.PART, following[0])
        st.button(label, key=state.NEXT_PART, icon=icon, on_click=links.put, args=choice)
    elif state.PAGE in st.session_state:  # a page that runs by itself knows no others
        page, next_title = after(title)
        st.page_link(page, label=f"Next: {next_title}", icon=icon, query_params={state.PART: ""})


def picture_and_knobs(experiment: Experiment) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return two containers: for the picture, and for controls. The words of the experiment stand below the controls.

    Controls and words are to the right of the picture. On a phone, controls come first, then the picture, then the words.
    """
    if presenting.is_on():
        return st.container(key=presenting.told_key()), st.container(key=state.ASIDE)
    with st.container(key=state.EXPERIMENT):
        knobs = st.container(key=state.KNOBS)
        picture = st.container(key=state.EXPERIMENT_PICTURE)
        st.container(key=state.EXPERIMENT_WORDS).markdown(experiment.words)
    return picture, knobs


def lay_out(experiment: Experiment, parts: Parts) -> None:
    """Show the parts of an experiment, in turn as controls and in the place of the picture."""
    picture, knobs = picture_and_knobs(experiment)
    for place in cycle((knobs, picture)):
        with place:
            if next(parts, parts) is parts:
                return


def walk_through_knob() -> None:
    """Let the arrow keys turn the first knob of the experiment while somebody presents, when no slider is in sight."""
    page = shown.now()
    if not page.knobs:
        return
    knob = next(iter(page.knobs.values()))
    places, now = sorted(knob.holds), knob.now(page.fields)
    at = 0 if now is None else places.index(now)
    presenting.walk_through((0, at), (1, len(places)), lambda _, place: links.put_all(knob.holds[places[place]]))


def show_beside(*pictures: tuple[str, Chart, str, str], **look: Any) -> None:
    """Show pictures side by side: of each its heading, and what `show_chart` takes; `look` is that of all."""
    for column, (heading, chart, name, alt) in zip(shown.columns(len(pictures)), pictures, strict=True):
        with column:
            shown.say(f"**{heading}**")
            show_chart(chart, name, alt, **look)


def two_curves(
    x: ArrayLike,
    named: Mapping[str, ArrayLike],
    kinds: Sequence[Literal["measured", "line", "theory"]] = ("line", "line"),
) -> list[Series]:
    """Return two curves over the same places: name -> its numbers there. kinds: as in `Series`, of each"""
    return [Series(name, x, y, kind=kind) for (name, y), kind in zip(named.items(), kinds, strict=True)]


def weights_chart(trace: AttentionTrace, queries: Axis, keys: Axis, **look: Any) -> Chart:
    """Return the weights of a trace as a heatmap; masked pairs are grey."""
    return heatmap(trace.weights, queries, keys, name="weight", scale="share", forbidden=~trace.mask, **look)


def sentence_knob(default: str, *, d_head: int = 8) -> Matrices:
    """Return queries, keys and values of the typed sentence in an untrained head. Raises InputError above MAX_WORDS words."""
    text = text_line("Sentence", state.SENTENCE, default, max_chars=200)
    matrices = call(toy_sentence, text, d_head=d_head)
    words = len(matrices.key_tokens)
    if words > MAX_WORDS:
        has = f"The sentence has {words} words and punctuation marks"
        raise InputError(f"{has}; the maximum here is {MAX_WORDS}. Shorten it.", field="text")
    return matrices
