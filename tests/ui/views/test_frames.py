"""Frames, beside the page itself: with its knob at a place, it shows just what the frame of that place says."""

import json
import re
from functools import cache
from itertools import pairwise

import pytest
from streamlit.testing.v1.element_tree import SelectSlider

from core.lessons.query_key_value import TOKENS, example
from tests.pages.app import go, new, opened
from ui import state
from ui.markdown import pieces
from ui.views import frames
from ui.views.step_by_step.stage_view import PLAYED

STEPS = ("step_by_step", "")
HELD = {  # parts of pages -> their sliders, each with a few of its values
    ("learn/softmax", "weights"): {state.TEMPERATURE: ("0.1", "2.5", "5"), state.SHIFT: ("-5", "2.5")},
    ("learn/softmax", "overflow"): {state.FACTOR: ("1", "320")},
    ("learn/query_key_value", "turn"): {state.ANGLE: ("0", "180", "355")},
    ("learn/query_key_value", "length"): {state.KEY_LENGTH: ("0.5", "4"), state.ANGLE: ("200",)},
    ("learn/query_key_value", "values"): {state.ANGLE: ("90",)},
    ("learn/scaling", "growing"): {state.GROWN: ("1", "64", "512")},
    ("learn/scaling", "products"): {state.TERMS: ("1", "8")},
    ("learn/scaling", "saturation"): {state.DIVISOR: ("1", "8")},
    ("learn/scaling", "gradient"): {state.HEAD_SIZE: ("1", "4096")},
    ("learn/masking", "patterns"): {state.SPAN: ("1", "12")},
    ("learn/masking", "zero"): {state.FILL: ("-5", "-inf")},
    ("learn/masking", "empty"): {state.PADDED: ("1", "8")},
    ("learn/many_heads", "several"): {state.HEAD_SHARE: ("0", "1")},
    ("learn/word_order", "sinusoids"): {state.PE_WIDTH: ("8", "64")},
    ("learn/word_order", "shift"): {state.ONWARD: ("0", "100")},
    ("learn/word_order", "rotary"): {state.BOTH_LATER: ("0", "2000"), state.ROTARY_BASE: ("100",)},
    ("learn/word_order", "biases"): {state.ALIBI_HEADS: ("4", "32")},
    ("learn/long_range", "steps"): {state.VECTOR_SIZE: ("16", "4096")},
    STEPS: {state.SCALE_TIMES: ("0", "0.5", "2"), state.STAGE: ("query", "raw", "mask", "output")},
}


def page(part, *wanted, **said):
    """As somebody sees it who is near no knob, so that no frames are made."""
    name, word = part
    app = new()
    app.session_state[state.FRAMES_WANTED] = list(wanted)
    return go(app, name, text="", **({state.PART: word} if word else {"source": "toy"}), **said)


@cache
def near(part, **said):
    """As somebody sees it who is near its knobs. It is only read, and so made once for all of them."""
    return page(part, part[0].rpartition("/")[2], **said)


def sent(app):
    """The frames that a page has sent, by the names of the knobs and their places."""
    (component,) = [one.proto for one in app.get("bidi_component") if one.proto.component_name == "headlight_frames"]
    return json.loads(json.loads(component.json)["frames"])


def charts(app):
    """The pictures of a page by their keys, without what is None."""
    found = {}
    for one in app.get("plotly_chart"):
        chart = json.loads(one.proto.spec)
        key = one.proto.id.split("-", 2)[2]
        found[key] = {"data": list(map(without_none, chart["data"])), "layout": without_none(chart["layout"])}
    return found


def without_none(entries):
    return {name: one for name, one in entries.items() if one is not None}


def applied(chart, change):
    """As the browser draws a frame."""
    changes = change.get("data", [{}] * len(chart["data"]))
    data = change.get("all") or [old | new for old, new in zip(chart["data"], changes, strict=True)]
    return {"data": list(map(without_none, data)), "layout": without_none(chart["layout"] | change.get("layout", {}))}


