"""Generation: a model writes one token after another, and each step is a capture.

The first step is a pass over the text, each later step a pass over the token that was written last. Its queries look at the
keys and values of earlier tokens in the model's own cache. All these calls of a layer together have computed each row of one
causal call over the whole text once, so they are joined to that call, and a step is a `Capture` like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import pad

from ...attention.shaping import BY_PAIR
from ...errors import InputError, check_index, image_error, model_error
from ...models.added_tokens import text_notes
from ...models.calls import Call, wide
from ...models.images import Tiles
from ...models.inputs import (
    TokenNumbers,
    all_inputs,
    chat_ids,
    image_text_inputs,
    image_token,
    replaced_tokens,
    token_limit,
)
from ...models.model import Model
from ...models.modules import Kind
from ...models.tokens import token_texts
from ...progress import OnProgress
from ..calls.rows import permissions
from ..capture import Capture, edited_pass, not_captured, read, require_patch_length
from ..costs import operations
from ..edits.edits import Edits
from ..on_image import Grids, grids_on_image
from ..recorder import by_kind, record
from ..sampling import Sampling, most_probable, next_probabilities
from .preparing import Preparation

Ended = Literal["end", "limit"]
Calls = dict[Kind, tuple[Call, ...]]


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows that one pass has added to one layer.

    call  the attention call, whose key and value contain the new tokens only
    seen  number of keys that its queries looked at, the new ones last
    """

    call: Call
    seen: int


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One pass and the token that was chosen after it.

    token_id     the token that was written
    logits       [vocabulary] the model's own
    scores       [vocabulary] the logits, but -inf for tokens that the model's generation settings forbid
    computed     number of tokens of the growing text that this pass computed
    cached       number of tokens that came from the cache
    cache_bytes  size of the cache after the pass; 0 without a cache
    rows         the rows that the pass added, by kind of attention and layer
    """

    token_id: int
    logits: NDArray[np.floating]
    scores: NDArray[np.floating]
    computed: int
    cached: int
    cache_bytes: int
    rows: dict[Kind, tuple[NewRows, ...]]


@dataclass(frozen=True)
class Candidate:
    """A possible next token.

    probability  the model's own, at temperature 1
    chance       the probability with which sampling chooses it; 0 if top-k or top-p exclude it
    """

    token_id: int
    token: str
    logit: float
    probability: float
    chance: float


@dataclass(frozen=True, eq=False, repr=False)
class Generation:
    """The text that a model has written so far, step by step.

    input_ids  the text that is continued; in an encoder-decoder model the text that the encoder read
    begun      the beginning of the growing text: input_ids, or the decoder's start token and its target
    ended      "end" if the model ended its text, "limit" if it can read no more tokens; None: it could continue
    inputs     the tensors that the first pass read
    tiles      the areas of an image that was read with the text; None: there was none
    """

    model: Model
    sampling: Sampling
    input_ids: tuple[int, ...]
    begun: tuple[int, ...]
    steps: tuple[Step, ...]
    ended: Ended | None = None
    edits: Edits = field(default_factory=Edits)
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    tiles: Tiles | None = None

    def __repr__(self) -> str:
        return f"<Generation of {self.model.name}: {len(self.steps)} tokens, {self.text!r}>"

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens that were written, including the one that ends the text."""
        return tuple(step.token_id for step in self.steps)

    @property
    def tokens(self) -> tuple[str, ...]:
        return token_texts(self.model.tokenizer, self.token_ids)

    @property
    def text(self) -> str:
        return self.model.text_of(self.token_ids)

    @property
    def notes(self) -> tuple[str, ...]:
        """As of a `Capture`, about the text that is continued."""
        return text_notes(self.model, self.input_ids, self.begun if self.model.is_encoder_decoder else ())

    @cached_property
    def runs(self) -> tuple[range, ...]:
        """The steps, cut before each that reads the whole text: those after it in a run continue from its keys and values.

        There are several with edits, without a cache, and where the model leaves its cache (Phi-3 beyond its first length).
        """
        starts = [number for number, step in enumerate(self.steps) if step.cached == 0]
        return tuple(range(*both) for both in pairwise([*starts, len(self.steps)]))

    def candidates(self, step: int, k: int = 10) -> list[Candidate]:
        """The k most probable tokens of a step, and the chosen token if it is not among them."""
        chosen = self._step(step)
        probabilities, chances = next_probabilities(chosen.scores), self.sampling.probabilities(chosen.scores)
        best = most_probable(chosen.scores, k)
        ids = best if chosen.token_id in best else [*best, chosen.token_id]
        return [
            Candidate(token, text, float(chosen.logits[token]), float(probabilities[token]), float(chances[token]))
            for token, text in zip(ids, token_texts(self.model.tokenizer, ids), strict=True)
        ]

    def capture_of(self, step: int) -> Capture:
        """The pass of a step with the rows of all passes before it. Its last row is the query that wrote the step's token.

        Nothing is computed: each row was computed when its token was read. Negative steps count from the end. Raises
        InputError (field "step") if there is no such step.
        """
        last = self._step(step)
        rows = last.cached + last.computed
        of_step = self._joined[step].items()
        calls: Calls = {kind: tuple(_first_rows(call, kind, rows) for call in layers) for kind, layers in of_step}
        grown = (*self.begun, *self.token_ids)[:rows]
        ids = (self.input_ids, grown) if self.model.is_encoder_decoder else (grown, ())
        image = None if self.tiles is None else self.tiles.image
        return Capture(self.model, *ids, calls, last.logits, edits=self.edits, on_image=self._on_image, image=image)

    def step_weights(self, layer: int, head: int, kind: Kind | None = None) -> NDArray[np.floating]:
        """What the query of each step looked at in its own pass: [steps, keys], NaN for keys that it could not attend to.

        Raises InputError as `Capture.trace` does.
        """
        first, parts = len(self.begun) - 1, []
        keys = self.capture_of(-1).shape(kind)[1]
        for run in self.runs:
            rows = range(first + run.start, first + run.stop)
            trace = self.capture_of(run[-1]).trace(layer, head, kind, rows=rows)
            seen, to_come = np.where(trace.mask, trace.weights, np.nan), keys - trace.shape[1]
            parts.append(np.pad(seen, ((0, 0), (0, to_come)), constant_values=np.nan))
        return np.concatenate(parts)

    def full_pass(self, on_progress: OnProgress | None = None, *, step: int = -1) -> Capture:
        """One pass without a cache over the text of a step, to compare with its `capture_of`.

        on_progress  as in `capture`
        """
        last = self._step(step)
        inputs = _grown(self.inputs, self.model, (*self.begun, *self.token_ids)[: last.cached + last.computed])
        return read(self.model, inputs, self.edits, on_progress, tiles=self.tiles)

    def multiplications(self, step: int) -> tuple[int, int]:
        """Multiplications of (this step's pass, a pass over the whole text), as in `core.capturing.costs.operations`. Raises
        InputError (field "image") where an image was read with the text."""
        if self.tiles is not None:
            raise image_error("Multiplications are counted for texts alone.")
        cached = self._step(step).cached
        grown = cached + self._step(step).computed
        tokens, target = (len(self.input_ids), grown) if self.model.is_encoder_decoder else (grown, 1)

        def count(cached: int) -> int:
            return sum(operations(self.model, tokens, target_tokens=target, cached=cached)) // 2

        return count(cached), count(0)

    @cached_property
    def _joined(self) -> list[Calls]:
        """For each step, the joined calls of all passes since the last pass over the whole text."""
        by_step: list[Calls] = []
        for run in self.runs:
            known: dict = {}
            calls: Calls = {}
            steps = [self.steps[number] for number in run]
            for kind in steps[0].rows:
                layers = zip(*(step.rows[kind] for step in steps if kind in step.rows), strict=True)
                calls[kind] = tuple(joined(parts, known) for parts in layers)
            by_step += [calls] * len(run)
        return by_step

    @cached_property
    def _on_image(self) -> Grids:
        return {} if self.tiles is None else grids_on_image(self.model, self.inputs, self.tiles)

    def _step(self, step: int) -> Step:
        if not self.steps:
            raise InputError("Nothing has been written yet.", field="step")
        if not -len(self.steps) <= step < 0:
            check_index(step, len(self.steps), "step")
        return self.steps[step]


