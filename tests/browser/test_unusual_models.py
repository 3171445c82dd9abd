"""Models of one's own in a browser: a folder whose path is typed, a picture that is uploaded, weights without a certificate."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers as t
from PIL import Image, ImageDraw
from playwright.sync_api import expect

from core import capture, load_model
from core.capturing.weights_only import attention_weights
from core.models.images import read_image
from tests.browser.addresses import SENTENCE
from tests.browser.driver import App
from tests.core.tiny_models import VIT, WEIGHTS_ONLY, number_words, randomised
from ui import state

NUMBERS = "5 17 8 5 17 8 9 40 3 21"
WIDTH, HEIGHT, ROWS, COLUMNS = 480, 320, 5, 6
PICTURE, SHOWN = "On the picture", "exposed weights"


@pytest.fixture(scope="module")
def vit(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    size = {"image_size": [4 * ROWS, 4 * COLUMNS]}
    randomised(t.ViTModel(t.ViTConfig(**VIT | size))).save_pretrained(folder)
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
    field = app.idle().widget(state.MODEL).get_by_role("combobox")
    field.fill(str(folder))
    field.press("Enter")
    return app.has(state.MODEL, str(folder))


def upload(app: App, file: Path) -> App:
    expect(app.upload(state.IMAGE, file).widget(state.HEAD_BOX)).to_be_visible()
    return app.idle()


def traces(vit: Path, file: Path):
    return capture(load_model(vit), image=read_image(file.read_bytes())).trace


def test_a_picture_from_its_upload_to_the_attention_of_a_patch(go, vit, house):
    """Only this test finds a picture whose patches are not those that the page marks."""
    app = upload(type_path(go("/heads"), vit), house)
    trace = traces(vit, house)
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


def test_patches_lie_on_the_picture_in_its_proportions(go: Callable[..., App], vit: Path, house: Path) -> None:
    app = upload(go(f"/heads?metric=sink&model={vit}&as={PICTURE}"), house)
    image = app.widget(state.picture("patches"))

    def boxes() -> list[list[float]]:
        """Left, top, width and height of the picture, and of the patches on it."""
        box = "image => image.getBoundingClientRect().toJSON()"
        found = [image.locator(f"{layer} image").evaluate(box) for layer in (".imagelayer", ".heatmaplayer")]
        return [[box[side] for side in ("x", "y", "width", "height")] for box in found]

    def lie_on_it(boxes: list[list[float]]) -> bool:
        picture, patches = boxes
        wide = picture[2] > 250 and picture[2] / picture[3] == pytest.approx(WIDTH / HEIGHT, rel=0.01)
        return wide and picture == pytest.approx(patches, abs=1.5)

    for width in (1280, 700):
        app.page.set_viewport_size({"width": width, "height": 900})
        app.idle().eventually(boxes, lie_on_it)
    app.choose(state.MODEL, "all-MiniLM-L6-v2")  # from a picture back to a text
    trace = capture(load_model("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    app.shows({"head": trace.weights}).has(state.SHOWN_AS, "Heatmap")


def test_a_region_is_drawn_on_the_picture_and_hidden(go: Callable[..., App], vit: Path, house: Path) -> None:
    app = upload(go(f"/what_if?model={vit}"), house)
    app.click_cell("patches", 3, 1, to=(1, 2)).click("Hide the region")
    app.says_in_address(edit="block key 8-9 14-15 20-21")
    app.eventually(lambda: app.drawn("patches").values[1:4, 1:3], lambda hidden: np.isnan(hidden).all())
    app.is_well().click("Reset").says_in_address(edit=None)


def test_choosing_among_heads_of_which_only_weights_are_known(go: Callable[..., App], tmp_path: Path) -> None:
    for part in (randomised(WEIGHTS_ONLY["GPT-J"]()), number_words()):
        part.save_pretrained(tmp_path)
    app = go(f"/heads?metric=sink&model={tmp_path}&text={NUMBERS}")
    exposed = attention_weights(load_model(tmp_path), NUMBERS)
    app.shows({SHOWN: exposed.weights(0, 0)}).idle().click_cell("atlas", 1, 2)
    app.shows({SHOWN: exposed.weights(1, 2)}).idle().page.keyboard.press("ArrowRight")
    app.shows({SHOWN: exposed.weights(1, 3)}).idle().click_cell(SHOWN, 6, 2)
    app.pins(SHOWN, 6, 2).pins("atlas", 1, 3)
    app.follow("Step by step", "/step_by_step").shows({SHOWN: exposed.weights(1, 3)})
    app.says("This model exposes only its attention weights.").is_well().choose(state.MODEL, "all-MiniLM-L6-v2")
    app.shows({SHOWN: None}).never_says("exposes only its attention weights")
