"""Everything that a page's address may say, found by running every page in every way that its own choices lead to.

Each word of each menu is chosen once, and each switch turned once, wherever it first appears; what appears then is looked at
in the same way. So a field that only some choice brings is found without being named here.
"""

import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import transformers as t
from streamlit.testing.v1 import AppTest

from core.lessons.scaling import sweep
from core.models.devices import DTYPES
from tests.core.corpus.made_runs import add_map, made_run
from tests.core.tiny_models import SEQ2SEQ, number_words, randomised
from tests.source_files import ROOT
from ui import lessons, links, state
from ui.cache import Store
from ui.links import Form
from ui.requests import ModelChoice
from ui.views.claims import results as claims
from ui.views.corpus import run as corpus
from ui.views.generation import page as writing
from ui.views.lesson import results as experiments
from ui.views.sources import models
from ui.views.what_changed import ROUNDED

Address = dict[str, str]
SPELLED = {2: "two"}
MANY = 12  # numbers or texts in an address: further ones are not listed one by one
WRITING = {state.NEW_TOKENS: "2"}  # once as much has been written as a page lists, two tokens bring every field
PRECISIONS = {*DTYPES, *ROUNDED}


@dataclass
class Parameter:
    """What the address may say under one name, on one page.

    labels   what the field is called on the page
    values   in words, unless it is a choice
    words    of a choice: what the address says -> what it is called on the page
    opens    what a field shows while the address says nothing; one that depends on others can open in several ways
    """

    labels: list[str] = field(default_factory=list)
    values: str = ""
    words: dict[str, list[str]] = field(default_factory=dict)
    opens: list[str] = field(default_factory=list)

    def take(self, label: str, *, values: str = "", words: Mapping[str, str] | None = None, opening: str = "") -> None:
        _add(self.labels, label)
        _add(self.opens, opening)
        self.values = self.values or values
        for word, called in (words or {}).items():
            _add(self.words.setdefault(word, []), called)


def _add(to: list[str], word: str) -> None:
    if word and word not in to:
        to.append(word)


Found = dict[str, Parameter]


def pages() -> dict[str, Path]:
    """Every page by its title, in the order of the menu."""
    own = {path.stem.replace("_", " ").capitalize(): path for path in sorted((ROOT / "pages").glob("*.py"))[::-1]}
    return own | {title: lessons.file(name) for name, title in lessons.LESSONS.items()}


def found_on_every_page() -> dict[str, Found]:
    """By the titles of the pages: what their addresses may say."""
    with tempfile.TemporaryDirectory() as folder:
        randomised(t.BartForConditionalGeneration(t.BartConfig(**SEQ2SEQ))).save_pretrained(folder)
        number_words().save_pretrained(folder)
        # What one can only type: a model with an encoder and a decoder, and a text that is too long for it; a text whose next
        # token it predicts; a stop of a path and a cut, answers of several tokens, and one that is a cosine; and a second text
        # as long as the first; and texts of one's own.
        typed = (
            {state.MODEL: folder, state.TEXT: "5 " * (SEQ2SEQ["max_position_embeddings"] + 1)},
            {state.MODEL: folder, state.TEXT: "5 6", state.VIEW: "matter"},
            {state.STOP: "1", state.CUTS: "0"},
            {state.CHECKED_ON: "own"},
            {state.ANSWER: "Ouagadougou", state.RATHER_THAN: "Timbuktu"},
            {state.MODEL: "all-MiniLM-L6-v2", state.PATH: ""},
            {state.SOURCE_TEXT: "The animal didn't cross the street because it was too wide.", state.VIEW: "patch"},
        )
        run = made_run(Path(folder) / "corpora" / "example", models.load(ModelChoice("all-MiniLM-L6-v2")))
        add_map(run)
        # Pictures and what is measured again and again say nothing of addresses, and take half of the time. Random heads are
        # measured less often than the page says, so their numbers are kept apart: no page may show them later.
        with (
            mock.patch("streamlit.plotly_chart"),
            mock.patch.object(experiments, "sweep", wraps(sweep)(partial(sweep, queries=2, repeats=1))),
            mock.patch.object(claims, "SOME", 2),  # texts
            mock.patch.object(experiments.scaling_sweep, "store", Store(12, waits=True)),
            mock.patch.object(models.loaded, "store", Store(5, waits=True)),  # pages go from one to the other and back
            mock.patch("ui.views.what_if.worked_examples.run", return_value=None),
            mock.patch("ui.views.head_card.page.fill"),
            mock.patch.object(writing.FirstTokens, "total", property(lambda tokens: min(tokens.most, MANY + 1))),
            mock.patch.object(corpus, "corpora", return_value=run.parent),
        ):
            return {title: found_on(page, typed) for title, page in pages().items()}


def found_on(page: Path, typed: Sequence[Address]) -> Found:
    """typed: what is tried where all these fields are there, or have been."""
    found: Found = {}
    waiting: deque[Address] = deque([{}])
    tried: list[Address] = []
    while waiting:
        address = waiting.popleft()
        offered, names = opened(page, address, found)
        offered += [one for one in typed if one.keys() <= names | found.keys()]
        for choice in offered:
            if choice not in tried:
                tried.append(choice)
                waiting.append(address | choice)
    return found


