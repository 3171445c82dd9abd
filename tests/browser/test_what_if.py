"""The page What if in a real browser: the numbers before and after are those of core, however one came to the changes."""

from urllib.parse import quote_plus

import numpy as np
import pytest
from playwright.sync_api import expect

from core import Edits, capture, direct_contributions
from core.heads.effects import head_effects, patch_effects
from ui import state

FRANCE, ITALY = "The capital of France is", "The capital of Italy is"


def link(*edits, **said):
    named = [*({state.TEXT: FRANCE} | said).items(), *((state.EDITS, line) for line in edits)]
    return "/what_if?" + "&".join(f"{name}={quote_plus(str(value))}" for name, value in named)


def says_lines(app, *lines):
    """Wait until the address says these changes."""
    app.eventually(lambda: app.said.get(state.EDITS, []), list(lines))
    return app.idle()


def before_and_after(before, after):
    """The pictures of a head in two passes, NaN where a pair is masked: three, or one if nothing differs."""
    one, two = (np.where(trace.mask, trace.weights, np.nan) for trace in (before, after))
    if np.array_equal(one, two, equal_nan=True):
        return {"compared first": one, "compared difference": None}
    difference = np.where(before.mask | after.mask, np.nan_to_num(two) - np.nan_to_num(one), np.nan)
    return {"compared first": one, "compared second": two, "compared difference": difference}


def grid(table, column):
    return table.pivot(index="layer", columns="head", values=column).to_numpy()


@pytest.mark.thorough
def test_a_change_is_switched_off_kept_in_a_reload_and_taken_back(go, minilm):
    """Only this test finds a change that a reload loses, or that cannot be taken back."""
    plain, muted = (capture(minilm, FRANCE, edits=edits).trace(5, 11) for edits in (None, Edits(mute_heads={3})))
    assert np.abs(muted.weights - plain.weights).max() > 0.1
    app = go(link("mute 3")).shows(before_and_after(plain, muted)).says("The sentence vector turns by").is_well()
    app.eventually(lambda: app.drawn("atlas").values, lambda changed: not changed[:4].any() and changed[4:].all())

    on_list = "[class*=st-key-edit_] label"
    app.page.locator(on_list).click()
    says_lines(app, "off mute 3").shows(before_and_after(plain, plain))
    expect(app.never_says("turns by").widget(state.picture("atlas"))).to_have_count(0)

    app.page.reload()
    says_lines(app, "off mute 3").shows(before_and_after(plain, plain)).idle().page.locator(on_list).click()
    says_lines(app, "mute 3").shows(before_and_after(plain, muted))
    says_lines(app.click("Reset")).shows(before_and_after(plain, plain))
    expect(app.page.locator(on_list)).to_have_count(0)
    app.page.go_back()
    says_lines(app, "mute 3").shows(before_and_after(plain, muted))


@pytest.mark.thorough
def test_changes_by_fields_by_clicks_on_cells_and_on_tokens(go, minilm):
    """Only this test finds changes from different hands that undo one another."""
    plain = capture(minilm, FRANCE)

    def shows(**edits):
        changed = capture(minilm, FRANCE, edits=Edits(**edits))
        app.shows(before_and_after(plain.trace(5, 11), changed.trace(5, 11))).idle()

    app = go(link())
    app.choose(state.NEW_EDIT, "Scale the scores").number(state.NEW_FIELDS["factor"], 3)
    says_lines(app.choose(state.NEW_PLACE, "all heads").click("Add"), "scale 3")
    shows(scale_by=3)
    picture = app.widget(state.picture("compared first"))
    place = app.settled(picture.bounding_box)

    app.switch(state.PAINTING).idle().click_cell("compared second", 3, 6)
    says_lines(app, "scale 3", "paint 3>6 at 5.11").click_cell("compared first", 3, 0)
    painted = {(5, 11): {3: {0: 0.5, 6: 0.5}}}
    says_lines(app, "scale 3", "paint 3>0 3>6 at 5.11")
    shows(scale_by=3, pattern=painted)
    app.has(state.QUERY, "of (3)").has(state.KEY, "[CLS] (0)")
    app.switch(state.PAINTING).idle().click_cell("compared second", 2, 1).pins("compared first", 2, 1)
    says_lines(app, "scale 3", "paint 3>0 3>6 at 5.11")

    app.widget(state.TOKEN_AT).get_by_text("france", exact=True).click()
    says_lines(app.click("Mask"), "scale 3", "paint 3>0 3>6 at 5.11", 'token 4 "[MASK]"')
    shows(scale_by=3, pattern=painted, replace_tokens={4: "[MASK]"})
    app.eventually(picture.bounding_box, place)  # whatever is listed or chosen above


@pytest.mark.thorough
def test_which_heads_matter_and_patching(go, minilm):
    app = go(link(view="matter", layer=0, head=0))
    effects = grid(head_effects(minilm, FRANCE), "effect")
    direct = grid(direct_contributions(capture(minilm, FRANCE, components=True)), "contribution")
    strongest = np.unravel_index(direct.argmax(), direct.shape)
    app.shows({"atlas": effects}).idle().click_cell("direct", effects[strongest], direct[strongest])
    app.has(state.HEAD_BOX, "Head {}.{}".format(*strongest))
    app.says(f"adds most to the cosine of the sentence vector with itself, {direct[strongest]:.3g}")
    app.press(state.VIEW, "Patch").write(state.SOURCE_TEXT, ITALY)
    app.shows({"atlas": grid(patch_effects(minilm, FRANCE, ITALY), "moved")}).idle().click_cell("atlas", 3, 1)
    app.has(state.HEAD_BOX, "Head 3.1")
