"""What a recorded pass says that only its model could confirm."""

from __future__ import annotations

from ..capturing.capture import Capture
from ..models.model import RecordedModel


def unchecked(capture: Capture) -> str:
    """A sentence about what cannot be checked of a pass from a file; "" for any other pass.

    Whatever else a file says twice is compared when it is opened, and certificates compare the output of each head with what
    follows from its queries, keys and values.
    """
    model = capture.model
    if not isinstance(model, RecordedModel):
        return ""
    parts = {
        "the model's name and revision": True,
        "the tokens and their texts": bool(capture.input_ids),
        "the side of each token": bool(capture.sides),
        "queries, keys and values": True,
        "labels of layers": True,
        "the logits": capture.logits is not None,
        "the vectors, and how they make a sentence vector": capture.vectors is not None,
        "the image, and where tokens lie on it": capture.image is not None or capture.grid is not None,
        "the other texts of its changes": bool(capture.edits.other_texts),
        "whether it is as it was written, which it does not say": not model.is_sealed,
    }
    listed = ", ".join(part for part, is_there in parts.items() if is_there)
    return f"Not checked, because only the model could: {listed}."
