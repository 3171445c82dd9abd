"""What a model writes, one token after another, and what its heads did at each of them.

Each step is a pass over what has not been read yet: over the text first, then over the token that was written last. Its
queries look at the keys and values of earlier tokens in the model's own cache. What the passes computed is put together
(`cached_rows`), so that a step is a `Capture` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.modeling_outputs import BaseModelOutput

from ..errors import InputError, check_index
from ..models.calls import Call, wide
from ..models.inputs import all_inputs, chat_ids, replaced_tokens, token_limit
from ..models.model import Model
from ..models.modules import Kind
from ..models.tokens import token_texts
from .cached_rows import NewRows, joined, new_rows
from .capture import Capture, edited_pass, not_captured, read, require_patch_length
from .edits import Edits
from .estimates import operations
from .recorder import kinds_of, record
from .sampling import Sampling, most_probable, next_probabilities

Ended = Literal["end", "limit"]


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One pass and the token that was chosen after it.

    token_id    the token written
    logits      [vocabulary] as the model gave them
    scores      [vocabulary] the same, -inf for tokens that the model's settings forbid
    computed    how many tokens of the growing text were computed in this pass
    cached      how many came from the cache
    cache_bytes what the cache holds after the pass; 0 where there is none
    rows        what the pass has added, by kind of attention and layer
    """

    token_id: int
    logits: NDArray[np.floating]
    scores: NDArray[np.floating]
    computed: int
    cached: int
    cache_bytes: int
    rows: dict[Kind, tuple[NewRows, ...]]

    @property
    def nbytes(self) -> int:
        return self.logits.nbytes + sum(layer.nbytes for layers in self.rows.values() for layer in layers)


@dataclass(frozen=True)
class Candidate:
    """A token that could have been next.

    probability  by the model itself, at temperature 1
    chance       with which it was chosen: 0 where top-k or top-p cut it off
    """

    token_id: int
    token: str
    logit: float
    probability: float
    chance: float


