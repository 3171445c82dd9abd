"""What is kept, within which bounds, and what is not computed twice."""

from __future__ import annotations

from collections.abc import Callable
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
from tests.keeping import keep
from ui import models, passes, requests, settings
from ui.cache import Cached, Store, cached
from ui.memory import MEMORY, Memory
from ui.requests import HeadRequest, KindRequest, ModelChoice, TextRequest
from ui.views import writing
from ui.views.heads import results as results_of_heads
from ui.views.what_if import results


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


@pytest.mark.parametrize("store", [Store(2), Memory(10)])
def test_functions_that_share_a_store_share_its_bound_and_nothing_else(store: Store | Memory) -> None:
    """The least recently used is forgotten first, whichever function returned it."""
    work, other_work = Work(4), Work(4)

    @cached(store)
    def one(_name: str) -> Letters:
        return work()

    @cached(store)
    def other(_name: str) -> Letters:
        return other_work()

    one("a")
    other("a")
    one("a")
    other("b")
    assert [one.is_known("a"), other.is_known("a"), other.is_known("b"), one.is_known("b")] == [
        True,
        False,
        True,
        False,
    ]
    assert (work.count, other_work.count) == (1, 2)
    assert not isinstance(store, Memory) or store.kept == 8


def test_the_positional_arguments_are_the_key_however_they_are_given() -> None:
    calls = []

    @cached(Store(8))
    def scaled(number: float, factor: float = 2.0, *, on_progress: Callable[[int], None] | None = None) -> float:
        calls.append((number, factor))
        if on_progress is not None:
            on_progress(1)
        return number * factor

    assert (scaled(3.0), scaled(3.0, 2.0), scaled(number=3.0, factor=2.0)) == (6.0, 6.0, 6.0)
    assert scaled.task(3.0).is_known
    assert scaled(3.0, factor=4.0) == 12.0
    assert calls == [(3.0, 2.0), (3.0, 4.0)]
    told: list[int] = []
    assert scaled.task(5.0).compute(told.append) == 10.0
    assert scaled(5.0, on_progress=told.append) == 10.0
    assert told == [1]
    with pytest.raises(TypeError):
        scaled(3.0, another=1)  # pyright: ignore[reportCallIssue]


def test_a_task_is_named_by_the_function_and_its_request() -> None:
    """Its name is what is stopped: another request of the same function is other work."""

    @cached(Store(8))
    def one(name: str) -> str:
        return name

    @cached(Store(8))
    def other(name: str) -> str:
        return name

    assert one.task("a").name == one.task("a").name
    assert len({one.task("a").name, one.task("b").name, other.task("a").name}) == 3
    assert one.task("a").compute(lambda _: None) == "a"  # a function that does not tell how far it is


def test_small_things_are_counted() -> None:
    store = Store(2)
    for name in "abc":
        store.get(name, Work(4))
    assert [name in store for name in "abc"] == [False, True, True]


def test_what_is_larger_than_the_bound_is_kept_alone_until_something_else_comes() -> None:
    """Everything on a page that shows a pass asks for it; given but not kept, it would be read over and over."""
    store = Memory(10)
    large = Work(11)
    store.get("small", Work(4))
    assert len(store.get("large", large)) == len(store.get("large", large)) == 11
    assert large.count == 1
    assert "small" not in store
    store.get("small", Work(4))
    assert "large" not in store


@pytest.mark.parametrize("store", [Store(10), Store(10, waits=True), Memory(10)])
def test_work_that_failed_leaves_nothing_behind(store: Store | Memory) -> None:
    def fail() -> str:
        raise ValueError("no result")

    with pytest.raises(ValueError, match="no result"):
        store.get("it", fail)
    assert "it" not in store
    assert store.get("it", Work(3)) == "xxx"


def test_all_that_is_large_shares_the_memory_of_the_settings() -> None:
    functions = [
        function
        for module in (passes, writing, results_of_heads, results)
        for function in vars(module).values()
        if isinstance(function, Cached) and function.__module__ == module.__name__
    ]
    large = {function.__name__ for function in functions if function.store is MEMORY}
    assert large == {"captured", "weights_only", "written_after", "effects", "patching", "patch_effects"}
    assert not [
        function for function in functions if isinstance(function.store, Memory) and function.store is not MEMORY
    ]
    assert MEMORY.most == settings.current().memory


# --- a store that several sessions use at once


def test_sessions_that_ask_at_once_wait_for_one_piece_of_work() -> None:
    store, begun, done = Store(2, waits=True), Event(), Event()

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
    store = Store(2, waits=True)
    with pytest.raises(ZeroDivisionError):
        store.get("model", lambda: 1 / 0)
    assert "model" not in store
    assert store.get("model", lambda: "found") == "found"


# --- a model in another dtype is another model


def test_nothing_of_one_precision_is_given_for_another(minilm: Model, half: dict[str, Model]) -> None:
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
    tables = [results_of_heads.metrics(request)["entropy"] for request in of]
    assert 0 < np.abs(tables[0] - tables[1]).max() < 0.1
    certificates = [passes.head_overview(HeadRequest(request, "self", 5, 11))[1] for request in (whole, rounded)]
    assert [certificate.dtype for certificate in certificates] == ["float32", "bfloat16"]
    labels = [minilm.name, f"{minilm.name} in bfloat16"]
    assert [str(request.model) for request in (whole, rounded)] == labels
    assert all(models.SPEEDS.latest(label, "reading") for label in labels)


# --- what one visitor asks for is not what another one gets


def pixels(seed: int) -> bytes:
    """A file with an image of its own."""
    file = BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_everything_that_is_asked_for_counts() -> None:
    """A field left out of the comparison would give a visitor what another one has uploaded or changed."""
    kinds = [kind for kind in vars(requests).values() if is_dataclass(kind) and kind.__module__ == requests.__name__]
    assert {"TextRequest", "HeadRequest", "PatchRequest"} <= {kind.__name__ for kind in kinds}
    for kind in kinds:
        assert all(field.compare and field.hash is not False for field in fields(kind)), kind
    given = {"pair": "b", "target": "c", "keep": 4, "image": pixels(0), "edits": Edits(mute_heads={(0, 0)})}
    plain = TextRequest(ModelChoice("m"), "a")
    assert len({plain, *(replace(plain, **{name: value}) for name, value in given.items())}) == 1 + len(given)
    assert replace(plain, image=pixels(0)) != replace(plain, image=pixels(1))


def test_visitors_with_images_and_changes_of_their_own_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
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
