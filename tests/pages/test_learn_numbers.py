"""What each lesson says and shows without a browser, beside core and closed forms; clicks turn the cells of a mask over."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from core import attend, capture, generate, load_model
from core.attention import masks as m
from core.attention.sources import toy_sentence
from core.heads.contributions import lengths
from core.lessons.blocks import differences, in_blocks
from core.lessons.long_range import compare_reach, mean_distances
from core.lessons.many_heads import fetch, heads_of_a_sentence
from core.lessons.masking import fill
from core.lessons.query_key_value import ANGLE, KEYS, TOKENS, VALUES
from core.lessons.scaling import model_scores, over_heads
from core.lessons.self_and_cross import ALIGNING_HEAD, DATES_MODEL, looks, mean_share, other_keys
from core.lessons.softmax import in_formats, normalised, precisions, softmax_steps
from core.lessons.word_order import ORDER_FROM, alibi_slopes, shift, shuffle
from core.units import small_number
from tests.core.lessons.test_query_key_value import scores_at, weights_at
from tests.pages.lessons import open_lesson, rows, said
from ui import state
from ui.controls import masks
from ui.views.lesson.frame import IN_A_MODEL
from ui.views.sources.heads import opening_head
from ui.views.sources.text_fields import SENTENCE
from ui.views.tables import numbers

MINILM, SMOLLM = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"
SCORES = (1, 0.5, 2.5, -0.1)
READ, INSTEAD, WRITTEN = "Il fait beau .", "Il pleut", "It is"

Words = Iterator[str]  # that the page says


def in_a_sentence(block_size: int) -> Words:
    words = toy_sentence("Blocks of keys give the very same result as all keys.", d_head=6)
    trace = attend(words.query, words.key, words.value)
    blocks = in_blocks(trace, block_size)
    of_row = (blocks.maximum[-1, 6], blocks.correction[-1, 6], blocks.total[-1, 6])
    yield f"| {blocks.ends[-1]} | {' | '.join(f'{number:.3f}' for number in of_row)} |"
    for dtype, difference in differences(trace.rows(range(6, 7)), block_size).items():
        yield f"{dtype} **{small_number(difference)}**"


def reaches() -> Words:
    for reach in compare_reach(32, gain=2.5, forget_bias=1.0).values():
        yield f"10^{{{reach.log10[-1]:.1f}}}"


def distances(first: str) -> Words:
    far = mean_distances(capture(load_model(SMOLLM), SENTENCE), without_first=first == "true")
    yield f"The heads look **{far.min():.1f}** to **{far.max():.1f}** tokens"


def sizes(heads: int) -> Words:
    _, many = heads_of_a_sentence(SENTENCE, heads)
    assert many.parameters == 2304
    yield from (f"| {heads} × 12 × {many.d_head} |", f"| {many.parameters:,} |")


def summed() -> Words:
    _, many = heads_of_a_sentence(SENTENCE, 4)
    length, _ = lengths(many.contributions)
    yield from (f"head **{length[:, 3].argmax()}** adds most", "At “cross”", f"**{small_number(many.difference)}**")


def fetched() -> Words:
    yield f"one head **{fetch(0.8).apart(fetch(0.8).one_head):.1f}**, two heads **1.0**"


def leak(score: float) -> Words:
    words = toy_sentence("The cat sat. A dog ran.")
    leaks = fill(attend(words.query, words.key, words.value, mask=np.tri(8)), score)
    yield f"**{leaks.leaked.mean():.2g}** of the weight leaks"


def longer(factor: float, angle: int) -> Words:
    keys = [*KEYS[:1], tuple(factor * number for number in KEYS[1]), *KEYS[2:]]
    before, after = weights_at(angle)[1], weights_at(angle, keys)[1]
    yield f"the weight of “street” goes from {before:.0%} to **{after:.0%}**"


def swapped(other: str) -> Words:
    weights, values, at = weights_at(ANGLE), np.array(VALUES), TOKENS.index(other)
    moved = np.linalg.norm((weights[0] - weights[at]) * (values[at] - values[0]))
    yield f"The weights change by 0, the output moves by **{moved:.2f}**"


def changed() -> Words:
    yield f"queries **0**, in the output **{other_keys(READ, INSTEAD, WRITTEN).output_change:.2f}**"


def of_a_date(text: str, head: int = ALIGNING_HEAD[1]):
    passed = generate(load_model(DATES_MODEL), text, 64).capture_of(-1)
    return looks(passed.trace(ALIGNING_HEAD[0], head, "cross").weights, *passed.tokens("cross"))


def a_date() -> Words:
    found = of_a_date("Sat 21 Nov 2026", 1)
    yield "The model writes “2026-11-21”. The row of “-” writes “1” and looks most at “v”"
    yield f": **{found[5].weight:.1%}**. This “1” comes from “Nov”, which gets **{found[5].share:.1%}**."
    yield f"On average, a character's origin gets **{mean_share(found):.1%}**."


def ways() -> Words:
    for one in normalised(SCORES):
        yield f"| {one.name} | **{one.total:.3f}** |"


def rounded() -> Words:
    half, _, double = precisions(capture(load_model(SMOLLM), SENTENCE).trace(*opening_head(SMOLLM)))
    yield f"| float16 | {small_number(half.row_sum_error)} | {small_number(half.weight_error)} |"
    yield f"| float64 | {small_number(double.row_sum_error)} | 0 |"


def moved(source: str) -> Words:
    yield f"**{small_number(shuffle('the dog bites the man', source, seed=29).difference)}**"


def residual() -> Words:
    yield f"**{small_number(shift(10, 40, 32).residual)}**"


def slope() -> Words:
    yield f"**{alibi_slopes(12)[11]:.4g}**"


def crossing(weights: str, output: str) -> Words:
    yield f"weights **{weights}** and an output of **{output}**"


def words(*said: str) -> Words:
    yield from said


MASKS = {
    "Causal": "causal",
    "Padding": "padding",
    "Sliding window": "sliding window of 4 to each side",
    "Prefix": "causal with an open prefix of 4",
    "Packed blocks": "blocks of 4",
    "None": "none",
    "My own": "none",
}
OWN_CELLS = {state.PATTERN: "My own", state.CELLS: "101/000/111"}
TEXTS = {state.READ: READ, state.READ_INSTEAD: INSTEAD, state.WRITTEN: WRITTEN}
BLOCKS = {"encoder": ("4 × 4", "4 × 8"), "decoder": ("2 × 2", "2 × 8"), "cross": ("2 × 4", "2 × 8")}
SOURCES = zip(("nothing", "sinusoids", "rotary", "alibi", "causal"), ORDER_FROM, strict=True)
A_DATE = {state.DATE: "Sat 21 Nov 2026", state.DIGIT: "5", state.HEAD: "1"}
# Lesson, part, knobs, and what gives the words that the page has to say, with their arguments.
SAYS: list[tuple[str, str, dict[str, str], Callable[..., Words], tuple]] = [
    *(("blocks", "A sentence", {state.BLOCK_SIZE: str(size)}, in_a_sentence, (size,)) for size in (1, 3, 50)),
    ("long_range", "Steps and operations", {state.VECTOR_SIZE: "1024"}, words, ("**1,024** tokens",)),
    ("long_range", "Gradients", {state.LENGTH: "32", state.GAIN: "2.5", state.FORGET: "1.0"}, reaches, ()),
    *(
        ("long_range", IN_A_MODEL, {state.MODEL: SMOLLM, state.WITHOUT_FIRST: first}, distances, (first,))
        for first in ("false", "true")
    ),
    *(("many_heads", "Split and join", {state.HEAD_COUNT: str(n)}, sizes, (n,)) for n in (1, 2, 4, 8, 12)),
    ("many_heads", "A sum of heads", {state.WORD: "3"}, summed, ()),
    ("many_heads", "Why several", {state.HEAD_SHARE: "0.8"}, fetched, ()),
    *(
        ("masking", "Patterns", {state.PATTERN: pattern}, words, (f"This mask: **{name}**",))
        for pattern, name in MASKS.items()
    ),
    (
        "masking",
        "Patterns",
        OWN_CELLS | {state.SENTENCE: "a b c"},
        words,
        ("**custom**, 5 of 9 pairs", "look at nothing: 1"),
    ),
    *(
        ("masking", "Why not 0", {state.FILL: name}, leak, (score,))
        for name, score in (("0", 0.0), ("-5", -5.0), ("-inf", -np.inf))
    ),
    (
        "masking",
        "Nothing left",
        {},
        words,
        (
            "| Headlight | " + "0.000 | " * 8 + "0.000 |",
            ":red[**NaN**] | " * 8 + ":red[**NaN**]",
            "0.125 | " * 8 + "1.000",
        ),
    ),
    ("masking", IN_A_MODEL, {state.MODEL: MINILM}, words, ("This layer has no mask: all **256** pairs may attend",)),
    ("masking", IN_A_MODEL, {state.MODEL: SMOLLM}, words, ("It is **causal**",)),
    *(
        ("query_key_value", "length", {state.KEY_LENGTH: str(by), state.ANGLE: str(angle)}, longer, (by, angle))
        for by, angle in ((2.0, ANGLE), (0.5, ANGLE), (4.0, 250))
    ),
    *(("query_key_value", "values", {state.SWAP: other}, swapped, (other,)) for other in ("street", "tired")),
    *(
        ("self_and_cross", "Three blocks", TEXTS | {state.BLOCK: block}, crossing, sides)
        for block, sides in BLOCKS.items()
    ),
    ("self_and_cross", "Other keys", TEXTS, changed, ()),
    ("self_and_cross", "A date, by hand", A_DATE, a_date, ()),
    ("softmax", "Not the same", {}, ways, ()),
    ("softmax", IN_A_MODEL, {state.MODEL: SMOLLM}, rounded, ()),
    *(("word_order", "Shuffle", {state.ORDER_FROM: word}, moved, (source,)) for word, source in SOURCES),
    ("word_order", "Shift", {state.ONWARD: "40"}, residual, ()),
    ("word_order", "Biases", {state.ALIBI_HEADS: "12", state.ALIBI_HEAD: "11"}, slope, ()),
    ("word_order", IN_A_MODEL, {state.MODEL: MINILM}, words, ("does not rotate queries and keys",)),
]


@pytest.mark.parametrize(("lesson", "part", "knobs", "expected", "given"), SAYS)
def test_a_lesson_says_what_core_computes(lesson, part, knobs, expected, given):
    page = open_lesson(lesson, part, **knobs)
    assert not page.exception
    assert not page.error
    found = said(page).replace("\\", "")
    assert [one for one in expected(*given) if one not in found] == []


WRONG = [
    ("many_heads", "Split and join", {state.TOY_TEXT: " "}, "blank"),
    ("masking", "Patterns", OWN_CELLS, "needs 8 of 8"),
    ("masking", "Patterns", {state.SENTENCE: "word " * 13}, "the maximum here is 12"),
    ("self_and_cross", "Three blocks", {state.READ: " "}, ""),
    ("self_and_cross", "Other keys", {state.READ_INSTEAD: " "}, ""),
    ("self_and_cross", "A date, by hand", {state.DATE: " "}, ""),
    *(
        ("self_and_cross", "A date, by hand", {state.DATE: text}, "at most 64")
        for text in ("3 march 1987 " * 6, "x" * 400)
    ),
    ("self_and_cross", IN_A_MODEL, {state.SECOND_TEXT: " "}, ""),
    *(
        ("softmax", part, {state.SCORES: scores}, "")
        for part in ("Scores to weights", "Not the same", "Overflow")
        for scores in ("a, b", "1, 2; 3", "1 2\n3 4", "1e300", "nan")
    ),
    ("word_order", "Biases", {state.ALIBI_HEADS: "4", state.ALIBI_HEAD: "9"}, "no head 9"),
    ("word_order", "Shuffle", {state.ORDER_TEXT: " "}, "blank"),
]


@pytest.mark.parametrize(("lesson", "part", "knobs", "problem"), WRONG)
def test_what_a_knob_does_not_take_is_named(lesson, part, knobs, problem):
    page = open_lesson(lesson, part, **knobs)
    assert not page.exception
    (error,) = page.error
    assert problem in error.value


OPENS = [  # parts and settings whose numbers are checked elsewhere
    *(
        ("blocks", IN_A_MODEL, {state.MODEL: SMOLLM, state.ROW: query, state.BLOCK_SIZE: size})
        for query, size in (("0", "1"), ("0", "3"), ("12", "64"))
    ),
    ("masking", "Nothing left", {state.SENTENCE: "a b", state.PADDED: "8"}),
    ("scaling", "Dot products", {state.TERMS: "1"}),
    ("scaling", "Spread", {state.DISTRIBUTION: "sign", state.DEVIATION: "2"}),
    ("scaling", "Saturation", {state.KEY_COUNT: "8", state.DIVISOR: "8"}),
    *(("scaling", "Gradient", {state.GRADIENT_OF: shown}) for shown in ("norm", "q", "k", "w-q")),
    ("scaling", "Gradient", {state.HEAD_SIZE: "4096", state.SCALED: "true"}),
    ("scaling", "Depth", {state.DEPTH: "1", state.AROUND: "nothing", state.STACK_WIDTH: "16"}),
    ("scaling", "Depth", {state.AROUND: "after", state.STACK_WIDTH: "16"}),
    *(("scaling", IN_A_MODEL, {state.MEASURE: shown}) for shown in ("entropy", "near-one")),
    ("scaling", IN_A_MODEL, {state.MODEL: SMOLLM}),
    *(("softmax", part, {state.SCORES: ""}) for part in ("Scores to weights", "Not the same", "Overflow")),
    *(("word_order", "Biases", {state.BIAS_KIND: kind}) for kind in ("alibi", "t5-encoder", "t5-decoder")),
]


@pytest.mark.parametrize(("lesson", "part", "knobs"), OPENS)
def test_every_setting_opens(lesson, part, knobs):
    page = open_lesson(lesson, part, **knobs)
    assert not page.exception
    assert not page.error or knobs == {state.SCORES: ""}  # an empty field is its own sign
    assert page.get("plotly_chart") or page.error
    for name, value in knobs.items():
        assert str(page.session_state[name]).lower().removesuffix(".0") == value.lower()
    assert lesson != "blocks" or "nan" not in said(page).lower()


# --- what is more than a sentence


@pytest.mark.parametrize("angle", [ANGLE, 0, 180, 250])
def test_the_best_key_is_named_with_its_weight(angle):
    page = open_lesson("query_key_value", "turn", **{state.ANGLE: str(angle)})
    weights = weights_at(angle)
    best = int(np.argmax(weights))
    assert f"fits the key of “{TOKENS[best]}” best: weight **{weights[best]:.0%}**" in said(page)
    table = rows(page)
    for token, score, weight in zip(TOKENS, scores_at(angle), weights, strict=True):
        assert float(table[token][2].replace("−", "-")) == pytest.approx(score, abs=5.1e-4)
        assert table[token][4] == f"**{weight:.1%}**"


def test_the_angle_of_a_real_key():
    page = open_lesson("query_key_value", "model", **{state.MODEL: MINILM})
    trace = capture(load_model(MINILM), SENTENCE).trace(5, 11)
    q, k = trace.query[10].astype(float), trace.key[2].astype(float)
    angle = np.degrees(np.arccos(q @ k / np.linalg.norm(q) / np.linalg.norm(k)))
    assert f"“it” looks most at “animal”, {angle:.0f}° apart: weight **{trace.weights[10, 2]:.0%}**" in said(page)
    assert rows(page)["animal"][:2] == [f"{np.linalg.norm(k):.4g}", f"{angle:.1f}°"]


def test_the_norm_is_told_twice():
    shown = next(one.value for one in open_lesson("scaling", "Gradient").markdown if one.value.startswith("Norm"))
    assert f"differentiation: {shown.split('**')[1]}." in shown


def test_the_table_is_that_of_all_heads(minilm):
    found = model_scores(capture(minilm, SENTENCE))
    table = rows(open_lesson("scaling", IN_A_MODEL, **{state.MODEL: minilm.name}))
    assert table["spread, median head"][0] == f"{over_heads(found.without_scale).spread:.2f}"
    assert table["mean entropy"][1] == f"{over_heads(found.with_scale).entropy:.3f}"
    assert table["rows with a weight above 0.99"][0] == f"{over_heads(found.without_scale).near_one:.1%}"


def test_of_what_is_no_date_no_origin_is_said():
    page = open_lesson("self_and_cross", "A date, by hand", **{state.DATE: "hello <b>world", state.DIGIT: "2"})
    assert f": **{of_a_date('hello <b>world')[2].weight:.1%}**." in said(page)
    assert "comes from" not in said(page)
    assert "On average" not in said(page)
    assert any("trained only on dates" in caption.value for caption in page.caption)


def test_a_head_of_the_larger_model_is_not_asked_of_the_smaller_one():
    page = open_lesson("self_and_cross", IN_A_MODEL, **{state.LAYER: "4", state.HEAD: "11"})
    page.segmented_control(state.PART).set_value("date").run()
    assert not page.exception
    assert "On average" in said(page)


def test_sums_ranks_and_the_shift():
    text = said(open_lesson("softmax", "Scores to weights", **{state.SHIFT: "1.5"}))
    weights = " | ".join(numbers(softmax_steps(SCORES).weights))
    assert text.count(f"| {weights} | **1.000** |") == 2  # with and without the shift
    assert text.count("| 2 | 3 | 1 | 4 |") == 2  # the ranks of scores and of weights
    assert "**78.225**" in text  # 17.454 · e^1.5


@pytest.mark.parametrize(("factor", "broken"), [("1", 0), ("5", 1), ("40", 2), ("320", 3)])
def test_which_formats_break(factor, broken):
    page = open_lesson("softmax", "Overflow", **{state.FACTOR: factor})
    assert said(page).count("NaN**] |\n") == broken  # the sums that are no numbers
    assert sum(not one.naive_holds for one in in_formats([value * int(factor) for value in SCORES])) == broken


def test_rows_of_minus_infinity():
    page = open_lesson("softmax", "Overflow", **{state.NOTHING: "true"})
    assert not page.exception
    assert said(page).count("| 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |") == 3
    assert "every weight 0" in said(page)


def test_a_shuffled_sentence_keeps_its_words_beside_the_picture():
    drawn = json.loads(open_lesson("word_order", "Shuffle").get("plotly_chart")[0].proto.spec)
    assert "dog" in drawn["layout"]["yaxis"]["ticktext"]


def test_the_bands_add_up_to_the_raw_score():
    page = open_lesson("word_order", IN_A_MODEL, **{state.MODEL: SMOLLM, state.QUERY: "8", state.KEY: "1"})
    assert not page.exception
    parts_here = json.loads(page.get("plotly_chart")[0].proto.spec)["data"][0]["y"]
    values = np.frombuffer(b64decode(parts_here["bdata"]), dtype=parts_here["dtype"])
    assert values.sum() == pytest.approx(49.2635, abs=0.02)
    assert said(page).count(f"{values.sum():.4f}") == 2


# --- clicks on a mask


def clicked(monkeypatch, mask, kept=None, **places):
    """What the page keeps after a click on this cell of a picture. kept: what it has kept before"""
    kept = dict(kept or {})
    monkeypatch.setattr(masks.st, "session_state", kept)
    masks.turn_over(mask, {axis: range(place, place + 1) for axis, place in places.items()})
    return kept


def test_a_click_turns_a_cell_over(monkeypatch):
    mask = m.grid(m.causal, 3, 3)
    kept = clicked(monkeypatch, mask, query=0, key=2)
    assert kept == {state.CELLS: "101/110/111", state.PATTERN: masks.CUSTOM}
    assert clicked(monkeypatch, m.from_rows(kept[state.CELLS], 3, 3), query=0, key=2)[state.CELLS] == "100/110/111"
    for elsewhere in ({"query": 3, "key": 0}, {"query": 0}, {"dimension": 1, "key": 0}):
        assert not clicked(monkeypatch, mask, **elsewhere)


def test_of_two_clicks_on_one_picture_both_count(monkeypatch):
    mask = m.grid(m.causal, 3, 3)
    kept = clicked(monkeypatch, mask, query=0, key=2)
    assert clicked(monkeypatch, mask, kept, query=1, key=2)[state.CELLS] == "101/111/111"
    unreadable = {state.CELLS: "10/x", state.PATTERN: masks.CUSTOM}
    assert clicked(monkeypatch, mask, unreadable, query=1, key=2)[state.CELLS] == "10/x"