@dataclass(frozen=True, eq=False, repr=False)
class Generation:
    """A text that a model has written, as far as it has come.

    input_ids  what was read: the text that is continued, or what the encoder of an encoder-decoder read
    begun      what the growing text began with: the same as input_ids, or the decoder's start token and its target
    ended      "end" where the model ended its text, "limit" where it can read no more; None: it could go on
    """

    model: Model
    sampling: Sampling
    input_ids: tuple[int, ...]
    begun: tuple[int, ...]
    steps: tuple[Step, ...]
    ended: Ended | None = None
    edits: Edits = field(default_factory=Edits)

    def __repr__(self) -> str:
        return f"<Generation of {self.model.name}: {len(self.steps)} tokens, {self.text!r}>"

    @property
    def token_ids(self) -> tuple[int, ...]:
        """What was written, with the token that ends the text where there is one."""
        return tuple(step.token_id for step in self.steps)

    @property
    def tokens(self) -> tuple[str, ...]:
        return token_texts(self.model.tokenizer, self.token_ids)

    @property
    def text(self) -> str:
        return self.model.text_of(self.token_ids)

    @property
    def nbytes(self) -> int:
        """The memory of all steps, and of their rows put together."""
        return 2 * sum(step.nbytes for step in self.steps)

    def candidates(self, step: int, k: int = 10) -> list[Candidate]:
        """The k most probable tokens of a step, and the one that was chosen if it is not among them."""
        one = self._step(step)
        probabilities, chances = next_probabilities(one.scores), self.sampling.probabilities(one.scores)
        best = most_probable(one.scores, k)
        ids = best if one.token_id in best else [*best, one.token_id]
        return [
            Candidate(token, text, float(one.logits[token]), float(probabilities[token]), float(chances[token]))
            for token, text in zip(ids, token_texts(self.model.tokenizer, ids), strict=True)
        ]

    def capture_of(self, step: int) -> Capture:
        """The pass of a step with the rows of all passes before it: its last row is the query that wrote the step's token.

        Nothing is computed: every row is the one that was computed when its token was read. Negative steps count from the
        end. Raises InputError (field "step") where there is no such step.
        """
        one = self._step(step)
        step = step % len(self.steps)
        rows = one.cached + one.computed
        calls: dict[Kind, tuple[Call, ...]] = {
            kind: tuple(_first_rows(call, kind, rows) for call in layers) for kind, layers in self._joined[step].items()
        }
        grown = (*self.begun, *self.token_ids)[:rows]
        encodes = self.model.is_encoder_decoder
        return Capture(
            self.model,
            self.input_ids if encodes else grown,
            grown if encodes else (),
            calls,
            logits=one.logits,
            edits=self.edits,
        )

    def full_pass(self, on_progress: Callable[[int], None] | None = None) -> Capture:
        """All that the last step had read, in one pass without a cache: what `capture_of(-1)` is to be compared with.

        on_progress  called after every attention call; what it raises reaches the caller
        """
        last = self.capture_of(-1)
        inputs = {"input_ids": torch.tensor([last.input_ids])}
        if last.target_ids:
            inputs["decoder_input_ids"] = torch.tensor([last.target_ids])
        return read(self.model, inputs, self.edits, on_progress)

    def multiplications(self, step: int) -> tuple[int, int]:
        """(those of the step's pass, those of a pass over everything), counted as in `core.capturing.estimates.operations`."""
        one = self._step(step)
        grown = one.cached + one.computed
        tokens, target = (len(self.input_ids), grown) if self.model.is_encoder_decoder else (grown, 1)
        with_cache, without = (
            sum(operations(self.model, tokens, target_tokens=target, cached=cached)) // 2 for cached in (one.cached, 0)
        )
        return with_cache, without

    @cached_property
    def _joined(self) -> list[dict[Kind, tuple[Call, ...]]]:
        """For each step the calls of all passes since the last that read everything, put together."""
        starts = [number for number, step in enumerate(self.steps) if step.cached == 0]
        found: list[dict[Kind, tuple[Call, ...]]] = []
        for start, stop in zip(starts, [*starts[1:], len(self.steps)], strict=True):
            known: dict = {}
            steps = self.steps[start:stop]
            calls: dict[Kind, tuple[Call, ...]] = {
                kind: tuple(
                    joined([step.rows[kind][layer] for step in steps if kind in step.rows], known)
                    for layer in range(len(layers))
                )
                for kind, layers in steps[0].rows.items()
            }
            found += [calls] * len(steps)
        return found

    def _step(self, step: int) -> Step:
        if not self.steps:
            raise InputError("Nothing has been written yet.", field="step")
        if not -len(self.steps) <= step < 0:
            check_index(step, len(self.steps), "step")
        return self.steps[step]


