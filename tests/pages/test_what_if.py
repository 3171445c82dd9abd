"""The page "What if": what the list says is what the model does, and what cannot be done is said and kept."""

import re

import numpy as np
import pytest
import torch
import transformers as t
from streamlit.testing.v1 import AppTest

from core import Edits, Place, capture
from core.capturing.edits.edits import every
from core.capturing.edits.forms import ChoiceField
from core.capturing.edits.kinds import EDIT_KINDS
from core.capturing.edits.lines import edits_of
from core.capturing.generation.generating import generate
from core.figures.labels import escaped
from tests.core.tiny_models import SEQ2SEQ, randomised, tiny
from tests.depth import thorough
from tests.pages.app import (
    FRANCE,
    MINILM,
    SMOLLM,
    address,
    choose,
    drawn,
    fields,
    figure,
    has,
    links,
    opened,
    press,
    ran,
    saved,
    words,
)
from tests.written_numbers import WRITTEN, number
from ui import state
from ui.controls.masks import CHOICES, Change
from ui.views.sources import models
from ui.views.what_if.edit_list import HIDDEN


def listed(app: AppTest) -> list[str]:
    labels = [box.label for box in app.checkbox if not box.key.startswith(state.PAINTING)]
    return [label.replace("\\", "").replace(":small[]", "") for label in labels]


def turned(edits: Edits) -> tuple[float, float]:
    """By how much MiniLM's sentence vector turns, and the token's that turns most: computed by torch."""
    model = models.load(MINILM)
    one, two = (torch.tensor(capture(model, FRANCE, edits=these).vectors).double() for these in (None, edits))
    cosine = torch.nn.functional.cosine_similarity
    return float(1 - cosine(one.mean(dim=0), two.mean(dim=0), dim=0)), float((1 - cosine(one, two)).max())


def says_it_turned(app: AppTest, edits: Edits) -> None:
    said = re.findall(rf"\*\*({WRITTEN})\*\*", words(app).partition("turns by")[2])
    for written, expected in zip(said[:2], turned(edits), strict=True):
        digits = {"rel": 0.05, "abs": 0} if "×" in written else {"abs": 0.0005}
        assert number(written) == pytest.approx(expected, **digits)


def test_at_first_nothing_is_changed_and_fields_add_to_the_list():
    app = opened()
    assert "Nothing is changed yet" in words(app)
    assert "of its attention to" in words(app)
    assert not [one for one in ("turns by", "a difference of", "whose attention changed") if one in words(app)]
    press(app, "Add")
    choose(app, state.NEW_PLACE, "layer")
    press(app, "Add")
    fields(app, **{state.NEW_EDIT: "scale", state.NEW_FIELDS["factor"]: 0.12345678, state.NEW_PLACE: "all"})
    press(app, "Add")
    assert listed(app) == address(app) == ["mute 5.11", "mute 5", "scale 0.12345678"]
    says_it_turned(app, Edits(mute_heads={(5, 11), 5}, scale_by=0.12345678))
    press(app, "Reset")
    assert listed(app) == address(app) == []


@thorough
@pytest.mark.parametrize(("model", "text"), [(SMOLLM, FRANCE), (MINILM, FRANCE), (SMOLLM, "the the")])
def test_without_a_change_one_is_offered_with_what_comes_of_it(model, text):
    app = opened(**{state.MODEL: model, state.TEXT: text})
    (label,) = [button.label.replace("\\", "") for button in app.button if button.label.startswith("Try: ")]
    line, _, outcome = label.removeprefix("Try: ").partition(" (")
    passed, muted = (capture(models.load(model), text, edits=edits) for edits in (None, edits_of(line)))
    if model == SMOLLM:
        ((token, before),) = passed.next_tokens(1)
        after = dict(muted.next_tokens(len(muted.predicted)))[token]
        assert outcome == f"{before:.1%} → {after:.1%})"
    else:
        one, other = (torch.tensor(each.vectors).double().mean(dim=0) for each in (passed, muted))
        turned_by = 1 - float(torch.nn.functional.cosine_similarity(one, other, dim=0))
        assert outcome == f"turns by {turned_by:.3f})"
    next(button for button in app.button if button.label.startswith("Try: ")).click()
    assert address(ran(app)) == [line]
    assert not [button for button in app.button if button.label.startswith("Try: ")]


