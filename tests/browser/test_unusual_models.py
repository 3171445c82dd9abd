"""Models of one's own in a browser: a folder whose path is typed, and a picture that is uploaded."""

from pathlib import Path

import numpy as np
import pytest
import transformers as t
from PIL import Image
from playwright.sync_api import expect

from core import capture, load_model
from core.models.images import read_image
from tests.browser.addresses import SENTENCE
from tests.browser.driver import App
from tests.core.tiny_models import VIT, randomised
from ui import state

WIDTH, HEIGHT, ROWS, COLUMNS = 480, 320, 5, 6
PICTURE = "On the picture"


@pytest.fixture(scope="module")
def vit(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    size = {"image_size": [4 * ROWS, 4 * COLUMNS]}
    randomised(t.ViTModel(t.ViTConfig(**VIT | size))).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT // 40, WIDTH // 40, 3), np.uint8)
    file = tmp_path_factory.mktemp("pictures") / "made.png"
    Image.fromarray(pixels).resize((WIDTH, HEIGHT)).save(file)
    return file


def upload(app: App, file: Path) -> App:
    expect(app.upload(state.IMAGE, file).widget(state.HEAD_BOX)).to_be_visible()
    return app.idle()


@pytest.mark.thorough
def test_a_picture_from_its_upload_to_the_attention_of_a_patch(go, vit, picture):
    """Only this test finds a picture whose patches are not those that the page marks."""
    app = go("/heads")
    field = app.widget(state.MODEL).get_by_role("combobox")
    field.fill(str(vit))
    field.press("Enter")
    upload(app.has(state.MODEL, str(vit)), picture)
    trace = capture(load_model(vit), image=read_image(picture.read_bytes())).trace
    app.shows({"head": trace(0, 2).weights})  # the head that the page opens with
    app.eventually(lambda: app.ticks("head", "y")[:2], ["[CLS]", "patch 0,0"])
    app.press(state.SHOWN_AS, PICTURE).idle().click_cell("patches", 3, 1)
    query = 1 + 3 * COLUMNS + 1

    def shows_patches(layer: int, head: int) -> App:
        patches = trace(layer, head).weights[query][1:].reshape(ROWS, COLUMNS)
        app.shows({"patches": patches}).pins("patches", 3, 1).eventually(lambda: app.place(state.QUERY), query)
        return app.idle()

    shows_patches(0, 2).click_cell("atlas", 1, 2)
    shows_patches(1, 2).has(state.HEAD_BOX, "Head 1.2").says("Agrees with the model")


@pytest.mark.thorough
def test_patches_lie_on_the_picture_in_its_proportions(go, vit, picture):
    app = upload(go(f"/heads?metric=sink&model={vit}&as={PICTURE}"), picture)
    image = app.widget(state.picture("patches"))

    def boxes() -> list[list[float]]:
        """Left, top, width and height of the picture, and of the patches on it."""
        box = "image => image.getBoundingClientRect().toJSON()"
        found = [image.locator(f"{layer} image").evaluate(box) for layer in (".imagelayer", ".heatmaplayer")]
        return [[box[side] for side in ("x", "y", "width", "height")] for box in found]

    def lie_on_it(boxes: list[list[float]]) -> bool:
        below, patches = boxes
        wide = below[2] > 250 and below[2] / below[3] == pytest.approx(WIDTH / HEIGHT, rel=0.01)
        return wide and below == pytest.approx(patches, abs=1.5)

    for width in (1280, 700):
        app.page.set_viewport_size({"width": width, "height": 900})
        app.idle().eventually(boxes, lie_on_it)
    app.choose(state.MODEL, "all-MiniLM-L6-v2")  # from a picture back to a text
    trace = capture(load_model("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    app.shows({"head": trace.weights}).has(state.SHOWN_AS, "Heatmap")


@pytest.mark.thorough
def test_a_region_is_drawn_on_the_picture_and_hidden(go, vit, picture):
    app = upload(go(f"/what_if?model={vit}"), picture)
    app.click_cell("patches", 3, 1, to=(1, 2)).click("Hide the region")
    app.says_in_address(edit="block key 8-9 14-15 20-21")
    app.eventually(lambda: app.drawn("patches").values[1:4, 1:3], lambda hidden: np.isnan(hidden).all())
    app.is_well().click("Reset").says_in_address(edit=None)
