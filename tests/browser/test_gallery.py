"""Each view of the gallery opens from its link in a session of its own, without a network, and shows the number of its card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.driver import App, Server
from tests.browser.visits import Visits
from tests.test_gallery import disagreement
from tests.written_numbers import WRITTEN, number
from ui import state
from ui.gallery.views import CARDS

# What pages say of the numbers that the cards claim
WORDS = {
    "pronoun": r"“it” gives\s([\d.]+%)\sof its attention to “animal”",
    "induction": r"“·green” gives ([\d.]+%) of its attention to “·doors”",
    "previous": r"Mostly the previous token \(([\d.]+%)\)",
    "paris": r"“·Paris” comes next: ([\d.]+%) → ([\d.]+%)",
    "generation": r"“·Paris” is written after “·is”, which gives ([\d.]+%) of its attention to “·France”",
    "patching": r"moves (?:the sentence vector most:|it) ([\d.]+%)",
    "two_sentences": r"“it” → “animal”: This text ([\d.]+%); Other text ([\d.]+%)",
    "two_heads": r"The rows are ([\d.]+) nats apart on average: 0 is the same, ([\d.]+) nothing in common\.",
    "unscaled": r"=\sweight\s+([\d.]+)\s+([\d.]+)",
    "why": r"is (?=[\d.]+ above that of .* adds most: ([\d.]+))([\d.]+)",
    "circuit": r"scored \S+ (?=[\d.]+ above the mean of the other keys: .* adds most, ([\d.]*\d))([\d.]+)",
    "grouped": r"(\d+) query heads share (\d+) key/value heads",
    "saturation": r"\nweight\t[\d.]+\t[\d.]+\t([\d.]+)",
    "leak": r"([\d.]+) of the weight leaks",
    "order": rf"in the two orders: ({WRITTEN})",
    "in_blocks": rf"float64 ({WRITTEN})",
    "costs": r"n = d = (\d+) tokens",
    "crossing": r"give weights (\d+) × (\d+)",
    "own_matrices": r"“q0” gives ([\d.]+%) of its attention to “k0”",
}


def of_all_heads(app: App, _: str) -> tuple[float]:
    return (float(np.nanmean(app.drawn("atlas").values)),)


def smallest_and_largest(app: App, _: str) -> tuple[float, float]:
    values = app.drawn("atlas").values
    return float(np.nanmin(values)), float(np.nanmax(values))


def sum_of_bands(app: App, _: str) -> tuple[float, float]:
    _, parts = next(line for name, line in app.drawn("bands").lines.items() if name.startswith("here"))
    return float(parts.sum()), len(parts)


def between_the_ends(app: App, _: str) -> tuple[float]:
    lines = app.drawn("gradients").lines
    return (float(lines["attention"][1][-1] - lines["RNN"][1][-1]),)


def rows_of_the_year(app: App, _: str) -> tuple[float]:
    """The rows that write 1987 come first, and the four characters come last, before the end of the text."""
    return (float(np.diag(app.drawn("head").values[:4, -5:-1]).mean()),)


# Where the number is in a picture
DRAWN: dict[str, Callable[[App, str], tuple[float, ...]]] = {
    "sink": of_all_heads,
    "entropy": smallest_and_largest,
    "date": rows_of_the_year,
    "rotary": sum_of_bands,
    "gradients": between_the_ends,
}


@pytest.fixture(scope="module")
def app(visits: Visits, server: Server) -> Iterator[App]:
    """One visitor for all, who goes from view to view. In the end there was no problem, such as a request that was meant for
    another machine: the browser finds none but this one."""
    with visits.to(server) as visit:
        yield visit("/")


@pytest.fixture(scope="module")
def links(app: App) -> dict[str, str]:
    """The links of the cards by their words, as the start page has them."""
    found = {}
    for word in CARDS:
        card = app.widget(state.one_of(state.CARD, word))
        expect(card).to_contain_text(CARDS[word].claim)
        expect(card.get_by_role("img")).to_have_js_property("complete", True)
        expect(card.get_by_role("img")).not_to_have_js_property("naturalWidth", 0)
        href = app.eventually(lambda card=card: card.get_by_role("link").evaluate("link => link.href"))
        found[word] = href.removeprefix(app.server.address)
    return found


def test_what_is_meant_for_another_machine_is_seen_and_stopped(visit):
    app = visit("/")
    app.eventually(lambda: app.page.evaluate("fetch('http://example.com/').then(() => true, () => false)"), False)
    app.eventually(lambda: any("a request left for http://example.com/" in problem for problem in app.problems))
    app.problems.clear()


def shown(app: App, word: str) -> tuple[float, ...] | None:
    """The numbers of the view on the page; None while they are not there."""
    text = app.page.get_by_test_id("stMain").inner_text()
    if word in DRAWN:
        return DRAWN[word](app, text)
    found = re.search(WORDS[word], text)
    return None if found is None else tuple(map(number, found.groups()))


def agrees(app: App, word: str) -> App:
    """The view that is open shows the numbers of this card."""
    app.eventually(lambda: disagreement(word, shown(app, word) or ()), None)
    return app


def test_the_start_page_is_short_and_its_ways_in_look_like_buttons(visit):
    app = visit("/", width=390, height=844)
    ways = app.widget(state.WAYS_IN).get_by_role("link")
    expect(ways).to_have_count(3)
    for way in (ways.nth(place) for place in range(3)):
        expect(way).to_have_css("border-top-style", "solid")
        app.eventually(way.bounding_box, lambda box: box["height"] >= 36 and box["y"] + box["height"] <= 844)
    app.eventually(
        lambda: app.page.evaluate("document.querySelector('.stMain').scrollHeight"), lambda height: height < 8440
    )


@pytest.mark.parametrize("word", CARDS)
def test_the_view_shows_the_number_of_its_card(app, links, word):
    agrees(app.go(links[word]), word).is_well()


def test_a_card_opens_its_view_whatever_was_chosen_before(visit):
    app = visit("/step_by_step?layer=1&head=3&stage=raw&scaling=false&text=Something+else")
    app.follow("Gallery", "/").follow("Who is “it”?", "/step_by_step")
    agrees(app, "pronoun").has(state.HEAD_BOX, "Head 5.11").has(state.SCALING, "True")
    app.eventually(lambda: state.STAGE in app.said, False)
    app.choose(state.HEAD_BOX, "Head 5.3").has(state.HEAD_BOX, "Head 5.3")  # from here on the address follows the page
    app.eventually(lambda: app.said[state.HEAD], ["3"])
