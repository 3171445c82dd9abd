"""The pass that a check-up looks at: a model over a short fixed text, and what its modules read and returned.

And the checks by further passes: what may change no number. In a decoder, one reading in two parts with padding before it shows
that all of this changes nothing. Only if it differs, each is tried by itself.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ...errors import InputError
from ...models.calls import Call
from ...models.checkups import Finding
from ...models.inputs import all_inputs, cache_of, image_inputs, image_size, known_tokens, run
from ...models.model import Model
from ...models.modules import Kind
from ...models.own_copy import own_copy
from ..capture import Capture, not_captured
from ..continuing import twin_of
from ..recorder import by_kind, record
from ..rounding import between_passes

# Some words occur twice, and it is longer than the small windows of networks for tests.
TEXT = "The cat sat on the mat because the cat was tired, and the dog (7 years old) slept."
PADDING = 3  # tokens that are put around it
KEPT = 3  # of its tokens that are read after the others
LINEAR = (nn.Linear, Conv1D)


class Visit(NamedTuple):
    """One run of a module: what it was given, by place and by name, and what it returned."""

    module: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    returned: Any


@dataclass(frozen=True, eq=False)
class Reading:
    """A model over the fixed text.

    inputs   of the network
    layers   the layers of each kind that are checked: the first, the middle and the last one
    visits   what the modules of these layers and those outside all layers read and returned, by name
    returned of the same pass, as `returned_by`
    """

    model: Model
    inputs: dict[str, Tensor]
    capture: Capture
    layers: dict[Kind, list[int]]
    visits: dict[str, Visit]
    returned: Tensor

    @cached_property
    def writes(self) -> bool:
        """Whether the model continues the text, so that no token may see a later one."""
        writes = self.model.has_language_model_head and not self.model.is_encoder_decoder
        return writes and all(self.is_causal(call) for _, kind, _, call in self.calls() if kind == "self")

    def is_causal(self, call: Call) -> bool:
        """Whether an attention module of a decoder forbids later tokens, by its class and its configuration."""
        own: Any = self.own(call.module)
        return all(getattr(of, "is_causal", True) for of in (own, getattr(own, "config", None)))

    def own(self, module: nn.Module) -> nn.Module:
        """The same attention module as its class makes it from the configuration, whatever was changed in this one."""
        of_capture = self.capture.model.network
        name = next(name for name in self.model.kinds if of_capture.get_submodule(name) is module)
        return self._own_copy.get_submodule(name)

    @cached_property
    def _own_copy(self) -> PreTrainedModel:
        return own_copy(self.model.network)

    @cached_property
    def in_parts(self) -> Tensor | None:
        """`again` with all at once that may change nothing; None for a model that does not take all of it."""
        try:
            return self.again(PADDING, KEPT) if self.writes else None
        except Exception:  # each architecture fails in ways of its own
            return None

    def again(self, padding: int = 0, kept: int = 0) -> Tensor:
        """`returned`, of another reading of the text.

        padding  number of masked tokens: before the text of a model that writes, where its queries look, else behind it
        kept     number of tokens at the end that are read for themselves, with the keys and values of those before
        """
        ids, sides = self.inputs["input_ids"], (padding, 0) if self.writes else (0, padding)
        fills = {"input_ids": int(ids[0, -2]), "token_type_ids": 0}
        given = {name: pad(part, sides, value=fills[name]) for name, part in self.inputs.items() if name in fills}
        if padding:
            given["attention_mask"] = pad(torch.ones_like(ids), sides)
            if self.writes:
                given["position_ids"] = (given["attention_mask"].cumsum(1) - 1).clamp_min(0)
        if not kept:
            return returned_by(self.model, self.inputs | given)[0][sides[0] :][: len(self.returned)]
        begun, first = returned_by(self.model, {name: part[:, :-kept] for name, part in given.items()}, use_cache=True)
        if not (keys := cache_of(first)):
            raise InputError("The model keeps no keys and values.", field="model")
        # The network may leave its keys and values, and read everything anew: Phi-3 beyond its first length.
        prepare: Any = self.model.network.prepare_inputs_for_generation
        rest = prepare(next_sequence_length=kept, use_cache=True, **given, **keys)
        read, more = ({name: rest[name] for name in names if rest.get(name) is not None} for names in (given, keys))
        ended, _ = returned_by(self.model, read, use_cache=True, **more)
        return torch.cat([begun[padding:], ended[-kept:]])

    def calls(self) -> list[tuple[str, Kind, int, Call]]:
        """(its name in sentences, kind, layer, attention call) of each chosen layer."""
        return [
            (f"{kind} layer {layer}".removeprefix("self "), kind, layer, self.capture.layer_call(layer, kind))
            for kind, layers in self.layers.items()
            for layer in layers
        ]


def read_fixed(model: Model) -> Reading:
    """Read the fixed text, or a fixed image. Raises InputError if the model cannot read it or gives NaN."""
    inputs, visits = fixed_inputs(model), {}
    twin = _watched(model, visits)
    heard, returned = record(model.with_twin(twin), inputs)
    if not heard:
        raise not_captured(model)
    own = {id(twin.get_submodule(name)): model.network.get_submodule(name) for name in model.kinds}
    calls = [replace(call, module=own.get(id(call.module), call.module)) for call in heard]
    names = "input_ids", "decoder_input_ids"
    text, target = (tuple(inputs[name][0].tolist()) if name in inputs else () for name in names)
    capture = Capture(model, text, target, by_kind(calls), logits=None)
    layers: dict[Kind, list[int]] = {kind: sorted({0, len(of) // 2, len(of) - 1}) for kind, of in capture.calls.items()}
    modules = {capture.layer_call(layer, kind).module for kind, own in layers.items() for layer in own}
    chosen = {layer_of(name) for name, visit in visits.items() if visit.module in modules} | {""}
    of_layers = {name: visit for name, visit in visits.items() if layer_of(name) in chosen}
    return Reading(model, inputs, capture, layers, of_layers, _rows(model, visits, returned))


def returned_by(model: Model, inputs: dict[str, Tensor], **options: Any) -> tuple[Tensor, Any]:
    """What a pass returns at each position, before the language-model head if the network has a part without it: [tokens,
    size], on the CPU in float64. And all that it returns."""
    visits: dict[str, Visit] = {}
    returned = run(replace(model, network=_watched(model, visits)), inputs, **options)
    return _rows(model, visits, returned), returned


def _rows(model: Model, visits: dict[str, Visit], returned: Any) -> Tensor:
    base = visits.get(model.network.base_model_prefix)
    of = returned if base is None else base.returned
    vectors = getattr(of, "last_hidden_state", None)
    return (of.logits if vectors is None else vectors)[0].detach().to("cpu", torch.float64)


def fixed_image(height: int, width: int) -> NDArray[np.uint8]:
    """An image of stripes: [height, width, 3]."""
    rows, columns, colours = np.ogrid[:height, :width, :3]
    return ((3 * rows + 5 * columns + 40 * colours) % 256).astype(np.uint8)


def fixed_inputs(model: Model) -> dict[str, Tensor]:
    if model.reads_images:
        return image_inputs(model, fixed_image(*image_size(model)))
    target = [5, 9, 6, 9, 7] if model.is_encoder_decoder else None
    if model.tokenizer is not None and not model.is_encoder_decoder:
        return all_inputs(model, TEXT, max_tokens=32, truncate=True)
    known = known_tokens(model.network) or 16
    return all_inputs(model, input_ids=[token % known for token in (3, 8, 5, 11, 8, 5, 7, 12, 9, 4)], target=target)


def _watched(model: Model, visits: dict[str, Visit]) -> Any:
    """A twin of the network, which shares its weights and adds to `visits` what its modules with weights, attention
    modules and the part without the language-model head read and return."""

    def visit(name: str, module: nn.Module, own: Callable[..., Any], *given: Any, **options: Any) -> Any:
        returned = own(*given, **options)
        # Llama 4 adds to what a map has returned, in its place.
        kept = returned.clone() if isinstance(returned, Tensor) else returned
        visits.setdefault(name, Visit(module, given, options, kept))
        return returned

    watched = {
        name: partial(visit, name, module)
        for name, module in model.network.named_modules()
        if has_weights(module) or name in (*model.kinds, model.network.base_model_prefix)
    }
    twin = twin_of(model.network, watched)
    # Under a partial it would not say what it accepts; and a twin that held its own forward would keep itself alive.
    vars(twin).pop("forward", None)
    return twin


def has_weights(module: nn.Module) -> bool:
    """Whether a module itself, and none within it, holds weights."""
    return any(True for _ in module.parameters(recurse=False)) and not [*module.children()]


def layer_of(name: str) -> str:
    """The name of the layer that a module stands in: up to the first number; "" outside of all layers."""
    found = re.match(r"(.*?\.|)\d+(?=\.|$)", name)
    return found[0] if found else ""


# --- further passes


def later_tokens(reading: Reading) -> Finding:
    """Another last token changes no row before it in a decoder."""
    if not (reading.writes or reading.model.is_encoder_decoder):
        return Finding(None, "The model is not a decoder: tokens may see later ones.")
    if _unchanged(reading) is not None:
        return Finding(True, f"The {KEPT} last tokens change nothing before them.")
    name = "decoder_input_ids" if reading.model.is_encoder_decoder else "input_ids"
    ids, other = reading.inputs[name], reading.inputs[name].clone()
    other[0, -1] = ids[0, 1] if ids[0, 1] != ids[0, -1] else ids[0, 0]
    changed, _ = returned_by(reading.model, reading.inputs | {name: other})
    moved = _apart(reading.returned[:-1], changed[:-1])
    if moved <= _allowed(reading) / 16:
        return Finding(True, "Another last token changes nothing before it.")
    return Finding(
        False,
        f"Another last token changes the rows before it by {moved:.2g} of the largest number. They see later tokens.",
    )


def padding(reading: Reading) -> Finding:
    """Padding around the text, masked, changes nothing."""
    accepted = inspect.signature(reading.model.network.forward).parameters
    if "input_ids" not in reading.inputs or "attention_mask" not in accepted:
        return Finding(None, "The model takes no padding.")
    if reading.writes and "position_ids" not in accepted:
        return Finding(None, "The model does not take the positions of a text with padding before it.")
    if (rows := _unchanged(reading)) is None:
        rows = reading.again(padding=PADDING)
    where = "before" if reading.writes else "after"
    return _same(reading, reading.returned, rows, f"{PADDING} padding tokens {where} the text change")


def cache_of_keys(reading: Reading) -> Finding:
    """A text that is read in two parts, the second from the keys and values of the first, gives the same."""
    if "input_ids" not in reading.inputs or not reading.writes:
        return Finding(None, "The model is not a decoder, and keeps no keys and values.")
    if (rows := _unchanged(reading)) is None:
        rows = reading.again(kept=KEPT)
    return _same(reading, reading.returned[-KEPT:], rows[-KEPT:], "Reading the end from the cache changes")


def _unchanged(reading: Reading) -> Tensor | None:
    """`Reading.in_parts`, if it differs so little that nothing of it needs another look."""
    rows = reading.in_parts
    return None if rows is None or _apart(reading.returned, rows) > _allowed(reading) / 16 else rows


def _same(reading: Reading, one: Tensor, other: Tensor, what: str) -> Finding:
    apart = _apart(one, other)
    holds = apart <= _allowed(reading)
    size = "nothing but rounding" if holds else f"the result by {apart:.2g} of its largest number"
    return Finding(holds, f"{what} {size}.")


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a share of the largest number."""
    return float((one - other).abs().max() / one.abs().max().clamp_min(1e-30))


def _allowed(reading: Reading) -> float:
    return between_passes(reading.model.network.dtype)
