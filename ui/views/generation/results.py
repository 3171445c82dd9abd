"""Texts that a model writes for the page Generation, each kept as far as it is written for all sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from core import InputError
from core.capturing.costs import image_bytes, kept_bytes
from core.capturing.generation.generating import Generating, Generation
from core.heads.likeness import weight_differences
from core.models.inputs import all_inputs, chat_ids
from core.progress import held
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.requests import WritingRequest
from ui.views.sources.models import MAX_TOKENS, load, longest_text
from ui.views.sources.passes import all_inputs_of, limits_of

MAX_NEW_TOKENS = 200


@dataclass(frozen=True, eq=False)
class Writing:
    """A text that a model writes. It is kept as far as it is written; whoever wants more tokens continues from there.

    nbytes    bytes of the longest text that it may become
    problems  why it goes no further, if a token cannot be written
    """

    generating: Generating
    nbytes: int
    lock: Lock = field(default_factory=Lock)
    problems: list[InputError] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class FirstTokens:
    """The first `most` tokens that a model writes, one a piece; fewer if it ends its text before."""

    writing: Writing
    most: int

    @property
    def done(self) -> int:
        return min(self.writing.generating.done, self.most)

    @property
    def total(self) -> int:
        return self.most if self.writing.generating.ended is None and not self.writing.problems else self.done

    @property
    def share(self) -> float:
        return self.done / self.most

    @property
    def may_pause(self) -> bool:
        return True

    def go_on(self) -> bool:
        """Have one more token written; False if there is none left. Sessions that want the same text take turns."""
        with held(self.writing.lock):
            try:
                return self.done < self.total and self.writing.generating.go_on()
            except InputError as error:
                self.writing.problems.append(error)
                return False

    def so_far(self) -> Generation:
        return self.writing.generating.so_far(self.most)


@cached(MEMORY)
def written_after(request: WritingRequest) -> Writing:
    """The text that answers a request; no token of it is written yet when it is new.

    Raises InputError for a model that writes nothing, for texts as `captured` does, and if the memory is too small.
    """
    network, text, tiles = load(request.text.model), request.text, None
    if request.chat:  # what is cut off its end would be where the answer begins
        limits: dict[str, Any] = limits_of(text) | {"truncate": False}
        inputs = all_inputs(network, input_ids=chat_ids(network, text.text), **limits)
    else:
        inputs, tiles = all_inputs_of(text)
    generating = Generating(network, inputs, request.sampling, max_tokens=longest_text(MAX_TOKENS), tiles=tiles)
    read = inputs["input_ids"].shape[1]
    tokens, target = (read, MAX_NEW_TOKENS) if network.is_encoder_decoder else (read + MAX_NEW_TOKENS, 1)
    logits = 4 * MAX_NEW_TOKENS * network.network.config.get_text_config().vocab_size
    nbytes = 2 * kept_bytes(network, tokens, target_tokens=target) + logits
    if tiles is not None:
        nbytes += sum(image_bytes(network, inputs))
    MEMORY.check(nbytes)
    return Writing(generating, nbytes)


@cached(Store(32))
def full_pass_difference(
    _request: WritingRequest, _steps: int, *, generation: Generation, on_progress: OnProgress | None = None
) -> float:
    """The largest difference of a weight, in any head, between the rows of all steps and one pass over the whole text.

    generation  the first steps of the request's text
    """
    whole, steps = generation.full_pass(on_progress), generation.capture_of(-1)
    return max(float(weight_differences(steps, whole, kind).max()) for kind in steps.kinds)
