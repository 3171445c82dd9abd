"""A new text drops what was chosen about the one before, and nothing else; and what is said of a text beside its field."""

import re
from unittest import mock

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.app import FRANCE, MINILM, SMOLLM, choose, go, opened, press, ran, words
from tests.source_files import ROOT, text
from ui import links, state
from ui.cache import Store
from ui.views.what_if import results

DATES = "written-dates"
# As long as the other one, so that nothing is dropped for being out of range; the same words are likely to come next.
ITALY = "The capital of Italy is"
NINE = "1" * 9  # of a mask
GRID = "\n".join([" ".join(NINE)] * 8 + ["1 0 0 0 0 0 0 0 1"])
SPAIN = "The capital of Spain is"
WRITER, READER = {state.MODEL: SMOLLM}, {state.MODEL: DATES}
PATTERN = {state.METRIC: "pattern"}
PATCH = f'cut 16.0 from the key of 18.6 as in "{SPAIN}"'
# What does not speak of the text, and what does.
STAYS = ["mute 2.3", "scale 2 at 5", "mask window 4", "softmax hardmax at 5", "pattern first", "off mute 1"]
STAYS += ['mean 2 over "A."', "cut 16.0 from the key of 18.6", "cut mlp 9 mean from the value of 18.6"]
GOES = ["block key 3", "block pair 3>1 at 2", "paint 3>1=0.4 3>0=0.6", 'token 1 "dog"', f'patch 2.3 from "{ITALY}"']
GOES += [PATCH, "off block key 2", "paint 3>1=7", "token"]

