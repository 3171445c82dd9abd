"""One pass of a model over a text or an image, and what each of its heads did.

A capture keeps queries, keys, values and outputs, which grow linearly with the text. The [queries, keys] stages of a head are
computed when its trace is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..attention.head import Head
from ..attention.rowwise import Overview
from ..attention.shaping import BY_HEAD
from ..attention.trace import AttentionTrace, Instead, attend, frozen
from ..errors import InputError, WeightsOnlyError, check_index, image_error, model_error
from ..models.added_tokens import text_notes
from ..models.calls import Call, wide
from ..models.images import ImageGrid, Tiles, small_image
from ..models.inputs import (
    SIDES,
    TokenNumbers,
    all_inputs,
    image_inputs,
    image_text_inputs,
    image_tiles,
    replaced_tokens,
    require_same_length,
)
from ..models.model import Model
from ..models.modules import Kind, first_of
from ..models.tokens import token_texts
from ..progress import OnProgress
from .calls.edited_call import edit_of
from .calls.head_places import PathIntoHead
from .calls.rows import Rows, head_permissions, row_blocks
from .certifying import Certificate, certified_head, certify, mask_in_words
from .components.running import ComponentPass
from .components.written import Components
from .continuing import Begun, Layers
from .edits.applying import Editor, components_read, not_read, unchanged, vectors_over
from .edits.edits import Edits
from .layer_labels import layer_labels
from .on_image import grids_on_image
from .recorder import by_kind, record
from .sampling import most_probable, next_probabilities
from .saving import save_pass
from .weights_only import no_weights


@dataclass(frozen=True, eq=False, repr=False)
class Capture:
    """One pass of a model over a text, an image or both, from which the trace of any head can be computed.

    Layers and heads count from 0. `kind` is the kind of attention: "self" in an encoder or decoder alone; "encoder",
    "decoder" (its self-attention) and "cross" (queries of the decoder, keys of the encoder) in an encoder-decoder model;
    "vision" in the tower that reads the image in a model of image and text. None is the first of these.

    input_ids   the tokens of the text; empty for an image
    target_ids  the tokens of an encoder-decoder model's decoder
    calls       the attention calls, by kind, one a layer
    logits      [vocabulary] of the next token; None for models without a language-model head
    on_image    what `image_grids` gives, by kind; empty where no image was read
    image       [height, width, 3] uint8, the image that was read, small
    vectors     [tokens, d_model], the output of the last layer; None for models with a language-model head
    edits       the changes that were made in this pass; traces show the edited computation
    sides       for a pair of texts 0, 1 or -1 (special) for each token; empty for one text and if the tokenizer does not tell
    begun       what a pass over the same inputs with other edits continues from; None: nothing is kept for that
    components  what each component wrote into the residual stream; None unless it was asked for
    """

    model: Model
    input_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    calls: dict[Kind, tuple[Call, ...]]
    logits: NDArray[np.floating] | None
    vectors: NDArray[np.floating] | None = None
    edits: Edits = field(default_factory=Edits)
    sides: tuple[int, ...] = ()
    begun: Begun | None = None
    components: Components | None = None
    on_image: Mapping[Kind, tuple[ImageGrid, ...]] = field(default_factory=dict)
    image: NDArray[np.uint8] | None = None

    def __repr__(self) -> str:
        """The capture in one line."""
        heads = ", ".join(f"{kind}: {self.layers(kind)} × {self.heads(kind)} heads" for kind in self.kinds)
        read = f"{self.shape()[1]:,} tokens" if self.grid is None else "{} × {} patches".format(*self.grid)
        edits = f", {self.edits!r}" if self.edits else ""
        return f"<Capture of {self.model.name}: {read}, {heads}{edits}>"

    @property
    def grid(self) -> tuple[int, int] | None:
        """(rows, columns) of the patches of an image alone; None for a text, and for tokens that do not lie in a grid."""
        if self.input_ids or not (grids := self.image_grids()):
            return None
        rows, columns = grids[0].tokens.shape
        return rows, columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was read that a reader of the numbers should know, such as a second beginning of the text; empty
        for most passes. Pages show them as plain text beside the text."""
        of_vectors = self.vectors is not None
        return text_notes(self.model, self.input_ids, self.target_ids, self.sides, of_vectors=of_vectors)

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens before the patches of an image; 0 for a text."""
        return 0 if self.grid is None else int(self.image_grids()[0].tokens.min())

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention in this pass."""
        return tuple(kind for kind in get_args(Kind) if kind in self.calls)

    def tokens(self, kind: Kind | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(texts of the query tokens, texts of the key tokens); for an image "[CLS]" and "patch <row>,<column>"."""
        kind = self._kind(kind)
        if kind == "vision":
            return (patches := self._placed(kind, [""] * self.shape(kind)[1]), patches)
        text, target = self._texts
        return target if kind in ("decoder", "cross") else text, target if kind == "decoder" else text

    def ids(self, kind: Kind | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(numbers of the query tokens, numbers of the key tokens); empty for patches of an image."""
        kind = self._kind(kind)
        if kind == "vision":
            return (), ()
        text, target = self.input_ids, self.target_ids
        return target if kind in ("decoder", "cross") else text, target if kind == "decoder" else text

    def image_grids(self, kind: Kind | None = None) -> tuple[ImageGrid, ...]:
        """The grids that the keys of this kind form on the image, the one of most tokens first; () if none of them lies there.

        There are several if a model reads an image in tiles and once more as a whole.
        """
        return self.on_image.get(self._kind(kind), ())

    def image_boxes(self, kind: Kind | None = None) -> NDArray[np.floating]:
        """Where on the image the keys of this kind lie: [keys, 4], left, top, right and bottom as shares of its width and
        height; NaN for a key that stands for no part of it."""
        boxes = np.full((self.shape(kind)[1], 4), np.nan)
        for grid in self.image_grids(kind):
            boxes[grid.tokens] = grid.boxes()
        return boxes

    def layers(self, kind: Kind | None = None) -> int:
        """Number of layers with this kind of attention."""
        return len(self.calls[self._kind(kind)])

    def heads(self, kind: Kind | None = None) -> int:
        """Number of query heads of a layer."""
        return self.layer_call(0, kind).heads

    def shape(self, kind: Kind | None = None) -> tuple[int, int]:
        """(queries, keys) of every head of this kind."""
        call = self.layer_call(0, kind)
        return call.query.shape[2], call.key.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of the queries, keys, values and outputs of all layers, of what they returned, and of the components."""
        kept = sum(0 if part is None else part.nbytes for part in (self.begun, self.components))
        return kept + sum(call.nbytes for layers in self.calls.values() for call in layers)

    def layer_call(self, layer: int, kind: Kind | None = None) -> Call:
        """The attention call of a layer: its inputs and its output. Raises InputError if there is no such layer."""
        check_index(layer, self.layers(kind), "layer")
        return self.calls[self._kind(kind)][layer]

    def each_layer(self, kind: Kind | None = None) -> Iterator[Call]:
        """The attention call of each layer, from the first to the last."""
        return iter(self.calls[self._kind(kind)])

    def in_rows(self, kind: Kind | None = None) -> Iterator[Iterator[Rows]]:
        """The stages of all heads: for each layer, its query rows in blocks."""
        return map(row_blocks, self.each_layer(kind))

    def key_head(self, layer: int, head: int, kind: Kind | None = None) -> tuple[int, int]:
        """(the key/value head that this query head reads, the number of key/value heads) (grouped-query attention)."""
        call = self._call(layer, head, kind)
        return head // call.group, call.key.shape[1]

    def trace(self, layer: int, head: int, kind: Kind | None = None, *, rows: range | None = None) -> AttentionTrace:
        """The stages of one head, computed from the queries, keys and values that the model used.

        The trace is in float32, or in float64 if the model is.

        rows  the queries to compute, without computing the others; None: all
        """
        whole = self.head(layer, head, kind)
        return whole.trace(range(whole.shape[0]) if rows is None else rows)

    def head(self, layer: int, head: int, kind: Kind | None = None) -> Head:
        """One head of a text of any length: traces of any of its rows, and its stages small enough to draw."""
        call = self._call(layer, head, kind)
        edit, (key_head, _) = edit_of(call, head), self.key_head(layer, head, kind)
        inputs = (call.query[0, head], call.key[0, key_head], call.value[0, key_head])
        shaping = call.shaping.each(BY_HEAD, lambda numbers: float(numbers.detach().flatten()[head]))
        options = vars(shaping) | {"scale": edit.scale(call.scale), "mask": None, "bias": None}
        trace = attend(*map(_numpy, inputs), **options)

        def permissions(rows: range) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
            return head_permissions(call, head, rows)

        def instead(rows: range) -> Instead:
            weights = edit.weights(rows, permissions(rows)[0]) if edit.gives_weights else None
            return Instead(edit.weighing, weights, edit.output_of(rows, call.value.shape[3]))

        return Head.of(trace, permissions, instead)

    def certificate(self, layer: int, head: int, kind: Kind | None = None) -> Certificate:
        """Compare one head's output with what the model's own attention returned."""
        mask, output = mask_in_words(self._call(layer, head, kind), head), self.model_output(layer, head, kind)
        return certify(self.head(layer, head, kind), output, self.model, mask)

    def certified_overview(self, layer: int, head: int, kind: Kind | None = None) -> tuple[Overview, Certificate]:
        """One head's stages, small enough to draw, and the certificate of these numbers, from one sweep over its rows."""
        mask, output = mask_in_words(self._call(layer, head, kind), head), self.model_output(layer, head, kind)
        return certified_head(self.head(layer, head, kind), output, self.model, mask)

    def model_output(self, layer: int, head: int, kind: Kind | None = None) -> NDArray[np.floating]:
        """The output of one head that the model's own attention returned, before W_O: [queries, d_v]."""
        return _numpy(self._call(layer, head, kind).output[0, :, head])

    def agreement(self, layer: int, kind: Kind | None = None) -> float:
        """max |our output - the model's own attention output| over the heads of a layer, without empty rows."""
        return max(self.certificate(layer, head, kind).difference for head in range(self.heads(kind)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the pass to a safetensors file, which `open_capture` opens without the model. docs/captures.md describes it.

        The file holds the queries, keys, values and outputs of every head in the dtype that they have, masks and biases in a
        form that grows linearly with the text, and the tokens. It does not hold components, or what another pass continues
        from. Raises OSError where it cannot be written; what was there before then stays.
        """
        save_pass(
            path,
            self.model,
            {kind: zip(layer_labels(self, kind), self.calls[kind], strict=True) for kind in self.kinds},
            {name: getattr(self, name) for name in ("input_ids", "target_ids", "sides", "logits", "vectors")},
            self.edits,
            self.image,
            {kind: grids for kind in self.kinds if (grids := self.image_grids(kind))},
        )

    @property
    def predicted(self) -> NDArray[np.floating]:
        """The logits [vocabulary] of the next token. Raises InputError for models without a language-model head."""
        if self.logits is None:
            raise model_error(f"{self.model.name} has no language-model head: it predicts no next token.")
        return self.logits

    @cached_property
    def sentence_vector(self) -> NDArray[np.float64]:
        """The vector of the whole text, as the model makes it of those of its tokens (`model.sentence`): [size]. Raises
        InputError for models with a language-model head, and for a pass from a file that holds no vectors."""
        if self.vectors is None:
            why = (
                "it predicts the next token. Compare logits instead"
                if self.model.has_language_model_head
                else "this pass holds no vectors"
            )
            raise model_error(f"{self.model.name} gives no sentence vector: {why}.")
        return frozen(self.model.sentence.of(torch.tensor(self.vectors, dtype=torch.float64)).numpy())

    def next_tokens(self, k: int = 5) -> list[tuple[str, float]]:
        """The k most probable next tokens, each with its probability. Raises InputError for models without a language-model
        head."""
        probabilities, best = next_probabilities(self.predicted), most_probable(self.predicted, k)
        texts = token_texts(self.model.tokenizer, best)
        return [(text, float(probabilities[token])) for text, token in zip(texts, best, strict=True)]

    @cached_property
    def _texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The texts of the tokens that were read, for an image the names of its patches, and of those of the target."""
        if not self.input_ids:
            return (patches := self._patches(), patches)
        text, target = (token_texts(self.model.tokenizer, ids) for ids in (self.input_ids, self.target_ids))
        return (self._placed(first_of(self.kinds), text) if self.image_grids(first_of(self.kinds)) else text), target

    def _placed(self, kind: Kind, texts: Sequence[str]) -> tuple[str, ...]:
        """These texts, with "patch <row>,<column>" for each that lies on the image; of the image as a whole, which a model
        reads beside its tiles, "whole <row>,<column>"; "[CLS]" for a blank one."""
        named = [text or "[CLS]" for text in texts]
        for number, grid in enumerate(self.image_grids(kind)):
            word = "patch" if number == 0 else "whole" if number == 1 else f"part {number}"
            for (row, column), position in np.ndenumerate(grid.tokens):
                named[position] = f"{word} {row},{column}"
        return tuple(named)

    def _patches(self) -> tuple[str, ...]:
        names = [f"position {position}" for position in range(self.shape()[1])]
        if self.grid is not None:
            others = np.flatnonzero(np.isnan(self.image_boxes()[:, 0])).tolist()
            further = [position for position in others if position]
            word = "REG" if len(further) == self.model.register_tokens else "extra"
            named = dict.fromkeys(others[:1], "[CLS]")
            named |= {position: f"[{word} {number}]" for number, position in enumerate(further, 1)}
            names = [named.get(position, name) for position, name in enumerate(names)]
        return self._placed(first_of(self.kinds), names)

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
    known: Iterable[Capture] = (),
    components: bool = False,
    on_progress: OnProgress | None = None,
) -> Capture:
    """Run a model once over a text or an image and keep what its heads did.

    text         the text; the tokenizer adds its special tokens
    pair         a second text, for encoders that read two
    target       the text of an encoder-decoder model's decoder after its start token, or token numbers; None: nothing
    input_ids    token numbers instead of a text
    image        for models that read images, alone or with a text: [height, width, 3], uint8 or real numbers from 0 to 1
                 (core.models.images.read_image). Where it belongs in the text, the text may have the processor's placeholder,
                 such as "<image>"; without one, the text is a message in the model's chat template, or follows the image
    max_tokens   maximum number of tokens, if that is less than the model's own
    truncate     whether to keep the first tokens that fit instead of raising TooLongError
    edits        changes of this pass; the model itself does not change
    known        passes that need not be computed again: over the same inputs with other edits, from which this one continues
                 where the edits first differ, and over the texts that edits read. They change nothing but the time
    components   whether to keep what each component wrote into the residual stream, for core.heads.attribution
    on_progress  called after every attention call with the number of calls so far, of `model.attention_calls`; an error that
                 it raises ends the pass and reaches the caller

    Raises InputError for a blank text, a target that the model cannot read (field "target"), and an image for a model that
    reads texts; TooLongError; WeightsOnlyError for architectures that do not expose their queries, and NoAttentionError for
    models without attention.
    """
    if not model.captures:
        raise not_captured(model)
    tiles = None
    if image is not None and model.reads_images and not (text is None and input_ids is None):
        raise image_error(f"{model.name} reads an image alone. Give it no text.")
    if image is not None and model.reads_images:
        inputs, tiles = image_inputs(model, image), image_tiles(model, image)
    elif image is not None:
        if not (pair is None and target is None and input_ids is None):
            raise image_error("With an image only a text can be given.")
        if components:
            raise image_error("What components write is kept for texts alone. Leave the image out.")
        inputs, tiles = image_text_inputs(model, text, image, max_tokens)
    else:
        inputs = all_inputs(
            model, text, pair=pair, target=target, input_ids=input_ids, max_tokens=max_tokens, truncate=truncate
        )
    if edits is not None and "input_ids" in inputs:
        require_patch_length(model, edits, inputs["input_ids"][0].tolist())
    return read(model, inputs, edits, on_progress, known, components=components, tiles=tiles, image=image)


def read(
    model: Model,
    inputs: dict[str, torch.Tensor],
    edits: Edits | None = None,
    on_progress: OnProgress | None = None,
    known: Iterable[Capture] = (),
    *,
    components: bool = False,
    tiles: Tiles | None = None,
    image: ArrayLike | None = None,
) -> Capture:
    """Run a model over inputs that are tensors already; the rest as in `capture`. tiles, image: of an image among them"""
    edits, plain = edits or Edits(), inputs
    known = [one for one in known if one.model.network is model.network]
    layers = None if components or edits.cuts else _layers_of(model, inputs, edits, known)
    component_pass = ComponentPass(model) if components else None
    inputs, calls, returned = edited_pass(
        model, inputs, edits, on_progress, layers, known, component_pass=component_pass
    )
    input_ids, target_ids, sides = (
        tuple(inputs[name][0].tolist()) if name in inputs else () for name in ("input_ids", "decoder_input_ids", SIDES)
    )
    last = getattr(returned, "last_hidden_state", None)
    on_image = grids_on_image(model, inputs, tiles) if "pixel_values" in inputs else {}
    return Capture(
        model,
        input_ids,
        target_ids,
        by_kind(calls),
        logits=_numpy(returned.logits[0, -1]) if model.has_language_model_head else None,
        vectors=None if last is None or model.has_language_model_head else _numpy(last[0]),
        edits=edits,
        sides=sides,
        begun=None if layers is None else layers.begun(plain),
        components=None if component_pass is None else component_pass.components(returned),
        on_image=on_image,
        image=tiles.image if tiles is not None else None if image is None else small_image(image),
    )


def _layers_of(model: Model, inputs: dict[str, torch.Tensor], edits: Edits, known: Iterable[Capture]) -> Layers:
    """The layers of a pass, taken from the known pass over the same inputs that has most in common with it."""
    first, best = 0, None
    for one in known:
        if (begun := one.begun) is not None and begun.reads(inputs):
            same = unchanged(begun.calls, one.edits, edits)
            first, best = (same, begun) if same > first else (first, best)
    return Layers(model, best, first)


def edited_pass(
    model: Model,
    inputs: dict[str, torch.Tensor],
    edits: Edits,
    on_progress: OnProgress | None = None,
    layers: Layers | None = None,
    known: Iterable[Capture] = (),
    component_pass: ComponentPass | None = None,
    **options: Any,
) -> tuple[dict[str, torch.Tensor], list[Call], Any]:
    """Run a pass with these edits: (its inputs, its attention calls, the network's output).

    layers   of this pass, some perhaps taken from another one
    known    passes over the texts that edits read, if they are known
    component_pass  notes the components of the pass; one that cuts paths needs one, and makes its own by default
    options  for the network, as in core.models.inputs.run
    """
    inputs = replaced_tokens(model, inputs, edits.tokens)
    others = {
        keyword: _outputs_over(model, text, keyword, inputs, known) for keyword, text in edits.other_texts.items()
    }
    if edits.cuts and component_pass is None:
        component_pass = ComponentPass(model)
    reading = None if component_pass is None else component_pass.reading
    editor = Editor(edits, others, reading, _patched_components(model, edits, inputs))
    for call in () if layers is None else layers.taken:
        editor.check(call)
    edit = editor.edit if edits else None
    calls, returned = record(model, inputs, on_progress, edit, layers, component_pass, **options)
    if not calls:
        raise not_captured(model)
    if edits:
        editor.finish()
    return inputs, calls, returned


def check_edits(capture: Capture, edits: Edits) -> None:
    """Raise InputError, as `capture` does, for edits that are not possible in such a pass, without running it."""
    require_patch_length(capture.model, edits, capture.input_ids)
    inputs = {"input_ids": torch.tensor([capture.input_ids])} if capture.input_ids else {}
    replaced_tokens(capture.model, inputs, edits.tokens)
    for keyword, text in edits.other_texts.items():
        _other_inputs(capture.model, text, keyword)
    editor = Editor(edits)
    for calls in capture.calls.values():
        for call in calls:
            editor.check(call)
    editor.finish()
    for path in (cut.at for cut in edits.cuts):
        kind, layer = path.place.kind or capture.kinds[0], path.place.layer
        if path.component not in components_read(capture.model, kind, layer, path.side):
            raise not_read(path)


def require_patch_length(model: Model, edits: Edits, ids: Sequence[int]) -> None:
    """Raise InputError (field "patch_from") if anything is patched from a text with another number of tokens."""
    if "patch_from" in edits.texts:
        other = _other_inputs(model, edits.texts["patch_from"], "patch_from")["input_ids"][0].tolist()
        require_same_length(model, ids, other, field="patch_from")


def _outputs_over(
    model: Model, text: str, field: str, inputs: dict[str, torch.Tensor], known: Iterable[Capture]
) -> Callable[[Kind, int], torch.Tensor]:
    """A function from (kind, layer) to the outputs of its heads over another text: [queries, heads, d_v]."""
    read_there = _other_inputs(model, text, field) | _target(inputs)
    plain = (one for one in known if not one.edits and one.begun is not None and one.begun.reads(read_there))
    other = next(plain, None) or read(model, read_there)
    return lambda kind, layer: other.layer_call(layer, kind).output[0]


def _patched_components(
    model: Model, edits: Edits, inputs: dict[str, torch.Tensor]
) -> dict[PathIntoHead, torch.Tensor]:
    """What the components that are patched are in the other text, by path."""
    if not (paths := [cut.at for cut in edits.cuts if cut.value == "patch"]):
        return {}
    return vectors_over(model, _other_inputs(model, edits.texts["patch_from"], "patch_from") | _target(inputs), paths)


def _target(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the decoder of an encoder-decoder model reads: the same in a pass over another text."""
    return {name: ids for name, ids in inputs.items() if name == "decoder_input_ids"}


def _other_inputs(model: Model, text: str | None, field: str) -> dict[str, torch.Tensor]:
    """The inputs of another text, whose errors get the field of that text."""
    try:
        return all_inputs(model, text)
    except InputError as error:
        error.field = field
        raise


def _numpy(tensor: torch.Tensor) -> NDArray[np.floating]:
    return wide(tensor).numpy(force=True)


def not_captured(model: Model) -> InputError:
    """The error for a model that cannot be captured."""
    return no_weights(model) or WeightsOnlyError(
        f"{type(model.network).__name__} keeps its queries, keys and values to itself: transformers exposes only its "
        f"attention weights, so the stages before them cannot be shown. Choose another model.",
        field="model",
    )