class Generating:
    """A text while it is being written: `go_on` writes one more token, `so_far` is what there is."""

    def __init__(
        self,
        model: Model,
        inputs: dict[str, torch.Tensor],
        sampling: Sampling | None = None,
        *,
        edits: Edits | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """
        inputs      as `core.models.inputs.all_inputs` gives them
        edits       what is changed in every pass. Each then reads everything anew: an edit may change what earlier tokens do
                    once there are more
        max_tokens  a limit below the model's own, for what is read and written together

        Raises InputError (field "model") for models that write nothing, and what `capture` raises for those that cannot be
        captured.
        """
        if not model.captures:
            raise not_captured(model)
        if not model.has_language_model_head:
            raise InputError(
                f"{model.name} has no language-model head: it predicts no next token and writes nothing. Choose another "
                f"model.",
                field="model",
            )
        edits = edits or Edits()
        require_patch_length(model, edits, inputs["input_ids"][0].tolist())
        self._model, self._sampling = model, sampling or Sampling()
        self._inputs = replaced_tokens(model, inputs, dict(edits.replace_tokens))
        self._edits = edits.without_tokens()  # they have been replaced already
        self._kind_of = kinds_of(model)
        self._limit = token_limit(model, max_tokens)
        self._grows = "decoder_input_ids" if model.is_encoder_decoder else "input_ids"
        self._begun = tuple(self._inputs[self._grows][0].tolist())
        self._settings = getattr(model.network, "generation_config", None)
        self._steps: list[Step] = []
        self._latest: Generation | None = None
        self._caches = True
        self._cache: Any = None
        self._encoded: torch.Tensor | None = None
        self.ended: Ended | None = None

    @property
    def done(self) -> int:
        """How many tokens have been written."""
        return len(self._steps)

    def so_far(self, new_tokens: int | None = None) -> Generation:
        """What has been written; new_tokens: no more than the first so many."""
        steps = tuple(self._steps[:new_tokens])
        ended = self.ended if len(steps) == len(self._steps) else None
        latest = self._latest  # the same object as long as nothing is new: what it has put together need not be again
        if latest is None or (len(latest.steps), latest.ended) != (len(steps), ended):
            read = tuple(self._inputs["input_ids"][0].tolist())
            latest = Generation(self._model, self._sampling, read, self._begun, steps, ended, self._edits)
            self._latest = latest
        return latest

    def go_on(self, on_progress: Callable[[int], None] | None = None) -> bool:
        """Write one more token; False where the text has ended.

        on_progress  called after every attention call of the pass; what it raises ends the pass, and the step can be tried
                     again
        """
        if self.ended is not None:
            return False
        grown = (*self._begun, *(step.token_id for step in self._steps))
        cached = 0 if self._cache is None else len(grown) - 1
        try:
            calls, returned = self._pass(grown, cached, on_progress)
        except BaseException:
            self._cache = None  # some layers may hold the new token already, others not: everything is read anew
            raise
        logits = wide(returned.logits[0, -1]).numpy(force=True)
        scores = self._scores(logits)
        rows: dict[Kind, list[NewRows]] = {}
        for call in calls:
            kind = self._kind_of(call)
            new_keys = 0 if kind == "cross" and cached else call.query.shape[2] if cached else call.key.shape[2]
            rows.setdefault(kind, []).append(new_rows(call, new_keys))
        self._cache = None if self._edits or not self._caches else getattr(returned, "past_key_values", None)
        self._encoded = getattr(returned, "encoder_last_hidden_state", None)
        token = self._sampling.draw(scores, self.done)
        self._steps.append(
            Step(
                token,
                logits,
                scores,
                computed=len(grown) - cached,
                cached=cached,
                cache_bytes=_cache_bytes(self._cache),
                rows={kind: tuple(layers) for kind, layers in rows.items()},
            )
        )
        if token in ends(self._model):
            self.ended = "end"
        elif self._limit is not None and len(grown) + 1 > self._limit:
            self.ended = "limit"
        return True

    def write(self, new_tokens: int, on_progress: Callable[[int], None] | None = None) -> Generation:
        """Go on until there are so many tokens or the text has ended; on_progress as in `generate`."""
        while self.done < new_tokens and self.go_on():
            if on_progress is not None:
                on_progress(self.done)
        return self.so_far(new_tokens)

    def _pass(
        self, grown: Sequence[int], cached: int, on_progress: Callable[[int], None] | None
    ) -> tuple[list[Call], Any]:
        unread = {self._grows: torch.tensor([grown[cached:]])}
        if self._edits or not self._caches:
            _, calls, returned = edited_pass(self._model, self._inputs | unread, self._edits, on_progress)
            return calls, returned
        if not cached:
            try:
                return record(self._model, self._inputs | unread, on_progress, use_cache=True)
            except InputError:
                raise
            except ValueError:  # the encoder of Switch Transformers refuses a cache, and with it the whole model
                self._caches = False
                return self._pass(grown, cached, on_progress)
        options: dict[str, Any] = {"use_cache": True, "past_key_values": self._cache}
        if self._encoded is not None:
            options["encoder_outputs"] = BaseModelOutput(last_hidden_state=self._encoded)
        return record(self._model, unread, on_progress, **options)

    def _scores(self, logits: NDArray[np.floating]) -> NDArray[np.floating]:
        """The logits without the tokens that the model's own settings keep it from writing here."""
        first = not self._steps
        forced = getattr(self._settings, "forced_bos_token_id", None) if first and len(self._begun) == 1 else None
        if forced is not None and self._model.is_encoder_decoder:
            scores = np.full_like(logits, -np.inf)
            scores[forced] = logits[forced]
            return scores
        never = [*(getattr(self._settings, "suppress_tokens", None) or ())]
        never += [words[0] for words in getattr(self._settings, "bad_words_ids", None) or () if len(words) == 1]
        never += (getattr(self._settings, "begin_suppress_tokens", None) or ()) if first else ()
        if not never:
            return logits
        scores = logits.copy()
        scores[[token for token in never if 0 <= token < len(scores)]] = -np.inf
        return scores


def generate(
    model: Model,
    text: str | None = None,
    new_tokens: int = 20,
    temperature: float = 0.0,
    seed: int = 0,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    target: str | None = None,
    input_ids: Sequence[int] | NDArray[np.integer] | None = None,
    chat: bool = False,
    edits: Edits | None = None,
    max_tokens: int | None = None,
    truncate: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Generation:
    """Let a model write after a text, or let its decoder write what the encoder has read.

    text, target, input_ids, edits, max_tokens and truncate as in `capture`; temperature, top_k, top_p and seed as in
    `Sampling`.
    chat         the text is a message, and the model writes the answer, in its own chat template
    new_tokens   at most so many are written, fewer where the model ends its text or can read no more
    on_progress  called after every token with how many there are; what it raises reaches the caller

    Of the model's own settings the tokens count that it must or must not write. There are no beams, and nothing is done about
    repetition. Raises InputError as `capture` and `Sampling` do, and for less than one new token (field "new_tokens").
    """
    if new_tokens < 1:
        raise InputError(f"At least 1 token has to be written, not {new_tokens}.", field="new_tokens")
    sampling = Sampling(temperature, top_k, top_p, seed)
    if chat:
        text, input_ids = None, chat_ids(model, text or "")
    inputs = all_inputs(model, text, target=target, input_ids=input_ids, max_tokens=max_tokens, truncate=truncate)
    return Generating(model, inputs, sampling, edits=edits).write(new_tokens, on_progress)


def ends(model: Model) -> set[int]:
    """The tokens with which a model ends a text."""
    settings = getattr(model.network, "generation_config", None)
    found = None if settings is None else settings.eos_token_id
    return set() if found is None else {found} if isinstance(found, int) else set(found)


def _first_rows(call: Call, kind: Kind, rows: int) -> Call:
    """The call as it was when the growing text had so many tokens. Views: nothing is copied."""
    if kind == "encoder" or rows == call.query.shape[2]:
        return call
    keys = call.key.shape[2] if kind == "cross" else rows
    cut = {name: part[..., :rows, :keys] for name in ("mask", "bias") if (part := getattr(call, name)) is not None}
    return replace(
        call,
        query=call.query[:, :, :rows],
        key=call.key[:, :, :keys],
        value=call.value[:, :, :keys],
        output=call.output[:, :rows],
        **cut,
    )


def _cache_bytes(cache: Any) -> int:
    """Of the keys and values that a transformers cache holds, those of an encoder's text included."""
    if cache is None:
        return 0
    parts = [getattr(cache, name, None) for name in ("self_attention_cache", "cross_attention_cache")]
    layers = [layer for part in ([cache] if parts[0] is None else parts) for layer in getattr(part, "layers", ())]
    tensors = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, torch.Tensor))
