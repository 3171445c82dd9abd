"""Presenting: nothing but pictures and what is said of them, in one screen; worked with keys; a talk, and the theme."""

import re
from functools import partial
from urllib.parse import parse_qs

import numpy as np
import pytest
from playwright.sync_api import expect

from core import PageView, save_page
from core.figures.heatmaps.frames import with_spotlight
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK
from tests.browser.addresses import drawn_by
from tests.browser.driver import GROUNDS, STILL, App, array, eventually, new_page
from tests.core.exporting.test_documents import drawing
from tests.core.lessons.test_query_key_value import weights_at
from tests.depth import thorough
from ui import state
from ui.gallery.views import CARDS
from ui.presenting import LETTERS
from ui.talk import Talk, to_file, view_at, view_of

SIZES = {(1280, 720): 18, (1920, 1080): 20}  # the window -> pixels of the smallest letters
PARIS = "what_if?model=SmolLM2-135M-Instruct&text=The+capital+of+France+is&layer=23&head=4&edit=mute+23.4"
VIEWS = ("step_by_step", "heads")
# These are drawn as those above are, so the window in which least fits is enough.
IN_SMALL = (
    PARIS,
    "softmax",
    "scaling?part=depth",
    "self_and_cross?part=model",
    "generation?model=written-dates&rows=steps",
)

NUMBERS = "[class*=st-key-told_number] strong"
ARE_LARGE = "(numbers, least) => numbers.every((one) => parseFloat(getComputedStyle(one).fontSize) >= least)"
MADE_FOR_THE_STAGE = ("step_by_step", "heads", "what_if")  # their pictures know how large they are there

# What is wrong on the screen: controls, scroll bars, letters that are small, cut, or on other letters. Where pictures are made
# for the stage: labels of an axis that are left out although all would fit, and a screen that is empty below.
WRONG = """
([least, isMadeForIt]) => {
    const wrong = [];
    const isSeen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getBoundingClientRect().width > 0;
    const named = (node) => (node.textContent || node.className || node.tagName).toString().trim().slice(0, 30);
    const controls = ".stAppHeader, .stMain input, .stMain textarea, .stMain button:not(.st-key-stage_place *), "
        + ".stMain [role=radiogroup], .stMain [data-testid=stCaptionContainer], .stMain summary, .stMain a[href]";
    for (const node of document.querySelectorAll(controls)) if (isSeen(node)) wrong.push(`a control: ${named(node)}`);
    for (const node of [document.scrollingElement, document.querySelector(".stMain")]) {
        if (node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth) wrong.push("it scrolls");
    }
    const words = [...document.querySelectorAll("[class*=st-key-told] p, [class*=st-key-told] h3")].filter(isSeen);
    const letters = [...document.querySelectorAll(".main-svg text, .infolayer text")].filter(isSeen);
    const boxes = [];
    for (const node of new Set([...words, ...letters])) {
        if (!node.textContent.trim()) continue;
        const box = node.getBoundingClientRect();
        const drawn = (isMadeForIt && node.getScreenCTM?.()) || { a: 1, b: 0 }; // Plotly makes the numbers of thin bars smaller
        const size = parseFloat(getComputedStyle(node).fontSize) * Math.hypot(drawn.a, drawn.b);
        const axis = node.closest(".xtick, .ytick")?.parentNode; // of up to 30 tokens each has its label, and may be smaller
        const areAll = axis?.children.length <= 30 && node.closest(".js-plotly-plot")._fullLayout.meta?.rows;
        if (size < (areAll ? Math.min(least, 7) : least) - 0.01) wrong.push(`${size} px: ${named(node)}`);
        if (box.left < -1 || box.top < -1 || box.right > innerWidth + 1 || box.bottom > innerHeight + 1) {
            wrong.push(`cut: ${named(node)}`);
        }
        // Slanted letters have boxes that overlap where they do not: their axes are looked at by themselves.
        if (!node.getAttribute("transform")?.includes("rotate(-") || node.matches("[class$=title]")) boxes.push([box, node]);
    }
    boxes.forEach(([one, node], place) => boxes.slice(place + 1).forEach(([other, second]) => {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        const overlaps = across > 2 && down > 0.3 * Math.min(one.height, other.height);
        if (overlaps && !node.contains(second)) wrong.push(`${named(node)} lies on ${named(second)}`);
    }));
    const charts = [...document.querySelectorAll("[class*=st-key-picture_] .js-plotly-plot")].filter(isSeen);
    if (!charts.length) wrong.push("there is no picture");
    if (!isMadeForIt) return [...new Set(wrong)];
    for (const chart of charts) {
        const { xaxis, yaxis } = chart._fullLayout;
        if (!chart.data.some((trace) => trace.type === "heatmap") || xaxis.showticklabels === false) continue;
        const columns = Math.round(xaxis.range[1] - xaxis.range[0]), rows = Math.round(yaxis.range[0] - yaxis.range[1]);
        const widest = xaxis.tickangle ? 1.5 : 0.65 * (1 + Math.max(...xaxis.ticktext.map((text) => text.length)));
        for (const [axis, count, letters] of [[xaxis, columns, widest], [yaxis, rows, 1.2]]) {
            const fit = axis._length / (letters * axis.tickfont.size);
            if (axis.ticktext.length < count && count <= Math.min(fit, 40)) {
                wrong.push(`${axis.ticktext.length} of ${count} labels, and ${fit.toFixed(1)} fit: ${axis.title.text}`);
            }
        }
    }
    const lowest = Math.max(0, ...charts.map((chart) => chart.getBoundingClientRect().bottom));
    if (lowest < 0.85 * innerHeight) wrong.push(`the pictures end at ${lowest}`);
    return [...new Set(wrong)];
}
"""