class Generating:
    """A text that is being written: `go_on` writes one more token, `so_far` gives the generation so far."""

    def __init__(
        self,
        model: Model,
        inputs: dict[str, torch.Tensor],
        sampling: Sampling | None = None,
        *,
        edits: Edits | None = None,
        max_tokens: int | None = None,
        tiles: Tiles | None = None,
    ) -> None:
        """
        inputs      from `core.models.inputs.all_inputs`, or of `image_text_inputs` with its `tiles`
        edits       changes of every pass, which then reads the whole text: later tokens may change what an edit does to
                    earlier ones
        max_tokens  maximum number of tokens read and written together, if that is less than the model's own

        Raises InputError (field "model") for models that do not write, and the errors of `capture` for models that cannot be
        captured.
        """
        if not model.captures:
            raise not_captured(model)
        if not model.has_language_model_head:
            problem = "has no language-model head: it predicts no next token and writes nothing. Choose another model."
            raise model_error(f"{model.name} {problem}")
        edits = edits or Edits()
        require_patch_length(model, edits, inputs["input_ids"][0].tolist())
        self._model, self._sampling = model, sampling or Sampling()
        self._inputs = replaced_tokens(model, inputs, edits.tokens)
        self._edits = edits.without_tokens()  # they have been replaced already
        self._limit = token_limit(model, max_tokens)
        self._tiles = tiles
        grows = _growing(model)
        self._begun = tuple(self._inputs[grows][0].tolist())
        self._steps: list[Step] = []
        self._latest: Generation | None = None
        self._preparation = None if self._edits else Preparation(model, self._inputs, grows)
        self.ended: Ended | None = None

    @property
    def done(self) -> int:
        """Number of tokens written so far."""
        return len(self._steps)

    def so_far(self, new_tokens: int | None = None) -> Generation:
        """The generation so far, with at most `new_tokens` tokens."""
        steps = tuple(self._steps[:new_tokens])
        ended = self.ended if len(steps) == len(self._steps) else None
        latest = self._latest  # the same object as long as there is no new step: it keeps its joined rows
        if latest is None or (latest.steps, latest.ended) != (steps, ended):
            ids = tuple(self._inputs["input_ids"][0].tolist())
            given = self._edits, self._inputs, self._tiles
            self._latest = latest = Generation(self._model, self._sampling, ids, self._begun, steps, ended, *given)
        return latest

    def go_on(self, on_progress: OnProgress | None = None) -> bool:
        """Write one more token. Returns False if the text has ended.

        on_progress  as in `capture`; after an error that it raises, the step can be repeated
        """
        if self.ended is not None:
            return False
        grown = (*self._begun, *(step.token_id for step in self._steps))
        calls, returned, cached = self._pass(grown, on_progress)
        logits = wide(returned.logits[0, -1]).numpy(force=True)
        scores = self._scores(logits)
        token = self._sampling.draw(scores, self.done)
        size = 0 if self._preparation is None else _cache_bytes(self._preparation.cache)
        rows = self._new_rows(calls, cached)
        self._steps.append(Step(token, logits, scores, len(grown) - cached, cached, size, rows))
        if token in ends(self._model):
            self.ended = "end"
        elif self._limit is not None and len(grown) + 1 > self._limit:
            self.ended = "limit"
        return True

    def write(self, new_tokens: int, on_progress: OnProgress | None = None) -> Generation:
        """Write until there are `new_tokens` tokens or the text ends; on_progress as in `generate`."""
        while self.done < new_tokens and self.go_on():
            if on_progress is not None:
                on_progress(self.done)
        return self.so_far(new_tokens)

    def _pass(self, grown: Sequence[int], on_progress: OnProgress | None) -> tuple[list[Call], Any, int]:
        """Run the next pass: (its attention calls, the network's output, the number of tokens that came from the cache)."""
        preparation = self._preparation
        if preparation is None:
            whole = _grown(self._inputs, self._model, grown)
            return *edited_pass(self._model, whole, self._edits, on_progress)[1:], 0
        prepared, cached = preparation.next(grown)
        inputs = {name: part for name, part in prepared.items() if isinstance(part, Tensor)}
        options = {name: part for name, part in prepared.items() if name not in inputs}
        try:
            calls, returned = record(preparation.model, inputs, on_progress, cached=cached, **options)
        except BaseException as error:
            refuses = isinstance(error, ValueError) and not isinstance(error, InputError)
            refuses &= preparation.caches and not cached
            # Some layers may have cached the new token, others not: the next pass reads everything.
            preparation.forget(caches=preparation.caches and not refuses)
            if not refuses:  # the encoder of Switch Transformers refuses a cache, and so the whole model
                raise
            return self._pass(grown, on_progress)
        if not calls:
            raise not_captured(self._model)
        preparation.keep(returned)
        return calls, returned, cached

    def _new_rows(self, calls: Sequence[Call], cached: int) -> dict[Kind, tuple[NewRows, ...]]:
        rows: dict[Kind, tuple[NewRows, ...]] = {}
        for kind, layers in by_kind(calls).items():
            new_keys = layers[0].query.shape[2] if cached else layers[0].key.shape[2]
            rows[kind] = tuple(new_rows(call, 0 if kind == "cross" and cached else new_keys) for call in layers)
        return rows

    def _scores(self, logits: NDArray[np.floating]) -> NDArray[np.floating]:
        """The logits, with -inf for tokens that the model's generation settings forbid at this step."""
        first, settings = not self._steps, getattr(self._model.network, "generation_config", None)
        forced = getattr(settings, "forced_bos_token_id", None) if first and len(self._begun) == 1 else None
        if forced is not None and self._model.is_encoder_decoder:
            return np.where(np.arange(len(logits)) == forced, logits, -np.inf).astype(logits.dtype)
        never = [*(getattr(settings, "suppress_tokens", None) or ())]
        never += [words[0] for words in getattr(settings, "bad_words_ids", None) or () if len(words) == 1]
        never += (getattr(settings, "begin_suppress_tokens", None) or ()) if first else ()
        if self._tiles is not None:  # a further one would stand for no part of the image
            never.append(image_token(self._model))
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
    input_ids: TokenNumbers | None = None,
    image: ArrayLike | None = None,
    chat: bool = False,
    edits: Edits | None = None,
    max_tokens: int | None = None,
    truncate: bool = False,
    on_progress: OnProgress | None = None,
) -> Generation:
    """Let a model continue a text, or let the decoder of an encoder-decoder model write.

    text, target, input_ids, image, edits, max_tokens and truncate are those of `capture`; temperature, top_k, top_p and seed
    are those of `Sampling`.

    new_tokens   maximum number of new tokens; the model may end its text earlier
    chat         whether the text is a message that the model answers, in its chat template
    on_progress  called after every token with the number of tokens so far; an error that it raises reaches the caller

    Of the model's generation settings only the forced and the forbidden tokens are used: no beam search, no penalty for
    repetition. Raises InputError as `capture` and `Sampling` do, and for less than one new token (field "new_tokens").
    """
    if new_tokens < 1:
        raise InputError(f"At least 1 token has to be written, not {new_tokens}.", field="new_tokens")
    sampling = Sampling(temperature, top_k, top_p, seed)
    if image is not None:
        if chat or not (target is None and input_ids is None):
            raise image_error("With an image only a text can be given.")
        inputs, tiles = image_text_inputs(model, text, image, max_tokens)
        return Generating(model, inputs, sampling, edits=edits, tiles=tiles).write(new_tokens, on_progress)
    if chat:
        text, input_ids = None, chat_ids(model, text or "")
    inputs = all_inputs(model, text, target=target, input_ids=input_ids, max_tokens=max_tokens, truncate=truncate)
    return Generating(model, inputs, sampling, edits=edits).write(new_tokens, on_progress)


