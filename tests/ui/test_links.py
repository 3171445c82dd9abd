"""What a link asks for that is not there is named, all else is shown, and a link with a version says all."""

import json
from urllib.parse import parse_qs

import pytest

from tests.pages.app import go, new, texts
from ui import links, state
from ui.requests import HeadRequest, ModelChoice, TextRequest
from ui.sharing.dialog import LONGEST, cannot_hold, link_to
from ui.shown import PageContents
from ui.views.sources.text_fields import SENTENCE


def opened(page, **said):
    return go(new(), page, **said)


RANDOM = {state.SOURCE: "random"}


@pytest.mark.parametrize(
    ("page", "said", "named"),
    [
        ("step_by_step", RANDOM | {state.SEED: "-1"}, "Seed “-1”, which must be a whole number from 0 to 9,999"),
        ("step_by_step", RANDOM | {state.D_K: "banana"}, "d_k “banana”, which must be a number"),
        ("step_by_step", RANDOM | {state.SCALING: "maybe"}, "Scaling “maybe”, which must be true or false"),
        ("step_by_step", RANDOM | {state.MASK: "<b>bogus"}, "Mask “<b>bogus”"),
        ("step_by_step", {state.LAYER: "77"}, "Layer “77”, which must be from 0 to 5"),
        ("step_by_step", {state.SOURCE: "x" * 500}, "Where the numbers come from “xxx"),
        ("step_by_step", RANDOM | {"foo": "1"}, "unknown name “foo”"),
        ("step_by_step", RANDOM | {"lyaer": "1"}, "unknown name “lyaer” (did you mean “layer”?)"),
        ("step_by_step", RANDOM | {state.VERSION: "3"}, "link version “3”; the newest version known here is 2"),
        ("step_by_step", RANDOM | {state.VERSION: "banana"}, "link version “banana”"),
        ("learn/softmax", {state.TEMPERATURE: "99"}, "Temperature “99”, which must be a number from 0.1 to 5"),
        ("learn/many_heads", {state.HEAD_COUNT: "3"}, "Heads “3”"),
        ("learn/word_order", {state.PART: "sinusoids", state.PE_WIDTH: "33"}, "Dimensions (d) “33”"),
    ],
)
def test_what_is_asked_for_in_vain_is_named(page, said, named):
    app = opened(page, **said)
    assert named in texts(app.warning)
    assert "<b>" not in app.warning[0].value  # it is escaped
    assert len(texts(app.warning)) < 400
    assert app.get("plotly_chart")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("step_by_step", RANDOM | {state.SEED: "7", state.D_K: "4", state.SCALING: "FALSE", state.QUERIES: "3"}),
        ("step_by_step", RANDOM | {"utm_source": "talk", "fbclid": "1", "__theme": "dark", state.VERSION: "2"}),
        ("step_by_step", RANDOM | {state.STAGE: "raw", state.QUERY: "2", state.KEY: "1", state.TABLES: "true"}),
        ("learn/softmax", {state.TEMPERATURE: "0.2", state.SCORES: "1, 2, 3", state.SHIFT: "-0.5"}),
        ("learn/many_heads", {state.PART: "sum", state.HEAD_COUNT: "8", state.WORD: "2"}),
    ],
)
def test_what_fields_take_is_not_named(page, said):
    assert texts(opened(page, **said).warning) == ""


def test_a_link_full_of_unknown_names_is_not_read_out_to_the_end():
    said = texts(opened("step_by_step", **RANDOM, **{f"strange{number}": "<b>" for number in range(50)}).warning)
    assert "44 more" in said
    assert len(said) < 500


def test_a_link_with_a_version_says_all():
    """What was chosen before in the session counts for a link without one, and for no other."""
    app = opened("step_by_step", **RANDOM, **{state.SEED: "7", state.QUERIES: "3"})
    go(app, "learn/softmax")
    go(app, "step_by_step", **links.lasting(RANDOM | {state.QUERIES: "4"}))
    assert app.session_state[state.QUERIES] == 4
    assert app.session_state[state.SEED] == 0
    go(app, "learn/softmax")
    go(app, "step_by_step", **RANDOM)
    assert app.session_state[state.QUERIES] == 4


def link_of(app):
    """What Share offers to copy, as the page hands it to the browser."""
    app.get_by_key(state.SHARE).click().run()
    assert not app.exception
    (sent,) = [node.proto for node in app._tree if "headlight_link" in str(getattr(node, "proto", ""))]
    return json.loads(sent.json)["address"]


def test_the_link_to_copy_says_what_the_page_shows_and_opens_it_again():
    app = opened("step_by_step", **{state.HEAD: "3", state.SCALING: "false"})
    path, _, query = link_of(app).partition("?")
    assert path.endswith("/step_by_step")
    said = {name: words[-1] for name, words in parse_qs(query).items()}
    assert said == {
        state.TEXT: SENTENCE,
        state.MODEL: "all-MiniLM-L6-v2",
        state.DTYPE: "float32",
        state.DEVICE: "cpu",
        state.KIND: "self",
        state.LAYER: "5",
        state.HEAD: "3",
        state.SCALING: "false",
        state.VERSION: str(links.VERSION),
    }
    again = opened("step_by_step", **said)
    assert texts(again.warning) == ""
    assert picture(again) == picture(app)


def test_what_no_link_can_hold_is_said():
    shown = PageContents("Heads", "heads", of=head_of("word " * 2_000))
    assert len(link_to(shown, "http://localhost:8501/heads")) > LONGEST
    assert cannot_hold(PageContents("Heads", "heads", of=head_of("", image=b"pixels"))) == "the image that you uploaded"
    assert cannot_hold(PageContents("Heads", "heads", of=head_of("Hi"))) == ""
    of_file = HeadRequest(TextRequest(ModelChoice("pass.npz", contents=b"PK"), ""), "self", 0, 0)
    assert cannot_hold(PageContents("Heads", "heads", of=of_file)) == "the file that you opened"
    assert cannot_hold(PageContents("Exhibit", "exhibit")) == "the exhibit that you opened"


def head_of(text, image=None):
    return HeadRequest(TextRequest(ModelChoice("all-MiniLM-L6-v2"), text, image=image), "self", 0, 0)


def picture(app):
    return next(chart.proto.spec for chart in app.get("plotly_chart") if "as_it_is" in chart.proto.id)