# No message with the stored talk arrives until the test lets it, as on a slow connection or with a busy server.
HOLDS_THE_TALK = """
window.WebSocket = class extends WebSocket {
    send(message) {
        if (window.arrives || !new TextDecoder().decode(message).includes('"found"')) super.send(message);
    }
};
"""

# As where a site may keep nothing.
KEEPS_NOTHING = """
Object.defineProperty(window, "localStorage", { get() { throw new DOMException("Access is denied", "SecurityError"); } });
"""

# The page has taken a minute to load, and sends the stored talk late. Then the window changes its size, and the browser is busy
# with drawing whenever it goes to a view: the next one is ready before the new size is sent.
BUSY = """
(() => {
    let height = 720;
    const now = performance.now.bind(performance);
    performance.now = () => now() + 60000;
    Object.defineProperty(window, "innerHeight", { get: () => height });
    window.WebSocket = class extends WebSocket {
        send(message) {
            if (this.held) return this.held.push(message);
            if (!new TextDecoder().decode(message).includes('"found"')) return super.send(message);
            this.held = [message]; // what is sent meanwhile comes after it, as in every connection
            setTimeout(() => {
                height = 900;
                for (const one of this.held) super.send(one);
                this.held = null;
                window.isSent = true;
            }, 2000);
        }
    };
    const dispatch = window.dispatchEvent.bind(window);
    window.dispatchEvent = (event) => {
        const until = performance.now() + 800, isDone = dispatch(event);
        while (event instanceof PopStateEvent && performance.now() < until);
        return isDone;
    };
})();
"""


def with_presenting(view: str) -> str:
    return f"/{view}{'&' if '?' in view else '?'}present=true"


def is_legible(app: App, view: str, *sizes: tuple[int, int]) -> App:
    """Presented in a window of each of these sizes, nothing is wrong with a view."""
    app.go(with_presenting(view))
    for width, height in sizes or SIZES:
        app.page.set_viewport_size({"width": width, "height": height})
        app.idle()
        least = SIZES.get((width, height), LETTERS)
        app.eventually(lambda least=least: app.page.evaluate(WRONG, [least, view.startswith(MADE_FOR_THE_STAGE)]), [])
    return app


