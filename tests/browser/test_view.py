"""The view of arrays in a browser without a network: opened from a file, and within a notebook's page."""

import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Frame, Locator, Page, expect

from core import view
from core.figures.palette import SEQUENTIAL, colours_of
from core.notebook.view import View
from tests.browser.driver import STILL, Chromium, eventually, new_page
from tests.browser.test_accessible import RULES
from tests.depth import thorough
from ui import state

TOKENS = ["The", " <b>cat</b>", " sat", "<img src=x onerror=alert(1)>", " on", " $x$", " the", " mat"]
WEIGHTS = np.random.default_rng(0).dirichlet(np.full(8, 0.3), (3, 4, 8)).astype(np.float32)
NOTEBOOK = '<!doctype html><html lang="en"><title>Notebook</title><body style="background: {}">{}</body>'


# Where outputs of notebooks stand, as far as it matters here: the sandbox of the frame, the policy and the styles in it.
# VS Code's outputs are in a page of their own origin, whose ground is transparent and whose policy is that of
# backLayerWebView.ts; Colab's in one of another origin; nteract and others give theirs no origin at all.
POLICY = (
    "default-src 'none'; script-src vscode-resource: 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src https: http: data:; font-src https:; connect-src https:; child-src https: data:"
)
SANDBOXES = {
    "VS Code": ("allow-same-origin allow-pointer-lock allow-scripts allow-downloads", POLICY, "color: #cccccc"),
    "no origin": ("allow-scripts", "", "background: #111111; color: #cccccc"),
}


