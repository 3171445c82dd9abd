"""Pictures: files good and hostile, what a vision model reads against transformers' own processor, and its patches."""

import io
import re

import numpy as np
import pytest
import torch
import transformers as t
from PIL import Image

from core import capture, generate, load_model
from core.errors import WeightsOnlyError
from core.models import images
from core.models.images import read_image
from core.models.inputs import image_inputs
from core.models.model import read_by
from tests.core.models.folders import edit, refusal
from tests.core.passes import assert_eager_weights
from tests.core.tiny_models import SEQ2SEQ, VIT, eager, number_words, randomised, tiny
from tests.hostile import png
from tests.refusals import refused

PICTURE = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)


def file(picture, **options) -> bytes:
    picture = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    stream = io.BytesIO()
    picture.save(stream, **options)
    return stream.getvalue()


def pixels(model, image):
    return image_inputs(model, image)["pixel_values"]


@pytest.fixture(scope="module")
def vit():
    return load_model(tiny("ViT"))


LOSSLESS = {"format": "WEBP", "lossless": True}
ANIMATED = LOSSLESS | {"save_all": True, "append_images": [Image.fromarray(255 - PICTURE)]}
GREY = np.array([[0, 256, 32768, 65535]], dtype=np.uint16)
TURNED = Image.Exif()
TURNED[0x0112] = 6  # orientation: a quarter turn
IN_MODES = {mode: Image.fromarray(PICTURE).convert(mode) for mode in ("L", "P", "1", "RGBA", "LA")}
# A picture, how it is saved as a PNG unless it says otherwise, and the pixels that are read.
FILES = {
    "PNG": (PICTURE, {}, PICTURE),
    "WebP": (PICTURE, LOSSLESS, PICTURE),
    "of an animation the first": (PICTURE, ANIMATED, PICTURE),
    "turned upright": (PICTURE, {"exif": TURNED}, np.rot90(PICTURE, -1)),
    "sixteen bits, scaled and not clipped": (GREY, {}, np.uint8([[[0] * 3, [1] * 3, [128] * 3, [255] * 3]])),
    "transparent on white": (np.uint8([[[200, 10, 20, 255], [0] * 4]]), {}, np.uint8([[[200, 10, 20], [255] * 3]])),
    **{mode: (picture, {}, np.asarray(picture.convert("RGB"))) for mode, picture in IN_MODES.items()},
}


@pytest.mark.parametrize(("picture", "options", "expected"), FILES.values(), ids=FILES)
def test_a_file_gives_its_pixels_in_red_green_and_blue(picture, options, expected):
    read = read_image(file(picture, **{"format": "PNG"} | options))
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, expected)


NO_PICTURES = {
    "empty": b"",
    "text": b"no picture",
    **{f"half a {kind}": file(PICTURE, format=kind)[:200] for kind in ("PNG", "JPEG", "WEBP")},
    **{kind: file(PICTURE, format=kind) for kind in ("GIF", "TIFF")},
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
}


@pytest.mark.parametrize("data", NO_PICTURES.values(), ids=NO_PICTURES)
def test_other_files_are_refused(data):
    with refused("image", "PNG, JPEG or WebP"):
        read_image(data)


# 36 bytes, which would be half a gigabyte.
WEBP = bytes.fromhex("524946461c000000574542505650384c0f0000002fc7f2b10c0710fd8ffe0722a2ff0100")
BOMBS = {
    "large": (png(4001, 4000), "4,001 × 4,000 pixels; at most 16 million"),
    "larger": (png(60_000, 60_000), "far too many pixels; at most 16 million"),
    "long": (png(1, 2**31 - 1), "pixels; at most 16 million"),
    "WebP": (WEBP, "13,000 × 13,000 pixels"),
    "bytes": (b"x" * 2_000_000, "2 MB; at most 1 MB"),
}


@pytest.mark.parametrize(("data", "said"), BOMBS.values(), ids=BOMBS)
def test_decompression_bombs_are_refused_before_they_are_opened(data, said, monkeypatch):
    monkeypatch.setattr(Image.Image, "convert", None)  # whoever decodes one fails
    monkeypatch.setattr(images, "MAX_BYTES", 1_000_000)
    with refused("image", said):
        read_image(data)


SIZE = {"height": 12, "width": 12}
CUT = {"size": {"shortest_edge": 16}, "crop_size": SIZE}
# transformers' own processors, and the area of a picture of 70 × 50 that each reads.
PROCESSORS = {
    "squeezed": (t.ViTImageProcessorPil(size=SIZE, resample=2), (0, 0, 1, 1)),
    "colours and a filter": (t.ViTImageProcessorPil(size=SIZE, image_mean=[0.1, 0.2, 0.3], resample=3), (0, 0, 1, 1)),
    "other colours": (t.ViTImageProcessorPil(size=SIZE, do_normalize=False, rescale_factor=1 / 127.5), (0, 0, 1, 1)),
    "the middle of it": (t.CLIPImageProcessorPil(**CUT), (5 / 22, 2 / 16, 17 / 22, 14 / 16)),
    "of a square": (t.DeiTImageProcessorPil(size=SIZE | {"width": 16}, crop_size=SIZE), (2 / 16, 0, 14 / 16, 1)),
    "with padding": (
        t.CLIPImageProcessorPil(size={"shortest_edge": 6}, crop_size=SIZE),
        (-2 / 8, -3 / 6, 10 / 8, 9 / 6),
    ),
}


