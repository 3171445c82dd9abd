"""Self- and cross-attention: who gives queries, keys and values, and what that means for shapes, masks and changes."""

import re
from datetime import date
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import core.models
from core import generate, load_model
from core.attention.sources import split_words
from core.lessons import self_and_cross as lesson
from core.lessons.many_heads import random_layer
from tests.core.tiny_models import eager
from tools.training import dates

READ, INSTEAD, WRITTEN = "Le chat est sur le tapis.", "Il pleut.", "The cat is on"
TEXTS = st.lists(st.sampled_from(("le", "chat", "cat", "on", ".")), min_size=1, max_size=6).map(" ".join)


@given(st.integers(1, 6), st.integers(1, 6))
def test_torch_computes_the_same(queries, keys):
    rng = np.random.default_rng(queries * 10 + keys)
    x, y = rng.standard_normal((queries, 8)), rng.standard_normal((keys, 8))
    weights = random_layer(8, seed=4)
    query, key, value = (torch.from_numpy(a @ b) for a, b in ((x, weights.W_Q), (y, weights.W_K), (y, weights.W_V)))
    theirs = torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]
    trace = lesson.cross(x, y, weights)
    assert trace.weights.shape == (queries, keys)
    assert trace.output.shape == (queries, 8)
    np.testing.assert_allclose(trace.output, theirs.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("place", "shape", "masked"), [("encoder", (7, 7), False), ("decoder", (4, 4), True), ("cross", (4, 7), False)]
)
def test_who_gives_what(place, shape, masked):
    one = lesson.crossing(place, READ, WRITTEN)
    texts = {"read": split_words(READ), "written": split_words(WRITTEN)}
    assert one.query_tokens == texts[one.block.query_text]
    assert one.key_tokens == texts[one.block.key_text]
    assert one.trace.weights.shape == shape
    assert one.trace.value.shape[0] == one.trace.key.shape[0] == shape[1]
    assert one.trace.output.shape[0] == shape[0]
    assert one.block.causal == masked
    np.testing.assert_array_equal(one.trace.mask, np.tri(*shape, dtype=bool) if masked else np.ones(shape, dtype=bool))
    np.testing.assert_allclose(one.trace.weights.sum(axis=1), 1)


@given(TEXTS, TEXTS, TEXTS)
def test_another_text_to_read_changes_no_query(read, instead, written):
    found = lesson.other_keys(read, instead, written)
    assert found.query_change == 0
    np.testing.assert_array_equal(found.before.trace.query, found.after.trace.query)
    assert found.before.trace.output.shape == found.after.trace.output.shape
    np.testing.assert_array_equal(found.before.trace.weights.shape, (len(written.split()), len(read.split())))
    np.testing.assert_array_equal(found.after.trace.weights.shape, (len(written.split()), len(instead.split())))


def characters(text):
    return (*text, "</s>")


def test_origins_are_those_with_which_the_dates_were_written():
    """The training knows them, because it has put the dates together; here they are found again in the text alone."""
    random, known, places = Random(0), 0, 0
    for form in dates.KNOWN + dates.HELD_OUT:
        for _ in range(40):
            written = dates.draw(random, dates.split()[1], (form,))
            found = lesson.origins(characters(written.text), written.answer)
            wrong = [pair for pair in zip(found, written.spans, strict=True) if pair[0] not in (None, pair[1])]
            assert not wrong, (written, found)
            known += sum(span is not None for span in found)
            places += len(dates.DIGITS)
    assert 0.75 < known / places < 0.95  # of days in words and the like nothing is said


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("the 3rd of MARCH 2003", "2003-03-03", ["2", "0", "0", "3", None, "MARCH", "MARCH", None, "3", "3"]),
        ("21.11.26", "2026-11-21", ["26", "26", "2", "6", None, "1", "1", None, "2", "1"]),
        ("5.5.1987", "1987-05-05", ["1", "9", "8", "7", *[None] * 6]),  # which 5 is the day, a text does not say
        ("18 March 1723", "2013-03-18", [*[None] * 5, "March", "March", None, "1", "8"]),  # told another year
        ("1987 1987", "1987-01-02", [None] * 10),
        ("hello world", "2177-12-02", [None] * 10),
        ("5 May", "66", [None] * 2),
        ("", "0000-00-00", [None] * 10),
    ],
)
def test_only_what_a_text_tells_is_known(text, answer, expected):
    found = lesson.origins(characters(text), answer)
    assert [None if span is None else text[slice(*span)] for span in found] == expected


def test_a_token_of_several_letters_keeps_the_others_in_their_places():
    tokens = ("<s>", "3", " ", "<unk>", "m", "a", "y")
    assert lesson.origins(tokens, "1987-05-03")[5:] == ((4, 7), (4, 7), None, (1, 2), (1, 2))


def test_the_row_before_a_character_decides_it():
    weights = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.0, 0.0, 1.0]])
    first, second = lesson.looks(weights, ("<s>", "x", "y"), ("a", "b", "</s>"))
    assert (first.writes, first.key, first.weight, first.share) == ("x", 0, 0.7, None)
    assert (second.writes, second.key, second.weight, second.share) == ("y", 2, 0.6, None)
    assert lesson.mean_share((first, second)) is None


def test_the_aligning_head_looks_where_a_date_comes_from():
    """In transformers' own eager weights, with the spans that the training has put there."""
    passed = generate(load_model(lesson.DATES_MODEL), lesson.DATE, 64).capture_of(-1)
    layer, head = lesson.ALIGNING_HEAD
    written = dates.write(date(1987, 3, 3), "the {dth} of {month} {yyyy}")
    found = lesson.looks(passed.trace(layer, head, "cross").weights, *passed.tokens("cross"))
    ids, target = torch.tensor([passed.input_ids]), torch.tensor([passed.target_ids])
    read = eager(passed.model.network, input_ids=ids, decoder_input_ids=target)
    weights = read.cross_attentions[layer][0, head].numpy()
    assert "".join(look.writes for look in found) == written.answer
    for place in dates.DIGITS:
        assert found[place].origin == written.spans[place]
        assert found[place].share == pytest.approx(weights[place, slice(*written.spans[place])].sum(), abs=2e-5)
        assert found[place].weight == pytest.approx(weights[place].max(), abs=2e-5)
    assert lesson.mean_share(found) == pytest.approx(np.mean([found[place].share for place in dates.DIGITS]))


def test_the_aligning_head_is_the_one_that_the_card_calls_the_best():
    card = (Path(core.models.__file__).parent / "written_dates" / "README.md").read_text("utf-8")
    assert re.search(r"Best is head (\d+)\.(\d+)", card).groups() == tuple(map(str, lesson.ALIGNING_HEAD))