@pytest.fixture
def opened(browser: Chromium, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens a page from a file, with nothing to be reached beyond it; in the end no script may have failed."""
    wrong: list[str] = []
    with browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, **STILL) as context:
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        context.on("console", lambda message: wrong.extend([message.text] * (message.type == "error")))
        context.on("dialog", lambda dialog: wrong.append(dialog.message))

        def open_page(page_of: str) -> Page:
            file = tmp_path / "page.html"
            file.write_text(page_of, "utf-8")
            page = new_page(context)
            page.goto(file.as_uri())
            expect(page.frames[-1].locator("h3.chosen")).not_to_be_empty()
            return page

        yield open_page
    assert wrong == []


def cell(page: Page, frame: Page | Frame, query: int, key: int) -> dict[str, float]:
    """The middle of a cell of the heatmap, in pixels of its canvas: cells of 40, and 8 beyond the last one."""
    canvas = frame.locator("canvas").nth(1)
    drawn = eventually(page, lambda: canvas.evaluate("canvas => canvas.clientWidth"), lambda width: width > 328)
    return {"x": drawn - 8 * 40 - 8 + 40 * (key + 0.5), "y": 40 * (query + 0.5)}


def says(page: Page, frame: Page | Frame, layer: int, head: int, query: int, key: int) -> None:
    """That the view tells the exact weight of a pair."""
    expect(frame.locator("h3.chosen")).to_have_text(f"Layer {layer}, head {head}")
    said = frame.locator(".said")
    expect(said).to_contain_text(f"({query}) → “")
    expect(said).to_contain_text(f"({key}): ")
    weight, step = float(WEIGHTS[layer, head, query, key]), float(WEIGHTS[layer, head].max()) / 65_535
    is_exact(page, said, weight, 2 * step)


def is_exact(page: Page, said: Locator, weight: float, most: float) -> None:
    def is_within(words: str) -> bool:
        number, margin = map(float, words.split(" ± "))
        return abs(number - weight) <= margin <= most

    eventually(page, said.locator("b").inner_text, is_within)


def has_its_colour(page: Page, weights: np.ndarray, query: int, key: int) -> None:
    """The heatmap by its pixels: the square root of the weight, as a share of the largest, on the scale of all figures."""
    pixel = (
        "({x, y}) => [...document.querySelectorAll('canvas')[1].getContext('2d').getImageData(x + 9, y + 9, 1, 1).data]"
    )
    at = cell(page, page, query, key)
    share = np.sqrt(weights[query, key] / weights.max())
    (colour,) = colours_of(np.array([share]), SEQUENTIAL)
    expected = [float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    eventually(page, lambda: page.evaluate(pixel, at)[:3], pytest.approx(expected, abs=4))


def test_colours_are_those_of_the_weights_and_it_is_read_by_mouse_and_by_keyboard(opened):
    page = opened(view(WEIGHTS, TOKENS, head=(1, 2)).page)
    for query, key in ((0, 0), (2, 5), (7, 3)):
        has_its_colour(page, WEIGHTS[1, 2], query, key)
    matrix, text = page.locator("canvas").nth(1), page.get_by_role("listbox")
    expect(page.locator("h3:has-text('All heads') + .aside")).to_contain_text("100%, by the square root")
    matrix.hover(position=cell(page, page, 3, 6))
    says(page, page, 1, 2, 3, 6)
    expect(page.locator(".said")).to_contain_text("“<img src=x onerror=aler…”")
    expect(page.locator("img, .tokens b")).to_have_count(0)
    expect(text.locator(".pointed")).to_have_text(TOKENS[3])
    matrix.click(position=cell(page, page, 5, 1))
    says(page, page, 1, 2, 5, 1)
    text.get_by_role("option").nth(2).click()
    page.mouse.move(5, 5)
    says(page, page, 1, 2, 2, 1)
    best = int(WEIGHTS[1, 2, 2].argmax())
    expect(page.locator(".note")).to_contain_text(f"attends most to “{TOKENS[best].strip()[:23]}")
    expect(page.locator(".note")).to_contain_text(f"({best}): {100 * WEIGHTS[1, 2, 2].max():#.3g}%")

    page.get_by_role("application", name="All heads").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):  # the grid ends with layer 2
        page.keyboard.press(key)
    says(page, page, 2, 3, 2, 1)
    page.get_by_role("application", name="Weights").press("ArrowRight")
    says(page, page, 2, 3, 2, 2)
    page.get_by_role("combobox", name="Layer").select_option("0")
    says(page, page, 0, 3, 2, 2)
    page.locator("canvas").first.click(position={"x": 30 + 32, "y": 30 + 2 * 64 + 32})
    says(page, page, 2, 0, 2, 2)


@pytest.mark.parametrize("ground", ["#111111", pytest.param("#ffffff", marks=pytest.mark.thorough)])
def test_in_a_notebook_it_fits_the_theme_and_axe_finds_nothing(opened, ground, monkeypatch):
    monkeypatch.setattr("core.notebook.view.HEIGHT", 100)
    given = np.random.default_rng(0).dirichlet(np.full(11, 0.3), (3, 4, 8)).astype(np.float32)
    given[2, 1] *= 0.5
    shown: View = view(given, (TOKENS, [f"key{place}" for place in range(11)]), head=(2, 1))
    page = opened(NOTEBOOK.format(ground, shown._repr_html_()))
    frame = page.frames[1]
    expect(frame.locator("h3.chosen + .aside")).to_contain_text("Its rows sum to 0.5, not 1.")
    expect(frame.locator(".notes")).to_contain_text("Rows do not sum to 1 in 1 of 12 heads: head 2.1 (0.5)")
    frame.get_by_role("listbox", name="Queries").get_by_role("option").nth(6).click()
    tenth = frame.get_by_role("listbox", name="Keys").get_by_role("option").nth(10)
    share = float(given[2, 1, 6, 10])
    expect(tenth).to_have_attribute("aria-label", f"key10, position 10, {100 * share:#.3g}%")
    colour = f"rgb({', '.join(str(int(ground[place : place + 2], 16)) for place in (1, 3, 5))})"
    html = frame.locator("html")
    expect(html).to_have_css("background-color", colour)
    beyond = "({ scrollHeight, scrollWidth }) => [scrollHeight - innerHeight, scrollWidth - innerWidth]"
    eventually(page, lambda: html.evaluate(beyond), lambda found: max(found) <= 0)  # nothing is cut off

    def found() -> list[tuple]:
        response = Axe().run(page, options={"runOnly": RULES, "resultTypes": ["violations"]}).response
        nodes = [(one["id"], node) for one in response["violations"] for node in one["nodes"]]
        return [(name, node["html"]) for name, node in nodes if len(node["target"]) > 1]  # in the frame

    eventually(page, found, [])
    page.set_viewport_size({"width": 400, "height": 900})
    eventually(page, lambda: html.evaluate(beyond)[1], lambda wider: wider <= 0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SANDBOXES)
def test_it_works_in_the_sandboxes_of_other_notebooks(opened, name):
    sandbox, policy, style = SANDBOXES[name]
    shown = json.dumps(view(WEIGHTS, TOKENS, head=(1, 2))._repr_html_()).replace("</", "<\\/")
    inside = (
        f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{policy}"><body style="{style}">'
        f'<div id="cell"></div><script>document.getElementById("cell").innerHTML = {shown}</script>'
    )
    page = opened(
        f'<!doctype html><html lang="en"><title>Notebook</title><body><iframe sandbox="{sandbox}" title="Output" '
        f'srcdoc="{html.escape(inside)}" style="width: 1200px; height: 900px"></iframe>'
    )
    frame = page.frames[-1]
    frame.locator("canvas").nth(1).hover(position=cell(page, frame, 3, 6))
    says(page, frame, 1, 2, 3, 6)
    frame.get_by_role("application", name="All heads").press("ArrowRight")
    expect(frame.locator("h3.chosen")).to_have_text("Layer 1, head 3")
    if name == "VS Code":  # a frame of the same origin takes the notebook's colours and the height of what is in it
        expect(frame.locator("html")).to_have_class("dark")
        fits = "document.documentElement.scrollHeight <= innerHeight && innerHeight !== 760"
        eventually(page, lambda: frame.evaluate(fits))


@pytest.mark.thorough
def test_a_pooled_view_names_the_tokens_of_a_cell(opened, monkeypatch):
    monkeypatch.setattr("core.notebook.view.MAX_SIDE", 4)
    page = opened(view(WEIGHTS, TOKENS).page)
    matrix = page.get_by_role("application", name="Weights")
    matrix.focus()
    for key in ("ArrowUp",) * 3 + ("ArrowLeft",) * 3 + ("ArrowRight",):
        page.keyboard.press(key)
    expect(page.locator(".said")).to_contain_text("(0–1) → “sat<img")
    expect(page.locator(".said")).to_contain_text("(2–3): largest ")
    is_exact(page, page.locator(".said"), float(WEIGHTS[0, 0, :2, 2:4].max()), np.inf)
    expect(page.locator(".notes")).to_contain_text("Each cell is the largest of 2 × 2 weights.")


@thorough
def test_the_app_opens_a_file_of_weights(visit, tmp_path):
    given = WEIGHTS.copy()
    given[2, 1] *= 0.5
    file = tmp_path / "attentions.npz"
    np.savez_compressed(file, attentions=given, tokens=np.array(TOKENS))
    app = visit("/exhibit").upload(state.EXHIBIT_FILE, file)
    app.shows({"exposed weights": given[0, 0]}).choose(state.HEAD_BOX, "Head 2.1").reaches("/heads")
    app.shows({"exposed weights": given[2, 1]}).idle().click_cell("atlas", 2, 0)
    app.shows({"exposed weights": given[2, 0]}).pins("atlas", 2, 0).idle().click_cell("atlas", 2, 1)
    app.shows({"exposed weights": given[2, 1]}).idle().click_cell("exposed weights", 3, 1)
    said = app.page.get_by_text(f"gives {given[2, 1, 3, 1]:.1%} of its attention to")
    expect(said).to_contain_text("“<img src=x onerror=alert(1)>” gives")
    expect(app.page.get_by_text("The rows of this head sum to 0.5, not 1.")).to_be_visible()
    app.complains("Rows do not sum to 1 in 1 of 12 heads: head 2.1 (0.5).")