# Pages, and what is chosen there until another text is typed.
VIEWS: list[tuple[str, dict[str, str | list[str]]]] = [
    (
        "step_by_step",
        {state.LAYER: "2", state.HEAD: "3", state.STAGE: "raw", state.SCALING: "false", state.SCALE_TIMES: "0.5"}
        | {state.WEIGHTS: "true", state.QUERY: "3", state.KEY: "1", state.PAIR: "A"}
        | {state.MASK: "own", state.MASK_GRID: GRID},
    ),
    ("step_by_step", {state.MASK: "window", state.MASK_SIZE: "2"}),
    (
        "heads",
        PATTERN
        | {state.LOOK_FOR: "stripes", state.STRIPES: "1, 2", state.ATLAS_BY: "pictures", state.ORDER: "lowest"}
        | {state.AT_LEAST: "0.1", state.FROM_LAYER: "1", state.TO_LAYER: "4", state.SHOWN_AS: "text"}
        | {state.QUANTITY: "value-weighted", state.LEAVE_OUT: ["first"], state.RENORMALISE: "true"}
        | {state.MEAN_OF: ["1.2", "3.4"], state.DIRECTION: "to", state.PINNED_TOKENS: ["2"], state.PART_OF_PAIR: "back"}
        | {state.PAIR: "A dog", state.QUERY: "3", state.KEY: "1"},
    ),
    ("heads", PATTERN | {state.LOOK_FOR: "pairs", state.PAIRS: "2-1", state.BY_WORD: "true", state.QUERY: "2"}),
    ("heads", PATTERN | {state.BACK: "2"}),
    ("heads", PATTERN | {state.LOOK_FOR: "blocks", state.BLOCK_LENGTH: "3"}),
    ("heads", {state.METRIC: "sink", state.MEASURED_ON: "random"}),
    ("heads", READER | {state.KIND: "cross", state.TARGET_AS: "text", state.TARGET: "1987", state.KEY: "2"}),
    ("heads", READER | {state.TARGET_AS: "numbers", state.TARGET_IDS: "0, 5", state.KEY: "2"}),
    (
        "why",
        {state.ANSWER: "Ouagadougou", state.RATHER_THAN: "Timbuktu", state.PATH: "23.4>3", state.STOP: "1"}
        | {state.SIDE: "query", state.CUTS: ["0"], state.CUT_TO: ITALY}
        | dict.fromkeys(state.PIECES.values(), "1"),
    ),
    ("why", {state.ANSWER_SHOWS: "lens"}),
    ("why", {state.MODEL: MINILM, state.LIKE_TEXT: "A dog runs.", state.STOP: "1"}),
    (
        "what_if",
        {state.EDITS: [*STAYS, *GOES], state.PAINTING: "true", state.NEW_PLACE: "all", state.NEW_EDIT: "patch"}
        | {state.NEW_FIELDS["text"]: ITALY, state.QUERY: "3", state.KEY: "1"},
    ),
    *(
        ("what_if", {state.NEW_EDIT: kind} | {state.NEW_FIELDS[name]: word for name, word in fields.items()})
        for kind, fields in {
            "scale": {"factor": "3"},
            "mask": {"mask": "window", "span": "2"},
            "softmax": {"softmax": "hardmax"},
            "pattern": {"pattern": "first"},
            "paint": {"cells": "3>1=1"},
            "cut": {"component": "mlp 0", "side": "key", "instead": "mean"},
        }.items()
    ),
    ("what_if", WRITER | {state.WRITES_ON: "true"}),
    ("what_if", WRITER | {state.VIEW: "matter", state.TAKEN_AWAY: "tokens", state.NEXT_TOKEN: "260"}),
    ("what_if", {state.VIEW: "patch", state.SOURCE_TEXT: SPAIN, state.THROUGH_HEAD: "true"}),
    ("what_if", {state.VIEW: "compare", state.OTHER_LAYER: "2", state.OTHER_HEAD: "3"}),
    (
        "what_if",
        {state.VIEW: "compare", state.COMPARE_WITH: "text", state.OTHER_TEXT: SPAIN}
        | {state.PLACE_OF_QUERY: "3", state.PLACE_OF_KEY: "1"},
    ),
    (
        "generation",
        {state.NEW_TOKENS: "3", state.CHOICE: "drawn", state.HEAT: "0.5", state.TOP_K: "9", state.TOP_P: "0.9"}
        | {state.SEED: "4", state.STEP: "2", state.STEP_SHOWS: "steps", state.STEP_TELLS: "heat", state.KEY: "3"}
        | {state.CHAT: "true"},
    ),
    ("learn/blocks", {state.PART: "model", state.ROW: "3"}),
    ("learn/many_heads", {state.PART: "model", state.WORD: "2", state.LAYER: "2"}),
]
# Those whose text is not the one that most pages share, and its key.
OWN_TEXTS = [
    ("step_by_step", {state.SOURCE: "toy", state.TOY_SIZE: "16", state.QUERY: "3", state.KEY: "1"}, state.TOY_TEXT),
    ("learn/blocks", {state.ROW: "3", state.BLOCK_SIZE: "2", state.SENTENCE: FRANCE}, state.SENTENCE),
    ("learn/masking", {state.PATTERN: "own", state.CELLS: "10000" * 5, state.SENTENCE: FRANCE}, state.SENTENCE),
    ("learn/masking", {state.PART: "zero", state.ROW: "3", state.FILL: "-2", state.SENTENCE: FRANCE}, state.SENTENCE),
    ("learn/many_heads", {state.PART: "sum", state.WORD: "2", state.HEAD_COUNT: "2"}, state.TOY_TEXT),
    ("learn/self_and_cross", {state.PART: "date", state.DIGIT: "2"}, state.DATE),
]
TRIED = [*((page, said, state.TEXT) for page, said in VIEWS), *OWN_TEXTS]
# Not there with a text that somebody types: worked examples, numbers and matrices, files, a text that is too long; a precision
# and a device, for which a model is loaded again; another model; and how any page is shown.
ELSEWHERE = {state.EXAMPLE, state.QUERIES, state.KEYS, state.D_K, state.D_V, state.DISTRIBUTION, *state.OWN.values()}
ELSEWHERE |= {state.TRUNCATE, state.DTYPE, state.DEVICE, state.OTHER_MODEL, state.UPLOADED, *state.HOW}
PAGES = ("Why", "What if", "Step by step", "Heads", "Generation")
ASKED = {state.ANSWER: " Paris", state.RATHER_THAN: " Rome", state.STOP: "1", state.CUTS: "0"}
TYPED = "[CLS] The animal didn't cross the street. [SEP]"
LONG = "Hello world, " * 120


