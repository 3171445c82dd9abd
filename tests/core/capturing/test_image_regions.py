"""A blocked region of an image: what is seen there reaches nothing else, and every number is that of transformers' eager code
with the same keys masked."""

import sys

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from core import Edits, capture
from core.capturing.edits.edits import every
from core.capturing.edits.lines import edits_of, lines_of
from core.capturing.image_regions import edits_without_region
from core.errors import InputError
from tests.core.tiny_models import twin_of
from tests.core.tiny_seeing import PLACES, SEEING, seeing
from tests.refusals import refused

IMAGE = np.random.default_rng(0).integers(0, 256, (60, 100, 3), dtype=np.uint8)
ROWS, COLUMNS = range(1, 2), range(1, 3)


def blocked_keys(edits: Edits) -> dict[str, list[int]]:
    return {edit.at.kind or "self": list(edit.value) for edit in edits.each}


@pytest.mark.parametrize("name", SEEING)
def test_what_is_in_a_blocked_region_does_not_reach_the_answer(name):
    model, text = seeing(name), PLACES[name]
    plain = capture(model, text, image=IMAGE)
    grid = plain.image_grids()[0]
    edits = edits_without_region(plain, ROWS, COLUMNS)
    left, top, _, _ = grid.boxes()[ROWS[0], COLUMNS[0]]
    _, _, right, bottom = grid.boxes()[ROWS[-1], COLUMNS[-1]]
    down, across = ((np.arange(size) + 0.5) / size for size in IMAGE.shape[:2])
    inside = ((top < down) & (down < bottom))[:, None] & ((left < across) & (across < right))
    other = np.where(inside[:, :, None], 255 - IMAGE, IMAGE)
    before, after = (capture(model, text, image=image, edits=edits) for image in (IMAGE, other))
    np.testing.assert_allclose(after.logits, before.logits, rtol=0, atol=1e-5)
    assert np.abs(capture(model, text, image=other).logits - plain.logits).max() > 1e-3
    assert all(before.certificate(1, 0, kind).holds for kind in before.kinds)
    # No more than the region is blocked: of the text's tokens those of the grid, of the tower's what they are merged from.
    keys = blocked_keys(edits)
    assert set(grid.tokens.ravel()) & set(keys["self"]) == set(grid.tokens[np.ix_(ROWS, COLUMNS)].ravel())
    finest = plain.image_grids("vision")[0].tokens
    assert len(set(finest.ravel()) & set(keys["vision"])) * grid.tokens.size == len(ROWS) * len(COLUMNS) * finest.size


BLOCKED: dict[int, list[int]] = {}


def blocking(module, query, key, value, attention_mask, **options):
    """The model's own eager code, with some keys masked. Tiles are a batch, whose keys are counted one after another."""
    tiles, _, queries, keys = query.shape[0], *query.shape[1:3], key.shape[2]
    if attention_mask is None:
        attention_mask = query.new_zeros(tiles, 1, queries, keys)
    is_blocked = torch.isin(torch.arange(tiles * keys), torch.tensor(BLOCKED[id(module)])).view(tiles, 1, 1, keys)
    attention_mask = attention_mask.masked_fill(is_blocked, torch.finfo(query.dtype).min)
    own = sys.modules[type(module).__module__].eager_attention_forward
    return own(module, query, key, value, attention_mask, **options)


AttentionInterface.register("blocking", blocking)
AttentionMaskInterface.register("blocking", eager_mask)


@pytest.mark.parametrize("name", ["LLaVA", "Idefics 3", "Gemma 3", "PaliGemma"])
def test_a_blocked_region_agrees_with_eager_attention_whose_mask_has_these_keys(name):
    model, text = seeing(name), PLACES[name]
    plain = capture(model, text, image=IMAGE)
    edits = edits_without_region(plain, ROWS, COLUMNS)
    network = twin_of(model.network, "blocking")
    keys = blocked_keys(edits)
    for module, kind in model.kinds.items():
        BLOCKED[id(network.get_submodule(module))] = keys[kind]
    inputs = model.processor(images=IMAGE, text=[text], return_tensors="pt")
    inputs.pop("labels", None)
    with torch.inference_mode():
        expected = network(**inputs).logits[0, -1].numpy()
    edited = capture(model, text, image=IMAGE, edits=edits)
    np.testing.assert_allclose(edited.logits, expected, rtol=0, atol=5e-5)
    assert np.abs(plain.logits - expected).max() > 1e-3


def test_a_region_is_a_line_for_each_part_of_the_model():
    plain = capture(seeing("LLaVA"), PLACES["LLaVA"], image=IMAGE)  # 6 × 6 patches, in the tower after [CLS]
    edits = edits_without_region(plain, range(1, 3), range(6))
    assert lines_of(edits) == ("block key 6-17", "block key 7-18 at vision")
    assert every(map(edits_of, lines_of(edits))) == edits
    assert lines_of(edits_without_region(plain, range(2, 4), range(4, 5)))[0] == "block key 16 22"
    # The same region, by the patches of the tower.
    assert edits_without_region(plain, range(1, 3), range(6), "vision") == edits


def test_an_empty_region_and_one_beside_the_image_are_refused():
    model = seeing("LLaVA")
    plain = capture(model, PLACES["LLaVA"], image=IMAGE)
    for rows, columns, match in (
        (range(2, 2), range(3), "without a row is empty"),
        (range(3), range(4, 1), "without a column is empty"),
        (range(2, 7), range(3), "no patch row 6: they run from 0 to 5"),
        (range(2), range(-1, 3), "no patch column -1"),
    ):
        with refused("region", match):
            edits_without_region(plain, rows, columns)
    with pytest.raises(InputError, match="has read no image"):
        edits_without_region(capture(model, "5 6"), range(1), range(1))