def shows(app, before, frame):
    """A page shows what another page shows with this frame."""
    assert all(re.fullmatch(r"[\w-]+", name) for name in frame["charts"])  # as Streamlit writes keys into classes
    expected = {name: applied(chart, frame["charts"].get(name, {})) for name, chart in charts(before).items()}
    assert charts(app) == expected
    there = [pieces(one.value) for one in (*app.markdown, *app.caption)]
    for number, words in enumerate(sent(before)["said"]):
        assert frame["said"].get(str(number), words) in there


@pytest.fixture(autouse=True)
def _all_frames(monkeypatch):
    """Also on a busy machine."""
    monkeypatch.setattr(frames, "SECONDS", 60.0)


@pytest.mark.thorough
@pytest.mark.parametrize(("part", "knob", "value"), [(part, *one) for part, of in HELD.items() for one in of.items()])
def test_a_frame_is_what_the_page_shows(part, knob, value):
    # Then the pictures, or the knob, are there.
    changed = {state.SCALE_TIMES: {state.SCALE_TIMES: "1.5"}, state.SPAN: {state.PATTERN: "window"}}.get(knob, {})
    before = near(part, **changed)
    frames_of = dict(sent(before)["knobs"][knob]["frames"])
    for word in value:
        app = page(part, **changed | {knob: word})
        shows(app, before, frames_of[place_of(before, knob, word)])


def place_of(app, knob, word):
    """Where the browser has a knob with this word in the address: a slider's own number, or the number of a choice."""
    if knob == state.STAGE:
        return PLAYED.index(word)
    field = app.get_by_key(knob)
    if not isinstance(field, SelectSlider):
        return float(word)
    return list(field.options).index(word.replace("-", "−").replace("inf", "∞"))


@pytest.mark.thorough
def test_a_handle_lies_where_its_thing_is_and_its_frame_is_what_the_page_shows():
    before = near(("learn/query_key_value", "turn"))
    query = sent(before)["knobs"][state.ANGLE]
    for place, *point in query["points"]:
        assert point == pytest.approx(example(place).query[0])

    before = near(("learn/query_key_value", "values"), moved="it 0 0")
    street = sent(before)["knobs"][f"value {TOKENS.index('street')}"]
    place = next(place for place, *point in street["points"] if point == [1, -2])
    app = page(("learn/query_key_value", "values"), moved="street 1 -2, it 0 0")
    assert sent(app)["knobs"]["value 1"]["at"] == [1, -2]
    assert sent(app)["knobs"]["value 2"]["at"] == [0, 0]
    shows(app, before, dict(street["frames"])[place])

    before = near(("learn/softmax", "weights"))
    pulled = sent(before)["knobs"]["score 2"]
    assert [2, -1.5] in [point for _, *point in pulled["points"]]
    shows(page(("learn/softmax", "weights"), scores="1, 0.5, -1.5, -0.1"), before, dict(pulled["frames"])[-1.5])


def test_frames_that_are_too_many_or_take_too_long_stay_out_evenly(monkeypatch):
    part = ("learn/softmax", "weights")
    monkeypatch.setattr(frames, "MOST_BYTES", 12_000)
    places = [place for place, _ in sent(page(part, "softmax"))["knobs"][state.TEMPERATURE]["frames"]]
    assert 2 < len(places) < 50
    assert places[0] == 0.1
    assert places[-1] == 5
    assert max(after - before for before, after in pairwise(places)) < 2.5
    monkeypatch.setattr(frames, "SECONDS", 0.0)
    assert sent(page(part, "softmax"))["knobs"][state.TEMPERATURE]["frames"] == []


def test_pieces_are_the_texts_between_markup():
    assert pieces("#### At d\\_k = **94%** of a row.") == ["At d_k = ", "94%", " of a row."]
    assert pieces("| way | a |\n| --- | --- |\n| plain | :red[**NaN**] |") == ["way", "a", "plain", "NaN"]


def test_nobody_pays_for_frames_who_is_not_near_a_knob():
    knobs = sent(opened("learn/query_key_value"))["knobs"]
    assert knobs[state.ANGLE]["frames"] == []
    assert knobs[state.ANGLE]["points"]  # handles are there
    assert sent(opened("learn/query_key_value", present="true"))["knobs"][state.ANGLE]["frames"]