def _growing(model: Model) -> str:
    """The name of the input that grows."""
    return "decoder_input_ids" if model.is_encoder_decoder else "input_ids"


def _grown(inputs: Mapping[str, torch.Tensor], model: Model, ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """The inputs with a text that has grown to these tokens. Where tokens have types, those that are written have another one
    than those of an image: PaliGemma's image has type 0, whose tokens see each other, that of Gemma 3 and Qwen-VL type 1."""
    name = _growing(model)
    more, on_image = len(ids) - inputs[name].shape[1], inputs[name] == image_token(model)
    types = {
        other: pad(part, (0, more), value=int(bool(on_image.any()) and not part[on_image].any()))
        for other, part in inputs.items()
        if other.endswith("token_type_ids")
    }
    return {**inputs, **types, name: torch.tensor([ids])}


def ends(model: Model) -> set[int]:
    """The tokens with which a model ends a text."""
    tokens = getattr(getattr(model.network, "generation_config", None), "eos_token_id", None)
    return set() if tokens is None else {tokens} if isinstance(tokens, int) else set(tokens)


def _first_rows(call: Call, kind: Kind, rows: int) -> Call:
    """The call as it was when the growing text had `rows` tokens. Its tensors are views: nothing is copied."""
    if kind in ("encoder", "vision") or rows == call.query.shape[2]:
        return call
    keys = call.key.shape[2] if kind == "cross" else rows
    shaping = call.shaping.each(BY_PAIR, lambda part: part[..., :rows, :keys])
    key, value = call.key[:, :, :keys], call.value[:, :, :keys]
    query, output = call.query[:, :, :rows], call.output[:, :rows]
    return replace(call, query=query, key=key, value=value, shaping=shaping, output=output)


def _cache_bytes(cache: Any) -> int:
    """Bytes of the keys and values in a transformers cache, including those of the encoder's text."""
    parts = [getattr(cache, name, cache) for name in ("self_attention_cache", "cross_attention_cache")]
    layers = [layer for part in dict.fromkeys(parts) for layer in getattr(part, "layers", ())]
    tensors = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, torch.Tensor))


