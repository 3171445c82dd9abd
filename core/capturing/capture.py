"""One pass of a model over one text or image, and what each of its heads did in it.

What is kept grows linearly with the text; a head's [queries, keys] stages are computed when somebody asks for its trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..attention.head import Head
from ..attention.rowwise import MAX_CELLS, Overview
from ..attention.trace import AttentionTrace, attend
from ..errors import InputError, WeightsOnlyError, check_index
from ..models.calls import Call, wide
from ..models.inputs import (
    SIDES,
    TokenNumbers,
    all_inputs,
    image_inputs,
    patch_grid,
    replaced_tokens,
    require_same_length,
    text_inputs,
)
from ..models.model import Model
from ..models.modules import Kind
from ..models.tokens import token_texts
from .certifying import Certificate, certified_overview, certify_call
from .edits import Editor, Edits
from .recorder import kinds_of, record
from .rows import Rows, head_edit, head_permissions, head_scale, row_blocks
from .sampling import most_probable, next_probabilities
from .weights_only import NoAttentionError, require_weights


@dataclass(frozen=True, eq=False, repr=False)
class Capture:
    """One pass of a model over one text, from which any head's trace can be had.

    Layers and heads count from 0. `kind` says which attention is meant: "self" in encoders and decoders alone; "encoder",
    "decoder" (its self-attention) and "cross" (decoder queries, encoder keys) in encoder-decoder models. None: the first.
    `grid` is (rows, columns) of the patches of an image, whose capture has no input_ids; None for a text.

    logits   [vocabulary] of the next token, of models with a language-model head
    vectors  [tokens, d_model] what the last layer gives for every token, of models without one
    edits    what was changed in this pass; a trace of it is the edited computation
    sides    of a pair of texts, [tokens] of 0 (first text), 1 (second text) and -1 (special tokens around them); empty where
             one text was read, or the tokenizer does not tell
    """

    model: Model
    input_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    calls: dict[Kind, tuple[Call, ...]]
    logits: NDArray[np.floating] | None
    grid: tuple[int, int] | None = None
    vectors: NDArray[np.floating] | None = None
    edits: Edits = field(default_factory=Edits)
    sides: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """In one line, without its numbers."""
        heads = ", ".join(f"{kind}: {self.layers(kind)} × {self.heads(kind)} heads" for kind in self.kinds)
        read = f"{self.shape()[1]:,} tokens" if self.grid is None else "{} × {} patches".format(*self.grid)
        edits = f", {self.edits!r}" if self.edits else ""
        return f"<Capture of {self.model.name}: {read}, {heads}{edits}>"

    @property
    def prefix_tokens(self) -> int:
        """How many tokens stand before the patches of an image; 0 for a text."""
        if self.grid is None:
            return 0
        rows, columns = self.grid
        return self.shape()[1] - rows * columns

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for kind in get_args(Kind) if kind in self.calls)

    def tokens(self, kind: Kind | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(query tokens, key tokens) as the tokenizer made them; "[CLS]" and "patch <row>,<column>" for an image."""
        kind = self._kind(kind)
        if not self.input_ids:
            return (patches := self._patches(), patches)
        source = token_texts(self.model.tokenizer, self.input_ids)
        target = token_texts(self.model.tokenizer, self.target_ids)
        return target if kind in ("decoder", "cross") else source, target if kind == "decoder" else source

    def layers(self, kind: Kind | None = None) -> int:
        """How many layers have this kind of attention."""
        return len(self.calls[self._kind(kind)])

    def heads(self, kind: Kind | None = None) -> int:
        """How many query heads a layer has."""
        return self.layer_call(0, kind).heads

    def shape(self, kind: Kind | None = None) -> tuple[int, int]:
        """(queries, keys) of every head of this kind."""
        call = self.layer_call(0, kind)
        return call.query.shape[2], call.key.shape[2]

    @property
    def nbytes(self) -> int:
        """The memory of the queries, keys, values and outputs of all layers."""
        calls = [call for layers in self.calls.values() for call in layers]
        return sum(kept.nbytes for call in calls for kept in (call.query, call.key, call.value, call.output))

    def layer_call(self, layer: int, kind: Kind | None = None) -> Call:
        """What a layer handed to its attention function and got back. Raises InputError where there is no such layer."""
        check_index(layer, self.layers(kind), "layer")
        return self.calls[self._kind(kind)][layer]

    def each_layer(self, kind: Kind | None = None, on_progress: Callable[[int], None] | None = None) -> Iterator[Call]:
        """`layer_call` of every layer from the first to the last: the way to go over all heads.

        on_progress  called whenever a layer has been dealt with, with how many have been; what it raises reaches the caller
        """
        for done, call in enumerate(self.calls[self._kind(kind)], start=1):
            yield call
            if on_progress is not None:
                on_progress(done)

    def in_rows(
        self, kind: Kind | None = None, on_progress: Callable[[int], None] | None = None
    ) -> Iterator[Iterator[Rows]]:
        """The stages of all heads, layer by layer as in `each_layer`, a few query rows at a time."""
        return (row_blocks(call) for call in self.each_layer(kind, on_progress))

    def key_head(self, layer: int, head: int, kind: Kind | None = None) -> tuple[int, int]:
        """Which key/value head this query head reads, and how many there are (grouped-query attention)."""
        call = self._call(layer, head, kind)
        return head // call.group, call.key.shape[1]

    def trace(self, layer: int, head: int, kind: Kind | None = None, *, rows: range | None = None) -> AttentionTrace:
        """One head's stages, from the very queries, keys and values that the model used, in float32 or its own float64.

        rows  these queries alone, without ever making the others; None: all
        """
        whole = self.head(layer, head, kind)
        return whole.trace(range(whole.shape[0]) if rows is None else rows)

    def head(self, layer: int, head: int, kind: Kind | None = None) -> Head:
        """One head for texts of any length: the trace of any of its rows, and its stages small enough to draw."""
        call = self._call(layer, head, kind)
        key_head, _ = self.key_head(layer, head, kind)
        inputs = attend(
            _numpy(call.query[0, head]),
            _numpy(call.key[0, key_head]),
            _numpy(call.value[0, key_head]),
            scale=head_scale(call, head),
            softcap=call.softcap,
            sinks=None if call.sinks is None else float(call.sinks.detach().flatten()[head]),
        )
        return Head.of(
            inputs, lambda rows: head_permissions(call, head, rows), lambda rows: head_edit(call, head, rows)
        )

    def certificate(self, layer: int, head: int, kind: Kind | None = None) -> Certificate:
        """Compare one head's stages with what the model's own attention returned, without holding all of them at once."""
        return certify_call(self._call(layer, head, kind), head, self.model)

    def certified_overview(
        self, layer: int, head: int, kind: Kind | None = None, max_cells: int = MAX_CELLS
    ) -> tuple[Overview, Certificate]:
        """One head's stages, small enough to draw, and the certificate of these very numbers, from one sweep over its rows."""
        call = self._call(layer, head, kind)
        return certified_overview(self.head(layer, head, kind), call, head, self.model, max_cells)

    def model_output(self, layer: int, head: int, kind: Kind | None = None) -> NDArray[np.floating]:
        """What the model's own attention returned for one head, before W_O: [queries, d_v]."""
        return _numpy(self._call(layer, head, kind).output[0, :, head])

    def agreement(self, layer: int, kind: Kind | None = None) -> float:
        """max |our output - the model's own attention output| over the heads of a layer, empty rows left out."""
        return max(self.certificate(layer, head, kind).difference for head in range(self.heads(kind)))

    def next_tokens(self, k: int = 5) -> list[tuple[str, float]]:
        """The k most probable tokens after the text and their probabilities, for models with a language-model head."""
        if self.logits is None:
            raise InputError(f"{self.model.name} has no language-model head: it predicts no next token.", field="model")
        probabilities, best = next_probabilities(self.logits), most_probable(self.logits, k)
        texts = token_texts(self.model.tokenizer, best)
        return [(text, float(probabilities[token])) for text, token in zip(texts, best, strict=True)]

    def _patches(self) -> tuple[str, ...]:
        if self.grid is None:
            return tuple(f"position {place}" for place in range(self.shape()[1]))
        rows, columns = self.grid
        further = max(self.prefix_tokens - 1, 0)
        are_registers = further == getattr(self.model.network.config, "num_register_tokens", 0)
        first = ("[CLS]", *(f"[{'REG' if are_registers else 'extra'} {number + 1}]" for number in range(further)))
        return (
            *first[: self.prefix_tokens],
            *(f"patch {row},{column}" for row in range(rows) for column in range(columns)),
        )

    def _kind(self, kind: Kind | None) -> Kind:
        if kind is None:
            return self.kinds[0]
        if kind not in self.calls:
            raise InputError(f"{self.model.name} has no {kind} attention, only {', '.join(self.kinds)}.", field="kind")
        return kind

    def _call(self, layer: int, head: int, kind: Kind | None) -> Call:
        call = self.layer_call(layer, kind)
        check_index(head, call.heads, "head")
        return call


