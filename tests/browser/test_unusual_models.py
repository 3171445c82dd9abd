"""Models of one's own in a browser: a folder whose path is typed, a picture that is uploaded, weights without a certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers as t
from PIL import Image, ImageDraw

from core import capture, load_model
from core.capturing.weights_only import attention_weights
from core.heads.metrics import head_metrics
from core.models.images import read_image
from tests.browser.driver import App
from tests.core.tiny_models import VIT, WEIGHTS_ONLY, number_words, randomised
from ui import state

SENTENCE = "The animal didn't cross the street because it was too tired."
NUMBERS = "5 17 8 5 17 8 9 40 3 21"
WIDTH, HEIGHT, ROWS, COLUMNS = 480, 320, 5, 6
PICTURE, SHOWN = "On the picture", "exposed weights"

# Where an image inside a chart is on the screen: left, top, width, height.
_BOX = """
([key, layer]) => {
    const image = document.querySelector(`.st-key-${key} ${layer} image`);
    if (!image) return null;
    const box = image.getBoundingClientRect();
    return [box.left, box.top, box.width, box.height];
}
"""


@pytest.fixture(scope="module")
def vit(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    size = {"image_size": [4 * ROWS, 4 * COLUMNS]}
    randomised(t.ViTModel(t.ViTConfig(**VIT | size))).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gptj(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gptj")
    randomised(WEIGHTS_ONLY["GPT-J"]()).save_pretrained(folder)
    number_words().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    image = Image.new("RGB", (WIDTH, HEIGHT), "skyblue")
    draw = ImageDraw.Draw(image)
    draw.rectangle([0, 210, WIDTH, HEIGHT], fill="green")
    draw.rectangle([90, 130, 230, 240], fill="brown")
    draw.ellipse([330, 30, 410, 110], fill="gold")
    file = tmp_path_factory.mktemp("pictures") / "house.png"
    image.save(file)
    return file


def type_path(app: App, folder: Path) -> App:
    """Type a model's folder into the model's field."""
    field = app.widget(state.MODEL).get_by_role("combobox")
    field.fill(str(folder))
    field.press("Enter")
    app.until(lambda: app.value(state.MODEL) == str(folder), "the path is not taken over")
    return app.idle()


def upload(app: App, file: Path) -> App:
    app.widget(state.IMAGE).locator("input[type=file]").set_input_files(str(file))
    app.widget(state.HEAD_BOX).wait_for()
    return app.idle()


def visit_page(app: App, name: str) -> App:
    app.page.get_by_role("link", name=name, exact=True).click()
    path = {"Heads": "/heads", "Step by step": "/step_by_step"}[name]
    app.until(lambda: app.page.url.partition("?")[0].endswith(path), f"{name} does not open")
    return app.idle()


def traces(vit: Path, file: Path):
    return capture(load_model(vit), image=read_image(file.read_bytes())).trace


def on_patches(weights: np.ndarray) -> np.ndarray:
    return weights[1:].reshape(ROWS, COLUMNS)


def test_a_picture_from_its_upload_to_the_attention_of_a_patch(
    visit: Callable[..., App], vit: Path, house: Path
) -> None:
    """Only this test finds a picture whose patches are not those that the page marks."""
    app = visit("/heads")
    upload(type_path(app, vit), house)
    trace = traces(vit, house)
    app.shows({"head": trace(0, 2).weights})  # the head that the page opens with
    assert app.tokens("head", "y")[:2] == ["[CLS]", "patch 0,0"]
    app.press(state.SHOWN_AS, PICTURE).idle().click_cell("patches", 3, 1).idle()
    query = 1 + 3 * COLUMNS + 1
    assert app.place(state.QUERY) == query
    app.shows({"patches": on_patches(trace(0, 2).weights[query])})
    assert app.picture("patches").pinned == (3, 1)
    app.click_cell("atlas", 1, 2).idle()
    app.shows({"patches": on_patches(trace(1, 2).weights[query])})
    assert app.value(state.HEAD_BOX) == "Head 1.2"
    assert app.picture("patches").pinned == (3, 1)
    app.page.get_by_text("Agrees with the model").wait_for()


def test_patches_lie_on_the_picture_in_its_proportions(visit: Callable[..., App], vit: Path, house: Path) -> None:
    app = visit(f"/heads?metric=sink&model={vit}&as={PICTURE}")
    upload(app, house).picture("patches")
    for width in (1280, 700):
        app.page.set_viewport_size({"width": width, "height": 900})
        key = state.picture("patches")
        picture, patches = (app.idle().page.evaluate(_BOX, [key, layer]) for layer in (".imagelayer", ".heatmaplayer"))
        assert picture == pytest.approx(patches, abs=1.5)
        assert picture[2] / picture[3] == pytest.approx(WIDTH / HEIGHT, rel=0.01)
        assert picture[2] > 250


def test_a_region_is_drawn_on_the_picture_and_hidden(visit: Callable[..., App], vit: Path, house: Path) -> None:
    app = visit(f"/what_if?model={vit}")
    upload(app, house).picture("patches")
    app.click_cell("patches", 3, 1, to=(1, 2)).idle()
    app.page.get_by_role("button", name="Hide the region").click()
    app.until(lambda: "edit=block+key+8-9+14-15+20-21" in app.address, "the region is not hidden")
    assert np.isnan(app.idle().picture("patches").values[1:4, 1:3]).all()
    assert not app.alerts()
    app.page.get_by_role("button", name="Reset", exact=True).click()
    app.until(lambda: "edit=" not in app.address, "the region stays hidden")


def test_a_picture_stays_from_page_to_page_until_it_is_taken_away(
    visit: Callable[..., App], vit: Path, house: Path
) -> None:
    app = visit(f"/heads?metric=sink&model={vit}")
    upload(app, house).choose(state.HEAD_BOX, "Head 1.0").idle()
    trace = traces(vit, house)
    visit_page(app, "Step by step").shows_trace(trace(1, 0), stages=("Query", "Softmax", "Output"))
    assert app.page.get_by_text("house.png is still shown.").is_visible()
    visit_page(app, "Heads").shows({"head": trace(1, 0).weights})
    upload(app, house)
    app.widget(state.IMAGE).get_by_role("button", name="Remove").click()
    app.until(lambda: app.pictures(["head"])["head"] is None, "the picture is still there")
    assert not app.alerts()


def test_from_a_picture_back_to_a_text(visit: Callable[..., App], vit: Path, house: Path) -> None:
    app = visit(f"/heads?metric=sink&model={vit}&as={PICTURE}")
    upload(app, house).choose(state.MODEL, "all-MiniLM-L6-v2").idle()
    trace = capture(load_model("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    app.shows({"head": trace.weights})
    assert app.value(state.SHOWN_AS) == "Heatmap"


def test_choosing_among_heads_of_which_only_weights_are_known(go: Callable[..., App], gptj: Path) -> None:
    app = go(f"/heads?metric=sink&model={gptj}&text={NUMBERS}")
    exposed = attention_weights(load_model(gptj), NUMBERS)
    app.shows({SHOWN: exposed.weights(0, 0)}).click_cell("atlas", 1, 2)
    app.shows({SHOWN: exposed.weights(1, 2)}).idle().page.keyboard.press("ArrowRight")
    app.shows({SHOWN: exposed.weights(1, 3)}).idle().click_cell(SHOWN, 6, 2).idle()
    assert app.picture(SHOWN).pinned == (6, 2)
    assert app.picture("atlas").pinned == (1, 3)
    best = np.unravel_index(head_metrics(exposed)["sink"].to_numpy().argmax(), (2, 4))
    app.until(lambda: bool(app.rows(state.RANKED)), "the list is empty")
    app.mark_row(state.RANKED, 0).shows({SHOWN: exposed.weights(*map(int, best))})


def test_a_model_that_hands_out_only_weights(go: Callable[..., App], gptj: Path) -> None:
    app = go(f"/step_by_step?text={NUMBERS}")
    type_path(app, gptj)
    exposed = attention_weights(load_model(gptj), NUMBERS)
    app.shows({SHOWN: exposed.weights(0, 0)})
    app.choose(state.HEAD_BOX, "Head 1.3").idle()
    weights = exposed.weights(1, 3)
    app.shows({SHOWN: weights})
    assert not app.picture(SHOWN).forbidden.any()
    app.click_cell(SHOWN, 6, 2).idle()
    assert app.picture(SHOWN).pinned == (6, 2)
    assert app.page.get_by_text(f"“9” gives {weights[6, 2]:.1%} of its attention to “8”.").is_visible()
    assert app.page.get_by_text("No certificate: there is nothing to compare with.").is_visible()
    told = app.page.get_by_text("GPTJForCausalLM exposes only its attention weights.")
    assert told.is_visible()
    assert not app.alerts()
    app.choose(state.MODEL, "all-MiniLM-L6-v2").idle()
    assert not told.is_visible()
    assert not app.pictures([SHOWN])[SHOWN]