def test_of_a_model_that_has_written_the_whole_text_is_told():
    """That it then ends its text is certain, and nothing to see."""
    app = opened(**{state.MODEL: "written-dates", state.TEXT: "the 3rd of march 1987"})
    assert "The model writes **“1987-03-03”**" in words(app)
    assert words(app).count("In the row of each token it chooses the next one.") == 1
    line = "mute encoder 0.3"
    app = opened(**{state.MODEL: "written-dates", state.TEXT: "the 3rd of march 1987", state.EDITS: line})
    written = generate(models.load("written-dates"), "the 3rd of march 1987", edits=edits_of(line)).text
    assert f"The model writes “1987-03-03” → **“{written.removesuffix('</s>')}”**" in words(app)


# What each kind of change adds by its fields as they open, with query 3 and key 1 chosen; other fields by name.
FIELDS = {
    "mute": "mute 2.3",
    "scale": "scale 2 at 2.3",
    "mask": "mask none at 2.3",
    "key": "block key 1 at 2.3",
    "pair": "block pair 3>1 at 2.3",
    "pattern": "pattern uniform at 2.3",
    "softmax": "softmax unscaled at 2.3",
    "mean": 'mean 2.3 over "The animal didn\'t cross the street because it was too tired."',
    "patch": 'patch 2.3 from "The capital of Italy is"',
    "paint": "paint 3>1=0.5 3>0=0.5 at 2.3",
    "cut": "cut embedding from the query of 2.3",
}


def test_every_field_of_a_form_has_a_key():
    forms = [field for kind in EDIT_KINDS for field in kind.fields]
    forms += [further for field in forms if isinstance(field, ChoiceField) for further in field.then.values()]
    assert {field.name for field in forms if hasattr(field, "name")} == set(state.NEW_FIELDS)
    assert set(state.NEW_FIELDS.values()) <= state.IN_ADDRESS


@thorough
def test_every_change_that_is_offered_can_be_made():
    app = opened(layer="2", head="3", query="3", key="1")
    offered = app.get_by_key(state.NEW_EDIT).options
    assert len(offered) == len(FIELDS)
    for kind, line in FIELDS.items():
        choose(app, state.NEW_EDIT, kind)
        if kind == "patch":
            choose(app, state.NEW_FIELDS["text"], "The capital of Italy is")
        if kind == "paint":
            assert next(button for button in app.button if button.label == "Add").disabled
            choose(app, state.NEW_FIELDS["cells"], "3>1=0.5 3>0=0.5")
        press(app, "Add")
        assert address(app) == [line]
        assert "Not applied" not in words(app)
        says_it_turned(app, edits_of(line))
        press(app, "Reset")
    names = (state.NEW_FIELDS[name] for name in ("component", "side", "instead"))
    # A patch comes from the text that was typed for it.
    press(fields(app, **dict(zip(names, ("mlp 1", "value", "patch"), strict=True))), "Add")
    assert address(app) == ['cut mlp 1 from the value of 2.3 as in "The capital of Italy is"']
    says_it_turned(app, edits_of(address(app)[0]))
    choose(app, state.NEW_FIELDS["text"], "The capital of Spain is")
    press(app, "Add")
    assert "Not applied. Patches are taken from one text at a time" in words(app)
    choose(app, state.NEW_FIELDS["text"], "The capital of Italy was Turin")
    press(app, "Add")
    assert "Not applied. Patching needs two texts of as many tokens" in words(app)


@thorough
def test_a_change_that_does_not_fit_waits_for_a_model_that_it_fits():
    app = opened(**{state.EDITS: ["mute 23.4"]})
    assert "Not applied. There is no layer 23: they run from 0 to 5." in words(app)
    assert not app.error
    choose(app, state.MODEL, SMOLLM)
    assert "Not applied" not in words(app)
    assert "“·Paris” comes next: **77.3%** → **14.1%**" in words(app)
    assert address(app) == ["mute 23.4"]
    choose(app, state.MODEL, MINILM)
    assert "Not applied" in words(app)
    assert listed(app) == ["mute 23.4"]


