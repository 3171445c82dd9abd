"""The token view in a browser: what it shades and says against the weights it was given, and what it asks the server."""

import re
from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, expect

from core.figures.labels import visible
from tests.browser.driver import App, Server, Visits, opacity
from tests.browser.token_view_app import TEXTS, weights
from tests.contrast import BACKGROUNDS, contrast, hexadecimal, mixed
from tests.source_files import ROOT

COUNT = len(TEXTS["spaces"])
PIN = "rgb(230, 0, 126)"
LEAST_CONTRAST = 4.5  # WCAG 2.2, AA, running text

# What a person sees of each token: its words, its background and its frame; as the browser computed them.
_READ = """
(tokens) => tokens.map((token) => {
    const style = getComputedStyle(token);
    const box = token.getBoundingClientRect();
    return {
        text: token.textContent, colour: style.color, background: style.backgroundColor, frame: style.boxShadow,
        label: token.getAttribute("aria-label"), title: token.title, selected: token.getAttribute("aria-selected"),
        bidi: style.unicodeBidi, direction: style.direction, tab: token.tabIndex, size: parseFloat(style.fontSize),
        children: [...token.querySelectorAll("*")].map((child) => child.tagName + child.className),
        left: box.left, right: box.right, top: box.top, bottom: box.bottom,
    };
})
"""


class View(App):
    """A token view on a page of its own."""

    @property
    def tokens(self) -> Locator:
        return self.page.locator(".token")

    @property
    def note(self) -> Locator:
        return self.page.locator(".note")

    def side(self, name: str) -> Locator:
        return self.page.get_by_role("listbox", name=name).locator(".token")

    def notes(self, *words: str) -> Self:
        """Wait until the line below the text says these words."""
        for part in words:
            expect(self.note).to_contain_text(part)
        return self

    def seen(self, among: Locator | None = None) -> list[dict]:
        return (among or self.tokens).evaluate_all(_READ)

    def draws(self, is_right: Callable[[list[dict]], bool], among: Locator | None = None) -> list[dict]:
        """Wait until the tokens are drawn in this way."""
        return self.eventually(lambda: self.seen(among), is_right)

    def framed(self) -> list[int]:
        """The tokens that are pointed at: those with a frame in the colour of the text."""
        return [place for place, token in enumerate(self.seen()) if token["colour"] in token["frame"]]

    def frames(self, *places: int) -> Self:
        """Wait until just these tokens are pointed at."""
        self.eventually(self.framed, list(places))
        return self

    def selects(self, place: int, *, among: Locator | None = None, is_pinned: bool = True) -> Self:
        """Wait until this token is pinned, or is not."""
        expect((among or self.tokens).nth(place)).to_have_attribute("aria-selected", str(is_pinned).lower())
        return self

    def away(self) -> Self:
        """Point at nothing."""
        self.page.mouse.move(5, 5)
        return self


def percents(text: str) -> list[float]:
    """Every number in front of a percent sign, as a share."""
    return [float(number) / 100 for number in re.findall(r"([\d.]+)%", text)]


@pytest.fixture(scope="module")
def view_server() -> Iterator[Server]:
    server = Server("tests/browser/token_view_app.py")
    try:
        yield server.wait()
    finally:
        server.stop()


@pytest.fixture
def show(visits: Visits, view_server: Server) -> Iterator[Callable[..., View]]:
    """Opens token views; in the end nothing may have gone wrong on any of them."""
    with visits.to(view_server, View) as show:
        yield show


# --- shades and numbers


@pytest.mark.parametrize("direction", ["from", pytest.param("to", marks=pytest.mark.thorough)])
def test_tokens_shade_in_proportion_to_the_weights(show, direction):
    view = show(f"/?direction={direction}")
    drawn = weights(COUNT, COUNT)
    legend = view.page.locator(".legend")
    for token in (0, 5, COUNT - 1):
        view.tokens.nth(token).hover()
        expected = drawn[token] if direction == "from" else drawn[:, token]
        strongest = np.argsort(-expected)[:3]
        view.shades(expected).frames(token).notes(*(f"({place})" for place in strongest))
        view.eventually(
            lambda: percents(view.note.inner_text()), pytest.approx(expected[strongest].tolist(), rel=0.005)
        )
        view.eventually(lambda: percents(legend.inner_text()), pytest.approx([expected.max()], rel=0.005))
        same = pytest.approx(expected, rel=0.005, abs=1e-5)
        view.draws(lambda tokens, same=same: np.ravel([percents(token["label"]) for token in tokens]) == same)