# --- the calls of a layer, joined


def new_rows(call: Call, new_keys: int) -> NewRows:
    """The new rows of a call, with copies of the last `new_keys` of its keys and values.

    A cache gives all keys so far, as new tensors in each pass; without a copy of the new ones all would be kept.
    """
    seen = call.key.shape[2]
    if new_keys == seen:
        return NewRows(call, seen)
    key, value = (part[:, :, seen - new_keys :].clone() for part in (call.key, call.value))
    return NewRows(replace(call, key=key, value=value), seen)


def joined(parts: Sequence[NewRows], known: dict[tuple, tuple[Tensor, Tensor | None]]) -> Call:
    """Join parts into one call with the queries of all parts, in their order, over all keys.

    known  joined masks and biases, which layers share: they grow with the square of the text
    """
    calls = [part.call for part in parts]
    first = calls[0]
    if len(calls) == 1:
        return first
    rows = {"query": 2, "key": 2, "value": 2, "output": 1}  # the dimension of the tokens
    together = {name: torch.cat([getattr(call, name) for call in calls], dim) for name, dim in rows.items()}
    keys = together["key"].shape[2]
    grows = keys > first.key.shape[2]
    whole = first.reshaped(**together, mask=None, bias=None, causal=grows)
    if _is_plain(parts, grows=grows):
        return whole
    name = (*(id(part) for call in calls for part in (call.mask, call.bias)), *(part.seen for part in parts))
    if name not in known:
        known[name] = _permissions(parts, keys)
    mask, bias = known[name]
    return whole.reshaped(mask=mask[None], bias=None if bias is None else bias[None], causal=False)


