"""Two texts on the pages: every kind of attention of encoder-decoders, targets given in each way, and pairs in an encoder."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from core import capture, load_model
from tests.core.tiny_models import eager, number_words, tiny
from tests.pages import app as pages
from tests.pages.app import MINILM, choose, drawn, figure, go, has, new, ran, saved, texts, words
from tests.ui.test_links import link_of
from ui import state

READ = "5 17 8 5 17 8 9 41"
ALONE, END = (48, 48), 43  # what the tiny T5 writes by itself after this, and the token with which it then ends
KINDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
DATES = "written-dates"
PICTURES = {"step_by_step": "As it is", "heads": "head"}


@pytest.fixture(scope="module")
def t5(tmp_path_factory) -> str:
    network, tokenizer = tiny("T5"), number_words()
    network.generation_config.eos_token_id = END
    tokenizer.unk_token = "0"
    return saved(tmp_path_factory.mktemp("t5"), network, tokenizer)


def opened(page: str, model: str, **said: object) -> AppTest:
    return pages.opened(page, **{state.MODEL: model, state.TEXT: READ} | said)


def eager_weights(model: str, kind: str, written: tuple[int, ...], layer: int, head: int) -> np.ndarray:
    """Computed by transformers alone."""
    loaded = load_model(model)
    target = torch.tensor([[0, *written]])  # after T5's start token
    ids = loaded.tokenizer(READ, return_tensors="pt")["input_ids"]
    found = eager(loaded.network, input_ids=ids, decoder_input_ids=target)
    return found[KINDS[kind]][layer][0, head].numpy()


@pytest.mark.parametrize(("page", "kind"), [("step_by_step", "cross"), *(("heads", kind) for kind in KINDS)])
def test_every_kind_of_attention_over_what_the_model_writes(t5, page, kind):
    app = opened(page, t5, kind=kind, layer=1, head=2)
    expected = eager_weights(t5, kind, ALONE[:-1], 1, 2)  # its last token is what comes next
    shown = drawn(app, PICTURES[page])
    np.testing.assert_allclose(np.nan_to_num(shown), expected, atol=2e-5)
    assert "Agrees with the model" in words(app)
    assert "The model writes “48 48”." in words(app)
    assert not app.error


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ({state.TARGET: "9 31"}, (9, 31)),  # as older links say it
        ({state.TARGET_AS: "text"}, ()),
        ({state.TARGET_AS: "numbers", state.TARGET_IDS: "0, 9 31"}, (0, 9, 31)),
        ({state.TARGET_AS: "generated", state.TARGET: "9 31"}, ALONE),
    ],
)
def test_the_address_says_how_the_target_is_given(t5, said, written):
    app = opened("heads", t5, kind="cross", **said)
    np.testing.assert_allclose(drawn(app, "head"), eager_weights(t5, "cross", written, 0, 0), atol=2e-5)
    assert ("The model writes" in words(app)) == (written == ALONE)
    assert app.session_state[state.ADDRESS].get(state.TARGET_AS, ["text"]) == [said.get(state.TARGET_AS, "text")]
    assert ("target “9 31”, which this page does not use" in texts(app.warning)) == (len(said) > 1 and written == ALONE)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "said",
    [{}, {state.TARGET: "1987"}, {state.TARGET_AS: "numbers", state.TARGET_IDS: "9, 8"}],
)
def test_a_link_says_what_was_read_and_how_the_target_was_given(said):
    """Also what the page opens with, which may change: a date, for a model that reads nothing else."""
    app = go(new(), "heads", **{state.MODEL: DATES, state.KIND: "cross"} | said)
    link = {name: words[0] for name, words in parse_qs(urlsplit(link_of(app)).query).items()}
    assert link[state.TEXT] == "the 3rd of march 1987"
    assert link[state.TARGET_AS] == said.get(state.TARGET_AS, "text" if said else "unfinished")
    assert {name: link.get(name) for name in (state.TARGET, state.TARGET_IDS)} == {
        name: said.get(name) for name in (state.TARGET, state.TARGET_IDS)
    }
    there = opened("heads", link.pop(state.MODEL), **link)
    np.testing.assert_array_equal(drawn(there, "head"), drawn(go(app, "heads"), "head"))


@pytest.mark.thorough
def test_what_was_typed_stays_when_the_model_is_changed_and_what_was_not_follows_it():
    app = go(new(), "heads")
    assert app.text_area(state.TEXT).value.startswith("The animal")
    choose(app, state.MODEL, DATES)
    assert app.text_area(state.TEXT).value == "the 3rd of march 1987"
    assert "dates only" in words(app)
    assert "The model writes" in words(choose(app, state.TEXT, "no date"))
    assert choose(app, state.MODEL, MINILM).text_area(state.TEXT).value == "no date"


def test_hiding_a_token_hides_it_where_the_text_is_looked_at():
    """Not the token at the same place in what the decoder has written, where there may be none."""
    app = opened("what_if", DATES, kind="cross", text="the 3rd of march 1987")
    app.session_state[state.TOKEN_AT] = 15
    ran(app)
    app.button(state.button("hide", 0)).click()
    assert not ran(app).error
    assert app.session_state[state.ADDRESS][state.EDITS] == ["block key 15 at encoder", "block key 15 at cross"]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({state.TARGET_AS: "text", state.TARGET: "9 cat"}, "has no token for “cat”"),
        ({state.TARGET_AS: "numbers", state.TARGET_IDS: "9, x"}, "“x” is not a token number"),
    ],
)
def test_a_target_that_cannot_be_read_is_said_to_be_wrong(t5, said, wrong):
    app = opened("heads", t5, **said)
    assert wrong in words(app)
    assert not has(app, "head")
    field = next(one for one in app.text_input if one.key in (state.TARGET, state.TARGET_IDS))
    assert field.value == said.get(state.TARGET, said.get(state.TARGET_IDS))  # what was typed is kept


def test_metrics_that_compare_positions_are_offered_within_one_text_alone(t5):
    within = {"Itself", "Previous token", "Next token", "Duplicate token", "Induction", "Mean distance", "Near tokens"}
    offered = {
        kind: {option.partition(": ")[2] for option in opened("heads", t5, kind=kind).get_by_key(state.METRIC).options}
        for kind in KINDS
    }
    assert within <= offered["encoder"] & offered["decoder"]
    assert not within & offered["cross"]
    assert {"Entropy", "First token", "Largest weight"} <= offered["cross"]


# --- two texts in an encoder: what goes from one to the other, and a border between them

FIRST, SECOND = "The cat sat on the mat.", "A kitten is sitting on a rug."
PAIR = {state.TEXT: FIRST, state.PAIR: SECOND, state.LAYER: 1, state.HEAD: 1}


def borders(app, picture: str) -> list[tuple[float, float]]:
    """Where lines go through all of a picture: (x0, y0) of each."""
    return [(shape["x0"], shape["y0"]) for shape in figure(app, picture).layout["shapes"] if shape["type"] == "line"]


@pytest.mark.parametrize(
    ("part", "at"), [("there", (slice(1, 8), slice(9, 17))), ("back", (slice(9, 17), slice(1, 8)))]
)
def test_what_goes_from_one_text_to_the_other(minilm, part, at):
    app = opened("heads", MINILM, **PAIR | {state.PART_OF_PAIR: part})
    expected = capture(minilm, FIRST, pair=SECOND).trace(1, 1).weights[at]
    np.testing.assert_allclose(drawn(app, "head"), expected, atol=1e-6)
    assert f"{expected.sum(axis=1).mean():.1%} of the attention of these tokens" in words(app)
    query, key = np.unravel_index(expected.argmax(), expected.shape)
    tokens = capture(minilm, FIRST, pair=SECOND).tokens()[0]
    assert f"“{tokens[at[0].start + query]}” gives" in words(app)
    assert f"to “{tokens[at[1].start + key]}”" in words(app)


@pytest.mark.parametrize(("page", "picture"), PICTURES.items())
def test_a_border_stands_where_the_second_text_begins(page, picture):
    assert {(8.5, -0.5), (-0.5, 8.5)} <= {*borders(opened(page, MINILM, **PAIR), picture)}
    assert not borders(opened(page, MINILM, **PAIR | {state.PAIR: ""}), picture)
