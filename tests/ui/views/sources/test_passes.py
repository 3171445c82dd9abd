"""Passes of several models and visitors: nobody gets what belongs to another request."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import core
from core import Edits
from core.models.images import read_image
from core.models.model import Model
from tests.core.tiny_models import tiny
from ui.cache import Memory, Store
from ui.requests import HeadRequest, KindRequest, ModelChoice, TextRequest
from ui.views.heads import all_heads
from ui.views.sources import models, passes


def test_nothing_of_one_precision_is_given_for_another(keep, minilm: Model, half: dict[str, Model]) -> None:
    text = "Precision is part of the question."
    whole = TextRequest(ModelChoice(minilm.name), text)
    rounded = replace(whole, model=replace(whole.model, dtype="bfloat16"))
    keep(models.loaded, minilm, whole.model)
    keep(models.loaded, half[minilm.name], rounded.model)
    assert models.load(minilm.name) is models.load(whole.model)
    assert [models.load(request.model).dtype for request in (whole, rounded)] == ["float32", "bfloat16"]
    captures = [passes.captured(request) for request in (whole, rounded)]
    assert [capture.layer_call(0).query.dtype for capture in captures] == [torch.float32, torch.bfloat16]
    of = [KindRequest(request, "self") for request in (whole, rounded)]
    tables = [all_heads.metrics(request)["entropy"] for request in of]
    assert 0 < np.abs(tables[0] - tables[1]).max() < 0.1
    certificates = [passes.head_overview(HeadRequest(request, "self", 5, 11))[1] for request in (whole, rounded)]
    assert [certificate.dtype for certificate in certificates] == ["float32", "bfloat16"]
    labels = [minilm.name, f"{minilm.name} in bfloat16"]
    assert [str(request.model) for request in (whole, rounded)] == labels


def pixels(seed: int) -> bytes:
    """A file with an image of its own."""
    file = BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_visitors_with_images_and_changes_of_their_own_at_once(keep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve at once, each of whom looks again and again at what is theirs, in a memory that holds half of it."""
    network = core.load_model(tiny("ViT"))
    of = ModelChoice("all-MiniLM-L6-v2")  # a name that may be loaded, and stands for the network here
    monkeypatch.setattr(models.loaded, "store", Store(2, waits=True))
    keep(models.loaded, network, of)
    wanted = [
        TextRequest(of, "", image=pixels(seed), edits=edits)
        for seed in range(6)
        for edits in (None, Edits(mute_heads={(1, seed % 2)}))
    ]
    alone = [core.capture(network, image=read_image(one.image or b""), edits=one.edits) for one in wanted]
    monkeypatch.setattr(passes.captured, "store", Memory(6 * alone[0].nbytes))

    def look(place: int) -> None:
        for _ in range(5):
            seen = passes.captured(wanted[place])
            for layer in range(seen.layers()):
                np.testing.assert_array_equal(seen.trace(layer, 0).weights, alone[place].trace(layer, 0).weights)

    with ThreadPoolExecutor(max_workers=len(wanted)) as visitors:
        list(visitors.map(look, range(len(wanted))))
    assert not np.array_equal(alone[0].trace(0, 0).weights, alone[2].trace(0, 0).weights)


def test_a_change_continues_from_what_is_known(keep, minilm: Model) -> None:
    """From the plain pass or from the one that was shown before; a text that edits read is read once for all of them."""
    of, made = ModelChoice(minilm.name), []
    keep(models.loaded, minilm, of)
    plain, other = TextRequest(of, "A cat sat down here."), TextRequest(of, "A dog ran off again.")
    low, high = Edits(mute_heads={(0, 1)}), Edits(mute_heads={(4, 1)})
    patches = [Edits(patch_heads={(layer, 3)}, patch_from=other.text) for layer in (3, 5)]

    def read(request: TextRequest, near: TextRequest | None = None) -> list[int]:
        """The attention calls that are made for it, all over the request's own text."""
        made.clear()
        np.testing.assert_array_equal(
            passes.captured(request, near=near, on_progress=made.append).vectors,
            core.capture(minilm, request.text, edits=request.edits).vectors,
        )
        return made

    assert read(plain) == [1, 2, 3, 4, 5, 6]
    assert read(replace(plain, edits=high)) == [5, 6]
    assert read(replace(plain, edits=low)) == [1, 2, 3, 4, 5, 6]
    assert read(replace(plain, edits=low | high), replace(plain, edits=low)) == [5, 6]
    assert not passes.captured.is_known(other)
    assert read(replace(plain, edits=patches[0])) == [4, 5, 6]
    assert passes.captured.is_known(other)
    assert read(replace(plain, edits=patches[1])) == [6]