def _is_plain(parts: Sequence[NewRows], *, grows: bool) -> bool:
    """Whether every query looked at all keys up to its own, or at all keys if their number does not grow."""
    keys = accumulate(part.call.key.shape[2] for part in parts)
    return all(
        part.call.mask is None
        and part.call.bias is None
        and part.seen == so_far
        and (not grows or part.call.causal or part.call.query.shape[2] == 1)
        for part, so_far in zip(parts, keys, strict=True)
    )


def _permissions(parts: Sequence[NewRows], keys: int) -> tuple[Tensor, Tensor | None]:
    """(allowed [1 or heads, queries, keys] bool, bias of the same shape or None), with the rows of all parts."""
    masks, biases, stop = [], [], 0
    for part in parts:
        call, stop = part.call, stop + part.call.key.shape[2]
        # Only the number of keys is used here.
        over_all_seen = replace(call, key=call.key.new_empty(1, 1, 1, 1).expand(1, 1, part.seen, 1))
        allowed, bias = permissions(over_all_seen, slice(0, call.heads), range(call.query.shape[2]))
        first_key = stop - part.seen
        around = (first_key, keys - first_key - allowed.shape[2])
        masks.append(pad(allowed, around))
        biases.append(None if bias is None else pad(bias, around))
    if all(bias is None for bias in biases):
        return _below_each_other(masks), None
    # torch makes numbers of the False where a part has no bias.
    rows = [torch.zeros_like(mask) if bias is None else bias for mask, bias in zip(masks, biases, strict=True)]
    return _below_each_other(masks), _below_each_other(rows)


def _below_each_other(parts: Sequence[Tensor]) -> Tensor:
    """Join [1 or heads, rows, keys] of several parts by their rows."""
    heads = max(map(len, parts))
    return torch.cat([part.expand(heads, -1, -1) for part in parts], dim=1)
