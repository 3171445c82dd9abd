"""The start page in a browser: its cards with their pictures, and its ways in."""

from playwright.sync_api import expect

from ui import state
from ui.gallery.views import CARDS


def test_the_start_page_is_short_and_each_card_has_its_picture_and_a_link(go):
    app = go("/")
    app.page.set_viewport_size({"width": 390, "height": 844})
    for word, view in CARDS.items():
        card = app.widget(state.one_of(state.CARD, word))
        expect(card).to_contain_text(view.claim)
        expect(card.get_by_role("img")).to_have_js_property("complete", True)
        expect(card.get_by_role("img")).not_to_have_js_property("naturalWidth", 0)
        expect(card.get_by_role("link")).to_be_visible()
    ways = app.widget(state.WAYS_IN).get_by_role("link")
    expect(ways).to_have_count(3)
    for way in (ways.nth(place) for place in range(3)):  # they look like buttons
        expect(way).to_have_css("border-top-style", "solid")
        app.eventually(way.bounding_box, lambda box: box["height"] >= 36 and box["y"] + box["height"] <= 844)
    height = "document.querySelector('.stMain').scrollHeight"
    app.eventually(lambda: app.page.evaluate(height), lambda height: height < 8440)