def test_what_a_causal_mask_forbids(show):
    """It is left out of means, marked and not shaded, and said of a pinned token and the one pointed at."""
    view = show("/?mask=causal")
    drawn = weights(COUNT, COUNT, is_causal=True)
    means = np.nan_to_num(drawn)
    expect(view.page.locator(".legend")).to_contain_text("masked")
    view.notes("Mean of all tokens: most goes to “The” (0)").shades(means.mean(axis=0))
    view.tokens.nth(4).hover()
    forbidden = [place > 4 for place in range(COUNT)]

    def marks(tokens: list[dict]) -> bool:
        by_words = [["masked" in token[where] for token in tokens] for where in ("label", "title")]
        return [*by_words, [opacity(token["background"]) == 0 for token in tokens]] == [forbidden] * 3

    view.draws(lambda tokens: marks(tokens) and tokens[0]["colour"] != tokens[5]["colour"])
    view.notes(f"It may not look at {COUNT - 5} tokens").tokens.nth(9).click()
    view.selects(9).tokens.nth(2).hover()
    sentence = f"“dog” (9) attends to “sat” (2): {100 * drawn[9, 2]:#.3g}%."
    view.notes(sentence).draws(lambda tokens: tokens[2]["title"].replace("\u00a0", " ") == sentence)
    view.tokens.nth(12).hover()
    view.notes("“dog” (9) may not look at “Kath” (12).").tokens.nth(9).click()
    view.selects(9, is_pinned=False).idle()
    view.tokens.evaluate_all("tokens => [3, 7].forEach((place) => tokens[place].click())")  # faster than the page reads
    view.away().notes("Mean of 2 pinned tokens", "They may not look at 8 tokens").shades(means[[3, 7]].mean(axis=0))


@pytest.mark.thorough
def test_numbers_that_are_no_shares(show):
    view = show("/?plain=1")
    view.tokens.nth(5).hover()
    view.notes(f": {float(f'{weights(COUNT, COUNT)[5].max():.3g}'):g}, then")
    expect(view.page.locator(".view")).not_to_contain_text("%")


@pytest.mark.thorough
def test_text_is_legible_on_every_shade(show):
    view = show("/?mask=causal")

    def are_legible(tokens: list[dict], page: str) -> bool:
        shades = [mixed(hexadecimal(one["background"]), page, opacity(one["background"])) for one in tokens]
        pairs = zip(tokens, shades, strict=True)
        return all(contrast(hexadecimal(one["colour"]), shade) >= LEAST_CONTRAST for one, shade in pairs)

    for scheme in ("dark", "light"):
        page = BACKGROUNDS[scheme].lower()
        view.in_scheme(scheme).tokens.nth(6).hover()
        view.frames(6).draws(lambda tokens, page=page: are_legible(tokens, page))
    view.draws(lambda tokens: min(one["size"] for one in tokens) >= 16)


# --- clicks, keys and fingers


def test_clicks_and_keys_pin_a_position_in_the_whole_text(show):
    view, last = show("/?from=100"), COUNT - 1
    view.tokens.nth(3).click()
    view.says("clicked: 103").away().selects(3)
    view.draws(lambda tokens: PIN in tokens[3]["frame"] and [one["selected"] for one in tokens].count("true") == 1)
    view.tokens.nth(3).click()
    view.selects(3, is_pinned=False).idle().tokens.first.focus()
    for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last), ("ArrowRight", last)):
        view.keys(key).frames(place)
    view.keys("Home", "ArrowRight").shades(weights(COUNT, COUNT)[1])
    view.draws(lambda tokens: [token["tab"] for token in tokens] == [-1, 0] + [-1] * (COUNT - 2))
    view.keys("Enter").selects(1).idle().keys("ArrowRight").frames(2)  # the focus is where it was
    view.keys("Shift+Tab").frames()


@pytest.mark.thorough
def test_arrow_keys_move_between_lines(show):
    view = show("/?count=120")
    expect(view.tokens.nth(5)).to_be_visible()
    boxes = view.settled(view.seen)
    lines = sorted({round(box["top"]) for box in boxes})
    middle = (boxes[5]["left"] + boxes[5]["right"]) / 2
    view.tokens.nth(5).focus()
    view.keys("ArrowDown")

    def is_below(framed: list[int]) -> bool:
        if len(framed) != 1:  # on its way from one token to another
            return False
        box = boxes[framed[0]]
        return round(box["top"]) == lines[1] and box["left"] - 10 <= middle <= box["right"] + 10

    view.eventually(view.framed, is_below)
    view.keys("ArrowUp").eventually(lambda: [round(boxes[place]["top"]) for place in view.framed()], lines[:1])