@pytest.mark.thorough
def test_in_one_screen_with_large_letters(visit):
    """Only this test finds letters that are small, cut or on others once a view is drawn as large as the screen."""
    app, sizes = visit(with_presenting(VIEWS[0])), [*SIZES]
    for view in VIEWS:
        sizes.reverse()  # each view begins as large as the last one ended: that is drawn already
        is_legible(app, view, *sizes)
    for view in IN_SMALL:
        is_legible(app, view, min(SIZES))
        if view == PARIS:
            expect(app.page.locator(NUMBERS)).to_have_text(["77.3%", "14.1%"])
            app.eventually(lambda: app.page.locator(NUMBERS).evaluate_all(ARE_LARGE, 2 * min(SIZES.values())))


def test_keys_move_and_none_is_lost(visit):
    """All are pressed faster than pages run, also before there is a stage at all."""
    app = visit("/step_by_step?stage=query")

    def says(expected: str) -> None:
        app.eventually(lambda: app.said, parse_qs(expected))
        app.idle()

    def present(*keys: str) -> None:
        app.page.get_by_role("button", name="Present").click()
        app.keys(*keys)

    present("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight", "PageDown", "PageDown", "s")
    says("stage=mask&present=true&spot=row")
    expect(app.page.locator("[class*=st-key-told]").nth(1)).to_contain_text("Mask")
    app.keys("?")
    expect(app.page.get_by_role("dialog", name="Keys")).to_be_visible()
    app.keys("Escape", "s", "Escape", "s")  # the last one is for the desk, where it does nothing
    says("stage=mask")
    expect(app.widget("text").get_by_role("textbox")).to_be_visible()
    present("s", "Escape", "s")
    says("stage=mask")
    app.page.goto(f"{app.server.address}/heads?present=true&layer=0&head=0", wait_until="commit")
    app.page.wait_for_function("window.headlight")
    app.keys("ArrowDown", "ArrowDown", "ArrowRight", "PageDown")
    says("layer=2&head=2&present=true")
    app.is_well()


def press_at_once(app: App, *keys: str) -> None:
    """Press keys faster than any view comes, also on a busy machine, where one may come between two calls of the browser."""
    press_all = """keys => keys.forEach((key) =>
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })))"""
    app.page.evaluate(press_all, keys)


VIEWS_OF_A_TALK = (
    "heads?metric=entropy&layer=3&head=6",
    "heads?metric=sink&layer=0&head=2",
    "step_by_step?layer=1",  # head, stage and text as they open
    "softmax?scores=3%2C+1",
)


@thorough
def test_a_talk_without_a_network(visit):
    """It is made and replayed, and each view is what was saved; every request that leaves is noted as a problem by the driver.
    Only this test finds a view of a talk that differs from what was saved, or a key that is lost between views."""
    app = visit("/talk")
    add_views(app, *VIEWS_OF_A_TALK)
    app.click("Start")
    shows_view(app, 0)
    entries = app.settled(lambda: app.page.evaluate("history.length"))
    for key, place in (("PageDown", 1), ("PageUp", 0)):
        app.keys(key)
        shows_view(app, place)
    app.eventually(lambda: app.page.evaluate("history.length"), entries + 2)
    press_at_once(app, "PageDown", "PageUp", "PageDown", "PageDown", "ArrowRight")
    app.eventually(lambda: app.said.get("stage"), ["value"])
    app.eventually(lambda: app.page.evaluate("history.length"), entries + 2 + 2)  # those that were passed by are none
    app.keys("ArrowLeft", "n")
    shows_view(app, 2)
    expect(app.widget("stage_keys").locator(".notes")).to_contain_text("Next: Softmax")
    app.page.reload(wait_until="commit")  # the browser keeps the talk, and keys wait for it
    app.page.wait_for_function("window.headlight")
    app.keys("PageDown")
    shows_view(app, 3)
    app.keys("s")  # nothing can be lit in this view
    shows_view(app, 3)
    app.page.go_back()
    shows_view(app, 2)
    stage = app.page.locator(".stApp")
    expect(stage).to_have_css("cursor", "none")  # the pointer is hidden, and points at nothing, until it moves
    for place in (600, 640):  # the first is where it is, the second has moved
        app.page.mouse.move(place, 300)
    expect(stage).not_to_have_css("cursor", "none")
    app.keys("Escape")
    app.idle().page.get_by_role("button", name="Back to the talk, 3 of 4").click()
    shows_view(app, 2)