@thorough
def test_what_one_visitor_changes_no_other_sees():
    """Both at the same time, on the same text and head.
    Only this test finds edits that leak between sessions in one process."""
    said = {state.MODEL: SMOLLM, state.LAYER: "29", state.HEAD: "2"}
    changing = opened(**said, **{state.EDITS: ["mute 23.4"]})
    reading = opened(**said)
    muted = Edits(mute_heads={(23, 4)})
    for app, picture, edits in ((changing, "compared second", muted), (reading, "compared first", None)):
        choose(app, state.HEAD_BOX, "29.5")
        trace = capture(models.load(SMOLLM), FRANCE, edits=edits).trace(29, 5)
        weights = np.where(trace.mask, trace.weights, np.nan)
        np.testing.assert_allclose(drawn(app, picture), weights, rtol=1e-5, atol=1e-7)
        assert ("14.1%" in words(app)) == (app is changing)
    assert "Nothing is changed yet" in words(reading)


def test_what_comes_next_is_listed_once_while_nothing_has_moved_it():
    """Neither a list without a change nor one that comes to nothing has movers."""
    likely = capture(models.load(SMOLLM), FRANCE).next_tokens(8)
    for edits in ([], ["scale 1"]):
        app = opened(**{state.MODEL: SMOLLM, state.EDITS: edits})
        assert "**Next tokens**, the most probable ones" in words(app)
        (listed_once,) = figure(app, "outcome").data
        assert listed_once["customdata"] == [escaped(token) for token, _ in likely]
        assert min(share for _, share in likely) > 0
    app = opened(**{state.MODEL: SMOLLM, state.EDITS: ["mute 23.4"]})
    assert "**Next tokens** that changed most" in words(app)
    assert len(figure(app, "outcome").data) == 2


@thorough
def test_hiding_a_token_says_what_taking_it_away_says():
    app = choose(opened(), state.TOKEN_AT, 4)
    assert next(button for button in app.button if button.label == "Hide").help == HIDDEN
    press(app, "Hide")
    assert address(app) == ["block key 4"]
    says_it_turned(app, Edits(block_keys={4}))
    assert HIDDEN in words(opened(**{state.VIEW: "matter", state.TAKEN_AWAY: "tokens"}))


def test_that_all_heads_are_muted_is_said():
    said = "All heads are muted, so no token receives anything from another token."
    for edits, are in ((6, True), (5, False)):
        assert (said in words(opened(**{state.EDITS: [f"mute {layer}" for layer in range(edits)]}))) == are


def test_numbers_beyond_what_can_be_computed_with_are_said():
    app = opened(**{state.EDITS: ["scale 1e308", "mute 1.1"]})
    (error,) = app.error
    assert "With these changes all" in error.value.replace("\\", "")
    assert "gives NaN or infinity, first in layer 0 " in error.value.replace("\\", "")
    assert "nan" not in words(app)
    app.checkbox[0].uncheck()
    assert not ran(app).error
    says_it_turned(app, Edits(mute_heads={(1, 1)}))


def test_the_views_are_reached_by_menu_and_by_link_and_the_list_stays():
    app = opened(**{state.EDITS: ["mute 5.11", "off mute 2"]})
    shown = {
        "matter": "Each head is muted in turn",
        "patch": "Type another text of the same length",
        "compare": "nats apart on average",
        "change": "The sentence vector turns by",
    }
    for view, said in shown.items():
        choose(app, state.VIEW, view)
        assert said in words(app), view
        assert said in words(opened(**{state.VIEW: view, state.EDITS: ["mute 5.11"]})), view
        assert address(app, state.VIEW) == ([] if view == "change" else [view])
    assert listed(app) == ["mute 5.11", "mute 2"]
    assert address(app) == ["mute 5.11", "off mute 2"]


