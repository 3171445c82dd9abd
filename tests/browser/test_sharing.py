"""What "Share" gives away, as a person gets it: saved, opened with other programs, compared with core, and dropped back in."""

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect
from pypdfium2 import PdfDocument
from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_TEXT

from core import attend, capture
from core.attention.sources import random_matrices
from core.exporting.exhibit import read, write
from core.figures.typeface import NAME, faces
from core.heads.metrics import head_metrics
from tests.browser.driver import AS_IT_IS, App, array, eventually, new_page
from tests.source_files import ROOT
from ui import state

TEXT = "The <b>cat</b> $x$ </script><img onerror=alert(1)>"
SHORT = "The <b>cat</b> дом 日"  # the letters of PDFs have no 日
LAYER, HEAD = 5, 11


@pytest.fixture(scope="module")
def trace(minilm):
    return capture(minilm, TEXT).trace(LAYER, HEAD)


def share(app: App) -> App:
    app.idle().widget(state.SHARE).get_by_role("button").click()
    expect(app.page.get_by_role("dialog")).to_be_visible()
    return app.idle()


def saved(app: App, button: str, folder: Path, which: int = 0) -> Path:
    """What a button of the dialog gives."""
    app.idle()
    with app.page.expect_download() as download:
        app.page.get_by_role("dialog").get_by_role("button", name=button, exact=True).nth(which).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def drop(app: App, file: Path) -> App:
    return app.upload(state.EXHIBIT_FILE, file).says("From an exhibit").idle()


