"""The token view in a browser: what it shades and says against the weights it was given, and what it asks the server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator

from core.figures.labels import visible
from tests.browser.driver import App, Server
from tests.browser.token_view_app import TEXTS, tokens, weights
from tests.browser.visits import Visits
from tests.source_files import ROOT
from ui.components.token_view import token_view

TEXT = TEXTS["spaces"]
COUNT = len(TEXT)
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

    def open(self, path: str = "/") -> View:
        super().open(path)
        self.tokens.first.wait_for()
        return self

    @property
    def tokens(self) -> Locator:
        return self.page.locator(".token")

    @property
    def note(self) -> str:
        return plain(self.page.locator(".note").inner_text())

    def side(self, name: str) -> Locator:
        return self.page.get_by_role("listbox", name=name).locator(".token")

    def read(self, among: Locator | None = None) -> list[dict]:
        return (among or self.tokens).evaluate_all(_READ)

    def shades(self, among: Locator | None = None) -> NDArray[np.floating]:
        """The opacity of every token's background, in units of the strongest."""
        opacities = np.array([opacity(token["background"]) for token in self.read(among)])
        return opacities / opacities.max()

    def framed(self) -> list[int]:
        """The tokens that are pointed at: those with a frame in the colour of the text."""
        return [place for place, token in enumerate(self.read()) if token["colour"] in token["frame"]]

    def leave(self) -> View:
        self.page.mouse.move(5, 5)
        return self


def opacity(colour: str) -> float:
    parts = [float(part) for part in re.findall(r"[\d.]+", colour)]
    return parts[3] if len(parts) == 4 else 1.0


def plain(text: str) -> str:
    """With spaces at which a line may break."""
    return text.replace("\u00a0", " ")


def percents(text: str) -> list[float]:
    """Every number in front of a percent sign, as a share."""
    return [float(number) / 100 for number in re.findall(r"([\d.]+) %", plain(text))]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """WCAG 2.2, contrast ratio of two sRGB colours from 0 to 255."""

    def luminance(colour: tuple[float, ...]) -> float:
        shares = np.array(colour) / 255
        return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(float(part) for part in re.findall(r"[\d.]+", colour))[:3]


@pytest.fixture(scope="module")
def view_server() -> Iterator[Server]:
    server = Server("tests/browser/token_view_app.py")
    yield server.wait()
    server.stop()


@pytest.fixture
def show(visits: Visits, view_server: Server) -> Iterator[Callable[..., View]]:
    """Opens token views; in the end nothing may have gone wrong on any of them."""
    with visits.to(view_server, View) as show:
        yield show


# --- shades and numbers


@pytest.mark.parametrize("direction", ["from", "to"])
def test_tokens_shade_in_proportion_to_the_weights(show, direction):
    view = show(f"/?direction={direction}")
    drawn = weights(COUNT, COUNT)
    for token in (0, 5, COUNT - 1):
        view.tokens.nth(token).hover()
        expected = drawn[token] if direction == "from" else drawn[:, token]
        np.testing.assert_allclose(view.shades(), expected / expected.max(), atol=0.01)
        assert view.framed() == [token]
        strongest = np.argsort(-expected)[:3]
        assert [f"({place})" in view.note for place in strongest] == [True] * 3
        np.testing.assert_allclose(percents(view.note), expected[strongest], rtol=0.005)
        assert percents(view.page.locator(".legend").inner_text()) == pytest.approx([expected.max()], rel=0.005)
        said = [percents(label["label"]) for label in view.read()]
        np.testing.assert_allclose(np.ravel(said), expected, rtol=0.005, atol=1e-5)


def test_without_pointing_the_mean_is_shown(show):
    view = show("/?mask=causal")
    drawn = np.nan_to_num(weights(COUNT, COUNT, is_causal=True))
    mean = drawn.mean(axis=0)
    assert view.note.startswith("Mean of all tokens: most goes to “The” (0)")
    np.testing.assert_allclose(view.shades(), mean / mean.max(), atol=0.01)
    view.tokens.evaluate_all("tokens => [3, 7].forEach((place) => tokens[place].click())")  # faster than the page reads
    view.idle().leave()
    mean = drawn[[3, 7]].mean(axis=0)
    view.until(lambda: view.note.startswith("Mean of 2 pinned tokens"), "the mean of the pinned tokens is not shown")
    np.testing.assert_allclose(view.shades(), mean / mean.max(), atol=0.01)
    assert "They may not look at 8 tokens" in view.note


