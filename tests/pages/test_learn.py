"""Every lesson without a browser: parts, old links, what it says beside core and closed forms, and what it does not take."""

from collections.abc import Callable

import numpy as np
import pytest

from core import attend, capture, generate, load_model
from core.attention.sources import toy_sentence
from core.heads.views import lengths
from core.lessons.blocks import differences, in_blocks
from core.lessons.long_range import mean_distances
from core.lessons.many_heads import fetch, heads_of_a_sentence
from core.lessons.query_key_value import ANGLE, KEYS, TOKENS, VALUES
from core.lessons.scaling import model_scores, over_heads
from core.lessons.self_and_cross import ALIGNING_HEAD, DATES_MODEL, looks, mean_share, other_keys
from core.lessons.softmax import in_formats, normalised, precisions, softmax_steps
from core.lessons.word_order import alibi_slopes, shift
from core.units import small_number
from tests.core.lessons.test_query_key_value import scores_at, weights_at
from tests.pages.app import MINILM, SMOLLM, drawn, go, new, ran
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
    ("scaling", "gradient", state.GRADIENT_OF): {"J": "j", "Norm of J": "norm", "q": "q", "k": "k", "W_Q": "w-q"},
    ("scaling", "depth", state.AROUND): {"nothing": "nothing"} | {f"normalise {at}": at for at in ("before", "after")},
    ("scaling", "model", state.MEASURE): {"Spread": "spread", "Entropy": "entropy", "Rows above .99": "near-one"},
    ("self_and_cross", "three", state.BLOCK): {"Decoder: first": "decoder", "Decoder: second": "cross"},
    ("word_order", "shuffle", state.ORDER_FROM): {"Rotary": "rotary", "Causal mask": "causal"},
    ("word_order", "biases", state.BIAS_KIND): {f"T5, {part}": f"t5-{part}" for part in ("encoder", "decoder")},
}
SCORES = (1, 0.5, 2.5, -0.1)
READ, INSTEAD, WRITTEN = "Il fait beau .", "Il pleut", "It is"
OWN_CELLS = {state.PATTERN: "My own", state.CELLS: "101/000/111"}
TEXTS = {state.READ: READ, state.READ_INSTEAD: INSTEAD, state.WRITTEN: WRITTEN}
A_DATE = {state.DATE: "Sat 21 Nov 2026", state.DIGIT: "5", state.HEAD: "1"}
NAN_ROW = ":red[**NaN**] | " * 8 + ":red[**NaN**]"
WRONG = [
    ("many_heads", "Split and join", {state.TOY_TEXT: " "}, "blank"),
    ("masking", "Patterns", OWN_CELLS, "needs 8 of 8"),
    ("masking", "Patterns", {state.SENTENCE: "word " * 13}, "the maximum here is 12"),
    ("self_and_cross", "Three blocks", {state.READ: " "}, ""),
    ("self_and_cross", "Other keys", {state.READ_INSTEAD: " "}, ""),
    ("self_and_cross", "A date, by hand", {state.DATE: " "}, ""),
    ("self_and_cross", "A date, by hand", {state.DATE: "3 march 1987 " * 6}, "at most 64"),
    ("self_and_cross", IN_A_MODEL, {state.SECOND_TEXT: " "}, ""),
    *(("softmax", part, {state.SCORES: "1e300"}, "") for part in ("Scores to weights", "Not the same", "Overflow")),
    *(("softmax", "Overflow", {state.SCORES: text}, "") for text in ("a, b", "1, 2; 3", "nan")),
    ("word_order", "Biases", {state.ALIBI_HEADS: "4", state.ALIBI_HEAD: "9"}, "no head 9"),
    ("word_order", "Shuffle", {state.ORDER_TEXT: " "}, "blank"),
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


def in_a_sentence() -> list[str]:
    words = toy_sentence("Blocks of keys give the very same result as all keys.", d_head=6)
    trace = attend(words.query, words.key, words.value)
    blocks = in_blocks(trace, 3)
    of_row = numbers([blocks.maximum[-1, 6], blocks.correction[-1, 6], blocks.total[-1, 6]])
    found = differences(trace.rows(range(6, 7)), 3).items()
    row = f"| {blocks.ends[-1]} | {' | '.join(of_row)} |"
    return [row, *(f"{dtype} **{small_number(difference)}**" for dtype, difference in found)]


def distances() -> list[str]:
    far = mean_distances(capture(load_model(SMOLLM), SENTENCE), without_first=True)
    return [f"The heads look **{far.min():.1f}** to **{far.max():.1f}** tokens"]


def summed() -> list[str]:
    _, many = heads_of_a_sentence(SENTENCE, 4)
    best = lengths(many.contributions)[0][:, 3].argmax()
    return [f"head **{best}** adds most", "At “cross”", f"**{small_number(many.difference)}**"]


def longer() -> list[str]:
    keys = [*KEYS[:1], tuple(4 * number for number in KEYS[1]), *KEYS[2:]]
    before, after = weights_at(250)[1], weights_at(250, keys)[1]
    return [f"the weight of “street” goes from {before:.0%} to **{after:.0%}**"]


def swapped() -> list[str]:
    weights, values, at = weights_at(ANGLE), np.array(VALUES), TOKENS.index("street")
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


# Lesson, part, knobs, and the words that the page has to say, or what gives them. tests/test_gallery.py has further ones.
SAYS: list[tuple[str, str, dict[str, str], list[str] | Callable[[], list[str]]]] = [
    ("blocks", "A sentence", {state.BLOCK_SIZE: "3"}, in_a_sentence),
    ("blocks", IN_A_MODEL, {state.MODEL: SMOLLM, state.ROW: "0", state.BLOCK_SIZE: "3"}, []),
    ("long_range", IN_A_MODEL, {state.MODEL: SMOLLM, state.WITHOUT_FIRST: "true"}, distances),
    ("many_heads", "Split and join", {state.HEAD_COUNT: "12"}, ["| 12 × 12 × 2 |", "| parameters | 2,304 |"]),
    ("many_heads", "A sum of heads", {state.WORD: "3"}, summed),
    (
        "many_heads",
        "Why several",
        {state.HEAD_SHARE: "0.8"},
        lambda: [f"one head **{fetch(0.8).apart(fetch(0.8).one_head):.1f}**, two heads **1.0**"],
    ),
    ("masking", "Patterns", {state.PATTERN: "Prefix"}, ["This mask: **causal with an open prefix of 4**"]),
    ("masking", "Patterns", OWN_CELLS | {state.SENTENCE: "a b c"}, ["**custom**, 5 of 9 pairs", "look at nothing: 1"]),
    ("masking", "Why not 0", {state.FILL: "-inf"}, ["**0** of the weight leaks"]),
    ("masking", "Nothing left", {}, ["| Headlight | " + "0.000 | " * 8 + "0.000 |", NAN_ROW, "0.125 | " * 8 + "1.000"]),
    ("masking", IN_A_MODEL, {state.MODEL: MINILM}, ["This layer has no mask: all **256** pairs may attend"]),
    ("masking", IN_A_MODEL, {state.MODEL: SMOLLM}, ["It is **causal**"]),
    ("query_key_value", "length", {state.KEY_LENGTH: "4", state.ANGLE: "250"}, longer),
    ("query_key_value", "values", {state.SWAP: "street"}, swapped),
    (
        "self_and_cross",
        "Other keys",
        TEXTS,
        lambda: [f"queries **0**, in the output **{other_keys(READ, INSTEAD, WRITTEN).output_change:.2f}**"],
    ),
    ("self_and_cross", "A date, by hand", A_DATE, a_date),
    ("softmax", "Not the same", {}, lambda: [f"| {one.name} | **{one.total:.3f}** |" for one in normalised(SCORES)]),
    ("softmax", "Overflow", {state.NOTHING: "true"}, ["| 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |", "every weight 0"]),
    ("softmax", IN_A_MODEL, {state.MODEL: SMOLLM}, rounded),
    ("scaling", "Gradient", {state.HEAD_SIZE: "4096", state.SCALED: "true"}, ["differentiation: "]),
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
    assert lesson != "blocks" or "nan" not in found.lower()


@pytest.mark.parametrize(("lesson", "part", "knobs", "problem"), WRONG)
def test_what_a_knob_does_not_take_is_named(lesson, part, knobs, problem):
    (error,) = open_lesson(lesson, part, **knobs).error
    assert problem in error.value


# --- what is more than a sentence


def test_the_best_key_is_named_with_its_weight():
    page = open_lesson("query_key_value", "turn", **{state.ANGLE: "250"})
    weights = weights_at(250)
    best = int(np.argmax(weights))
    assert f"fits the key of “{TOKENS[best]}” best: weight **{weights[best]:.0%}**" in said(page)
    table = rows(page)
    for token, score, weight in zip(TOKENS, scores_at(250), weights, strict=True):
        assert float(table[token][2].replace("−", "-")) == pytest.approx(score, abs=5.1e-4)
        assert table[token][4] == f"**{weight:.1%}**"


def test_the_angle_of_a_real_key():
    page = open_lesson("query_key_value", "model", **{state.MODEL: MINILM})
    trace = capture(load_model(MINILM), SENTENCE).trace(5, 11)
    q, k = trace.query[10].astype(float), trace.key[2].astype(float)
    angle = np.degrees(np.arccos(q @ k / np.linalg.norm(q) / np.linalg.norm(k)))
    assert f"“it” looks most at “animal”, {angle:.0f}° apart: weight **{trace.weights[10, 2]:.0%}**" in said(page)
    assert rows(page)["animal"][:2] == [f"{np.linalg.norm(k):.4g}", f"{angle:.1f}°"]


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


def test_which_formats_break():
    page = open_lesson("softmax", "Overflow", **{state.FACTOR: "40"})
    broken = sum(not one.naive_holds for one in in_formats([value * 40 for value in SCORES]))
    assert said(page).count("NaN**] |\n") == broken == 2  # the sums that are no numbers


def test_sums_ranks_and_the_shift():
    text = said(open_lesson("softmax", "Scores to weights", **{state.SHIFT: "1.5"}))
    weights = " | ".join(numbers(softmax_steps(SCORES).weights))
    assert text.count(f"| {weights} | **1.000** |") == 2  # with and without the shift
    assert text.count("| 2 | 3 | 1 | 4 |") == 2  # the ranks of scores and of weights
    assert "**78.225**" in text  # 17.454 · e^1.5


def test_the_bands_add_up_to_the_raw_score():
    page = open_lesson("word_order", IN_A_MODEL, **{state.MODEL: SMOLLM, state.QUERY: "8", state.KEY: "1"})
    values = drawn(page, "bands")
    assert values.sum() == pytest.approx(49.2635, abs=0.02)
    assert said(page).count(f"{values.sum():.4f}") == 2


def test_a_click_on_another_picture_or_beside_an_unreadable_mask_changes_nothing(monkeypatch):
    unreadable = {state.CELLS: "10/x"}
    for kept, cell in (({}, {"query": 3, "key": 0}), ({}, {"query": 0}), (unreadable, {"query": 1, "key": 2})):
        monkeypatch.setattr(masks.st, "session_state", now := dict(kept))
        masks.turn_over(np.tri(3, dtype=bool), {axis: range(place, place + 1) for axis, place in cell.items()})
        assert now == kept
