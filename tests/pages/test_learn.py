"""Every lesson without a browser: parts, old links, what it says beside core and closed forms, and what it does not take."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from core import attend, capture, generate, load_model
from core.attention import masks as m
from core.attention.sources import toy_sentence
from core.heads.views import lengths
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
from tests.pages.app import MINILM, SMOLLM, drawn, figure, go, new, ran
from tests.pages.lessons import LESSONS, PAGES, open_lesson, parts, rows, said
from tests.source_files import ROOT
from ui import lessons, links, state
from ui.controls import masks
from ui.views.charts import numbers
from ui.views.lesson.frame import IN_A_MODEL
from ui.views.sources.heads import opening_head
from ui.views.sources.text_fields import SENTENCE

# What older links say, which is what was on the page, and the word that means the same today.
OLD_LINKS = {
    ("masking", "zero", state.FILL): {"0": "0"} | {f"−{n}": f"-{n}" for n in (1, 2, 5, 10, 20)} | {"−∞": "-inf"},
    ("many_heads", "sum", state.WORD): {"0: The": "0", "3: cross": "3"},
    ("scaling", "spread", state.DISTRIBUTION): {"normal": "normal", "uniform": "uniform", "sign": "sign"},
    ("scaling", "gradient", state.GRADIENT_OF): {"J": "j", "Norm of J": "norm", "q": "q", "k": "k", "W_Q": "w-q"},
    ("scaling", "depth", state.AROUND): {"nothing": "nothing"} | {f"normalise {at}": at for at in ("before", "after")},
    ("scaling", "model", state.MEASURE): {"Spread": "spread", "Entropy": "entropy", "Rows above .99": "near-one"},
    ("self_and_cross", "three", state.BLOCK): {
        "Encoder": "encoder",
        "Decoder: first": "decoder",
        "Decoder: second": "cross",
    },
    ("word_order", "shuffle", state.ORDER_FROM): {
        name: name.lower() for name in ("Nothing", "Sinusoids", "Rotary", "ALiBi")
    }
    | {"Causal mask": "causal"},
    ("word_order", "biases", state.BIAS_KIND): {"ALiBi": "alibi"}
    | {f"T5, {part}": f"t5-{part}" for part in ("encoder", "decoder")},
}
SCORES = (1, 0.5, 2.5, -0.1)
READ, INSTEAD, WRITTEN = "Il fait beau .", "Il pleut", "It is"
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
A_DATE = {state.DATE: "Sat 21 Nov 2026", state.DIGIT: "5", state.HEAD: "1"}
NAN_ROW = ":red[**NaN**] | " * 8 + ":red[**NaN**]"
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
    *(("softmax", part, {state.SCORES: "1e300"}, "") for part in ("Scores to weights", "Not the same", "Overflow")),
    *(("softmax", "Overflow", {state.SCORES: text}, "") for text in ("a, b", "1, 2; 3", "1 2\n3 4", "nan")),
    ("word_order", "Biases", {state.ALIBI_HEADS: "4", state.ALIBI_HEAD: "9"}, "no head 9"),
    ("word_order", "Shuffle", {state.ORDER_TEXT: " "}, "blank"),
]
OPENS = [  # parts and settings whose numbers are checked elsewhere
    *(
        ("blocks", IN_A_MODEL, {state.MODEL: SMOLLM, state.ROW: query, state.BLOCK_SIZE: size})
        for query, size in (("0", "1"), ("0", "3"), ("12", "64"))
    ),
    ("masking", "Nothing left", {state.SENTENCE: "a b", state.PADDED: "8"}),
    ("scaling", "Spread", {state.DISTRIBUTION: "sign", state.DEVIATION: "2"}),
    ("scaling", "Gradient", {state.HEAD_SIZE: "4096", state.SCALED: "true"}),
    ("scaling", IN_A_MODEL, {state.MODEL: SMOLLM}),
    *(("softmax", part, {state.SCORES: ""}) for part in ("Scores to weights", "Not the same", "Overflow")),
]


@pytest.mark.parametrize("lesson", LESSONS)
def test_few_words(lesson):
    assert 1 < len(parts(lesson)) <= 7
    assert sum(len(words.split()) for words in parts(lesson).values()) <= 120


@pytest.mark.parametrize("place", OLD_LINKS)
def test_old_links_open_what_they_opened(place, monkeypatch):
    """The last one is opened, and by the field that it then has all are read."""
    (lesson, part, key), forms, field = place, {}, links.field
    monkeypatch.setattr(links, "field", lambda key, form, *more: field(key, forms.setdefault(key, form), *more))
    label, word = list(OLD_LINKS[place].items())[-1]
    small = {state.STACK_WIDTH: "16", state.DEPTH: "1"} if key == state.AROUND else {}
    old = open_lesson(lesson, part, **{key: label} | small)
    assert not old.error
    assert old.get("plotly_chart")
    assert state.IN_VAIN not in old.session_state
    assert old.session_state[key] == word
    assert {label: str(forms[key].read([label])) for label in OLD_LINKS[place]} == OLD_LINKS[place]


def test_next_leads_through_the_experiments_of_a_lesson():
    first, *following = parts("query_key_value")
    page = open_lesson("query_key_value", first)
    for word in following:
        page.get_by_key(state.NEXT_PART).click()
        assert ran(page).session_state[state.PART] == word
        assert page.get("plotly_chart")
    assert not [button for button in page.button if button.key == state.NEXT_PART]


def test_after_its_last_experiment_each_lesson_leads_to_the_next_and_the_last_one_to_step_by_step():
    app, followed = new(), []
    page = PAGES / f"{next(iter(lessons.LESSONS))}.py"
    while page.parent == PAGES:
        go(app, f"learn/{page.stem}", **{state.PART: list(parts(page.stem))[-1]})
        followed.append(page.stem)
        page, title = lessons.after(lessons.LESSONS[page.stem])
        (link,) = app.get("page_link")
        assert (link.proto.label, link.proto.page) == (f"Next: {title}", page.stem)
        assert link.proto.query_string == f"{state.PART}="  # the first experiment, whichever was open here
    assert sorted(followed) == LESSONS
    assert page == ROOT / "pages/step_by_step.py"


def in_a_sentence(block_size: int) -> list[str]:
    words = toy_sentence("Blocks of keys give the very same result as all keys.", d_head=6)
    trace = attend(words.query, words.key, words.value)
    blocks = in_blocks(trace, block_size)
    of_row = numbers([blocks.maximum[-1, 6], blocks.correction[-1, 6], blocks.total[-1, 6]])
    found = differences(trace.rows(range(6, 7)), block_size).items()
    row = f"| {blocks.ends[-1]} | {' | '.join(of_row)} |"
    return [row, *(f"{dtype} **{small_number(difference)}**" for dtype, difference in found)]


def distances(first: str) -> list[str]:
    far = mean_distances(capture(load_model(SMOLLM), SENTENCE), without_first=first == "true")
    return [f"The heads look **{far.min():.1f}** to **{far.max():.1f}** tokens"]


def sizes(heads: int) -> list[str]:
    _, many = heads_of_a_sentence(SENTENCE, heads)
    return [f"| {heads} × 12 × {many.d_head} |", "| parameters | 2,304 |"]


def summed() -> list[str]:
    _, many = heads_of_a_sentence(SENTENCE, 4)
    best = lengths(many.contributions)[0][:, 3].argmax()
    return [f"head **{best}** adds most", "At “cross”", f"**{small_number(many.difference)}**"]


def leak(score: str) -> list[str]:
    words = toy_sentence("The cat sat. A dog ran.")
    leaks = fill(attend(words.query, words.key, words.value, mask=np.tri(8)), float(score))
    return [f"**{leaks.leaked.mean():.2g}** of the weight leaks"]


def longer(factor: float, angle: int) -> list[str]:
    keys = [*KEYS[:1], tuple(factor * number for number in KEYS[1]), *KEYS[2:]]
    before, after = weights_at(angle)[1], weights_at(angle, keys)[1]
    return [f"the weight of “street” goes from {before:.0%} to **{after:.0%}**"]


def swapped(other: str) -> list[str]:
    weights, values, at = weights_at(ANGLE), np.array(VALUES), TOKENS.index(other)
    moved = np.linalg.norm((weights[0] - weights[at]) * (values[at] - values[0]))
    return [f"The weights change by 0, the output moves by **{moved:.2f}**"]


def of_a_date(text: str, head: int = ALIGNING_HEAD[1]):
    passed = generate(load_model(DATES_MODEL), text, 64).capture_of(-1)
    return looks(passed.trace(ALIGNING_HEAD[0], head, "cross").weights, *passed.tokens("cross"))


def a_date() -> list[str]:
    found = of_a_date("Sat 21 Nov 2026", 1)
    return [
        "The model writes “2026-11-21”. The row of “-” writes “1” and looks most at “v”",
        f": **{found[5].weight:.1%}**. This “1” comes from “Nov”, which gets **{found[5].share:.1%}**.",
        f"On average, a character's origin gets **{mean_share(found):.1%}**.",
    ]


def rounded() -> list[str]:
    half, _, double = precisions(capture(load_model(SMOLLM), SENTENCE).trace(*opening_head(SMOLLM)))
    errors = small_number(half.row_sum_error), small_number(half.weight_error)
    return [f"| float16 | {' | '.join(errors)} |", f"| float64 | {small_number(double.row_sum_error)} | 0 |"]


# Lesson, part, knobs, and the words that the page has to say, or what gives them.
SAYS: list[tuple[str, str, dict[str, str], list[str] | Callable[[], list[str]]]] = [
    *(("blocks", "A sentence", {state.BLOCK_SIZE: str(n)}, partial(in_a_sentence, n)) for n in (1, 3, 50)),
    ("long_range", "Steps and operations", {state.VECTOR_SIZE: "1024"}, ["**1,024** tokens"]),
    (
        "long_range",
        "Gradients",
        {state.LENGTH: "32", state.GAIN: "2.5", state.FORGET: "1.0"},
        lambda: [f"10^{{{one.log10[-1]:.1f}}}" for one in compare_reach(32, gain=2.5, forget_bias=1.0).values()],
    ),
    *(
        ("long_range", IN_A_MODEL, {state.MODEL: SMOLLM, state.WITHOUT_FIRST: first}, partial(distances, first))
        for first in ("false", "true")
    ),
    *(("many_heads", "Split and join", {state.HEAD_COUNT: str(n)}, partial(sizes, n)) for n in (1, 2, 4, 8, 12)),
    ("many_heads", "A sum of heads", {state.WORD: "3"}, summed),
    (
        "many_heads",
        "Why several",
        {state.HEAD_SHARE: "0.8"},
        lambda: [f"one head **{fetch(0.8).apart(fetch(0.8).one_head):.1f}**, two heads **1.0**"],
    ),
    *(("masking", "Patterns", {state.PATTERN: pattern}, [f"This mask: **{name}**"]) for pattern, name in MASKS.items()),
    ("masking", "Patterns", OWN_CELLS | {state.SENTENCE: "a b c"}, ["**custom**, 5 of 9 pairs", "look at nothing: 1"]),
    *(("masking", "Why not 0", {state.FILL: score}, partial(leak, score)) for score in ("0", "-5", "-inf")),
    ("masking", "Nothing left", {}, ["| Headlight | " + "0.000 | " * 8 + "0.000 |", NAN_ROW, "0.125 | " * 8 + "1.000"]),
    ("masking", IN_A_MODEL, {state.MODEL: MINILM}, ["This layer has no mask: all **256** pairs may attend"]),
    ("masking", IN_A_MODEL, {state.MODEL: SMOLLM}, ["It is **causal**"]),
    *(
        ("query_key_value", "length", {state.KEY_LENGTH: str(by), state.ANGLE: str(at)}, partial(longer, by, at))
        for by, at in ((2.0, ANGLE), (0.5, ANGLE), (4.0, 250))
    ),
    *(("query_key_value", "values", {state.SWAP: other}, partial(swapped, other)) for other in ("street", "tired")),
    *(
        ("self_and_cross", "three", TEXTS | {state.BLOCK: block}, [f"weights **{one}** and an output of **{two}**"])
        for block, (one, two) in BLOCKS.items()
    ),
    (
        "self_and_cross",
        "Other keys",
        TEXTS,
        lambda: [f"queries **0**, in the output **{other_keys(READ, INSTEAD, WRITTEN).output_change:.2f}**"],
    ),
    ("self_and_cross", "A date, by hand", A_DATE, a_date),
    ("softmax", "Not the same", {}, lambda: [f"| {one.name} | **{one.total:.3f}** |" for one in normalised(SCORES)]),
    ("softmax", IN_A_MODEL, {state.MODEL: SMOLLM}, rounded),
    *(
        (
            "word_order",
            "Shuffle",
            {state.ORDER_FROM: name},
            lambda name=name: [f"**{small_number(shuffle('the dog bites the man', name, seed=29).difference)}**"],
        )
        for name in ORDER_FROM
    ),
    ("word_order", "Shift", {state.ONWARD: "40"}, lambda: [f"**{small_number(shift(10, 40, 32).residual)}**"]),
    (
        "word_order",
        "Biases",
        {state.ALIBI_HEADS: "12", state.ALIBI_HEAD: "11"},
        lambda: [f"**{alibi_slopes(12)[11]:.4g}**"],
    ),
    ("word_order", IN_A_MODEL, {state.MODEL: MINILM}, ["does not rotate queries and keys"]),
]


@pytest.mark.parametrize(("lesson", "part", "knobs", "expected"), SAYS)
def test_a_lesson_says_what_core_computes(lesson, part, knobs, expected):
    page = open_lesson(lesson, part, **knobs)
    assert not page.error
    found = said(page).replace("\\", "")
    assert [one for one in (expected() if callable(expected) else expected) if one not in found] == []


@pytest.mark.parametrize(("lesson", "part", "knobs", "problem"), WRONG)
def test_what_a_knob_does_not_take_is_named(lesson, part, knobs, problem):
    (error,) = open_lesson(lesson, part, **knobs).error
    assert problem in error.value


@pytest.mark.parametrize(("lesson", "part", "knobs"), OPENS)
def test_every_setting_opens(lesson, part, knobs):
    page = open_lesson(lesson, part, **knobs)
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
    page.segmented_control(state.PART).set_value("date")
    assert "On average" in said(ran(page))


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
    assert said(page).count("| 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |") == 3
    assert "every weight 0" in said(page)


def test_a_shuffled_sentence_keeps_its_words_beside_the_picture():
    assert "dog" in figure(open_lesson("word_order", "Shuffle"), "weights as typed").layout["yaxis"]["ticktext"]


def test_the_bands_add_up_to_the_raw_score():
    page = open_lesson("word_order", IN_A_MODEL, **{state.MODEL: SMOLLM, state.QUERY: "8", state.KEY: "1"})
    values = drawn(page, "bands")
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