@pytest.mark.thorough
def test_a_busy_browser_does_not_go_back_to_the_view_before(visit):
    """Only this test finds a message of the view before that the server gets after the next view, which brought that view back,
    and a key that is lost because the page loads slowly."""
    app, link = visit("/talk"), "softmax?scores=3%2C+1"
    talk = to_file(Talk((view_at("", "step_by_step?layer=1"), view_at("", link))))
    app.page.evaluate("talk => localStorage.setItem('headlight-talk', talk)", talk.decode())
    busy = App(app.page.context, app.server)
    busy.page.add_init_script(BUSY)
    busy.page.goto(f"{app.server.address}/step_by_step?layer=1&present=true&talk=1", wait_until="commit")
    busy.page.wait_for_function("window.headlight")
    busy.keys("PageDown")
    expect(busy.widget("stage_keys").locator(".place")).to_have_text("2 / 2")
    busy.page.wait_for_function("window.isSent")
    busy.idle().shows(drawn_by(link)).eventually(
        lambda: busy.said, parse_qs(f"{link.partition('?')[2]}&present=true&talk=2")
    )
    assert not busy.is_well().problems
    busy.page.close()


@pytest.mark.thorough
def test_a_talk_of_cards(visit):
    """Only this test finds cards that lose their names, a view that draws nothing and counts as ready, and a stage without the
    finding of its view."""
    app = visit("/talk")
    offered = app.widget(state.CARDS_CHOSEN).get_by_role("button")
    expect(offered).to_have_text([card.title for card in CARDS.values()])
    leak, pronoun = CARDS["leak"], CARDS["pronoun"]
    app.toggle(state.CARDS_CHOSEN, leak.title).press_button(state.ADD_CARDS)
    has_views(app, leak.title)
    # That of the gallery, before anything is prepared.
    expect(app.page.locator("li img")).to_have_attribute("src", re.compile("^data:image/png"))
    app.go(f"/{view_of('', pronoun.page, {name: [word] for name, word in pronoun.address.items()}).link}")
    buttons = [app.page.get_by_role("button", name=name) for name in ("Add to talk", "Share")]
    app.eventually(  # nothing stands between them
        lambda: [button.bounding_box() for button in buttons],
        lambda boxes: (
            abs(boxes[0]["y"] - boxes[1]["y"]) < 2 and 0 <= boxes[1]["x"] - boxes[0]["x"] - boxes[0]["width"] < 20
        ),
    )
    buttons[0].click()
    has_views(app.idle().go("/talk"), leak.title, pronoun.title)
    expect(offered).to_have_count(0)

    add_views(app, "heads?model=nothing-of-that-name")
    notes = app.page.get_by_role("textbox", name="Notes").first
    written = "Ask first: which word is “it”?\nWait.\nThen press S.\nNext: Paris."
    notes.fill(written)
    app.eventually(lambda: notes.evaluate("field => field.scrollHeight <= field.clientHeight"))  # four lines have room
    notes.press("Control+Enter")
    app.click("Prepare").says("2 of 3 views are ready. Check these, which show a message or no picture: 3 (Heads).")
    app.idle().page.locator("[class*=st-key-remove_]").last.get_by_role("button").click()
    has_views(app, leak.title, pronoun.title)
    app.click("Start")
    told = app.page.locator("[class*=st-key-told]:visible")

    def says(finding: str) -> None:
        app.eventually(lambda: " ".join(" ".join(told.all_inner_texts()).split()), lambda said: finding in said)

    says("0.017 of the weight leaks")
    app.keys("n")
    expect(app.widget("stage_keys").locator(".notes")).to_contain_text(written)
    app.keys("PageDown")
    says("“it” gives 67.3% of its attention to “animal”.")


