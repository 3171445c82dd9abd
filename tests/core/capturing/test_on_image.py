"""Where tokens lie on an image, by its pixels: those outside of all boxes change nothing, those in a box its token alone."""

import numpy as np
import pytest
import torch
import transformers as t

from bench.small_networks import small_network
from core import Model, capture, head_metrics, load_model, open_capture
from core.heads.quantities import text_of
from core.models.images import of_images_alone
from core.models.words import special_ids
from tests.core.tiny_models import VIT, randomised
from tests.core.tiny_seeing import PLACES, PLAIN, QWEN, WITH_REST, seeing, words
from tests.refusals import refused

REGISTERS = {"Dinov2WithRegisters": {"num_register_tokens": 3}, "DINOv3ViT": {"num_register_tokens": 2}}
FAMILIES = ("ViT", "DeiT", "Beit", "SiglipVision", "CLIPVision", "Owlv2Vision", "Pixio", "PixtralVision", *REGISTERS)
YOLOS = {"image_size": [12, 20], "num_detection_tokens": 3}  # it has its further tokens after the patches


def vision(family: str, **more: object) -> Model:
    config = getattr(t, f"{family}Config")(**VIT | {"image_size": 14} | more)
    return load_model(randomised(getattr(t, f"{family}Model")(config)))


def alone(network, processor):
    """A model with a vision tower in which no patch learns of another."""
    model = load_model(randomised(network), processor=processor)
    with torch.no_grad():
        for module in (name for name, kind in model.kinds.items() if kind == "vision"):
            parts = dict(network.get_submodule(module).named_children())
            last = next(parts[name] for name in ("proj", "out_proj", "o_proj", "projection_layer") if name in parts)
            for parameter in last.parameters():
                parameter.zero_()
    return model


def changed(model: Model, kind: str, image: np.ndarray, other: np.ndarray, text: str | None) -> np.ndarray:
    """[keys] bool, whether the key of each token in the first layer is another one."""
    keys = [capture(model, text, image=one).layer_call(0, kind).key[0].float() for one in (image, other)]
    return ((keys[0] - keys[1]).abs() > 1e-4 * keys[0].abs().max()).any(dim=2).any(dim=0).numpy()


def assert_boxes_are_right(model: Model, shape: tuple[int, int], kind: str = "self", text: str | None = None) -> None:
    """shape: of an image that the processor leaves as it is"""
    chance = np.random.default_rng(0)
    image = chance.integers(0, 256, (*shape, 3), dtype=np.uint8)
    taken = capture(model, text, image=image)
    grid = taken.image_grids(kind)[0]
    of_tokens = taken.image_boxes(kind)[grid.tokens] * [shape[1], shape[0], shape[1], shape[0]]
    boxes = np.rint(of_tokens).astype(int)
    np.testing.assert_allclose(of_tokens, boxes, atol=0.1)
    some, inside, outside = chance.random(grid.tokens.shape) < 0.5, image.copy(), 255 - image
    for place, (left, top, right, bottom) in zip(np.ndindex(some.shape), boxes.reshape(-1, 4), strict=True):
        outside[top:bottom, left:right] = image[top:bottom, left:right]
        if some[place]:
            inside[top:bottom, left:right] = 255 - image[top:bottom, left:right]
    np.testing.assert_array_equal(changed(model, kind, image, inside, text)[grid.tokens], some)
    assert not changed(model, kind, image, outside, text)[grid.tokens].any()
    lies_nowhere = np.isnan(taken.image_boxes(kind)[:, 0])
    assert not changed(model, kind, image, 255 - image, text)[lies_nowhere].any()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_picture_alone(family):
    """2 of 14 pixels are left over in each direction."""
    model = vision(family, **REGISTERS.get(family, {}))
    assert_boxes_are_right(model, (14, 14))
    taken = capture(model, image=np.zeros((14, 14, 3)))
    assert taken.grid == (3, 3)
    np.testing.assert_allclose(taken.image_grids()[0].area, (0, 0, 12 / 14, 12 / 14))


def test_pictures_that_are_not_square_other_precisions_and_tokens_behind_the_patches(tmp_path):
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        network = vision("ViT", image_size=[14, 22], patch_size=[4, 5]).network.to(dtype)
        assert_boxes_are_right(load_model(network), (14, 22))
    yolos = vision("Yolos", **YOLOS)
    assert_boxes_are_right(yolos, (12, 20))
    taken = capture(yolos, image=np.zeros((12, 20, 3)))
    names = taken.tokens()[1]
    assert (names[:2], names[-4:]) == (("[CLS]", "patch 0,0"), ("patch 2,4", "[extra 1]", "[extra 2]", "[extra 3]"))
    taken.save(tmp_path / "pass.safetensors")
    opened = open_capture(tmp_path / "pass.safetensors")
    assert opened.tokens() == taken.tokens()
    np.testing.assert_array_equal(opened.image_boxes(), taken.image_boxes())


