"""Models without queries, keys and values, without attention in every layer, or without words, as the pages show them."""

import io
import re

import numpy as np
import pytest
import transformers as t
from PIL import Image
from streamlit.testing.v1 import AppTest

from core import capture, generate, load_model
from core.capturing.edits.lines import lines_of
from core.capturing.image_regions import edits_without_region
from core.capturing.weights_only import attention_weights
from core.heads.metrics import METRICS, head_metrics, most_telling
from core.models.images import read_image
from tests.core.tiny_models import (
    DECODER,
    SMALL,
    TWO_TOWERS,
    VIT,
    WEIGHTS_ONLY,
    WITHOUT_WEIGHTS,
    number_words,
    randomised,
)
from tests.core.tiny_seeing import save_seeing
from tests.pages.app import drawn, go, new, ran, texts, words
from ui import state
from ui.cache import MEMORY
from ui.requests import ModelChoice, TextRequest
from ui.views.patches import drawn_region
from ui.views.sources import passes as cached_passes

TEXT = "5 17 8 5 17 8 9 40 3 21"
SHOWN = "exposed weights"
PAGES = ("step_by_step", "heads")
LAYERS = ["conv", "full_attention", "conv", "conv", "full_attention", "conv", "conv"]


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Saves a tiny network of that name once, and gives its folder."""
    base = tmp_path_factory.mktemp("models")

    def save(name: str, make, *, reads_text: bool = True) -> str:
        folder = base / re.sub(r"\W", "-", name)
        if not folder.exists():
            randomised(make()).save_pretrained(folder)
            if reads_text:
                number_words().save_pretrained(folder)
        return str(folder)

    return save


@pytest.fixture(scope="session")
def hybrid(saved) -> str:
    config = DECODER | {"num_hidden_layers": len(LAYERS), "num_key_value_heads": 2}
    return saved("hybrid", lambda: t.Lfm2ForCausalLM(t.Lfm2Config(**config, layer_types=LAYERS)))


@pytest.fixture(scope="session")
def vit(saved) -> str:
    return saved("vit", lambda: t.ViTModel(t.ViTConfig(**VIT | {"image_size": [12, 20]})), reads_text=False)


def png() -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 70, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def opened(page: str, model: str, text: str = TEXT, image: bytes | None = None, **choices: object) -> AppTest:
    app = new()
    if image is not None:
        app.session_state[state.SHOWN_IMAGE] = ("made.png", image)
    return go(app, page, **{state.MODEL: model, state.TEXT: text} | choices)


# --- two towers


def test_of_two_towers_the_one_that_reads_texts_is_shown(saved):
    app = opened("step_by_step", saved("clip", TWO_TOWERS["CLIP"]), layer=1, head=2)
    assert not app.error
    said = "compares texts with images or sounds. Shown is the part that reads texts."
    assert said in words(app)
    assert "Agrees with the model" in words(app)


def test_what_a_model_leaves_out_of_its_files_is_said(saved):
    folder = saved("masked", lambda: t.BertForMaskedLM(t.BertConfig(**SMALL)))
    first, second = load_model(folder).notes
    said = words(opened("heads", folder))
    assert first in said
    assert second in said


# --- only weights


@pytest.mark.parametrize(("page", "name"), [("step_by_step", "GPT-J"), ("heads", "DeBERTa")])
def test_what_a_model_hands_out_is_shown(saved, name, page):
    folder = saved(name, WEIGHTS_ONLY[name])
    app = opened(page, folder, layer=1, head=2, query=6, key=2)
    assert not app.error
    (info,) = app.info
    assert texts([info]) == "This model exposes only its attention weights. The stages before them cannot be shown."
    taken = attention_weights(load_model(folder), TEXT)
    expected = taken.weights(1, 2)
    assert taken.nbytes == 2 * 4 * 10 * 10 * 4  # layers, heads, queries, keys, bytes
    assert len(app.get_by_key(state.HEAD_BOX).options) == 2 * 4
    np.testing.assert_allclose(drawn(app, SHOWN), expected, rtol=1e-5, atol=1e-7)
    assert f"“9” gives **{expected[6, 2]:.1%}** of its attention to “8”." in words(app)
    assert "No certificate: there is nothing to compare with." in words(app)
    assert "Agrees" not in words(app)
    looks_back = bool((expected[np.triu_indices(10, 1)] == 0).all())
    assert ("Nothing goes to later tokens." in words(app)) == looks_back


def test_heads_of_which_only_weights_are_known_stand_in_the_grid_too(saved):
    folder = saved("DeBERTa", WEIGHTS_ONLY["DeBERTa"])
    table = head_metrics(attention_weights(load_model(folder), TEXT))
    app = opened("heads", folder, metric="duplicate")
    np.testing.assert_allclose(drawn(app, "atlas"), table["duplicate"].to_numpy().reshape(2, 4), rtol=1e-5)
    boxes = {box.key: box for box in app.selectbox}
    # What depends on the mask is not offered: matches, and of the metrics two.
    every = [f"{one.group}: {one.label}" for one in METRICS if one.name not in ("entropy_share", "elsewhere")]
    assert {*boxes[state.METRIC].options} == {*every, "Your choice: From token to token"}
    assert state.MEASURED_ON not in boxes
    strongest = app.dataframe[0].value.iloc[0]
    assert strongest["Duplicate token"] == pytest.approx(table["duplicate"].max())
    pictures = opened("heads", folder, metric="sink", by="pictures")
    assert drawn(pictures, "atlas").shape == (2 * 11, 4 * 11)
    name = most_telling(table)
    opening = opened("heads", folder)
    np.testing.assert_allclose(drawn(opening, "atlas"), table[name].to_numpy().reshape(2, 4), rtol=1e-5)


def test_another_head_or_page_is_no_other_pass(saved, monkeypatch):
    passes = []

    def counted(*given, **options):
        passes.append(1)
        return attention_weights(*given, **options)

    monkeypatch.setattr(cached_passes, "attention_weights", counted)
    folder = saved("BLOOM", WEIGHTS_ONLY["BLOOM"])
    for page, head in (("step_by_step", 0), ("step_by_step", 1), ("heads", 0)):
        opened(page, folder, text="1 2 3 4 5 6 7", head=head)
    assert len(passes) == 1
    opened("heads", folder, text="1 2 3 4 5 6")
    assert len(passes) == 2


def test_a_text_that_is_too_long_can_be_cut(saved):
    folder = saved("GPT-J", WEIGHTS_ONLY["GPT-J"])
    text = " ".join(str(number % 60) for number in range(100))
    app = opened("step_by_step", folder, text=text)
    assert "The text has 100 tokens; at most 64 can be read." in words(app)
    assert not app.get("plotly_chart")
    app = opened("step_by_step", folder, text=text, **{state.TRUNCATE: "true"})
    expected = attention_weights(load_model(folder), text, max_tokens=64, truncate=True).weights(0, 0)
    np.testing.assert_allclose(drawn(app, SHOWN), expected, rtol=1e-5, atol=1e-7)


# --- not even weights


RESNET = {"embedding_size": 8, "hidden_sizes": [8], "depths": [1]}


@pytest.mark.parametrize("name", ["Mamba", "LED, windows only", "ResNet"])
def test_models_without_attention_say_so(saved, name):
    networks = WITHOUT_WEIGHTS | {"ResNet": lambda: t.ResNetModel(t.ResNetConfig(**RESNET))}
    reads_text = name != "ResNet"
    for page in PAGES:
        app = opened(page, saved(name, networks[name], reads_text=reads_text), image=None if reads_text else png())
        (error,) = app.error
        assert "Choose another model" in error.value
        assert reads_text or "ResNetModel" in error.value
        assert not app.get("plotly_chart")


# --- attention in some layers


def test_layers_without_attention_are_named_and_the_others_found_again_in_the_model(hybrid):
    app = opened("heads", hybrid, layer=1, head=3)
    named = "; ".join(f"layer {number}: conv (Lfm2ShortConv)" for number in (0, 2, 3))
    assert f"5 layers have no softmax attention and cannot be shown: {named}, and 2 more." in words(app)
    assert "Layer 1 (layer 4 of the model), head 3" in [title.value for title in app.subheader]
    listed = app.dataframe[0].value
    in_model = dict(zip(listed["layer"], listed["layer of the model"], strict=True))
    assert in_model == {0: 1, 1: 4}
    said = texts(opened("step_by_step", hybrid, layer=1).caption)
    assert "Layer 1 of those with softmax attention is layer 4 of the model." in said


# --- pictures


def test_an_image_of_an_earlier_visit_is_asked_for_again(vit):
    app = opened("heads", vit, **{state.UPLOADED: "cat.png"})
    assert "cat.png was uploaded in an earlier visit. Upload it again." in texts(app.info)
    assert "This model reads images." in words(app)
    assert not app.get("plotly_chart")
    assert not opened("heads", vit, image=png(), **{state.UPLOADED: "cat.png"}).info


def test_a_picture_stays_from_page_to_page_until_it_is_taken_away(vit):
    app = opened("heads", vit, layer=1, head=0)
    app.file_uploader(state.IMAGE).set_value(("house.png", png(), "image/png"))
    weights = capture(load_model(vit), image=read_image(png())).trace(1, 0).weights
    np.testing.assert_allclose(drawn(ran(app), "head"), weights, rtol=1e-4, atol=1e-7)
    go(app, "step_by_step", **{state.QUERY: 7, state.KEY: 15})
    np.testing.assert_allclose(drawn(app, "As it is"), weights, rtol=1e-4, atol=1e-7)
    assert f"“patch 1,1” gives **{weights[7, 15]:.1%}** of its attention to “patch 2,4”." in words(app)
    assert "house.png is still shown" in words(go(app, "heads"))
    app.file_uploader(state.IMAGE).set_value(("house.png", png(), "image/png"))
    ran(app).file_uploader(state.IMAGE).set_value(None)
    assert not ran(app).error
    assert not app.get("plotly_chart")


def test_the_first_token_is_no_patch(vit):
    app = opened("heads", vit, image=png(), query=0, **{state.SHOWN_AS: "On the picture"})
    weights = capture(load_model(vit), image=read_image(png())).trace(0, 0).weights[0]
    np.testing.assert_allclose(drawn(app, "patches"), weights[1:].reshape(3, 5), rtol=1e-4, atol=1e-7)
    assert f"Click a patch to choose it. {weights[0]:.1%} goes to [CLS]." in words(app)


def test_nothing_about_words_is_offered_for_a_picture(vit, hybrid):
    app, of_text = opened("heads", vit, image=png()), opened("heads", hybrid)
    boxes, boxes_of_text = ({box.key: box for box in page.selectbox} for page in (app, of_text))
    of_words = {"Kind of token: Punctuation"}  # a special token of a picture is [CLS]
    of_words |= {"Repetition: Duplicate token", "Repetition: Induction", "Answer: Contribution to the next token"}
    assert of_words <= set(boxes_of_text[state.METRIC].options)
    assert set(boxes[state.METRIC].options) == set(boxes_of_text[state.METRIC].options) - of_words
    assert state.MEASURED_ON in boxes_of_text
    assert state.MEASURED_ON not in boxes
    assert state.BY_WORD in {toggle.key for toggle in of_text.toggle}
    assert state.BY_WORD not in {toggle.key for toggle in app.toggle}
    assert "row by row" in words(app)
    assert "text" not in words(app)
    assert "known claims" not in app.dataframe[0].value  # which are about texts


def test_a_head_of_an_image_is_changed_and_compared_with_heads_alone(vit):
    """Views of texts say what such a model lacks."""
    app = opened("what_if", vit, image=png())
    assert "The sentence vector" not in words(app)
    compared = opened("what_if", vit, image=png(), view="compare")
    (ways,) = [group for group in compared.get("button_group") if group.key == state.COMPARE_WITH]
    assert ways.options == ["Another head"]
    for view in ("matter", "patch"):
        app = opened("what_if", vit, image=png(), view=view)
        assert texts(app.info) == f"{load_model(vit).name} reads images, not texts. Choose another model."
        assert not app.get("plotly_chart")


def test_a_damaged_picture_is_said_to_be_damaged(vit):
    (error,) = opened("heads", vit, image=png()[:60]).error
    assert "cannot be read as an image" in error.value


def test_the_token_that_comes_next_has_its_number_where_the_tokenizer_has_no_name_for_it(saved):
    config = DECODER | {"vocab_size": 96, "tie_word_embeddings": False}
    folder = saved("padded", lambda: t.LlamaForCausalLM(t.LlamaConfig(**config)))
    best = int(capture(load_model(folder), TEXT).logits.argmax())
    assert best >= 64  # of which the tokenizer knows nothing
    token = f"‹token {best}›"
    assert f"“{token}”" in words(opened("what_if", folder))
    app = opened("generation", folder, new="3", step="1")
    assert f"“{token}” is written after" in words(app)


@pytest.mark.thorough
def test_an_image_with_a_text(tmp_path, monkeypatch):
    """Heads and Step by step lay a row of weights over the image, in the place that its tokens say; What if changes heads."""
    save_seeing("LLaVA", tmp_path)
    model, image = load_model(tmp_path), png()
    taken = capture(model, "5 17 8", image=read_image(image))
    (grid,) = taken.image_grids()
    query = int(grid.tokens[2, 1])
    chosen = {state.QUERY: query, state.KEY: 0, state.LAYER: 1, state.HEAD: 3}
    row = taken.trace(1, 3).weights[query]
    for page, more in (("heads", {state.SHOWN_AS: "picture"}), ("step_by_step", {state.STAGE: "weights"})):
        app = opened(page, str(tmp_path), "5 17 8", image, **chosen, **more)
        np.testing.assert_allclose(np.nan_to_num(drawn(app, "patches")), row[grid.tokens], rtol=1e-4, atol=1e-7)
        assert f"{row[grid.tokens].sum():.1%} lies on what is shown of the image" in words(app)
    app = opened("what_if", str(tmp_path), "5 17 8", image, edit="mute 1.3")
    # What reading takes is known before it is read, and refused where the host has no room for it.
    tokens, needs = cached_passes.size_with_image(TextRequest(ModelChoice(str(tmp_path)), "5 17 8", image=image))
    assert tokens == len(taken.input_ids)
    assert needs > taken.nbytes
    monkeypatch.setattr(MEMORY, "most", needs - 1)
    (error,) = opened("heads", str(tmp_path), "5 17 8 9", image).error
    assert f"The image and the text have {tokens + 1} tokens together, and reading them needs about" in error.value
    monkeypatch.undo()
    # A region that was drawn, also beyond the edge of the picture, is hidden from both parts of the model.
    cell = {"patch_row": range(2, 4), "patch_column": range(4, 99)}
    assert drawn_region(cell, grid.tokens.shape) == (range(2, 4), range(4, 6))
    assert drawn_region({"patch_row": range(9, 11), "patch_column": range(1)}, grid.tokens.shape) is None
    app, lines = new(), ["block key 16-17 22-23", "block key 17-18 23-24 at vision"]
    app.session_state[state.REGION_ROWS], app.session_state[state.REGION_COLUMNS] = (2, 9), (4, 5)
    app.session_state[state.SHOWN_IMAGE] = ("made.png", image)
    go(app, "what_if", **{state.MODEL: tmp_path, state.TEXT: "5 17 8", state.EDITS: lines})
    assert app.slider(key=state.REGION_COLUMNS).value == (4, 5)
    assert app.slider(key=state.REGION_ROWS).value == (0, 5)  # of another grid: here is no row 9
    edits = edits_without_region(taken, range(2, 4), range(4, 6))
    assert list(lines_of(edits)) == lines
    after = capture(model, "5 17 8", image=read_image(image), edits=edits).next_tokens(1)[0][1]
    assert f"{after:.1%}" in words(app)
    assert np.isnan(drawn(app, "patches")[2:4, 4:6]).all()
    assert not any("patch" in word for word in app.pills[0].options)
    # What it writes about the image: where the query of each step looks, and what it writes without the region.
    plain, without = (generate(model, "5 17 8", 20, image=read_image(image), edits=edits) for edits in (None, edits))
    chosen[state.KEY] = int(grid.tokens[1, 1])
    app = opened("generation", str(tmp_path), "5 17 8", image, **chosen, new="3", step="2", beside="cache")
    assert not app.error
    weights = plain.capture_of(1).trace(1, 3).weights[-1]
    np.testing.assert_allclose(drawn(app, "patches"), weights[grid.tokens], rtol=1e-4, atol=1e-7)
    assert f"gives **{weights[chosen[state.KEY]]:.1%}** of its attention to “patch 1,1”" in words(app)
    assert "Multiplications are counted for texts alone." in words(app)
    assert "no weight of the 3 steps differs by more than" in words(app)
    app = opened("what_if", str(tmp_path), "5 17 8", image, **{state.EDITS: lines, state.WRITES_ON: "true"})
    assert [one.value for one in app.code] == [plain.text, without.text]
    assert plain.text != without.text
    for view in ("matter", "patch"):
        app = opened("what_if", str(tmp_path), "5 17 8", image, view=view)
        assert "texts alone" in words(app)


def test_long_weights_are_pooled_and_exact_near_the_chosen_pair(tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.full(300, 0.1), (1, 2, 300)).astype(np.float32)
    file = tmp_path / "attentions.npz"
    np.savez(file, attentions=weights)
    app = opened("heads", str(file), head=1, query=200, key=10)
    blocks = weights[0, 1].reshape(150, 2, 150, 2).max(axis=(1, 3))
    np.testing.assert_array_equal(drawn(app, SHOWN), blocks)
    np.testing.assert_array_equal(drawn(app, "loupe"), weights[0, 1, 184:216, 0:32])