@pytest.mark.thorough
def test_a_view_is_saved_in_every_form_and_opened_again_without_its_model(go, browser, trace, minilm, tmp_path):
    """Only this test finds a saved file that the browser made, and that other programs read otherwise."""
    app = share(go(f"/step_by_step?text={TEXT}"))
    tokens = capture(minilm, TEXT).tokens()[0]

    svg = ElementTree.parse(saved(app, "SVG", tmp_path)).getroot()
    words = " ".join("".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text"))
    of_head = "all-MiniLM-L6-v2", f"layer {LAYER}, head {HEAD}", f"Text: {TEXT}"
    for expected in ("of its attention to", "Softmax", *of_head, "query", *tokens):
        assert expected in words
    assert minilm.revision[:24] not in words  # until somebody wants it there
    assert not [tag for tag in svg.iter() if tag.tag.endswith(("}script", "}a"))]
    assert faces() in svg.findtext("{http://www.w3.org/2000/svg}style")

    image = Image.open(saved(app, "PNG", tmp_path))
    assert image.size == (2 * int(svg.get("width")), 2 * int(svg.get("height")))
    assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 100  # not blank

    page = saved(app, "HTML", tmp_path)
    assert page.stat().st_size < 1_000_000
    offline = browser.new_context(offline=True)
    opened = new_page(offline)
    asked, problems = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("dialog", lambda dialog: problems.append(dialog.message) or dialog.dismiss())
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(page.as_uri())
    expect(opened.locator(".js-plotly-plot .heatmaplayer image").first).to_be_attached()
    eventually(opened, lambda: opened.evaluate("[...document.fonts].map((face) => face.status)"), ["loaded"] * 2)
    eventually(
        opened,
        lambda: opened.evaluate("document.querySelector('.js-plotly-plot').data[0].z"),
        lambda drawn: np.array_equal(array(drawn).astype(np.float32), trace.weights),
    )
    for part in (TEXT, f"{LAYER}.{HEAD}"):
        expect(opened.locator("body")).to_contain_text(part)
    offline.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert problems == []

    table = np.load(io.BytesIO(saved(app, "NPZ", tmp_path).read_bytes()), allow_pickle=False)
    assert np.array_equal(table["weights.values"], trace.weights)
    assert tuple(table["weights.columns"]) == tokens
    about = json.loads(str(table["about"]))
    assert (about["layer.head"], about["revision"], about["dtype"]) == ("5.11", minilm.revision, "float32")

    lines = saved(app, "CSV", tmp_path).read_text(encoding="utf-8").splitlines()
    last = lines[-1].split(",")
    assert np.array_equal(np.array(last[1:], np.float32), trace.weights[-1])

    notebook = nbformat.read(saved(app, "Notebook", tmp_path), as_version=4)
    expect(app.page.get_by_role("dialog").locator("pre code")).to_have_text(
        re.compile(re.escape(notebook.cells[-1].source) + r"\s*$")
    )
    assert str(ROOT) not in notebook.cells[1].source  # files name no folders of this computer

    exhibit = read(saved(app, "Exhibit", tmp_path).read_bytes())
    (kept,) = exhibit.heads.values()
    nowhere = replace(kept, origin=kept.origin._replace(name="no-such-model"))
    file = tmp_path / "nowhere.headlight"
    file.write_bytes(write(replace(exhibit, heads={"head 5.11": nowhere})))

    app.keys("Escape")
    app = drop(go("/exhibit"), file)
    app.shows_trace(trace).has(state.SOURCE, "An exhibit").shows({AS_IT_IS: trace.weights})
    expect(app.page.get_by_text("Agrees with the model")).to_have_count(1)
    app.unfold("Provenance").says("no-such-model")


@pytest.mark.thorough
def test_two_pictures_that_are_compared_are_taken_as_one(go, tmp_path):
    """Only this test finds that one is missing in what the browser draws, or in the numbers of both."""
    numbers = random_matrices(6, 8, 4, 4, seed=0)
    traces = [attend(numbers.query, numbers.key, numbers.value, mask=mask) for mask in (None, np.tri(6, 8, dtype=bool))]
    app = share(go("/step_by_step?source=random&mask=causal"))
    svg = ElementTree.parse(saved(app, "SVG", tmp_path)).getroot()
    words = {"".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Softmax, as it is", "Softmax, changed", "q5", "k7"} <= words
    table = np.load(io.BytesIO(saved(app, "NPZ", tmp_path).read_bytes()))
    for number, trace in enumerate(traces, 1):
        expected = np.where(trace.mask, trace.weights, np.nan)
        assert np.array_equal(table[f"weights_{number}.values"], expected, equal_nan=True)
    app.keys("Escape")


@pytest.mark.thorough
def test_a_picture_for_a_column_of_print_is_85_mm_wide_and_the_same_in_every_form(go, minilm, tmp_path):
    """Only this test finds a PDF, SVG or PNG whose size, origin or letters other programs do not see, or that another program
    draws otherwise than the browser draws the picture."""
    app = share(go(f"/step_by_step?text={SHORT}"))
    app.press(state.SHARED_WIDTH, "85 mm")
    for words in ("Sentence", "Title", "Model and text"):
        app.toggle(state.WORDS_ABOVE, words)
    asked: list[str] = []
    app.page.on("request", lambda request: asked.append(request.url))
    png = Image.open(saved(app, "PNG", tmp_path))
    assert not [url for url in asked if "pdf" in url]  # half a megabyte for those who want PDF
    document = PdfDocument(saved(app, "PDF", tmp_path))
    assert sum("pdf" in url for url in asked) == 2
    svg = ElementTree.parse(saved(app, "SVG", tmp_path)).getroot()
    app.keys("Escape")

    millimetres = [side / 72 * 25.4 for side in document[0].get_size()]
    assert millimetres[0] == pytest.approx(85, abs=0.01)
    assert svg.get("width") == "85mm"
    assert float(svg.get("height").removesuffix("mm")) == pytest.approx(millimetres[1], abs=0.1)
    assert png.info["dpi"] == pytest.approx((600, 600), abs=1)
    assert [side / 600 * 25.4 for side in png.size] == pytest.approx(millimetres, abs=0.2)
    in_svg = svg.find("{http://www.w3.org/2000/svg}metadata").text
    for about in (document.get_metadata_dict()["Subject"], in_svg, png.info["about"]):
        assert json.loads(about)["revision"] == minilm.revision
        assert json.loads(about)["text"] == SHORT

    page = document[0]
    words = page.get_textpage().get_text_range()
    labels = ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert len(labels) > 10
    assert [label for label in labels if label.isascii() and label not in words] == []
    assert "query" in words
    assert "all-MiniLM" not in words
    texts = page.get_objects(filter=[FPDF_PAGEOBJ_TEXT])
    assert {text.get_font().get_base_name() for text in texts} == {NAME}
    printed = np.asarray(png.convert("RGB"))
    drawn = page.render(scale=png.width / page.get_width()).to_pil().convert("RGB").resize(png.size)
    assert (np.abs(np.asarray(drawn, float) - printed).max(axis=2) > 48).mean() < 0.02
    assert (printed.min(axis=2) < 128).mean() > 0.1  # there is something to be seen
    images = list(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE]))
    assert images
    for image in images:
        along, aside, *_ = image.get_matrix().get()  # of labels it is turned
        assert image.get_px_size()[0] / (math.hypot(along, aside) / 72) > 300  # fewer dots would be blurred


@pytest.mark.thorough
def test_heads_are_saved_with_all_their_metrics_and_shown_from_the_file(go, trace, minilm, tmp_path):
    """Only this test finds a file of many heads that is saved and dropped by a browser and shows other numbers."""
    app = share(go(f"/heads?source=real&text={TEXT}"))
    metrics = np.load(io.BytesIO(saved(app, "NPZ", tmp_path, which=1).read_bytes()), allow_pickle=False)
    expected = head_metrics(capture(minilm, TEXT))
    place = metrics["metrics.columns"].tolist().index("entropy")
    assert np.array_equal(metrics["metrics.values"][:, place], expected["entropy"].to_numpy(np.float64))
    assert "head 1.10" in metrics["metrics.rows"]

    file = saved(app, "Exhibit", tmp_path)
    app.keys("Escape")
    drop(go("/exhibit"), file).switch(state.TABLES).shows({"kept 0": trace.weights})
    expect(app.page.get_by_role("table")).to_have_count(2)
    app.eventually(lambda: app.drawn("kept 1").values.shape, (6, 12))
    app.switch(state.TABLES).press_button(state.COMPARE_LIVE)
    app.says("The model gives the same numbers, to the last bit.").press_button(state.OPEN_STEPS)
    app.says("From an exhibit, and computed again").shows_trace(trace)