@pytest.mark.parametrize("left_out", [0.75, 0.0])
def test_patches_that_are_others_in_every_pass_are_refused(left_out):
    """ViTMAE leaves patches out and shuffles the others, drawn anew in each pass."""
    with refused("model", "draws at random which parts of an image it reads"):
        capture(vision("ViTMAE", image_size=8, mask_ratio=left_out), image=np.zeros((8, 8, 3)))


@pytest.mark.parametrize("kind", ["vision", "self"])
@pytest.mark.parametrize("name", WITH_REST)
def test_a_picture_with_a_text(name, kind):
    model = alone(*WITH_REST[name]())
    shape = {"LLaVA-NeXT": (26, 52), "LLaVA-OneVision": (26, 52), "Gemma 4": (56, 80)}
    assert_boxes_are_right(model, shape.get(name, (26, 26)), kind, PLACES.get(name, "<image> 5 6"))


@pytest.mark.parametrize("family", ["PaddleOCRVL", "Cosmos3Edge"])
def test_patches_in_another_order(family):
    """Those of PaddleOCR-VL stand in rows. In those of Cosmos 3 the colours come last: where they lie is not known."""
    network = small_network(f"{family}ForConditionalGeneration")
    network.config.image_token_id = 32
    kind, side = of_images_alone(getattr(t, f"{family}Processor")), network.config.vision_config.patch_size
    images = getattr(t, f"{family}ImageProcessorPil")(patch_size=side, min_pixels=1000, max_pixels=16000, **PLAIN)
    parts = dict.fromkeys(kind.get_attributes())
    processor = kind(**parts | {"image_processor": images, "tokenizer": words(QWEN, image_token=QWEN[0])})
    taken = capture(
        load_model(network, processor=processor), PLACES["Qwen2.5-VL"], image=np.zeros((64, 96, 3), np.uint8)
    )
    grids = [(grid.tokens.tolist(), grid.area) for grid in taken.image_grids("self")]
    assert grids == ([([[1, 2, 3], [4, 5, 6]], (0, 0, 1, 1))] if family == "PaddleOCRVL" else [])
    assert taken.certificate(0, 0, "vision").holds


def test_tokens_of_padding_are_left_out_of_a_text():
    model = alone(*WITH_REST["LLaVA-NeXT"]())
    taken = capture(model, "<image> 5 6", image=np.zeros((16, 52, 3), np.uint8))
    tiles, whole = taken.image_grids("self")
    assert (tiles.tokens.shape, whole.tokens.shape) == ((4, 12), (6, 6))
    assert len(set(taken.tokens("self")[1])) == 36 + 4 * 12 + 1 + 2  # the ends of rows have one name


@pytest.mark.parametrize("name", ["LLaVA", "Idefics 3", "Qwen2.5-VL"])
def test_patches_are_content_and_separators_are_special(name):
    model = seeing(name)
    taken = capture(model, PLACES[name], image=np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8))
    for kind in taken.kinds:
        lies_there = ~np.isnan(taken.image_boxes(kind)[:, 0])
        declared = [token in special_ids(model.tokenizer) for token in taken.input_ids]
        special = ~lies_there if kind == "vision" else np.array(declared) & ~lies_there
        np.testing.assert_array_equal(text_of(taken, kind).special, special)
        assert np.isfinite(head_metrics(taken, kind)["elsewhere"]).all()


def test_registers_are_special():
    taken = capture(vision("Dinov2WithRegisters", num_register_tokens=3), image=np.zeros((14, 14, 3)))
    assert taken.tokens()[1][:5] == ("[CLS]", "[REG 1]", "[REG 2]", "[REG 3]", "patch 0,0")
    assert capture(vision("SiglipVision"), image=np.zeros((14, 14, 3))).tokens()[0][0] == "patch 0,0"
    np.testing.assert_array_equal(text_of(taken, "self").special, [True] * 4 + [False] * 9)
    weights = np.array([[taken.trace(layer, head).weights for head in range(4)] for layer in range(2)])
    measured = head_metrics(taken)["special"].to_numpy().reshape(2, 4)
    np.testing.assert_allclose(measured, weights[..., :4].sum(axis=-1).mean(axis=-1), rtol=0, atol=1e-5)
