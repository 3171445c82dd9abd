"""The page Corpus in a browser: a head is chosen, its examples are filtered, and one is opened live with the same numbers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from core import capture
from core.corpus.opened import Run, open_run
from core.heads.metrics import METRICS
from tests.browser.driver import App
from tests.browser.test_accessible import RULES, found
from tests.browser.test_presenting import SIZES, WRONG
from tests.core.corpus.made_runs import SENTENCES, add_map, made_run
from ui import state
from ui.views.corpus import results

pytestmark = pytest.mark.usefixtures("run")
GRID = "heads of the corpus"


@pytest.fixture(scope="module")
def run(minilm, corpora: Path) -> Iterator[Run]:
    folder = made_run(corpora / "sentences", minilm)
    add_map(folder)
    yield open_run(folder)
    shutil.rmtree(folder)


def heading(app: App, layer: int, head: int) -> None:
    app.page.get_by_role("heading", name=f"Layer {layer}, head {head}").wait_for()
    app.idle()


def test_a_head_is_chosen_filtered_and_opened_live(visit, run, minilm):
    """Only this test finds an example whose stored weights are not those of the page that it opens."""
    app = visit("/corpus?metric=previous")
    app.shows({GRID: run.means("previous")})
    app.click_cell(GRID, 2, 9)
    heading(app, 2, 9)
    assert app.picture(GRID).pinned == (2, 9)
    app.page.keyboard.press("ArrowRight")  # whoever has clicked goes on with the keys
    heading(app, 2, 10)
    app.choose(state.METRIC, "Spread: Largest elsewhere").idle()
    app.shows({GRID: run.means("elsewhere")})

    app.press(state.KEPT, "From a random sample").idle()
    upper = app.widget(state.QUANTILES).get_by_role("slider").first
    upper.focus()
    for _ in range(4):
        upper.press("PageUp")

    def named() -> str:
        return parse_qs(urlsplit(app.address).query).get(state.QUANTILES, [""])[0]

    low = 40  # four tenths of the way
    app.until(lambda: named() == str(low), lambda: f"the address names {named()!r}")
    sample = run.sample(2, 10)
    found = sample.examples(sample.ordered("elsewhere", low / 100, 1)[:1], "elsewhere")[0]
    first = app.widget(state.one_of(state.SHADED, 0))
    app.until(lambda: first.locator(".token").count() == len(found.tokens), "the first example is another one")

    # What is shaded is what is said, token by token.
    query = first.locator(".token.pinned")
    assert query.count() == 1
    assert f"position {found.query}" in (query.get_attribute("aria-label") or "")
    best = int(np.argmax(found.weights))
    label = first.locator(".token").nth(best).get_attribute("aria-label") or ""
    assert f"{found.weights[best] * 100:.3g}"[:4] in label
    first.locator(".token").nth(best).hover()
    note = first.locator(".note")
    app.until(lambda: "attends to" in note.inner_text(), lambda: note.inner_text())
    app.page.mouse.move(0, 0)
    query.focus()
    query.press("Home")
    app.until(lambda: f"(0): {percent(found.weights[0])}" in note.inner_text(), lambda: note.inner_text())
    heading(app, 2, 10)  # the grid has not moved

    app.page.get_by_role("link", name="Open live").first.click()
    app.page.get_by_role("heading", name="Layer 2, head 10").wait_for(timeout=60_000)
    taken = capture(minilm, found.text)
    weights = taken.trace(2, 10).weights
    app.shows({"head": weights}).idle()
    assert taken.tokens("self")[1] == found.tokens
    np.testing.assert_allclose(weights[found.query], found.weights, atol=1e-6)
    assert app.picture("head").pinned == (found.query, best)


FIRST_SCREEN = """
(name) => [...document.querySelectorAll(`.st-key-${name} .js-plotly-plot`)].map((chart) => {
    const box = chart.getBoundingClientRect();
    return [box.top, box.bottom];
})[0]
"""


def test_it_opens_on_what_stands_out_in_the_included_run(visit):
    """Whatever runs this host has. The sentence and the picture are on the first screen."""
    app = visit("/corpus")
    app.page.set_viewport_size({"width": 1280, "height": 720})
    included = open_run(results.INCLUDED)
    finding = app.page.get_by_role("heading", name=re.compile(r"^Head \d+\.\d+ gives [\d.]+% of its attention to"))
    layer, head = map(int, re.findall(r"\d+", finding.inner_text())[:2])
    means = included.means(next(one.name for one in METRICS if f"attention to {one.likeness}," in finding.inner_text()))
    assert means[layer, head] == means.max()
    assert f"{means.max():.1%}" in finding.inner_text()
    app.idle()
    top, bottom = app.page.evaluate(FIRST_SCREEN, state.picture(GRID))
    assert finding.bounding_box()["y"] < top < bottom <= 720


def test_a_pasted_text_is_run_stopped_and_gone_on_with(visit):
    """Only this test finds a run over a text of one's own that the server goes on with after Stop, or begins anew."""
    app = visit("/corpus")
    text = "\n".join(f"{number}: {sentence}" for number in range(50) for sentence in SENTENCES)
    app.unfold("Your own text").write(state.OWN_TEXT, text)
    app.page.get_by_role("button", name="Run", exact=True).click()
    stop, goes_on = (app.page.get_by_role("button", name=name, exact=True) for name in ("Stop", "Continue"))

    def stopped() -> tuple[int, int]:
        app.page.get_by_text(re.compile(r"Reading pasted\.txt")).first.wait_for(
            timeout=60_000
        )  # its tokens are counted before
        stop.click(timeout=60_000)
        note = app.page.get_by_text(re.compile(r"passages of pasted\.txt read\."))
        note.wait_for()
        app.idle(1)
        done, of = re.findall(r"(\d+) of (\d+) passages", note.inner_text())[0]
        return int(done), int(of)

    first, total = stopped()
    assert 0 < first < total
    goes_on.click()
    second, _ = stopped()
    assert first < second < total
    goes_on.click()
    app.page.get_by_text("pasted.txt", exact=False).filter(has_text="has read").wait_for(timeout=120_000)
    app.idle()
    assert f"in {total} passages of 1 file: pasted.txt" in app.page.locator("body").inner_text()
    assert parse_qs(urlsplit(app.address).query)[state.RUN] == [state.RUN_OWN]


