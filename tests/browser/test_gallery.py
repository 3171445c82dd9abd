"""Each view of the gallery opens from its link in a session of its own, without a network, and shows the number of its card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

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
    "patching": r"moves the answer by ([\d.]+%)",
    "two_sentences": r"“it” → “animal”: This text ([\d.]+%); Other text ([\d.]+%)",
    "two_heads": r"The rows are ([\d.]+) apart on average: 0 is the same, ([\d.]+) nothing in common\.",
    "unscaled": r"=\sweight\s+([\d.]+)\s+([\d.]+)",
    "why": r"is (?=[\d.]+ above that of .* adds ([\d.]+))([\d.]+)",
    "circuit": r"scored \S+ (?=[\d.]+ above the other keys: .* adds ([\d.]+))([\d.]+)",
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
    return (float(np.nanmean(app.picture("atlas").values)),)


def smallest_and_largest(app: App, _: str) -> tuple[float, float]:
    values = app.picture("atlas").values
    return float(np.nanmin(values)), float(np.nanmax(values))


def sum_of_bands(app: App, _: str) -> tuple[float, float]:
    _, parts = next(line for name, line in app.picture("bands").lines.items() if name.startswith("here"))
    return float(parts.sum()), len(parts)


def between_the_ends(app: App, _: str) -> tuple[float]:
    lines = app.picture("gradients").lines
    return (float(lines["attention"][1][-1] - lines["RNN"][1][-1]),)


def rows_of_the_year(app: App, _: str) -> tuple[float]:
    """The rows that write 1987 come first, and the four characters come last, before the end of the text."""
    return (float(np.diag(app.picture("head").values[:4, -5:-1]).mean()),)


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
    """One visitor for all, who goes from view to view. The browser finds no machine but this one."""
    with visits.to(
        server
    ) as visit:  # in the end there was no problem, such as a request that was meant for another machine
        yield visit("/")


@pytest.fixture(scope="module")
def links(app: App) -> dict[str, str]:
    """The links of the cards by their words, as the start page has them."""
    found = {}
    for word in CARDS:
        card = app.widget(state.one_of(state.CARD, word))
        found[word] = card.get_by_role("link").evaluate("link => link.href").removeprefix(app.server.address)
        assert card.get_by_role("img").evaluate("picture => picture.complete && picture.naturalWidth > 0")
        assert CARDS[word].claim in card.inner_text()
    return found


def test_what_is_meant_for_another_machine_is_seen_and_stopped(visit):
    app = visit("/")
    assert not app.page.evaluate("fetch('http://example.com/').then(() => true, () => false)")
    assert any("a request left for http://example.com/" in problem for problem in app.problems)
    app.problems.clear()


def shown(app: App, word: str) -> tuple[float, ...] | None:
    """The numbers of the view on the page; None while they are not there."""
    text = app.page.get_by_test_id("stMain").inner_text()
    if word in DRAWN:
        return DRAWN[word](app, text)
    found = re.search(WORDS[word], text)
    return None if found is None else tuple(map(number, found.groups()))


def test_the_start_page_is_short_and_its_ways_in_look_like_buttons(visit):
    app = visit("/", width=390, height=844)
    assert app.page.evaluate("document.querySelector('.stMain').scrollHeight") < 10 * 844
    ways = app.widget(state.WAYS_IN).get_by_role("link")
    assert ways.count() == 3
    for way in ways.all():
        assert way.evaluate("way => getComputedStyle(way).borderTopStyle") == "solid"
        box = way.bounding_box()
        assert box["height"] >= 36
        assert box["y"] + box["height"] <= 844


@pytest.mark.parametrize("word", CARDS)
def test_the_view_shows_the_number_of_its_card(app, links, word):
    app.go(links[word])
    if word in WORDS:
        app.until(lambda: shown(app, word) is not None, f"{word} does not say its number")
    numbers = shown(app, word)
    assert numbers is not None
    assert disagreement(word, numbers) is None
    assert not app.alerts()


def test_a_card_opens_its_view_whatever_was_chosen_before(visit):
    app = visit("/step_by_step?layer=1&head=3&stage=raw&scaling=false&text=Something+else")
    app.page.get_by_role("link", name="Gallery").click()
    app.page.get_by_role("link", name="Who is “it”?").click()
    app.until(lambda: shown(app, "pronoun") is not None, "the view does not open")
    assert disagreement("pronoun", shown(app.idle(), "pronoun") or ()) is None
    assert app.reached(state.SCALING).values([state.HEAD_BOX, state.SCALING]) == {
        state.HEAD_BOX: "Head 5.11",
        state.SCALING: "True",
    }
    assert state.STAGE not in app.address
    app.choose(state.HEAD_BOX, "Head 5.3").idle()  # from here on the address follows the page
    assert app.value(state.HEAD_BOX) == "Head 5.3"
    assert "head=3" in app.address
