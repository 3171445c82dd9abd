"""What holds for every lesson: every part opens with a picture, and its words are few."""

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.lessons import LESSONS, PAGES, open_lesson, parts
from tests.source_files import ROOT
from ui import lessons, state

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


@pytest.mark.parametrize(("lesson", "part"), [(lesson, part) for lesson in LESSONS for part in parts(lesson)])
def test_every_part_opens_with_a_picture(lesson, part):
    page = open_lesson(lesson, part)
    assert not page.exception
    assert not page.error
    assert page.get("plotly_chart")
    assert page.session_state[state.PART] == part


@pytest.mark.parametrize("lesson", LESSONS)
def test_few_words(lesson):
    assert 1 < len(parts(lesson)) <= 6
    assert sum(len(words.split()) for words in parts(lesson).values()) <= 120


@pytest.mark.parametrize(
    ("place", "label", "word"),
    [(place, label, word) for place, menu in OLD_LINKS.items() for label, word in menu.items()],
)
def test_old_links_open_what_they_opened(place, label, word):
    lesson, part, key = place
    small = {state.STACK_WIDTH: "16", state.DEPTH: "1"} if key == state.AROUND else {}
    old = open_lesson(lesson, part, **{key: label} | small)
    assert not old.exception
    assert not old.error
    assert state.IN_VAIN not in old.session_state
    assert old.session_state[key] == word


def test_next_leads_through_the_experiments_of_a_lesson():
    first, *following = parts("query_key_value")
    page = open_lesson("query_key_value", first)
    for word in following:
        page.get_by_key(state.NEXT_PART).click()
        page.run()
        assert not page.exception
        assert page.session_state[state.PART] == word
        assert page.get("plotly_chart")
    assert not [button for button in page.button if button.key == state.NEXT_PART]


def test_after_its_last_experiment_each_lesson_leads_to_the_next_and_the_last_one_to_step_by_step():
    app = AppTest.from_file(str(ROOT / "ui/shell.py")).run()
    followed = []
    page = PAGES / f"{next(iter(lessons.LESSONS))}.py"
    while page.parent == PAGES:
        app.switch_page(f"../{page.relative_to(ROOT)}")
        app.query_params[state.PART] = list(parts(page.stem))[-1]
        app.run()
        assert not app.exception
        followed.append(page.stem)
        page, title = lessons.after(lessons.LESSONS[page.stem])
        (link,) = app.get("page_link")
        assert (link.proto.label, link.proto.page) == (f"Next: {title}", page.stem)
        assert link.proto.query_string == f"{state.PART}="  # the first experiment, whichever was open here
    assert sorted(followed) == LESSONS
    assert page == ROOT / "pages/step_by_step.py"