def opened(page: Path, address: Address, found: Found) -> tuple[list[Address], set[str]]:
    """Run the page and note what is there. Gives what could be chosen on it, and the names of its fields."""
    offered: list[Address] = []
    names: set[str] = set()
    links_field = links.field

    def field(key: str, form: Form, opening: Any, what: str) -> Any:
        names.add(key)
        if not isinstance(form, links.LinesForm):  # they have a page of their own in the docs
            note(found.setdefault(key, Parameter()), form, opening, what)
        # A precision brings no field, and the model is loaded again; many texts bring none either, and take long.
        if key != state.CHECKED_ON:
            offered.extend({key: word} for word in words_to_try(form, opening) if word not in PRECISIONS)
        return links_field(key, form, opening, what)

    with mock.patch.object(links, "field", field):
        app = AppTest.from_file(str(page), default_timeout=60)
        for name, value in (WRITING | address if address else {}).items():
            app.query_params[name] = value
        app.run()
    assert not app.exception, (page, address, app.exception)
    return offered, names


def words_to_try(form: Form, opening: Any) -> list[str]:
    match form:
        case links.ChoiceForm(choices):
            return [str(word) for word in choices if not str(word).isdecimal() and word != opening]
        case links.SwitchForm():
            return [str(not opening).lower()]
    return []


def note(one: Parameter, form: Form, opening: Any, what: str) -> None:
    opens = ", ".join(form.say(opening)) if opening is not None else ""
    match form:
        case links.NumberForm() if what == "Which ten examples":
            one.take(what, values="1 to as many as there are", opening=opens)
        case links.TextForm(such_as=such_as):
            one.take(what, values=f"text, such as {', '.join(such_as[:MANY])}" if such_as else "text")
        case links.NumberForm(low, high):
            limits = "a number" if low is None or high is None else f"{low:g} to {high:g}"
            one.take(what, values=limits, opening=opens)
        case links.NumbersForm(of, count):
            opens = " and ".join(word for number in opening for word in of.say(number))
            one.take(what, values=f"{SPELLED[count]} of {of.low:g} to {of.high:g}", opening=opens)
        case links.SwitchForm():
            one.take(what, words={"true": "on", "false": "off"}, opening=opens)
        case links.SeveralForm(choices):
            one.take(what, words={str(word): called for word, called in choices.items()}, values="several of")
        case links.ChoiceForm(choices):
            one.take(what, words={str(word): called for word, called in choices.items()}, opening=opens)
        case links.IndexForm(count):
            one.take(what, words={str(place): str(place) for place in range(count)})


# --- in words


def in_words(one: Parameter) -> str:
    """The values of a parameter, those that a page opens with in bold."""
    if not one.words:
        return ", ".join([one.values, *(f"**{opening}**" for opening in one.opens)])
    several = f"{one.values} " if one.values else ""
    named = [word for word in one.words if not word.isdecimal()]
    counted = [int(word) for word in one.words if word.isdecimal()]
    said = [_named(word, one) for word in named if "." not in word]
    if counted == list(range(len(counted))) and len(counted) > 1:
        said.append("0, 1, 2 … as many as there are")
    elif len(counted) > MANY:
        said.append("a number")
    else:
        said += [_named(str(number), one) for number in counted]
    heads = [word for word in named if "." in word]  # layer.head
    if heads:
        said.append(f"`{heads[0]}`, `{heads[1]}` … as many as there are")
    return several + ", ".join(said)


def _named(word: str, one: Parameter) -> str:
    shown = f"**`{word}`**" if word in one.opens else f"`{word}`"
    names = [name for name in one.words[word] if name != word]
    return f"{shown} {' or '.join(names)}".strip()


def table(found: dict[str, Found]) -> str:
    """A row a name; where pages differ in its values, each says its own."""
    rows = ["| name | pages | what it is | values | new text |", "| --- | --- | --- | --- | --- |"]
    for name in sorted(set(chain.from_iterable(found.values()))):
        here = {title: of_page[name] for title, of_page in found.items() if name in of_page}
        labels = list(dict.fromkeys(label for one in here.values() for label in one.labels))
        by_values: dict[str, list[str]] = {}
        for title, one in here.items():
            by_values.setdefault(in_words(one), []).append(title)
        one_for_all = len(by_values) == 1
        values = [said if one_for_all else f"{_titles(titles)}: {said}" for said, titles in by_values.items()]
        drops = "opens anew" if state.SPEAKS_OF[name] else "stays"
        cells = (f"`{name}`", _titles(list(here)), " / ".join(labels), "<br>".join(values), drops)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows)


def _titles(titles: list[str]) -> str:
    every_lesson = list(lessons.LESSONS.values())
    if set(every_lesson) <= set(titles):
        titles = [*(title for title in titles if title not in every_lesson), "all lessons"]
    return ", ".join(titles)