def test_forbidden_pairs_are_marked_and_not_shaded(show):
    view = show("/?mask=causal")
    assert "masked" in view.page.locator(".legend").inner_text()
    view.tokens.nth(4).hover()
    for place, token in enumerate(view.read()):
        is_forbidden = place > 4
        assert ("masked" in token["label"]) == is_forbidden
        assert ("masked" in token["title"]) == is_forbidden
        assert (opacity(token["background"]) == 0) == is_forbidden
    plain, grey = (rgb(view.read()[place]["colour"]) for place in (0, 5))
    assert plain != grey
    assert f"It may not look at {COUNT - 5} tokens" in view.note


def test_a_pinned_token_and_the_one_pointed_at(show):
    view = show("/?mask=causal")
    drawn = weights(COUNT, COUNT, is_causal=True)
    view.tokens.nth(9).click()
    view.until(lambda: view.read()[9]["selected"] == "true", "the token is not pinned")
    view.tokens.nth(2).hover()
    sentence = f"“dog” (9) attends to “sat” (2): {100 * drawn[9, 2]:#.3g} %."
    assert sentence in view.note
    assert plain(view.read()[2]["title"]) == sentence
    view.tokens.nth(12).hover()
    assert "“dog” (9) may not look at “Kath” (12)." in view.note


def test_a_scale_of_ones_own_and_numbers_that_are_no_shares(show):
    drawn = weights(COUNT, COUNT)
    shades = []
    for limit in ("", f"&limit={4 * drawn[5].max()}"):
        view = show(f"/?plain=1{limit}")
        view.tokens.nth(5).hover()
        assert f": {float(f'{drawn[5].max():.3g}'):g}, then" in view.note
        assert "%" not in view.page.locator(".view").inner_text()
        shades.append([opacity(token["background"]) for token in view.read()])
    half_step = (
        0.5 / 255
    )  # a browser keeps opacities in bytes: half a step of one, and a quarter of half a step of the other
    np.testing.assert_allclose(shades[1], np.array(shades[0]) / 4, atol=1.3 * half_step)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_on_every_shade(show, scheme):
    view = show("/?mask=causal", color_scheme=scheme)
    view.tokens.nth(6).hover()
    page = rgb(view.page.locator("[data-testid=stApp]").evaluate("app => getComputedStyle(app).backgroundColor"))
    assert (page == (255, 255, 255)) == (scheme == "light")
    for token in view.read():
        share = opacity(token["background"])
        shade = tuple(
            share * part + (1 - share) * behind for part, behind in zip(rgb(token["background"]), page, strict=True)
        )
        text = [255 * part if "srgb" in token["colour"] else part for part in rgb(token["colour"].replace("srgb", ""))]
        assert contrast(tuple(text), shade) >= LEAST_CONTRAST, token
        assert token["size"] >= 16


# --- clicks, keys and fingers


def test_a_click_returns_the_position_in_the_whole_text(show):
    view = show("/?from=100")
    view.tokens.nth(3).click()
    view.until(lambda: "clicked: 103" in view.page.inner_text("body"), "the click did not come back")
    pinned = view.leave().read()[3]
    assert pinned["selected"] == "true"
    assert PIN in pinned["frame"]
    assert [token["selected"] for token in view.read()].count("true") == 1
    view.leave().tokens.nth(3).click()
    view.until(lambda: view.read()[3]["selected"] == "false", "the second click did not take the pin away")


def test_arrow_keys_move_and_enter_pins(show):
    view = show()
    drawn = weights(COUNT, COUNT)
    view.tokens.first.focus()
    press = view.page.keyboard.press
    for key, place in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", COUNT - 1),
        ("ArrowRight", COUNT - 1),
    ):
        press(key)
        assert view.framed() == [place]
    press("Home")
    press("ArrowRight")
    np.testing.assert_allclose(view.shades(), drawn[1] / drawn[1].max(), atol=0.01)
    assert [token["tab"] for token in view.read()] == [-1, 0] + [-1] * (COUNT - 2)
    press("Enter")
    view.until(lambda: view.read()[1]["selected"] == "true", "Enter did not pin the token")
    view.idle()
    press("ArrowRight")  # the focus is where it was
    assert view.framed() == [2]
    press("Shift+Tab")
    assert view.framed() == []


