"""What is kept, and what is not worked out twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from io import BytesIO
from threading import Event

import numpy as np
import pytest
import torch
from PIL import Image

import core
from core import Edits
from core.models.images import read_image
from core.models.model import Model
from tests.core.tiny_models import tiny
from ui import settings, stores
from ui.memory import Memory
from ui.stores import LargeStore, SharedStore, Store


class Letters(str):
    """So many bytes."""

    @property
    def nbytes(self) -> int:
        return len(self)


class Work:
    """Gives a text of so many letters, and counts how often it was asked to."""

    def __init__(self, letters: int) -> None:
        self.letters, self.count = letters, 0

    def __call__(self) -> Letters:
        self.count += 1
        return Letters("x" * self.letters)


def test_the_least_recently_used_is_forgotten_first_in_whichever_store_it_is() -> None:
    memory = Memory(10)
    store, other = LargeStore(memory, "passes"), LargeStore(memory, "patchings")
    first, second, third = Work(4), Work(4), Work(4)
    store.get("one", first)
    other.get("one", second)
    store.get("one", first)
    other.get("two", third)
    assert ["one" in store, "one" in other, "two" in other, "two" in store] == [True, False, True, False]
    assert (first.count, second.count, third.count) == (1, 1, 1)
    assert memory.kept == 8


def test_small_things_are_counted() -> None:
    store = Store(2)
    for name in "abc":
        store.get(name, Work(4))
    assert [name in store for name in "abc"] == [False, True, True]


def test_what_is_larger_than_the_bound_is_kept_alone_until_something_else_comes() -> None:
    """Everything on a page that shows a pass asks for it; given but not kept, it would be read over and over."""
    store = LargeStore(Memory(10), "passes")
    large = Work(11)
    store.get("small", Work(4))
    assert len(store.get("large", large)) == len(store.get("large", large)) == 11
    assert large.count == 1
    assert "small" not in store
    store.get("small", Work(4))
    assert "large" not in store


@pytest.mark.parametrize("store", [Store(10), LargeStore(Memory(10), "passes")])
def test_work_that_failed_leaves_nothing_behind(store: Store | LargeStore) -> None:
    def fail() -> str:
        raise ValueError("no result")

    with pytest.raises(ValueError, match="no result"):
        store.get("it", fail)
    assert "it" not in store
    assert store.get("it", Work(3)) == "xxx"


def test_all_that_is_large_shares_the_memory_of_the_settings() -> None:
    large = [store for store in vars(stores).values() if isinstance(store, LargeStore)]
    assert len(large) == 5
    assert {id(store._memory) for store in large} == {id(stores.memory)}
    assert stores.memory.most == settings.current().memory


# --- a store that several sessions use at once


def test_sessions_that_ask_at_once_wait_for_one_piece_of_work() -> None:
    store, begun, done = SharedStore(2), Event(), Event()

    def slow() -> object:
        begun.set()
        assert done.wait(60)
        return object()

    with ThreadPoolExecutor() as sessions:
        try:
            first = sessions.submit(store.get, "model", slow)
            assert begun.wait(60)
            second = sessions.submit(store.get, "model", object)
            assert sessions.submit(store.get, "another model", lambda: "at once").result(60) == "at once"
            with pytest.raises(TimeoutError):
                second.result(0.2)
        finally:
            done.set()
        assert first.result(60) is second.result(60) is store.get("model", object)


def test_work_that_failed_while_others_waited_is_tried_again() -> None:
    store = SharedStore(2)
    with pytest.raises(ZeroDivisionError):
        store.get("model", lambda: 1 / 0)
    assert "model" not in store
    assert store.get("model", lambda: "found") == "found"


# --- a model in another dtype is another model


def test_nothing_of_one_precision_is_given_for_another(minilm: Model, half: dict[str, Model]) -> None:
    text = "Precision is part of the question."
    whole = stores.TextRequest(stores.ModelChoice(minilm.name), text)
    rounded = replace(whole, model=replace(whole.model, dtype="bfloat16"))
    stores.models.get(whole.model, lambda: minilm)
    stores.models.get(rounded.model, lambda: half[minilm.name])
    assert stores.model(minilm.name) is stores.model(whole.model)
    assert [stores.model(request.model).dtype for request in (whole, rounded)] == ["float32", "bfloat16"]
    passes = [stores.captured(request) for request in (whole, rounded)]
    assert [taken.layer_call(0).query.dtype for taken in passes] == [torch.float32, torch.bfloat16]
    of = [stores.KindRequest(request, "self") for request in (whole, rounded)]
    tables = [stores.measured(request)["entropy"] for request in of]
    assert 0 < np.abs(tables[0] - tables[1]).max() < 0.1
    certificates = [stores.head_overview(stores.HeadRequest(request, "self", 5, 11))[1] for request in (whole, rounded)]
    assert [certificate.dtype for certificate in certificates] == ["float32", "bfloat16"]
    labels = [minilm.name, f"{minilm.name} in bfloat16"]
    assert [str(request.model) for request in (whole, rounded)] == labels
    assert all(stores.speeds.latest(label, "reading") for label in labels)


# --- what one visitor asks for is not what another one gets


def pixels(seed: int) -> bytes:
    """A file with an image of its own."""
    file = BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_everything_that_is_asked_for_counts() -> None:
    """A field left out of the comparison would give a visitor what another one has uploaded or changed."""
    requests = [kind for kind in vars(stores).values() if is_dataclass(kind) and kind.__module__ == stores.__name__]
    assert {"TextRequest", "HeadRequest", "PatchRequest"} <= {kind.__name__ for kind in requests}
    for kind in requests:
        assert all(field.compare and field.hash is not False for field in fields(kind)), kind
    given = {"pair": "b", "target": "c", "keep": 4, "image": pixels(0), "edits": Edits(mute_heads={(0, 0)})}
    plain = stores.TextRequest(stores.ModelChoice("m"), "a")
    assert len({plain, *(replace(plain, **{name: value}) for name, value in given.items())}) == 1 + len(given)
    assert replace(plain, image=pixels(0)) != replace(plain, image=pixels(1))


def test_visitors_with_images_and_changes_of_their_own_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve at once, each of whom looks again and again at what is theirs, in a memory that holds half of it."""
    network = core.load_model(tiny("ViT"))
    of = stores.ModelChoice("all-MiniLM-L6-v2")  # a name that may be loaded, and stands for the network here
    monkeypatch.setattr(stores, "models", SharedStore(2))
    stores.models.get(of, lambda: network)
    requests = [
        stores.TextRequest(of, "", image=pixels(seed), edits=edits)
        for seed in range(6)
        for edits in (None, Edits(mute_heads={(1, seed % 2)}))
    ]
    alone = [core.capture(network, image=read_image(one.image or b""), edits=one.edits) for one in requests]
    monkeypatch.setattr(stores, "passes", LargeStore(Memory(6 * alone[0].nbytes), "passes"))

    def look(place: int) -> None:
        for _ in range(5):
            seen = stores.captured(requests[place])
            for layer in range(seen.layers()):
                np.testing.assert_array_equal(seen.trace(layer, 0).weights, alone[place].trace(layer, 0).weights)

    with ThreadPoolExecutor(max_workers=len(requests)) as visitors:
        list(visitors.map(look, range(len(requests))))
    assert not np.array_equal(alone[0].trace(0, 0).weights, alone[2].trace(0, 0).weights)
