"""The page What if in a real browser: the numbers before and after are those of core, however one came to the changes."""

from urllib.parse import parse_qs, quote_plus, urlsplit

import numpy as np
import pytest

from core import Edits, capture, compare, direct_contributions
from core.heads.effects import head_effects
from core.heads.patching import patch_effects
from ui import state

FRANCE, ITALY = "The capital of France is", "The capital of Italy is"
SMOLLM = "SmolLM2-135M-Instruct"
MUTED = Edits(mute_heads={(23, 4)})


def link(*edits, **said):
    named = [*({state.TEXT: FRANCE} | said).items(), *((state.EDITS, line) for line in edits)]
    return "/what_if?" + "&".join(f"{name}={quote_plus(str(value))}" for name, value in named)


def listed(app):
    """The lines that the address says."""
    return parse_qs(urlsplit(app.address).query).get(state.EDITS, [])


def says_lines(app, *lines):
    app.until(lambda: listed(app) == list(lines), lambda: f"the address says {listed(app)}")
    return app.idle()


def before_and_after(before, after):
    """The pictures of a head in two passes, NaN where a pair is masked: three, or one if nothing differs."""
    one, two = (np.where(trace.mask, trace.weights, np.nan) for trace in (before, after))
    if np.array_equal(one, two, equal_nan=True):
        return {"compared first": one, "compared difference": None}
    difference = np.where(before.mask | after.mask, np.nan_to_num(two) - np.nan_to_num(one), np.nan)
    return {"compared first": one, "compared second": two, "compared difference": difference}


def words(app):
    return app.page.locator("body").inner_text()


def button(app, name):
    return app.page.get_by_role("button", name=name, exact=True)


def grid(table, column):
    return table.pivot(index="layer", columns="head", values=column).to_numpy()


@pytest.fixture(scope="module")
def france(smollm):
    return capture(smollm, FRANCE)


@pytest.fixture(scope="module")
def muted(smollm):
    return capture(smollm, FRANCE, edits=MUTED)


def test_a_change_is_switched_off_taken_along_by_a_link_and_taken_back(visit, france, muted):
    """Only this test finds a change that a link loses, or that cannot be taken back."""
    app = visit(link("mute 23.4", model=SMOLLM, layer=29, head=2))
    before, after = france.trace(29, 2), muted.trace(29, 2)
    assert np.abs(after.weights - before.weights).max() > 0.2
    app.shows(before_and_after(before, after)).idle()
    assert "“·Paris” comes next: 77.3% → 14.1%" in words(app)
    assert app.alerts() == []
    changed = app.picture("atlas").values
    assert not changed[:24].any()
    assert changed[24:].all()

    on_list = app.page.locator("[class*=st-key-edit_] label")
    on_list.click()
    says_lines(app, "off mute 23.4").shows(before_and_after(before, before))
    assert not app.picture("atlas").values.any()
    assert "“·Paris” comes next: 77.3%" in words(app)
    assert "14.1%" not in words(app)

    copied = visit(app.address)
    assert listed(copied) == ["off mute 23.4"]
    copied.shows(before_and_after(before, before)).idle().page.locator("[class*=st-key-edit_] label").click()
    says_lines(copied, "mute 23.4").shows(before_and_after(before, after))
    app.shows(before_and_after(before, before))  # each visitor has a list of his own
    assert "14.1%" not in words(app)

    button(copied, "Reset").click()
    says_lines(copied).shows(before_and_after(before, before))
    assert on_list.count() == 1
    assert copied.page.locator("[class*=st-key-edit_] label").count() == 0
    copied.page.go_back()
    says_lines(copied, "mute 23.4").shows(before_and_after(before, after))