def test_arrow_keys_move_between_lines(show):
    view = show("/?count=120")
    view.tokens.nth(5).focus()
    view.page.keyboard.press("ArrowDown")
    boxes = view.read()
    [below] = view.framed()
    lines = sorted({round(box["top"]) for box in boxes})
    assert round(boxes[below]["top"]) == lines[1]
    middle = (boxes[5]["left"] + boxes[5]["right"]) / 2
    assert boxes[below]["left"] - 10 <= middle <= boxes[below]["right"] + 10
    view.page.keyboard.press("ArrowUp")
    assert round(boxes[view.framed()[0]]["top"]) == lines[0]


def test_the_first_tap_points_and_the_second_pins(show):
    view = show(width=390, has_touch=True)
    view.tokens.nth(4).tap()
    assert view.framed() == [4]
    view.idle()
    assert view.read()[4]["selected"] == "false"
    view.tokens.nth(4).tap()
    view.until(lambda: view.read()[4]["selected"] == "true", "the second tap did not pin the token")


# --- the server


def test_moving_over_tokens_sends_the_server_nothing(show):
    view = show("/?count=200&mask=causal")
    assert view.sent, "the test does not see messages"
    view.sent.clear()
    notes = set()
    for place in range(0, 200, 4):
        view.tokens.nth(place).hover()
        notes.add(view.note)
    view.leave()
    for _ in range(20):
        view.page.keyboard.press("ArrowRight")
    view.idle()
    assert len(notes) == 50
    assert view.sent == []
    view.tokens.nth(8).click()
    view.until(lambda: bool(view.sent), "a click is a message, or the test does not see any")


def test_new_weights_are_shown_in_place(show):
    view = show()
    view.tokens.nth(5).click()
    view.idle().tokens.nth(5).evaluate("token => { window.before = token; }")
    view.page.evaluate(
        "window.changes = 0; window.watch = new MutationObserver((all) => { window.changes += all.length; })"
    )
    view.page.locator(".scroll").evaluate("part => window.watch.observe(part, { childList: true, subtree: true })")
    view.tokens.nth(2).focus()
    view.page.keyboard.press("ArrowRight")
    view.number("seed", 1).idle()
    expected = weights(COUNT, COUNT, seed=1)[5]
    view.leave()
    view.until(
        lambda: np.allclose(view.shades(), expected / expected.max(), atol=0.01), "the new weights are not shown"
    )
    assert view.page.evaluate("window.before.isConnected && window.changes === 0")
    view.sent.clear()
    view.tokens.nth(7).click()
    view.until(lambda: view.read()[7]["selected"] == "true", "the click did not come back")
    told = b"".join(frame if isinstance(frame, bytes) else frame.encode() for frame in view.idle().sent)
    assert told.count(b'"clicks"') == 1  # a listener left over from before would tell it again


@pytest.mark.parametrize("lines", ["", "&lines=1"])
def test_pointing_outlives_another_text(show, lines):
    view = show(f"/?count=20&grow=1{lines}")
    queries = view.tokens if not lines else view.side("Queries")
    queries.nth(2).focus()
    view.page.keyboard.press("ArrowRight")
    view.page.keyboard.press("Enter")
    view.until(lambda: queries.count() == 21, "the text did not grow")
    view.idle()
    assert view.framed() == [3]
    expected = weights(21, 21)[3]
    shaded = view.tokens if not lines else view.side("Keys")
    np.testing.assert_allclose(view.shades(shaded), expected / expected.max(), atol=0.01)
    view.page.keyboard.press("ArrowRight")
    assert view.framed() == [4]
    queries.nth(6).click()
    view.until(lambda: queries.count() == 22, "the text did not grow")
    assert view.idle().framed() == [6]
    view.leave()
    assert view.framed() == []


