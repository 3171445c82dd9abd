"""A region of an image, taken away from what a model reads: "what does it say without the dog?"."""

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, check_index, image_error
from ..models.modules import Kind
from .calls.head_places import EVERYWHERE, Place
from .capture import Capture
from .edits.edits import Edits

_TOUCHES = 0.02  # of a token's width and height: what reaches less far into it only lies beside it


def edits_without_region(capture: Capture, rows: range, columns: range, kind: Kind | None = None) -> Edits:
    """The edits of a pass in which no query of any head attends to a rectangle of the image.

    rows, columns  of the patches of `capture.image_grids(kind)[0]`

    Blocked are all tokens that show a part of the rectangle: in the text, in the vision tower, in each tile, and in the small
    image that a model may read beside its tiles. Nothing that is seen there then reaches another token. Raises InputError
    (field "region") for an empty rectangle and one that is not on the grid, (field "image") for a pass that read no image.
    """
    grids = capture.image_grids(kind)
    if not grids:
        raise image_error("This pass has read no image, of which a region could be blocked.")
    for name, chosen, count in zip(("row", "column"), (rows, columns), grids[0].tokens.shape, strict=True):
        if not chosen:
            raise InputError(f"A region without a {name} is empty. Choose at least one {name}.", field="region")
        for place in (chosen[0], chosen[-1]):
            check_index(place, count, f"patch {name}", field="region")
    region = np.ix_(rows, columns)
    edges = grids[0].boxes()[region].reshape(-1, 4)
    area = np.concatenate([np.fmin.reduce(edges[:, :2]), np.fmax.reduce(edges[:, 2:])])
    blocked = {of: set(np.flatnonzero(_shows(capture.image_boxes(of), area)).tolist()) for of in capture.kinds}
    # Also those that are padding only.
    blocked[kind or capture.kinds[0]].update(grids[0].tokens[region].ravel().tolist())
    by_place = {Place(kind=of) if of == "vision" else EVERYWHERE: keys for of, keys in blocked.items() if keys}
    return Edits(block_keys=by_place)


def _shows(boxes: NDArray[np.floating], area: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Whether each token shows a part of the area: [tokens]."""
    first, last = np.maximum(boxes[:, :2], area[:2]), np.minimum(boxes[:, 2:], area[2:])
    across, down = (last - first > _TOUCHES * (boxes[:, 2:] - boxes[:, :2])).T
    return across & down
