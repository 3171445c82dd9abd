"""The page Corpus in a browser: a head is chosen, its examples are filtered, and one is opened live with the same numbers."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from core import capture
from core.corpus.opened import Run, open_run
from tests.browser.driver import SLOW_BROWSER, App
from tests.browser.test_accessible import RULES, finds_nothing
from tests.browser.test_presenting import is_legible
from tests.core.corpus.made_runs import SENTENCES, add_map, made_run
from ui import state

pytestmark = pytest.mark.usefixtures("run")
GRID = "heads of the corpus"


@pytest.fixture(scope="module")
def run(minilm, corpora: Path) -> Iterator[Run]:
    folder = made_run(corpora / "sentences", minilm)
    add_map(folder)
    yield open_run(folder)
    shutil.rmtree(folder)


def heading(app: App, layer: int, head: int) -> App:
    expect(app.page.get_by_role("heading", name=f"Layer {layer}, head {head}", exact=True)).to_be_visible()
    return app.idle()


@pytest.mark.thorough
def test_a_head_is_chosen_filtered_and_opened_live(visit, run, minilm):
    """Only this test finds an example whose stored weights are not those of the page that it opens."""
    app = visit("/corpus?metric=previous")
    app.shows({GRID: run.means("previous")})
    heading(app.click_cell(GRID, 2, 9), 2, 9).pins(GRID, 2, 9)
    app.page.keyboard.press("ArrowRight")  # whoever has clicked goes on with the keys
    heading(app, 2, 10).choose(state.METRIC, "Spread: Largest elsewhere")
    app.shows({GRID: run.means("elsewhere")}).press(state.KEPT, "From a random sample")
    upper = app.idle().widget(state.QUANTILES).get_by_role("slider").first
    for _ in range(4):
        upper.press("PageUp")
    low = 40  # four tenths of the way
    app.eventually(lambda: app.said.get(state.QUANTILES, [""])[0], str(low))
    sample = run.sample(2, 10)
    found = sample.examples(sample.ordered("elsewhere", low / 100, 1)[:1], "elsewhere")[0]
    first, best = app.widget(state.one_of(state.SHADED, 0)), int(np.argmax(found.weights))
    expect(first.locator(".token")).to_have_count(len(found.tokens))

    # What is shaded is what is said, token by token.
    query, token, note = first.locator(".token.pinned"), first.locator(".token").nth(best), first.locator(".note")
    expect(query).to_have_attribute("aria-label", re.compile(rf"position {found.query}\b"))
    expect(token).to_have_attribute("aria-label", re.compile(re.escape(f"{found.weights[best] * 100:.3g}"[:4])))
    app.idle()
    token.hover()
    expect(note).to_contain_text("attends to")
    app.page.mouse.move(0, 0)
    query.focus()
    query.press("Home")
    expect(note).to_contain_text(f"(0): {percent(found.weights[0])}")
    heading(app, 2, 10)  # the grid has not moved

    app.page.get_by_role("link", name="Open live").first.click()
    taken = capture(minilm, found.text)
    weights = taken.trace(2, 10).weights
    heading(app.reaches("/heads"), 2, 10).shows({"head": weights}).pins("head", found.query, best)
    assert taken.tokens("self")[1] == found.tokens
    np.testing.assert_allclose(weights[found.query], found.weights, atol=1e-6)


@pytest.mark.thorough
def test_a_pasted_text_is_run_stopped_and_gone_on_with(visit):
    """Only this test finds a run over a text of one's own that the server goes on with after Stop."""
    app = visit("/corpus")
    count = round(30 * SLOW_BROWSER)  # so many that a slow browser sees them being read
    text = "\n".join(f"{number}: {sentence}" for number in range(count) for sentence in SENTENCES)
    app.unfold("Your own text").write(state.OWN_TEXT, text).click("Run")
    note = app.page.get_by_text(re.compile(r"passages of pasted\.txt read\."))

    reading = app.page.get_by_text(re.compile(r"Reading pasted\.txt: passage \d+")).first
    expect(reading).to_be_visible()
    app.button("Stop").click()

    def counts() -> list[int]:
        return [int(count) for count in re.findall(r"(\d+) of (\d+) passages", note.inner_text())[0]]

    _, total = app.eventually(counts, lambda counts: counts[0] < counts[1])
    app.click("Continue")
    expect(app.page.get_by_text("pasted.txt").filter(has_text="has read")).to_be_visible()
    app.says(f"in {total} passages of 1 file: pasted.txt")
    app.eventually(lambda: app.said[state.RUN], [state.RUN_OWN])


def percent(weight: float) -> str:
    """As the browser says it: three significant digits."""
    share = 100 * float(weight)
    return "under 0.001" if share < 0.001 else re.sub(r"e[-+]\d+$", "", f"{share:#.3g}")


@pytest.mark.thorough
def test_a_click_on_the_map_opens_the_nearest_head(go, run):
    """The head that stands farthest from all others, so that no other one is the nearest while the picture finds its size."""
    app, places = heading(go("/corpus?heads_as=map&layer=0&head=0"), 0, 0), run.map.heads[["x", "y"]].to_numpy(float)
    apart = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(len(places), np.inf))
    chosen = int(apart.min(axis=1).argmax())
    assert run.heads[chosen] != (0, 0)
    x, y = places[chosen].tolist()
    heading(app.click_cell(GRID, y, x), *run.heads[chosen])


@pytest.mark.thorough
def test_tokens_stay_text(go, run):
    app = go("/corpus?run=sentences&metric=entropy&layer=4&head=0")
    texts = app.page.locator(f"[class*=st-key-{state.one_of(state.SHADED, '')}] .tokens")
    shown = ["".join(one.tokens) for one in run.strongest(4, 0, "entropy", 0, 10)]
    app.eventually(lambda: ["".join(one.split()) for one in texts.all_inner_texts()], shown)
    assert any("<" in text for text in shown)
    assert "<b>" in SENTENCES[2]
    expect(app.page.locator(".tokens").locator("b, i, em")).to_have_count(0)
    expect(app.page.get_by_text("sentences <b>.txt").first).to_be_visible()


@pytest.mark.thorough
def test_axe_finds_nothing_and_presented_it_is_one_screen_with_large_letters(go):
    """Of what test_fitting.py does not see as the page opens."""
    for looks in ("kept=spread&looks=relation", "heads_as=map&looks=distance&tables=true"):
        app = go(f"/corpus?metric=previous&layer=2&head=9&{looks}")
        finds_nothing(app, {"type": "tag", "values": RULES})
    finds_nothing(app.in_scheme("dark"), {"type": "rule", "values": ["color-contrast"]})
    app.in_scheme("light")
    is_legible(app, "corpus?kept=spread&metric=previous&layer=2&head=9", (1280, 720))
    is_legible(app, "corpus?heads_as=map&looks=distance", (800, 600))
