"""The models that are loaded, how long their texts may be, how much memory reading takes, and what a view needs of a model."""

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from core import Capture, Checkup, Model, check_model, load_model, open_capture, rounded_copy
from core.capturing.costs import component_bytes, kept_bytes, passing_bytes
from core.capturing.layer_labels import missing_layers as layers_without_attention
from core.capturing.weights_only import WeightsOnly, open_weights
from core.errors import InputError, shortened
from core.models.checkups import keep
from core.models.conversion import Report
from core.progress import OnProgress
from core.whole_files import version_of
from ui import settings
from ui.allowed import loads, may_read, places_of
from ui.cache import MEMORY, Store, cached
from ui.calls import call, uploaded
from ui.requests import ModelChoice

# One head of so long a text holds four arrays of 64 MB; twice the length would need four times as much.
MAX_TOKENS = 4_096
NOTING = 3  # times the bytes of a pass: what one takes that notes what each component writes
_CHARACTERS = 64  # a token at most: a text with more is not worth the time to count its tokens


class Models(Store):
    """Models that are loaded. With one that is forgotten go its passes and all other large results: they hold its network."""

    def forgotten(self, key: Hashable, result: Any) -> None:  # noqa: ARG002 - as in `Store`
        MEMORY.forget(lambda other: _asks_for(other, key[-1]))  # type: ignore[index]


def _asks_for(key: Any, choice: ModelChoice) -> bool:
    """Whether the key of a result, made of requests, names a model."""
    if isinstance(key, tuple):
        return any(_asks_for(part, choice) for part in key)
    parts = [getattr(key, part.name) for part in fields(key)] if is_dataclass(key) else []
    return key == choice or any(_asks_for(part, choice) for part in parts)


@cached(Models(2, waits=True))
def loaded(choice: ModelChoice, *, report: Report | None = None) -> Model:
    """The model. Use `load`, which also checks that this host allows a model that is loaded already."""
    if choice.rounded is not None:
        return call(rounded_copy, loaded(replace(choice, rounded=None), report=report), choice.rounded)
    options = {"dtype": choice.dtype, "device": choice.device, "look_in": loads(), "report": report}
    return call(load_model, choice.name, **options)


def load(choice: ModelChoice | str, report: Report | None = None) -> Model:
    """Return the model, loaded if necessary.

    choice  a name stands for float32 on the CPU
    report  called with what takes time, and how much of it is done

    Raises InputError for a model that this host does not load.
    """
    if isinstance(choice, str):
        choice = ModelChoice(choice)
    if choice.is_recorded:
        return opened(choice).model
    places_of(choice.name)
    return loaded(choice, report=report)


@cached(Store(8, waits=True))
def checked(choice: ModelChoice, *, on_progress: OnProgress | None = None) -> Checkup:
    """What the check-up of a model found: made once, whoever asks, and kept on the disk."""
    model = load(choice)
    checkup = check_model(model, seconds=120, on_progress=on_progress)  # the largest models take some ten
    keep(model, checkup)
    return checkup


@cached(MEMORY)
def opened(choice: ModelChoice) -> Capture | WeightsOnly:
    """A recorded pass or its weights, uploaded or, where this host allows folders, by its path. Raises InputError ("model"),
    for a file that has not changed without reading it again."""
    try:
        if choice in _REFUSED:
            raise InputError(_REFUSED.get(choice, str), field="model")
        name = choice.name.strip()
        if choice.contents is None and not (may_read(name) and os.path.isfile(name)):
            words = f"{shortened(name)} is not a file that can be opened here. If you uploaded it in an earlier visit, "
            words += "upload it again: uploaded files stay on the server only while their page is open."
            raise InputError(words, field="file")
        file = name if choice.contents is None else uploaded(name, choice.contents)
        if choice.contents is None and (version := version_of(name)) is not None:
            MEMORY.check(version[1])  # its size
        if name.lower().endswith(".npz"):
            passed = call(open_weights, file, Path(name).name, max_bytes=int(MEMORY.most) // 8)
        else:
            passed = call(open_capture, file)
        for kind in passed.kinds:
            check_length(*passed.shape(kind), "Give a file over a shorter text.", "model")
        return passed
    except InputError as error:
        if choice.version is not None:
            _REFUSED.get(choice, partial(str, error))
        error.field = "model"
        raise


_REFUSED = Store(16)  # why files by their paths cannot be opened


@cached(Store(8, waits=True))
def missing_layers(choice: ModelChoice) -> tuple[str, ...]:
    """The layers of a model that have no softmax attention, in words."""
    return layers_without_attention(load(choice))


# --- how long a text may be


def longest_text(page: int | None = None) -> int | None:
    """Maximum number of tokens that this host and the page allow; None: whatever the model reads."""
    return min((limit for limit in (settings.current().tokens, page) if limit is not None), default=None)


def check_characters(*texts: str | None) -> None:
    """Raise InputError for a text with so many characters that it is too long for this host however it is split into tokens."""
    longest = settings.current().tokens
    characters = max(len(text or "") for text in texts)
    if longest is not None and characters > longest * _CHARACTERS:
        words = f"The text has {characters:,} characters; this host reads at most {longest:,} tokens. Shorten it."
        raise InputError(words, field="text")


def check_length(queries: int, keys: int, advice: str, field: str) -> None:
    """Raise InputError for a head from a file, or of matrices, with more queries or keys than this host reads tokens."""
    longest = settings.current().tokens
    if longest is not None and max(queries, keys) > longest:
        there = f"There are {queries:,} queries and {keys:,} keys"
        raise InputError(f"{there}; this host takes at most {longest:,} of each. {advice}", field=field)


def needed_bytes(choice: ModelChoice, tokens: int, target_tokens: int = 1, *, components: bool = False) -> int:
    """Bytes that reading so many tokens takes while it runs, with the result that is kept. components: with those kept too"""
    network = load(choice)
    kept = (passing_bytes, kept_bytes, *([component_bytes] if components else []))
    needed = sum(of(network, tokens, target_tokens=target_tokens) for of in kept)
    return NOTING * needed if components else needed


# --- what a view needs: checked by whoever offers it. Every view of a pass needs queries and keys: `choose_text` checks that,
# before there is a pass.


@dataclass(frozen=True)
class Need:
    """Something that a model has or lacks. missing: says what a model lacks, after its name"""

    is_met: Callable[[Model], bool]
    missing: str


# A model of images without queries and keys is refused when it reads one: it exposes no weights either.
ONLY_WEIGHTS = "exposes only its attention weights"
QUERIES_AND_KEYS = Need(
    lambda model: model.captures or model.reads_images, f"{ONLY_WEIGHTS}, which Heads, Step by step and Corpus show"
)
TEXTS = Need(lambda model: not model.reads_images, "reads images, not texts")
NEXT_TOKENS = Need(lambda model: model.has_language_model_head, "predicts no next token")


def missing(model: Model, *needs: Need) -> str | None:
    """Return a sentence that says what a model lacks, and what to do; None if it meets all needs."""
    lacking = [need.missing for need in needs if not need.is_met(model)]
    return f"{model.name} {' and '.join(lacking)}. Choose another model." if lacking else None