def add_views(app: App, *links: str) -> None:
    app.idle().page.locator("summary").click()
    for link in links:
        count = app.settled(lambda: len(titles(app)))
        app.write("new_view", f"https://example.org/below/{link}")
        app.eventually(lambda: len(titles(app)), count + 1)


def shows_view(app: App, place: int) -> None:
    expect(app.widget("stage_keys").locator(".place")).to_have_text(f"{place + 1} / {len(VIEWS_OF_A_TALK)}")
    view = VIEWS_OF_A_TALK[place]
    app.shows(drawn_by(view)).is_well()
    app.eventually(lambda: app.said, parse_qs(f"{view.partition('?')[2]}&present=true&talk={place + 1}"))


@pytest.mark.thorough
def test_a_talk_is_never_lost(visit):
    """Only this test finds a talk that is forgotten or taken by another window, a view without its picture, and a lost move."""
    app = visit("/softmax?scores=2%2C+1").click("Add to talk").says("Added to the talk")
    app.open("/talk")  # a new session, at once
    has_views(app, "Softmax")
    add_views(app, "softmax?scores=2%2C+1", "https://example.org/my%20page?utm-source=a&größe=2")
    views = "Softmax", "Softmax", "My page"
    pictures = app.widget(state.VIEW_ORDER).locator("li")
    app.eventually(
        lambda: pictures.locator("img").evaluate_all("all => all.map((one) => one.naturalWidth)"), [320, 320, 1]
    )
    pictures.last.press("ArrowLeft")
    has_views(app.keys("ArrowLeft"), "My page", "Softmax", "Softmax")
    pictures.first.drag_to(pictures.last)
    has_views(app, *views)

    other = App(app.page.context, app.server)  # another window of the same browser
    has_views(other.open("/talk"), *views)
    other.page.locator("[class*=st-key-remove_] button").first.click()
    has_views(app, *views[1:])
    app.complains("Another window has changed this talk")
    other.page.close()

    app.page.evaluate("localStorage.setItem('headlight-talk', '{\"format\": \"nonsense\"}')")
    app.open("/talk").complains("cannot be read or added").page.locator("summary").click()
    app.write("new_view", "http://[x").says("This is not a link").write("new_view", "/heads?layer=1")
    has_views(app, "Heads")

    app.eventually(lambda: kept(app), '{"format": "nonsense"}')
    with app.page.expect_download() as download:
        app.click("Save its file")
    assert download.value.path().read_text() == '{"format": "nonsense"}'
    app.click("Delete it").eventually(lambda: kept(app), lambda talk: "heads" in talk)


@pytest.mark.thorough
def test_what_is_added_before_the_browser_has_answered(visit):
    """Only this test finds a talk that is shown as empty while it is read, or that a view takes the place of."""
    app = visit("/talk").says("No views yet")  # the browser has answered
    add_views(app, "softmax?scores=2%2C+1")
    app.eventually(lambda: kept(app), lambda talk: "Softmax" in talk)

    slow = App(app.page.context, app.server)
    slow.page.add_init_script(HOLDS_THE_TALK)
    slow.open("/talk").says("Reading the talk that this browser keeps").never_says("No views yet")
    add_views(slow, "heads?layer=1")
    has_views(slow, "Heads")
    slow.eventually(lambda: kept(slow), lambda talk: "heads" not in talk)
    slow.page.evaluate("window.arrives = true")
    has_views(slow, "Softmax", "Heads")
    slow.eventually(lambda: kept(slow), lambda talk: "Softmax" in talk and "Heads" in talk)
    slow.never_says("Reading the talk").page.close()

    strict = App(app.page.context, app.server)  # it keeps nothing, and is not waited for
    strict.page.add_init_script(KEEPS_NOTHING)
    add_views(strict.open("/talk").says("No views yet"), "heads?layer=1")
    has_views(strict.says("This browser cannot store the talk (Access is denied"), "Heads")
    strict.page.close()


def kept(app: App) -> str:
    return app.page.evaluate("localStorage.getItem('headlight-talk') ?? ''")