# Calls the view as Streamlit does, several times and not always in order, on an element of its own.
_CALL_DIRECTLY = """
async (source) => {
    const { default: show } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    const parentElement = document.body.appendChild(document.createElement("section"));
    const text = (count) => ({
        start: 0, text: Array.from({ length: count }, (_, place) => `t${place}`), quiet: Array(count).fill(0),
        before: "s".repeat(count), after: ".".repeat(count),
    });
    const call = (count, pinned) => show({
        parentElement, setTriggerValue: () => {},
        data: {
            queries: text(count), keys: null, direction: "from", lines: false, pinned, limit: null, percent: true,
            weights: btoa(String.fromCharCode(...new Uint8Array(new Float32Array(count * count).fill(1 / count).buffer))),
        },
    });
    const count = () => parentElement.querySelectorAll(".token").length;
    const found = [];
    const first = call(20, [19]);
    parentElement.querySelector(".token").focus();
    parentElement.querySelector(".token").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    const second = call(10, [19]);
    first();
    found.push(count(), document.activeElement.textContent, parentElement.querySelector(".note").textContent);
    second();
    found.push(count());
    const third = call(5, []);
    found.push(count());
    third();
    return found;
}
"""


def test_calls_that_are_cleaned_up_late_or_find_fewer_tokens(show):
    parts = (
        "core/figures/text/tokens",
        "core/figures/text/text_view",
        "ui/components/clicks",
        "ui/components/token_view",
    )
    source = "\n".join((ROOT / f"{part}.js").read_text("utf-8") for part in parts)
    late, focused, note, gone, new = show().page.evaluate(_CALL_DIRECTLY, source)
    assert (late, gone, new) == (10, 0, 5)
    assert focused == "t1"
    assert "1 pinned token not in this part of the text" in note


def test_lines_follow_the_weights(show):
    view = show("/?lines=1")
    for seed in (0, 1):
        view.number("seed", seed).idle()
        drawn = weights(COUNT, COUNT, seed=seed)
        strongest = np.sort(drawn.ravel())[-200:]
        expected = 0.75 + 4.25 * strongest / strongest.max()

        def as_expected(expected: NDArray = expected) -> bool:
            read = view.page.locator(".columns path").evaluate_all(
                "all => all.map((path) => path.getAttribute('stroke-width'))"
            )
            return len(read) == len(expected) and np.allclose(np.array(read, dtype=float), expected, atol=0.01)

        view.until(as_expected, "the lines do not have the widths of the weights")  # the view is drawn after the page


# --- the text


def test_tokens_appear_as_typed(show):
    view = show("/?text=markup")
    view.tokens.nth(1).hover()
    shown = view.read()
    assert [token["text"] for token in shown] == [visible(token) for token in TEXTS["markup"]]
    assert [token["children"] for token in shown] == [[]] * len(shown)
    assert view.note.startswith("“<img src=x onerror=aler…” (1) attends most to “&lt;” (10)")
    assert view.page.locator(".view :is(img, b)").count() == 0
    hebrew = TEXTS["markup"].index("שלום")
    assert [token["direction"] for token in shown].index("rtl") == hebrew
    assert {token["bidi"] for token in shown} == {"isolate"}
    newline = TEXTS["markup"].index("\n")
    assert shown[newline]["left"] > shown[newline - 1]["left"]
    assert shown[newline + 1]["top"] > shown[newline]["bottom"] - 5
    assert shown[newline + 1]["left"] == pytest.approx(shown[0]["left"], abs=2)


@pytest.mark.parametrize(
    ("text", "joined", "apart"),
    [("spaces", [("Kath", "mand"), ("mat", ",")], [("The", "cat")]), ("pieces", [("sleep", "ing")], [("the", "cat")])],
)
def test_words_flow_and_pieces_join(show, text, joined, apart):
    boxes = {re.sub(r"^(##|·)", "", token["text"]): token for token in reversed(show(f"/?text={text}").read())}
    gaps = [boxes[after]["left"] - boxes[before]["right"] for before, after in joined]
    assert max(gaps) < 2
    if text == "pieces":  # in the other vocabulary the blank is a part of the token
        assert min(boxes[after]["left"] - boxes[before]["right"] for before, after in apart) > 3
    assert any(token["children"] == ["SPANquiet"] for token in boxes.values())


def test_texts_from_right_to_left_stand_beside_the_lines_too(show):
    view = show("/?text=markup&lines=1")
    hebrew = TEXTS["markup"].index("שלום")
    for name, edge in (("Queries", "right"), ("Keys", "left")):
        text = "token => { const range = document.createRange(); range.selectNodeContents(token); return range; }"
        ends = view.side(name).evaluate_all(
            f"all => all.map({text}).map((range) => range.getBoundingClientRect().{edge})"
        )
        assert ends[hebrew] == pytest.approx(ends[0], abs=2)


