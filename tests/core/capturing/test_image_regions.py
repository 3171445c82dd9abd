"""A blocked region of an image: what is seen there reaches nothing else."""

import copy
from itertools import product

import numpy as np
import pytest
import transformers as t

from core import Model, capture, load_model
from core.capturing.edits.edits import every
from core.capturing.edits.lines import edits_of, lines_of
from core.capturing.image_regions import edits_without_region
from core.errors import InputError
from tests.core.tiny_seeing import PLACES, PLAIN, SEEING, seeing
from tests.refusals import refused

IMAGE = np.random.default_rng(0).integers(0, 256, (60, 100, 3), dtype=np.uint8)
ROWS = range(1, 2)


def padded():
    """LLaVA's processor as LLaVA 1.5 was trained: the image is padded to a square."""
    size = {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}}
    return t.LlavaImageProcessorPil(do_pad=True, **size, **PLAIN)


def with_crops():
    scan = {"pan_and_scan_min_crop_size": 8, "pan_and_scan_max_num_crops": 4, "pan_and_scan_min_ratio_to_activate": 1.2}
    return t.Gemma3ImageProcessorPil(size={"height": 24, "width": 24}, do_pan_and_scan=True, **scan, **PLAIN)


OTHERS = {"LLaVA, padded": padded, "Gemma 3, with crops": with_crops}


def looking(name: str) -> tuple[Model, str]:
    """(the model, with another image processor if it is one of OTHERS; a text with a place for an image)."""
    family = name.split(",")[0]
    model, text = seeing(family), PLACES[family]
    if name not in OTHERS:
        return model, text
    processor = copy.deepcopy(model.processor)
    processor.image_processor = OTHERS[name]()
    processor.images_kwargs = {"do_pan_and_scan": True} if "crops" in name else {}
    return load_model(model.network, processor=processor), text


@pytest.mark.parametrize(("name", "shape"), product([*SEEING, *OTHERS], [(60, 100), (96, 40)]))
def test_what_is_in_a_blocked_region_does_not_reach_the_answer(name, shape):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    model, text = looking(name)
    plain = capture(model, text, image=image)
    grid = plain.image_grids()[0]
    columns = range(1, min(3, grid.tokens.shape[1]))
    edits = edits_without_region(plain, ROWS, columns)
    left, top, _, _ = grid.boxes()[ROWS[0], columns[0]]
    _, _, right, bottom = grid.boxes()[ROWS[-1], columns[-1]]
    down, across = ((np.arange(size) + 0.5) / size for size in shape)
    inside = ((top < down) & (down < bottom))[:, None] & ((left < across) & (across < right))
    other = np.where(inside[:, :, None], 255 - image, image)
    before, after = (capture(model, text, image=one, edits=edits) for one in (image, other))
    np.testing.assert_allclose(after.logits, before.logits, rtol=0, atol=1e-5)
    assert np.abs(capture(model, text, image=other).logits - plain.logits).max() > 1e-3
    assert all(before.certificate(1, 0, kind).holds for kind in before.kinds)
    # No more than the region is blocked: of the text's tokens those of the grid, of the tower's what they are merged from.
    keys = {edit.at.kind or "self": set(edit.value) for edit in edits.each}
    assert set(grid.tokens.ravel()) & keys["self"] == set(grid.tokens[np.ix_(ROWS, columns)].ravel())
    finest = plain.image_grids("vision")[0].tokens
    assert len(set(finest.ravel()) & keys["vision"]) * grid.tokens.size == len(ROWS) * len(columns) * finest.size


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