def percent(weight: float) -> str:
    """As the browser says it: three significant digits."""
    share = 100 * float(weight)
    return "under 0.001" if share < 0.001 else re.sub(r"e[-+]\d+$", "", f"{share:#.3g}")


def test_a_click_on_the_map_opens_the_nearest_head(go, run):
    app = go("/corpus?heads_as=map&layer=0&head=0")
    heading(app, 0, 0)
    app.click_near(GRID, float(run.map.heads["x"][27]), float(run.map.heads["y"][27]))
    heading(app, *run.heads[27])


def test_tokens_stay_text_and_a_link_opens_the_same(visit, run):
    app = visit("/corpus?run=sentences&metric=entropy&layer=4&head=0")
    texts = app.page.locator(f"[class*=st-key-{state.one_of(state.SHADED, '')}] .tokens")
    app.until(lambda: texts.count() == 10, "there are no ten examples")
    examples = run.strongest(4, 0, "entropy", 0, 10)
    shown = ["".join(one.split()) for one in texts.all_inner_texts()]
    assert shown == ["".join(one.tokens) for one in examples]
    assert any("<b>" in text.replace("##", "") or "<" in text for text in shown)
    assert app.page.locator(".tokens b, .tokens i, .tokens em").count() == 0
    assert "<b>" in SENTENCES[2]
    assert app.page.get_by_text("sentences <b>.txt").first.is_visible()
    again = visit(app.address)
    heading(again, 4, 0)


def test_axe_finds_nothing(go):
    app = go("/corpus")
    for looks in ("kept=spread", "looks=relation", "heads_as=map&looks=distance&tables=true"):
        app.go(f"/corpus?metric=previous&layer=2&head=9&{looks}")
        assert found(app, {"type": "tag", "values": RULES}) == []
    app.page.emulate_media(color_scheme="dark")
    assert found(app.idle(), {"type": "rule", "values": ["color-contrast"]}) == []
    app.page.emulate_media(color_scheme="null")


def test_presented_it_is_one_screen_with_large_letters(go):
    app = go("/corpus")
    for looks in ("kept=spread&metric=previous&layer=2&head=9", "heads_as=map&looks=distance"):
        app.go(f"/corpus?present=true&{looks}")
        for (width, height), least in SIZES.items():
            app.page.set_viewport_size({"width": width, "height": height})
            assert app.idle(0.4).page.evaluate(WRONG, [least, False]) == [], f"{looks} at {width} x {height}"
