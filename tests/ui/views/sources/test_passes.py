"""Passes of several models and visitors: nobody gets what belongs to another request."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO

import numpy as np
from PIL import Image

import core
from core import Edits
from core.models.images import read_image
from tests.core.tiny_models import tiny
from ui import calls
from ui.cache import Memory, Store
from ui.requests import ModelChoice, TextRequest
from ui.views.sources import models, passes
from ui.views.sources.models import NEXT_TOKENS, QUERIES_AND_KEYS, TEXTS, missing


def pixels(seed):
    """A file with an image of its own."""
    file = BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_visitors_with_images_and_changes_of_their_own_at_once(keep, monkeypatch):
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

    def look(place):
        for _ in range(5):
            seen = passes.captured(wanted[place])
            for layer in range(seen.layers()):
                np.testing.assert_array_equal(seen.trace(layer, 0).weights, alone[place].trace(layer, 0).weights)

    with ThreadPoolExecutor(max_workers=len(wanted)) as visitors:
        list(visitors.map(look, range(len(wanted))))
    assert not np.array_equal(alone[0].trace(0, 0).weights, alone[2].trace(0, 0).weights)


def test_a_change_continues_from_what_is_known(keep, minilm):
    """From the plain pass or from the one that was shown before; a text that edits read is read once for all of them."""
    of, made = ModelChoice(minilm.name), []
    keep(models.loaded, minilm, of)
    plain, other = TextRequest(of, "A cat sat down here."), TextRequest(of, "A dog ran off again.")
    low, high = Edits(mute_heads={(0, 1)}), Edits(mute_heads={(4, 1)})
    patches = [Edits(patch_heads={(layer, 3)}, patch_from=other.text) for layer in (3, 5)]

    def read(request, near=None):
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


def test_needs_are_met_by_the_right_models_and_all_that_a_model_lacks_is_said(minilm, smollm):
    exposed = core.load_model(tiny("GPT-J"))
    found = {need: [need.is_met(model) for model in (minilm, smollm, exposed)] for need in (QUERIES_AND_KEYS, TEXTS)}
    assert found == {QUERIES_AND_KEYS: [True, True, False], TEXTS: [True, True, True]}
    assert [missing(model, NEXT_TOKENS) is None for model in (minilm, smollm)] == [False, True]
    lacks = f"{exposed.name} exposes only its attention weights, which Heads, Step by step and Corpus show."
    assert missing(exposed, QUERIES_AND_KEYS) == f"{lacks} Choose another model."
    vit = core.load_model(tiny("ViT"))
    lacks = f"{vit.name} reads images, not texts and predicts no next token. Choose another model."
    assert missing(vit, TEXTS, NEXT_TOKENS) == lacks


def test_a_page_keeps_nothing_of_a_pass_that_the_memory_has_forgotten(monkeypatch, keep, minilm):
    """Not what its components wrote either, though the page has recorded where each comes from."""
    monkeypatch.setattr(passes.with_components, "store", Memory(1e9))
    of = TextRequest(ModelChoice(minilm.name), "A cat sat down.")
    recorded = calls.begin()
    monkeypatch.setattr(models.loaded, "store", Store(2, waits=True))
    keep(models.loaded, calls.made_by(replace(minilm), core.load_model, minilm.name), of.model)
    passed = passes.with_components(of)
    assert calls.is_known(passed.components.written)
    assert calls.is_known(passed.input_ids)
    kept = [weakref.ref(tensor) for one in passed.components.written if one.role != "bias" for tensor in [one.tensor]]
    assert len(kept) == 1 + 2 * minilm.network.config.num_hidden_layers
    passes.with_components.store.forget(lambda _: True)
    del passed
    gc.collect()
    assert recorded.made
    assert not any(one() is not None for one in kept)