@pytest.mark.thorough
def test_the_first_tap_points_and_the_second_pins(show):
    view = show(width=390, has_touch=True)
    view.sent.clear()
    view.tokens.nth(4).tap()
    assert view.frames(4).idle().sent == []
    view.tokens.nth(4).tap()
    view.selects(4)


# --- the server


@pytest.mark.thorough
def test_new_weights_are_shown_in_place(show):
    view = show()
    view.tokens.nth(5).click()
    view.selects(5).idle().tokens.nth(5).evaluate("token => { window.before = token; }")
    view.page.evaluate(
        "window.changes = 0; window.watch = new MutationObserver((all) => { window.changes += all.length; })"
    )
    view.page.locator(".scroll").evaluate("part => window.watch.observe(part, { childList: true, subtree: true })")
    view.tokens.nth(2).focus()
    view.keys("ArrowRight").number("seed", 1).away().shades(weights(COUNT, COUNT, seed=1)[5])
    view.eventually(lambda: view.page.evaluate("window.before.isConnected && window.changes === 0"))
    view.idle().sent.clear()
    view.tokens.nth(7).click()
    told = b"".join(frame if isinstance(frame, bytes) else frame.encode() for frame in view.selects(7).idle().sent)
    assert told.count(b'"clicks"') == 1  # a listener left over from before would tell it again


@pytest.mark.thorough
def test_pointing_outlives_another_text(show):
    view = show("/?count=20&grow=1&lines=1")
    queries = view.side("Queries")
    queries.nth(2).focus()
    view.keys("ArrowRight", "Enter")
    expect(queries).to_have_count(21)
    view.frames(3).shades(weights(21, 21)[3], view.side("Keys")).idle()
    view.keys("ArrowRight").frames(4)
    queries.nth(6).click()
    expect(queries).to_have_count(22)
    view.frames(6).away().frames()


# Calls the view as Streamlit does, several times and not always in order, on an element of its own.
_CALL_DIRECTLY = """
async (source) => {
    const { default: show } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    const parentElement = document.body.appendChild(document.createElement("section"));
    const text = (count) => ({
        start: 0, text: Array.from({ length: count }, (_, place) => `t${place}`), quiet: Array(count).fill(0),
        before: "s".repeat(count), after: ".".repeat(count),
    });
    const weights = (count) => btoa(String.fromCharCode(...new Uint8Array(new Float32Array(count * count).buffer)));
    const of = { keys: null, direction: "from", lines: false, pinned: [], percent: true };
    const call = (count) =>
        show({ parentElement, setTriggerValue: () => {}, data: { ...of, queries: text(count), weights: weights(count) } });
    const count = () => parentElement.querySelectorAll(".token").length;
    const first = call(20), second = call(10);
    return [first, second, call].map((one) => (one(5), count()));
}
"""


@pytest.mark.thorough
def test_calls_that_are_cleaned_up_late(show):
    parts = (
        "core/figures/text/tokens",
        "core/figures/text/text_view",
        "ui/components/clicks",
        "ui/components/token_view",
    )
    source, view = "\n".join((ROOT / f"{part}.js").read_text("utf-8") for part in parts), show()
    view.eventually(lambda: view.page.evaluate(_CALL_DIRECTLY, source), [10, 0, 5])


def widths(view: View) -> list[float]:
    """How wide the lines are, in the order in which they are drawn."""
    lines = view.page.locator(".columns path")
    return [float(one) for one in lines.evaluate_all("all => all.map((path) => path.getAttribute('stroke-width'))")]


def as_wide_as(strongest: NDArray) -> object:
    return pytest.approx(0.75 + 4.25 * np.sort(strongest) / strongest.max(), abs=0.01)


# --- the text