def has_views(app: App, *expected: str) -> None:
    """Wait for the views: a new session hears of the browser's talk only after its first run."""
    app.eventually(lambda: titles(app), list(expected))


def titles(app: App) -> list[str]:
    return app.page.locator("[class*=st-key-title_] input").evaluate_all("fields => fields.map(field => field.value)")


@thorough
def test_the_theme_switch(visit):
    app = visit("/softmax?scores=3%2C+1")

    def has_theme(name):
        expect(app.page.get_by_role("button", name=f"Theme: {name}")).to_be_visible()
        expect(app.page.locator(".stApp")).to_have_css("background-color", GROUNDS[name])
        app.idle()

    expect(app.page.locator(".stApp")).to_have_css("background-color", GROUNDS["light"])
    for name in ("light", "dark"):
        with app.page.expect_navigation():
            app.page.get_by_role("button", name="Theme").click()
        has_theme(name)
    app.says_in_address(scores="3, 1").open("/exhibit")
    has_theme("dark")


SECOND_BARS = "document.querySelectorAll('.js-plotly-plot')[1].data[0].y"


@pytest.mark.thorough
def test_a_talk_in_one_file_opens_without_a_network_and_shows_what_its_pages_show(visit, browser, tmp_path):
    """Only this test finds a saved page that another browser cannot draw, or whose knobs show other numbers than the app's."""
    app = visit("/talk")
    add_views(app, "/softmax?scores=1%2C+2", "/query_key_value?angle=250")
    app.idle().page.get_by_role("button", name="Save as a page").click()
    app.says("2 of 2 views are ready.").idle()
    with app.page.expect_download() as download:
        app.page.get_by_role("button", name="Save as a page").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.stat().st_size < 3_000_000
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 720}, **STILL)
    page, asked, problems = new_page(context), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(path.as_uri())
    expect(page.locator("h1")).to_have_text("Softmax")
    expect(page.locator("label").first).to_have_text("Score 01")
    page.keyboard.press("PageDown")
    expect(page.locator("figcaption")).to_have_count(2)
    weights = weights_at(250)
    expect(page.get_by_text(f"weight {max(weights):.0%}")).to_be_visible()
    page.keyboard.press("ArrowRight")
    angle = page.locator("label span")
    # To the next of as many as this machine made.
    weights = weights_at(int(eventually(page, angle.inner_text, lambda text: text != "250")))
    expect(page.get_by_text(f"weight {max(weights):.0%}")).to_be_visible()
    eventually(page, lambda: array(page.evaluate(SECOND_BARS)), partial(np.allclose, weights))
    page.keyboard.press("a")
    expect(page.get_by_text("version of plotly")).to_be_visible()
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        eventually(page, lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert problems == []
    context.close()


@pytest.mark.thorough
def test_a_saved_page_has_the_spotlight_and_the_dark_ground_of_the_stage(browser, tmp_path):
    """Only this test finds a saved page whose light falls elsewhere than the app's, or that is white in a dark room."""
    drawings = {spot: drawing() for spot in ("row", "column", "cell", "none")}
    for spot, one in drawings.items():
        one.chart.layout["meta"]["pinned"] = [0, 2]
        with_spotlight(one.chart, spot)
    save_page([PageView("", pictures=[drawings["row"]])], tmp_path / "page.html")
    page = new_page(browser.new_context(color_scheme="dark", **STILL))
    page.goto((tmp_path / "page.html").as_uri())
    chart = "getComputedStyle(document.body).backgroundColor, document.querySelector('.js-plotly-plot')"
    shown = f"((ground, {{ data, layout }}) => [ground, data[0].colorscale, layout.shapes])({chart})"
    for one in drawings.values():
        expected = ["rgb(20, 23, 28)", DIVERGING_ON_DARK, one.chart.layout["shapes"]]
        eventually(page, lambda: page.evaluate(shown), expected)
        page.keyboard.press("s")
    page.keyboard.press("d")
    eventually(page, lambda: page.evaluate(shown)[:2], ["rgb(255, 255, 255)", DIVERGING])
    page.context.close()
