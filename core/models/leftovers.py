"""What a model's files hold and its network does not read, and what the network has and no file holds.

transformers leaves out weights for which a network has no place, and makes up those that it lacks. Either makes it another
model, without a word: biases or a layer that config.json denies, the scales of a quantisation. So what is left over or lacking
is refused, unless the list below names it as harmless and says why.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

from ..errors import shown
from .bounds import UnreadableError
from .model import read_by
from .weight_files import Stored

_REAL = ("F64", "F32", "F16", "BF16")
_LARGEST_MASK = 8_192  # tokens

# Modules that read what a network gives, by the first part of their names.
_HEADS = re.compile(
    "classifier|cls|discriminator_predictions|generator_(lm_head|predictions)|lm_(head|loss|predictions)|logits_proj|"
    "mask_predictions|pre_classifier|pred_layer|predictions|qa_(classifier|outputs)|score|sequence_summary|"
    "seq_relationship|sop_classifier|v_head|vocab_(layer_norm|projector|transform)"
)
# Modules that make tokens of images and sounds.
_SENSES = re.compile(
    r"(model\.)?(audio_tower|embed_(audio|vision)|multi_modal_projector|vision_(model|tower)|visual)\."
)

_HEAD = "the head of a task"
_POOLER = "a pooler, which sums up a text for a task"
_FURTHER = "layers that predict several tokens at once"
_SENSE = "for images or sounds, and it reads texts"
_ROTARY = "rotary frequencies other than those of its config.json, which it uses"
_LISTED = "as transformers does in every such model"
_MADE_UP = "a pooler, of random numbers here, which no attention reads"
_COMPUTED = "transformers fills them in, in every such model"


def notes_of(
    network: PreTrainedModel, stored: Mapping[str, Stored], lost: Iterable[str], lacking: Iterable[str]
) -> tuple[str, ...]:
    """Sentences about weights in its files that a network does not read, and about those that it has from nowhere.

    network  as transformers has loaded it
    stored   all tensors of its files
    lost     tensors that their index names and no file holds
    lacking  parts of the network that no tensor fills, as transformers reports them

    Raises UnreadableError if such a weight may change a number, and for weights that are not numbers of the network's kind.
    """
    reading = _Reading(network, stored)
    reading.check_kinds()
    reading.check_places()
    notes = [*reading.left_out(), *reading.made_up(lacking)]
    if unknown := [name for name in lost if not reading.is_read(name)]:
        raise UnreadableError(f"has an index that names {shown(unknown[0])}, which no file holds")
    return tuple(notes)


@dataclass(frozen=True)
class _Place:
    """Where a tensor goes: to one part of the network, or through a converter, which fits it by this pattern, to several."""

    targets: tuple[str, ...]
    converter: WeightConverter | None = None
    pattern: str = ""

    @property
    def is_scaled(self) -> bool:
        """Whether a quantisation is undone on the way."""
        return self.converter is not None and any(hasattr(step, "hf_quantizer") for step in self.converter.operations)


class _Reading:
    """The tensors of some files, and what a network has read of them."""

    def __init__(self, network: PreTrainedModel, stored: Mapping[str, Stored]) -> None:
        self.network, self.stored, self.kind = network, stored, type(network).__name__
        self.parts: dict[str, Tensor] = network.state_dict()
        conversions: Any = network._weight_conversions
        self._renamings = [step for step in conversions if isinstance(step, WeightRenaming)]
        self._converters = [step for step in conversions if isinstance(step, WeightConverter)]
        self.places = {name: self._place(name) for name in sorted(stored, key=dot_natural_key)}

    def _place(self, name: str) -> _Place:
        """As transformers decides it: `convert_and_load_state_dict_in_model` in transformers/core_model_loading.py."""
        prefix = self.network.base_model_prefix
        target, pattern = rename_source_key(name, self._renamings, self._converters, prefix, self.parts)
        if target not in self.parts and name in self.parts:
            target, pattern = rename_source_key(name, [], [], prefix, self.parts)
        if pattern is None:
            return _Place((target,))
        converter = {other: step for step in self._converters for other in step.source_patterns}[pattern]
        first, *_ = every = converter.target_patterns
        return _Place(tuple(target.replace(first, other) for other in every), converter, pattern)

    def is_read(self, name: str) -> bool:
        return self._place(name).targets[0] in self.parts

    # --- what is refused

    def check_kinds(self) -> None:
        """Real numbers are where the network has some, and nowhere else."""
        for name, place in self.places.items():
            part = self.parts.get(place.targets[0])
            if part is None:
                continue
            dtype, wanted = self.stored[name].dtype, part.is_floating_point()
            if place.is_scaled and dtype.startswith("F8"):
                continue
            if wanted != (dtype in _REAL):
                kind = "real numbers in F32, F16 or BF16" if wanted else "whole numbers"
                raise UnreadableError(
                    f"holds {shown(name)} in {dtype}, where {self.kind} has {kind}. If these are quantised weights, nothing "
                    f"says by which method"
                )

    def check_places(self) -> None:
        """No two tensors are for the same place: transformers would read one of them."""
        filled: dict[str, list[str]] = defaultdict(list)
        for name, place in self.places.items():
            for target in place.targets:
                filled[target].append(name)
        for target, names in filled.items():
            patterns = [self.places[name].pattern for name in names]
            alone = any("*" not in pattern and patterns.count(pattern) > 1 for pattern in patterns)
            if len(names) > 1 and ("" in patterns or alone):
                raise UnreadableError(f"holds {shown(target)} twice: as {shown(names[0])} and as {shown(names[1])}")

    # --- what is said

    def left_out(self) -> list[str]:
        """Sentences about the tensors for which the network has no place. Raises UnreadableError if one may matter."""
        reasons = {
            name: self._why_harmless(name) for name, place in self.places.items() if place.targets[0] not in self.parts
        }
        if matter := [name for name, why in reasons.items() if why is None]:
            raise UnreadableError(
                f"holds {_counted(matter)}, which {self.kind} does not read, so it would be another model. Check that its "
                f"config.json belongs to these weights"
            )
        return self._sentences(f"{self.kind} leaves out", {name: why or "" for name, why in reasons.items()})

    def made_up(self, lacking: Iterable[str]) -> list[str]:
        """Sentences about parts of the network that no tensor fills. Raises UnreadableError if one matters."""
        filled = {target for place in self.places.values() for target in place.targets}
        computed, unsaved = (
            self.network._keys_to_ignore_on_load_missing or (),
            self.network._keys_to_ignore_on_save or (),
        )
        absent = self.parts.keys() - filled
        reasons = {name: "" if _fits(unsaved, name) else _COMPUTED for name in absent if _fits(computed, name)}
        reasons |= {name: _MADE_UP for name in lacking if ".pooler." in f".{name}"}
        if matter := sorted(set(lacking) - reasons.keys()):
            raise UnreadableError(f"has no weights for {len(matter)} parts of {self.kind}, such as {matter[0]}")
        return self._sentences("The files lack", reasons)

    def _sentences(self, says: str, reasons: Mapping[str, str]) -> list[str]:
        names = defaultdict(list)
        for name, why in sorted(reasons.items()):
            names[why].append(name)
        return [f"{says} {_counted(names[why])}: {why}." for why in names if why]

    # --- what is harmless

    def _why_harmless(self, name: str) -> str | None:
        """Why a tensor that is not read changes no number: "" for constants, which need no note; None if it may change one."""
        if self._is_computed(name):
            return ""
        for pattern, why in _HARMLESS:
            if re.search(pattern, name):
                return why(self, name)
        if _fits(self.network._keys_to_ignore_on_load_unexpected or (), self.places[name].targets[0]):
            return _LISTED
        if _SENSES.match(name) and read_by(type(self.network)) == "texts":
            return _SENSE
        return _HEAD if self._is_head(name) else None

    def values(self, name: str) -> Tensor:
        with safe_open(self.stored[name].file, framework="pt") as file:
            return file.get_tensor(name)

    def _is_computed(self, name: str) -> bool:
        """Whether the network computes these numbers itself, and gets the same ones."""
        end, shape = f".{name.rpartition('.')[2]}", self.stored[name].shape
        same = [made for other, made in self._made.items() if f".{other}".endswith(end) and made.shape == shape]
        return bool(same) and any(_are_near(self.values(name), made) for made in same)

    @cached_property
    def _made(self) -> dict[str, Tensor]:
        return {name: buffer for name, buffer in self.network.named_buffers() if name not in self.parts}

    def rotary(self, _name: str) -> str | None:
        return _ROTARY if any(other.endswith("inv_freq") for other in self._made) else None

    def mask(self, name: str) -> str | None:
        """Which keys come before a query: 1 on and below the diagonal. Or the number that was written where none do."""
        shape = self.stored[name].shape
        if name.endswith("masked_bias"):
            return "" if shape in ((), (1,)) else None
        if len(shape) != 4 or shape[:2] != (1, 1) or not shape[2] == shape[3] <= _LARGEST_MASK:
            return None
        given = self.values(name)[0, 0]
        is_mask = ((given == 0) | (given == 1)).all() and given.diagonal().all() and not given.bool().triu(1).any()
        return "" if is_mask else None

    def positions(self, name: str) -> str | None:
        given = self.values(name).flatten()
        return "" if torch.equal(given, torch.arange(len(given), dtype=given.dtype)) else None

    def further_layer(self, name: str) -> str | None:
        """A layer behind the last one, for further tokens: it has weights that no other layer has."""
        before, number, _ = re.split(r"(?<=layers\.)(\d+)", name, maxsplit=1)
        marks = tuple(f"{before}{number}.{mark}." for mark in ("eh_proj", "enorm", "hnorm"))
        config = self.network.config.get_text_config()
        layers, further = (getattr(config, name, 0) for name in ("num_hidden_layers", "num_nextn_predict_layers"))
        is_further = layers <= int(number) < layers + (further or 0)
        return _FURTHER if is_further and any(other.startswith(marks) for other in self.stored) else None

    def _is_head(self, name: str) -> bool:
        first, prefix = name.partition(".")[0], self.network.base_model_prefix
        if first == prefix or first in dict(self.network.named_children()):
            return False
        beside = self.network.base_model is self.network and any(
            other.startswith(f"{prefix}.") for other in self.stored
        )
        return bool(_HEADS.fullmatch(first)) or beside


# By their names, the tensors that a network may leave out, in the order in which they are looked for.
_HARMLESS: tuple[tuple[str, Callable[[_Reading, str], str | None]], ...] = (
    # Numbers of a file format, counts of a training, and a bias that T5's cross-attention never had.
    (
        r"^(model\.)?(en|de)coder\.version$|\.num_batches_tracked$|\.EncDecAttention\.relative_attention_bias\.",
        lambda *_: "",
    ),
    (r"(^|\.)position_ids$", _Reading.positions),
    (r"\.(attn|attention)\.(masked_)?bias$|\.attn\.causal_mask$", _Reading.mask),
    (r"(^|[._])inv_freq$", _Reading.rotary),
    (r"(^|\.)pooler\.", lambda *_: _POOLER),
    (r"(^|\.)mtp(_\w+)?\.", lambda *_: _FURTHER),
    (r"(^|\.)layers\.\d+\.", _Reading.further_layer),
)


def _fits(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _are_near(given: Tensor, computed: Tensor) -> bool:
    """Whether these are the same numbers, but for their rounding in a file."""
    rounding = max(1e-5, 2 * torch.finfo(given.dtype).eps) if given.is_floating_point() else 0.0
    return torch.allclose(given.double(), computed.cpu().double(), rtol=rounding, atol=rounding / 100)


def _counted(names: list[str]) -> str:
    """The first one, and how many more there are."""
    others = len(names) - 1
    return shown(names[0]) + (f" and {others} more weight{'s' * (others > 1)}" if others else "")