def test_the_turned_vectors_of_an_encoder_decoder_are_those_that_it_has_written(tmp_path):
    folder = saved(tmp_path, randomised(t.BartModel(t.BartConfig(**SEQ2SEQ))))
    said = {state.MODEL: folder, state.TEXT: "5 6 7 8 9 10", state.TARGET: "3 4", state.KIND: "cross"}
    app = opened(**said, **{state.EDITS: ["mute cross 1.2"]})
    (turned,) = figure(app, "outcome").data
    assert turned["customdata"] == ["1", "3", "4"]  # after its start token
    before, after = (
        capture(models.load(folder), "5 6 7 8 9 10", target="3 4", edits=edits)
        for edits in (None, Edits(mute_heads={Place(1, 2, "cross")}))
    )
    cosine = torch.nn.functional.cosine_similarity(*(torch.tensor(one.vectors).double() for one in (before, after)))
    np.testing.assert_allclose(drawn(app, "outcome"), 1 - cosine, atol=1e-6)


def test_what_the_model_writes_on(tmp_path):
    """With and without the changes; of a head that is muted, the picture is one of both: only its output is replaced."""
    folder = saved(tmp_path, tiny("Llama"))
    said = {state.MODEL: folder, state.TEXT: "5 17 8", state.LAYER: "0", state.HEAD: "1"}
    app = opened(**said, **{state.EDITS: ["mute 0.1"], state.WRITES_ON: "true"})
    edits = (None, Edits(mute_heads={(0, 1)}))
    written = [generate(models.load(folder), "5 17 8", edits=one).text for one in edits]
    assert written[0] != written[1]
    assert [part.value for part in app.code] == written
    assert "it still looks there, but nothing of it arrives" in words(app)
    assert not has(app, "compared second")


MARKUP = 'token 3 "<b>x</b> $y$ *a* :smile: `q` [l](http://example.org)"'


def test_markup_in_lines_and_tokens_is_text():
    app = opened(**{state.TEXT: "<b> $y$ *a* :smile: `q`", state.EDITS: [MARKUP, "mute 5"]})
    assert listed(app)[0] == MARKUP
    (pills,) = [group for group in app.get("button_group") if group.key == state.TOKEN_AT]
    pills.set_value(1)
    ran(app)
    said = [part.value for part in (*app.markdown, *app.caption)] + [box.label for box in app.checkbox] + pills.options
    for one in [*said, *(button.help or "" for button in app.button)]:
        assert not re.search(r"(?<!\\)(<b>|\$y|\*a\*|:smile:|`q|\[l\]\(|http://)", one), one


# --- from the page Step by step


def test_the_switches_of_step_by_step_lead_here():
    there = {"layer": "2", "head": "3"}
    assert not links(opened("step_by_step", **there), page="what_if")
    app = opened("step_by_step", scaling="false", mask="causal-window", size="2", **there)
    (said,) = links(app, page="what_if")
    assert said[state.EDITS] == ["softmax unscaled at 2.3", "mask causal-window 2 at 2.3"]
    expected = {"text": FRANCE, "model": MINILM} | there
    assert {name: said[name] for name in expected} == {name: [word] for name, word in expected.items()}
    page = opened(**said)
    assert listed(page) == said[state.EDITS]
    says_it_turned(page, Edits(softmax={(2, 3): "unscaled"}, mask={(2, 3): "causal-window 2"}))
    typed = opened("step_by_step", mask="own", grid="\n".join(["1,1,1,0,0,0,0"] * 7), **there)
    assert not links(typed, page="what_if")  # no line says such a mask


@pytest.mark.parametrize(
    ("mask", "scaling", "times"),
    [*((mask, True, 1.0) for mask in CHOICES), ("causal", False, 1.0), ("given", False, 1.5)],
)
def test_the_lines_of_the_switches_are_the_same_change(mask, scaling, times):
    change = Change(scaling, mask, 2, times=times)
    model = models.load(MINILM)
    lines = change.lines(2, 3, None)
    assert lines is not None
    edited = capture(model, FRANCE, edits=every(map(edits_of, lines))).trace(2, 3)
    head = change.of(capture(model, FRANCE).head(2, 3))
    switched = head.trace(range(head.shape[0]))
    np.testing.assert_array_equal(edited.mask, switched.mask)
    np.testing.assert_allclose(edited.weights, switched.weights, atol=1e-6)
    assert bool(lines) == ((mask, scaling) not in {("given", True), ("own", True)})