@pytest.mark.parametrize("path", ["/?count=200&lines=1", "/?text=markup"])
def test_nothing_overflows_on_a_phone(show, path):
    view = show(path, width=390)
    view.tokens.nth(1).hover()
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert view.page.locator(".scroll").evaluate("part => part.scrollWidth - part.clientWidth") <= 0
    assert view.page.locator(".scroll").bounding_box()["height"] <= 480
    assert max(token["right"] for token in view.read()) <= 390


def test_queries_and_keys_of_different_texts(show):
    view = show("/?text=pieces&keys=spaces")
    queries, keys = view.side("Queries"), view.side("Keys")
    drawn = weights(queries.count(), keys.count())
    queries.nth(4).hover()
    np.testing.assert_allclose(view.shades(keys), drawn[4] / drawn[4].max(), atol=0.01)
    keys.nth(6).hover()
    np.testing.assert_allclose(view.shades(queries), drawn[:, 6] / drawn[:, 6].max(), atol=0.01)
    keys.nth(6).click()  # the direction is "from": it is queries that are pinned
    view.idle()
    assert not any(token["selected"] == "true" for token in view.read())
    queries.nth(4).click()
    view.until(lambda: view.read(queries)[4]["selected"] == "true", "a query is not pinned")
    keys.nth(6).hover()
    assert f"“sleep” (4) attends to “,” (6): {100 * drawn[4, 6]:#.3g} %." in view.note


# --- lines


def test_lines_of_a_token_and_the_strongest_of_all(show):
    view = show("/?count=100&lines=1&mask=causal")
    drawn = weights(100, 100, is_causal=True)
    paths = view.page.locator(".columns path")
    assert paths.count() == 200
    assert "the 200 strongest of 5,050 pairs" in view.note
    queries, keys = view.side("Queries"), view.side("Keys")
    queries.nth(12).hover()
    expected = np.sort(drawn[12][drawn[12] >= 0.005])
    assert f"{len(expected)} of its 13 pairs, those of 0.5 % or more" in view.note
    widths = [
        float(width) for width in paths.evaluate_all("all => all.map((path) => path.getAttribute('stroke-width'))")
    ]
    np.testing.assert_allclose(widths, 0.75 + 4.25 * expected / expected.max(), atol=0.01)
    lines = paths.evaluate_all(
        "all => all.map((path) => path.getBoundingClientRect()).map((box) => [box.top, box.bottom])"
    )
    boxes = view.read(queries), view.read(keys)
    middle = [[(box["top"] + box["bottom"]) / 2 for box in side] for side in boxes]
    strongest = int(np.nanargmax(drawn[12]))
    ends = sorted([middle[0][12], middle[1][strongest]])
    np.testing.assert_allclose(lines[-1], ends, atol=4)
    keys.nth(50).hover()
    view.page.mouse.wheel(0, -5000)
    keys.nth(2).hover()
    assert paths.count() == np.count_nonzero(drawn[:, 2] >= 0.005)


def test_two_hundred_tokens_in_lines_can_be_reached(show):
    view = show("/?count=200&lines=1")
    view.side("Queries").first.focus()
    view.page.keyboard.press("End")
    assert "(199) attends most to" in view.note
    frame = view.page.locator(".scroll").bounding_box()
    last = view.side("Queries").nth(199).bounding_box()
    assert frame["y"] <= last["y"] <= frame["y"] + frame["height"] - last["height"]


# --- what the caller may ask for


@pytest.mark.parametrize(
    ("shape", "given", "options", "words"),
    [
        ((3, 4), (3, 3), {}, r"\(3, 3\).*3 query tokens and 4 key tokens"),
        ((257, 257), (257, 257), {}, "257.*at most 256"),
        ((2, 2), (2, 2), {"direction": "both"}, "both"),
    ],
)
def test_what_cannot_be_shown_is_refused(shape, given, options, words):
    with pytest.raises(ValueError, match=words):
        token_view(["a"] * shape[0], ["b"] * shape[1], np.zeros(given), key="view", **options)


def test_long_texts_are_made_of_words():
    assert tokens("spaces", 40)[16] == " The"