@pytest.fixture(autouse=True)
def without_what_takes_long():
    """No pictures, and texts are continued by two tokens, which no other test may find."""
    with (
        mock.patch("streamlit.plotly_chart"),
        mock.patch.object(results, "NEW_TOKENS", 2),
        mock.patch.object(results.continuation, "store", Store(4)),
    ):
        yield


def address(app: AppTest) -> dict[str, list[str]]:
    return app.session_state[state.ADDRESS]


@pytest.mark.thorough
@pytest.mark.parametrize(("page", "said", "typed"), TRIED)
def test_a_new_text_drops_what_speaks_of_the_old_one(page, said, typed):
    app = opened(page, **said)
    before = address(app)
    for name, word in said.items():
        assert before.get(name) == (word if isinstance(word, list) else [word]), f"{name} is not there"
    choose(app, typed, ITALY)
    after = address(app)
    said = said.keys() - {typed}
    kept = {name for name in said if typed not in state.SPEAKS_OF[name]}
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
    dropped = {state.EDITS: STAYS} if state.EDITS in said else {}
    assert {name: after.get(name) for name in said - kept} == dict.fromkeys(said - kept) | dropped


def test_every_field_is_used_before_a_new_text_comes():
    """A new key has to be declared as one that stays or one that goes, and then to be tried in a view."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text(ROOT / "docs/links.md"), re.MULTILINE)
    with_text = {name for name, pages in rows if any(page in pages.split(", ") for page in PAGES)}
    tried = {name for _, said, typed in TRIED for name in (*said, typed)}
    needed = with_text | {name for name, of in state.SPEAKS_OF.items() if of and name in state.IN_ADDRESS}
    assert needed - tried - ELSEWHERE == {state.BATCH, state.PASSAGE, state.CLAIM}  # elsewhere


def typed_elsewhere(app: AppTest) -> None:
    go(app, "step_by_step")
    choose(app, state.TEXT, ITALY)
    go(app, "why")


def another_model(app: AppTest) -> None:
    choose(app, state.MODEL, DATES)


def of_a_link(app: AppTest) -> None:
    go(app, "step_by_step")
    go(app, "why", **{state.TEXT: ITALY})


@pytest.mark.thorough
@pytest.mark.parametrize("come", [typed_elsewhere, another_model, of_a_link])
def test_however_a_text_comes_it_drops_what_speaks_of_the_old_one(come):
    app = opened("why", **ASKED)
    assert ASKED.keys() <= address(app).keys()
    come(app)
    assert not ASKED.keys() & address(app).keys()
    assert "Paris" not in words(app)


@pytest.mark.thorough
def test_what_comes_with_a_text_stays():
    """A link that names both, one that says all, and the tour, which chooses a text and a pair of it."""
    app = opened("why", **{state.TEXT: ITALY, state.ANSWER: " Naples"})
    go(app, "heads", **{state.TEXT: FRANCE, state.QUERY: "2"})
    assert address(app)[state.QUERY] == ["2"]
    for said in (ASKED, links.lasting(ASKED)):
        go(app, "why", **{state.TEXT: FRANCE} | said)
        assert ASKED.items() <= {name: one for name, (one, *_) in address(app).items()}.items()
    go(app, "step_by_step", **{state.TEXT: FRANCE, state.MODEL: MINILM, state.QUERY: "1", state.KEY: "2"})
    press(app, "Show me around")
    assert (address(app)[state.QUERY], address(app)[state.KEY]) == (["10"], ["2"])


def test_other_examples_from_a_corpus_begin_with_the_first():
    app = opened("corpus", **{state.KEPT: "spread", state.BATCH: "2"})
    assert address(app)[state.BATCH] == ["2"]
    choose(app, state.HEAD_BOX, "1.4")
    assert address(app)[state.KEPT] == ["spread"]
    assert state.BATCH not in address(app)


def test_a_token_that_was_to_be_replaced_is_no_longer_chosen():
    """No address names it, nor the word that was typed for it."""
    app = choose(choose(opened(), state.TOKEN_AT, 3), state.NEW_TOKEN, "Spain")
    choose(app, state.QUERY, 2)
    assert (app.session_state[state.TOKEN_AT], app.session_state[state.NEW_TOKEN]) == (3, "Spain")
    choose(app, state.TEXT, ITALY)
    assert app.session_state[state.TOKEN_AT] is None
    assert choose(app, state.TOKEN_AT, 3).get_by_key(state.NEW_TOKEN).value == ""


def waiting() -> None:
    """A page whose answer is not drawn at once, as while a text is read."""
    import streamlit as st

    from ui import links, state
    from ui.links import TextForm

    links.read("a page")
    for key in (state.MODEL, state.TEXT):
        links.field(key, TextForm(), "", key)
    if is_ready := st.session_state.get("ready", False):
        links.field(state.ANSWER, TextForm(), "", "Answer")
    links.write("a page", st.empty(), is_whole=is_ready)


@pytest.mark.parametrize(("typed", "answer"), [("France", ["Paris"]), ("Italy", None)])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_what_waits_for_its_field_waits_only_for_its_text(typed, answer, is_drawn):
    """It was asked for by the address, or chosen and drawn before; then another text is typed, and is not read yet."""
    app = AppTest.from_function(waiting)
    app.query_params[state.TEXT], app.query_params[state.ANSWER] = "France", "Paris"
    app.session_state["ready"] = is_drawn
    ran(app)
    app.session_state["ready"], app.session_state[state.TEXT] = False, typed
    ran(app)
    assert (address(app) | app.session_state[state.ASKED]).get(state.ANSWER) == answer
    app.session_state["ready"] = True
    assert address(ran(app)).get(state.ANSWER) == answer
    assert state.IN_VAIN not in app.session_state or not app.session_state[state.IN_VAIN]


def opened_with_minilm(page: str, **address: str) -> AppTest:
    return opened(page, **{state.MODEL: MINILM} | address)


def said(app: AppTest, words: str) -> list[str]:
    return [caption.value for caption in app.caption if words in caption.value.replace("\\", "")]


@pytest.mark.parametrize("page", ["heads", "why", "learn/many_heads"])
def test_a_second_beginning_is_said_and_taken_out(page):
    app = opened_with_minilm(page, **{state.TEXT: TYPED, state.PART: "model"})
    assert len(said(app, "begins with “[CLS]” twice and ends with “[SEP]” twice")) == 1
    app.button(key=state.one_of(state.TAKE_OUT, state.TEXT)).click().run()
    assert app.text_area(key=state.TEXT).value == "The animal didn't cross the street."
    assert said(app, "begins with") == []
    assert all(not (button.key or "").startswith(state.TAKE_OUT) for button in app.button)


def test_what_is_compared_and_what_is_written_are_looked_at_too():
    app = opened_with_minilm("what_if", **{state.VIEW: "compare", state.COMPARE_WITH: "text", state.OTHER_TEXT: TYPED})
    assert len(said(app, "begins with “[CLS]” twice")) == 1
    app.button(key=state.one_of(state.TAKE_OUT, state.OTHER_TEXT)).click().run()
    assert app.text_area(key=state.OTHER_TEXT).value == "The animal didn't cross the street."
    app = opened_with_minilm(
        "generation",
        **{state.MODEL: "SmolLM2-135M-Instruct", state.TEXT: "<|im_start|><|im_start|>Hi", state.NEW_TOKENS: "1"},
    )
    assert len(said(app, "begins with “<|im_start|>” twice")) == 1
    assert all(not (button.key or "").startswith(state.TAKE_OUT) for button in app.button)  # its tokenizer adds none


def test_a_text_beyond_what_the_model_was_made_for_can_be_cut():
    app = opened_with_minilm("heads", **{state.TEXT: LONG})
    assert len(said(app, "was made for at most 256")) == 1
    (box,) = [box for box in app.checkbox if box.key == state.TRUNCATE]
    assert (box.label, box.value) == ("Keep only the first 256 tokens", False)
    box.check().run()
    assert said(app, "was made for at most 256") == []
    assert not app.error
    longer = opened_with_minilm("heads", **{state.TEXT: LONG * 2, state.TRUNCATE: "true"})
    assert not longer.error
    assert [error.value for error in opened_with_minilm("heads", **{state.TEXT: LONG * 2}).error] != []