@pytest.mark.parametrize(("own", "area"), PROCESSORS.values(), ids=PROCESSORS)
def test_the_pixels_and_their_places_are_those_of_the_folder_s_own_processor(own, area, tmp_path):
    network = tiny("ViT")
    network.save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    model, expected = load_model(tmp_path), own(Image.fromarray(PICTURE), return_tensors="pt")["pixel_values"]
    assert (type(model.network), model.notes) == (t.ViTModel, ())
    torch.testing.assert_close(pixels(model, PICTURE), expected, rtol=0, atol=0)
    read = capture(model, image=PICTURE)
    assert_eager_weights(read, eager(network, pixel_values=expected), atol=2e-6)
    assert read.image_grids("self")[0].area == pytest.approx(area, abs=0.02)


def test_real_numbers_are_the_same_picture(vit):
    torch.testing.assert_close(pixels(vit, PICTURE / 255), pixels(vit, PICTURE), rtol=0, atol=0)
    assert float(pixels(vit, np.ones((3, 3, 3))).min()) == pytest.approx(1)  # (1 - 0.5) / 0.5
    assert float(pixels(vit, np.zeros((3, 3, 3), dtype=np.float32)).max()) == pytest.approx(-1)


def test_other_arrays_are_refused(vit):
    shapes = [PICTURE[..., 0], PICTURE[None], np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8)]
    numbers = [PICTURE.astype(int), PICTURE.astype(float), *(np.full((4, 4, 3), one) for one in (np.nan, -0.1))]
    for image in (*shapes, *numbers, "a picture"):
        with refused("image"):
            pixels(vit, image)


def test_a_folder_of_a_vision_transformer_with_a_head_and_without_a_processor(tmp_path):
    network = randomised(t.ViTForImageClassification(t.ViTConfig(**VIT)))
    network.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert type(model.network) is t.ViTModel
    assert (model.reads_images, model.captures, model.attention_calls, model.tokenizer) == (True, True, 2, None)
    assert "no preprocessor_config.json: an image is squeezed to its size, with colours from -1 to 1" in model.notes[0]
    squeezed = Image.fromarray(PICTURE).resize((12, 12), Image.Resampling.BILINEAR)
    expected = torch.tensor(np.asarray(squeezed) / 127.5 - 1).permute(2, 0, 1)[None].float()
    torch.testing.assert_close(pixels(model, PICTURE), expected, rtol=0, atol=1e-6)


UNUSABLE = {
    "two means": ({"image_mean": [1, 2]}, "cannot be used: .* mean must have 3 elements"),
    "a spread of 0": ({"image_std": [0, 1, 1]}, "does not make one image of red, green and blue"),
    "a text": ({"image_std": "abc"}, "that cannot be used"),
    "an unknown filter": ({"resample": 9}, "Unknown resampling filter"),
    "another size": ({"size": {"height": 16, "width": 8}}, "makes 8 × 16 pixels of an image.* cannot read them"),
    "its own size": ({"do_resize": False}, "makes 60 × 40 pixels of an image.* cannot read them"),
    "gigabytes": ({"size": {"height": 100_000, "width": 9}}, "would make more than 16 million pixels"),
    "code": ({"image_processor_type": "Own", "auto_map": {"AutoImageProcessor": "own.Own"}}, "contains custom code"),
}


@pytest.mark.parametrize(("said", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_settings_that_cannot_be_used(said, why, tmp_path):
    tiny("ViT").save_pretrained(tmp_path)
    t.ViTImageProcessorPil(size=SIZE).save_pretrained(tmp_path)
    edit(tmp_path / "preprocessor_config.json", **said)
    assert re.search(rf"preprocessor_config\.json.*{why}|{why}", refusal(tmp_path))


def test_a_picture_that_a_processor_would_make_too_long_is_refused(tmp_path):
    tiny("ViT").save_pretrained(tmp_path)
    t.CLIPImageProcessorPil(**CUT).save_pretrained(tmp_path)
    with refused("image", "would make more than 16 million pixels of this image of 90,000 × 1"):
        capture(load_model(tmp_path), image=np.zeros((1, 90_000, 3), np.uint8))


def test_attention_within_windows_is_not_taken_for_the_whole():
    config = t.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    with pytest.raises(WeightsOnlyError, match="within 4 separate parts"):
        capture(load_model(randomised(t.SwinModel(config))), image=PICTURE)


def test_texts_and_pictures_are_not_confused(vit, minilm):
    for arguments, field in (({"text": "a cat"}, "text"), ({"input_ids": [3, 4]}, "input_ids"), ({}, "text")):
        with refused(field, "ViTModel reads images, not texts"):
            capture(vit, **arguments)
    for text in (None, "a cat"):
        with refused("image", "reads texts, not images"):
            capture(minilm, text, image=PICTURE)
    with refused("image", "reads an image alone"):
        capture(vit, "a cat", image=PICTURE)


def test_a_model_of_sounds_is_refused_by_name():
    sizes = {name: size for name, size in SEQ2SEQ.items() if name != "max_position_embeddings"}
    network = t.WhisperForConditionalGeneration(t.WhisperConfig(**sizes, num_mel_bins=8, max_source_positions=16))
    for read in (capture, generate):
        with refused("model", r"^WhisperForConditionalGeneration reads audio, not texts"):
            read(load_model(network, tokenizer=number_words()), "3 4")


def test_what_is_neither_text_nor_picture_is_named():
    kinds = (t.BartModel, t.LlavaForConditionalGeneration, t.ViTModel, t.Wav2Vec2Model, t.VideoMAEModel, t.EncodecModel)
    assert [read_by(kind) for kind in kinds] == ["texts", "texts", "images", "audio", "video", "input values"]