def test_changes_by_fields_by_clicks_on_cells_and_on_tokens(visit, minilm):
    """Only this test finds changes from different hands that undo one another."""
    plain = capture(minilm, FRANCE)

    def shows(layer, head, **edits):
        changed = capture(minilm, FRANCE, edits=Edits(**edits))
        app.shows(before_and_after(plain.trace(layer, head), changed.trace(layer, head))).idle()

    app = visit(link())
    app.choose(state.NEW_EDIT, "Scale the scores").idle().number(state.NEW_FIELDS["factor"], 3).idle()
    app.choose(state.NEW_PLACE, "all heads").idle()
    button(app, "Add").click()
    says_lines(app, "scale 3")
    shows(5, 11, scale_by=3)
    place = app.widget(state.picture("compared first")).bounding_box()

    app.switch(state.PAINTING).idle().click_cell("compared second", 3, 6)
    says_lines(app, "scale 3", "paint 3>6 at 5.11")
    app.click_cell("compared first", 3, 0)
    says_lines(app, "scale 3", "paint 3>0 3>6 at 5.11")
    painted = {(5, 11): {3: {0: 0.5, 6: 0.5}}}
    shows(5, 11, scale_by=3, pattern=painted)
    assert (app.value(state.QUERY), app.value(state.KEY)) == ("of (3)", "[CLS] (0)")
    app.switch(state.PAINTING).idle().click_cell("compared second", 2, 1).idle()
    assert len(listed(app)) == 2

    app.widget(state.TOKEN_AT).get_by_text("france", exact=True).click()
    app.idle()
    button(app, "Mask").click()
    says_lines(app, "scale 3", "paint 3>0 3>6 at 5.11", 'token 4 "[MASK]"')
    shows(5, 11, scale_by=3, pattern=painted, replace_tokens={4: "[MASK]"})
    assert app.widget(state.picture("compared first")).bounding_box() == place  # whatever is listed or chosen above

    app.click_cell("atlas", 2, 7)
    app.until(lambda: app.value(state.HEAD_BOX) == "Head 2.7", "the head is not chosen")
    shows(2, 7, scale_by=3, pattern=painted, replace_tokens={4: "[MASK]"})


def test_which_heads_matter_and_patching(visit, minilm):
    app = visit(link(view="matter", layer=0, head=0))
    effects = grid(head_effects(minilm, FRANCE), "effect")
    app.shows({"atlas": effects}).idle()
    direct = grid(direct_contributions(capture(minilm, FRANCE, components=True)), "contribution")
    strongest = np.unravel_index(direct.argmax(), direct.shape)
    app.click_near("direct", direct[strongest], effects[strongest])
    app.until(lambda: app.value(state.HEAD_BOX) == "Head {}.{}".format(*strongest), "the head is not chosen")
    assert f"By itself the head contributes {direct[strongest]:.3g} to the cosine" in words(app.idle())
    app.press(state.VIEW, "Patch").idle().write(state.SOURCE_TEXT, ITALY)
    app.shows({"atlas": grid(patch_effects(minilm, FRANCE, ITALY), "moved")}).idle()
    app.click_cell("atlas", 3, 1)
    app.until(lambda: app.value(state.HEAD_BOX) == "Head 3.1", "the head is not chosen")


def test_two_heads_are_compared(visit, minilm):
    app = visit(link(view="compare", layer=2, head=3, other_layer=4, other_head=5))
    taken = capture(minilm, FRANCE)
    one, two = taken.trace(2, 3), taken.trace(4, 5)
    found = compare(one, two)
    app.shows({"compared first": one.weights, "compared second": two.weights, "compared difference": found.difference})
    assert f"{found.mean:.3f} apart on average" in words(app.idle())


def test_what_one_visitor_changes_no_other_sees(visit, france, muted):
    """Both at the same time, on the same text and head.
    Only this test finds edits that leak between sessions in one process."""
    before, after = france.trace(29, 2), muted.trace(29, 2)
    changing = visit(link("mute 23.4", model=SMOLLM, layer=29, head=2))
    reading = visit(f"/step_by_step?text={quote_plus(FRANCE)}&model={SMOLLM}&layer=29&head=2")
    changing.shows(before_and_after(before, after))
    reading.shows_trace(before)
    changing.choose(state.HEAD_BOX, "Head 29.5")
    reading.choose(state.HEAD_BOX, "Head 29.4")
    reading.shows_trace(france.trace(29, 4))
    changing.shows(before_and_after(france.trace(29, 5), muted.trace(29, 5)))
    reading.page.get_by_role("link", name="What if", exact=True).click()
    reading.shows(before_and_after(france.trace(29, 4), france.trace(29, 4))).idle()
    assert listed(reading) == []
    assert "14.1%" not in words(reading)
    assert "Nothing is changed yet" in words(reading)
    assert "14.1%" in words(changing.idle())