def capture(
    model: Model,
    text: str | None = None,
    *,
    pair: str | None = None,
    target: str | TokenNumbers | None = None,
    input_ids: TokenNumbers | None = None,
    image: ArrayLike | None = None,
    max_tokens: int | None = None,
    truncate: bool = False,
    edits: Edits | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Capture:
    """Run the model once over a text, or an image, and keep what its heads did.

    text       what the model reads, with the special tokens its tokenizer adds
    pair       a second text, for encoders that take two
    target     what the decoder of an encoder-decoder model has written so far, after its start token: a text, or token
               numbers as they are; None: nothing
    input_ids  token numbers instead of a text
    image      for models that read images: [height, width, 3], uint8 or real numbers from 0 to 1
               (core.models.images.read_image)
    max_tokens  a limit below the model's own, for texts
    truncate   keep the first tokens that fit, instead of raising TooLongError
    edits      what is changed in the pass; the model stays as it is
    on_progress      called after every attention call of the pass with how many there have been, of `model.attention_calls`;
               whatever it raises ends the pass there and reaches the caller

    Raises InputError for a blank text, a target that is none for this model (field "target"), or an image where texts are
    read; TooLongError; WeightsOnlyError for
    architectures that do not expose their queries, and NoAttentionError for those without attention.
    """
    if not model.captures:
        raise not_captured(model)
    if image is not None and not (text is None and input_ids is None):
        raise InputError("Give an image or a text, not both.", field="image")
    if image is not None:
        inputs = image_inputs(model, image)
    else:
        inputs = all_inputs(
            model, text, pair=pair, target=target, input_ids=input_ids, max_tokens=max_tokens, truncate=truncate
        )
    if edits is not None and "input_ids" in inputs:
        require_patch_length(model, edits, inputs["input_ids"][0].tolist())
    return read(model, inputs, edits, on_progress)


def read(
    model: Model,
    inputs: dict[str, torch.Tensor],
    edits: Edits | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Capture:
    """The pass over inputs that are tensors already: see `capture`."""
    edits = edits or Edits()
    inputs, calls, returned = edited_pass(model, inputs, edits, on_progress)
    ids = tuple(inputs["input_ids"][0].tolist()) if "input_ids" in inputs else ()
    written = tuple(inputs["decoder_input_ids"][0].tolist()) if "decoder_input_ids" in inputs else ()
    last = getattr(returned, "last_hidden_state", None)
    return Capture(
        model,
        ids,
        written,
        _by_kind(model, calls),
        logits=_numpy(returned.logits[0, -1]) if model.has_language_model_head else None,
        grid=None if ids else patch_grid(model, calls[0].key.shape[2]),
        vectors=None if last is None or model.has_language_model_head else _numpy(last[0]),
        edits=edits,
        sides=tuple(inputs[SIDES][0].tolist()) if SIDES in inputs else (),
    )


def edited_pass(
    model: Model,
    inputs: dict[str, torch.Tensor],
    edits: Edits,
    on_progress: Callable[[int], None] | None = None,
    **options: object,
) -> tuple[dict[str, torch.Tensor], list[Call], Any]:
    """(what was read, the attention calls, what the network returned) of a pass with these edits.

    options  of the network's own, as in core.models.inputs.run
    """
    inputs = replaced_tokens(model, inputs, dict(edits.replace_tokens))
    editor = _editor(model, inputs, edits)
    calls, returned = record(model, inputs, on_progress, editor.edit if edits else None, **options)
    if not calls:
        raise not_captured(model)
    if edits:
        editor.finish()
    return inputs, calls, returned


def check_edits(capture: Capture, edits: Edits) -> None:
    """Raises InputError, as `capture` does, for edits that cannot be made in such a pass. No pass is run."""
    require_patch_length(capture.model, edits, capture.input_ids)
    inputs = {"input_ids": torch.tensor([capture.input_ids])} if capture.input_ids else {}
    replaced_tokens(capture.model, inputs, dict(edits.replace_tokens))
    if edits.mean_heads:
        _other_inputs(capture.model, edits.mean_over, "mean_over")
    kinds: dict[int, Kind] = {id(call.module): kind for kind, calls in capture.calls.items() for call in calls}
    editor = Editor(edits, lambda call: kinds[id(call.module)])
    for calls in capture.calls.values():
        for call in calls:
            editor.check(call)
    editor.finish()


def _outputs(capture: Capture) -> Callable[[Kind, int], torch.Tensor]:
    """What every layer of a pass gave: [queries, heads, d_v]."""
    return lambda kind, layer: capture.layer_call(layer, kind).output[0]


def require_patch_length(model: Model, edits: Edits, ids: Sequence[int]) -> None:
    """Raises InputError (field "patch_from") where heads are to be patched from a text of another length."""
    if edits.patch_heads:
        other = _other_inputs(model, edits.patch_from, "patch_from")["input_ids"][0].tolist()
        require_same_length(model, ids, other, field="patch_from")


def _other_pass(model: Model, text: str | None, field: str, inputs: dict[str, torch.Tensor]) -> Capture:
    """A further text, with what the decoder of an encoder-decoder has written beside this one."""
    written = {name: ids for name, ids in inputs.items() if name == "decoder_input_ids"}
    return read(model, _other_inputs(model, text, field) | written)


def _other_inputs(model: Model, text: str | None, field: str) -> dict[str, torch.Tensor]:
    """What a model reads of a further text; what is wrong with it is said of its own field."""
    try:
        return text_inputs(model, text)
    except InputError as error:
        error.field = field
        raise


def _editor(model: Model, inputs: dict[str, torch.Tensor], edits: Edits) -> Editor:
    means = _outputs(_other_pass(model, edits.mean_over, "mean_over", inputs)) if edits.mean_heads else None
    patches = _outputs(_other_pass(model, edits.patch_from, "patch_from", inputs)) if edits.patch_heads else None
    return Editor(edits, kinds_of(model), means, patches)


def _by_kind(model: Model, calls: list[Call]) -> dict[Kind, tuple[Call, ...]]:
    grouped: dict[Kind, list[Call]] = {}
    kind_of = kinds_of(model)
    for call in calls:
        grouped.setdefault(kind_of(call), []).append(call)
    return {kind: tuple(group) for kind, group in grouped.items()}


def _numpy(tensor: torch.Tensor) -> NDArray[np.floating]:
    return wide(tensor).numpy(force=True)


def not_captured(model: Model) -> InputError:
    """Why nothing can be captured of this model."""
    try:
        require_weights(model)
    except NoAttentionError as error:
        return error
    return WeightsOnlyError(
        f"{type(model.network).__name__} keeps its queries, keys and values to itself: transformers exposes only its "
        f"attention weights, so the stages before them cannot be shown. Choose another model.",
        field="model",
    )
