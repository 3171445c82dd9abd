"""Sinks on an image: tokens that nearly every query attends to, whatever they show.

Large vision transformers keep results of their own in patches that show little ("registers": Darcet et al. 2024, "Vision
Transformers Need Registers"). Laid over the image, such a patch hides what the head looks at.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..capturing.calls.rows import row_blocks
from ..capturing.capture import Capture
from ..models.calls import Call
from ..models.modules import Kind

TIMES = 10


def image_sinks(capture: Capture, heads: Iterable[tuple[int, int]], kind: Kind | None = None) -> NDArray[np.integer]:
    """The positions of the image tokens that get more than `TIMES` the weight of the median image token.

    The weight of a token is its mean over the queries that may attend to all of them, and over these heads (layer, head): the
    first tokens of a causal text get most of the short rows, whatever they show. Empty where no query may attend to all.
    """
    on_image = np.flatnonzero(~np.isnan(capture.image_boxes(kind)[:, 0]))
    if not len(on_image):
        return on_image
    received = sum(_received(capture.layer_call(layer, kind), head, on_image) for layer, head in heads)
    return on_image[received > TIMES * np.median(received)]


def _received(call: Call, head: int, keys: NDArray[np.integer]) -> NDArray[np.floating]:
    """The sum of the weights of these keys over the queries that may attend to all of them: [keys]."""
    sums = np.zeros(len(keys))
    for rows in row_blocks(call, head):
        if rows.allowed.shape[2] > keys.max():
            attends = rows.allowed[0][:, keys].all(dim=1)
            sums += rows.weights[0][attends][:, keys].sum(dim=0).numpy(force=True)
    return sums