def test_tokens_appear_as_typed(show):
    view = show("/?text=markup")
    view.tokens.nth(1).hover()
    expected = [visible(token) for token in TEXTS["markup"]]
    hebrew, newline = (TEXTS["markup"].index(token) for token in ("שלום", "\n"))

    def is_as_typed(shown: list[dict]) -> bool:
        is_text = [token["text"] for token in shown] == expected and not any(token["children"] for token in shown)
        turned = [token["direction"] for token in shown].index("rtl") == hebrew
        before, mark, after = shown[newline - 1 : newline + 2]
        breaks = mark["left"] > before["left"] and after["top"] > mark["bottom"] - 5
        at_the_edge = abs(after["left"] - shown[0]["left"]) <= 2
        return is_text and turned and {token["bidi"] for token in shown} == {"isolate"} and breaks and at_the_edge

    view.notes("“<img src=x onerror=aler…” (1) attends most to “&lt;” (10)").draws(is_as_typed)
    expect(view.page.locator(".view :is(img, b)")).to_have_count(0)
    view.fits(390).eventually(view.page.locator(".scroll").bounding_box, lambda box: box["height"] <= 480)
    view.draws(lambda tokens: max(token["right"] for token in tokens) <= 390)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "joined", "apart"),
    [("spaces", [("Kath", "mand"), ("mat", ",")], []), ("pieces", [("sleep", "ing")], [("the", "cat")])],
)
def test_words_flow_and_pieces_join(show, text, joined, apart):
    """In the vocabulary with spaces the blank is a part of the token."""

    def flow(tokens: list[dict]) -> bool:
        boxes = {re.sub(r"^(##|·)", "", token["text"]): token for token in reversed(tokens)}
        near, far = (
            [boxes[after]["left"] - boxes[before]["right"] for before, after in pairs] for pairs in (joined, apart)
        )
        return max(near) < 2 and min(far, default=4) > 3 and any(token["children"] == ["SPANquiet"] for token in tokens)

    show(f"/?text={text}").draws(flow)


@pytest.mark.thorough
def test_queries_and_keys_of_different_texts(show):
    view = show("/?text=pieces&keys=spaces")
    queries, keys = view.side("Queries"), view.side("Keys")
    drawn = weights(len(TEXTS["pieces"]), len(TEXTS["spaces"]))
    queries.nth(4).hover()
    view.shades(drawn[4], keys)
    keys.nth(6).hover()
    view.shades(drawn[:, 6], queries)
    keys.nth(6).click()  # the direction is "from": it is queries that are pinned
    queries.nth(4).click()
    view.selects(4, among=queries).draws(lambda tokens: [one["selected"] for one in tokens].count("true") == 1)
    keys.nth(6).hover()
    view.notes(f"“sleep” (4) attends to “,” (6): {100 * drawn[4, 6]:#.3g}%.")


# --- lines


@pytest.mark.thorough
def test_lines_of_a_token_and_the_strongest_of_all(show):
    view = show("/?count=100&lines=1&mask=causal")
    drawn = weights(100, 100, is_causal=True)
    paths = view.page.locator(".columns path")
    for seed in (1, 0):
        strongest = np.sort(np.nan_to_num(weights(100, 100, seed=seed, is_causal=True)).ravel())[-200:]
        view.number("seed", seed).eventually(lambda: np.array(widths(view)), as_wide_as(strongest))
    view.notes("the 200 strongest of 5,050 pairs")
    queries, keys = view.side("Queries"), view.side("Keys")
    queries.nth(12).hover()
    shown = drawn[12][drawn[12] >= 0.005]
    view.notes(f"{len(shown)} of its 13 pairs, those of 0.5% or more")
    view.eventually(lambda: np.array(widths(view)), as_wide_as(shown))

    def ends() -> list[float]:
        """Where the strongest line ends and where the middles of its tokens are, from the top."""
        boxes = paths.last, queries.nth(12), keys.nth(int(np.nanargmax(drawn[12])))
        line, *tokens = [box.evaluate("one => one.getBoundingClientRect().toJSON()") for box in boxes]
        return [line["top"], line["bottom"], *sorted((token["top"] + token["bottom"]) / 2 for token in tokens)]

    view.eventually(ends, lambda found: found[:2] == pytest.approx(found[2:], abs=4))
    keys.nth(50).hover()
    view.page.mouse.wheel(0, -5000)
    keys.nth(2).hover()
    expect(paths).to_have_count(int(np.sum(drawn[:, 2] >= 0.005)))


@pytest.mark.thorough
def test_two_hundred_tokens_in_lines_can_be_reached(show):
    view = show("/?count=200&lines=1")
    view.side("Queries").first.focus()
    view.keys("End").notes("(199) attends most to")
    places = view.page.locator(".scroll"), view.side("Queries").nth(199)
    view.eventually(
        lambda: [place.bounding_box() for place in places],
        lambda found: 0 <= found[1]["y"] - found[0]["y"] <= found[0]["height"] - found[1]["height"],
    )
