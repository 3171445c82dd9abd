"""The files of a model's weights: which they are, what their headers say, and what a network leaves unread of them.

Headers say all there is to know before a weight is read. Whether a folder is quantised by a method that is undone here, its
config.json and the files beside it say, before weights are fetched or even looked at.

transformers leaves out weights for which a network has no place, and makes up those that it lacks. Either makes it another
model, without a word: biases or a layer that config.json denies, the scales of a quantisation. So what is left over or lacking
is refused, unless a list below names it as harmless and says why.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

from ..errors import first_line, shown
from .bounds import MAX_CONFIG_BYTES, MAX_SMALL_BYTES, UnreadableError, checked_object
from .fields import are_whole, said_once
from .model import read_by
from .sizes import ModelSize, size_of_tensors

Settings = Mapping[str, Any]
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Stored:
    """A tensor as the header of its file announces it. dtype: as safetensors names it, such as "BF16" """

    file: Path
    dtype: str
    shape: tuple[int, ...]


def weight_files(folder: Path, most_bytes: int = MAX_SMALL_BYTES) -> list[Path]:
    """The safetensors files that transformers reads: a single one, or those that the index names.

    most_bytes  of an index

    Raises UnreadableError if the folder has none, and for an index that names other files than those beside it.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not (folder / INDEX).is_file():
        if any(path.suffix in _PICKLES for path in folder.iterdir()):
            raise UnreadableError("has pickled weights only, which are never opened because they can run code")
        raise UnreadableError(f"has no weights: no {SINGLE} and no {INDEX}")
    names = sorted(set(_weight_map(folder, most_bytes).values()))
    # transformers opens whatever the index names, pickles and files outside the folder included.
    odd = [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]
    if odd:
        raise UnreadableError(f"has an index that names {odd[0]!r}, where only safetensors files beside it are read")
    if not names:
        raise UnreadableError("has an index that names no weights")
    if lacking := [name for name in names if not (folder / name).is_file()]:
        first = ", ".join(lacking[:3])
        raise UnreadableError(f"lacks {len(lacking)} of the {len(names)} weight files that its index names: {first}")
    return [folder / name for name in names]


def _weight_map(folder: Path, most_bytes: int) -> dict[str, str]:
    """The index: the name of the file of each tensor."""
    written = checked_object(folder / INDEX, most_bytes, most_bytes).get("weight_map")
    if not isinstance(written, dict) or not all(isinstance(name, str) for name in written.values()):
        raise UnreadableError(f"has a {INDEX} that does not give the file of each tensor")
    return written


def stored_in(files: Iterable[Path]) -> dict[str, Stored]:
    """All tensors of safetensors files, by name, from their headers. safetensors checks that the bytes of a file are those of
    its tensors, without gaps; of a tensor that a header announces twice it takes the last. Raises UnreadableError for one that
    is announced in two ways, or is in two files."""
    stored: dict[str, Stored] = {}
    for path in files:
        with safe_open(path, framework="np") as file:  # torch would map all of it, as memory of its own
            _check_header(path)
            for name in file.keys():  # noqa: SIM118 - a file is not a dictionary
                if name in stored:
                    twice = f"{stored[name].file.name} and in {path.name}"
                    raise UnreadableError(f"holds the tensor {shown(name)} twice: in {twice}")
                about = file.get_slice(name)
                stored[name] = Stored(path, about.get_dtype(), tuple(about.get_shape()))
    return stored


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(8 + header_bytes(path))[8:]
    try:
        json.loads(header, object_pairs_hook=said_once)
    except ValueError as error:
        raise UnreadableError(f"holds {path.name} with a header that cannot be read: {first_line(error)}") from error


def size_of(stored: Mapping[str, Stored]) -> ModelSize:
    """The size of a model in safetensors files."""
    numbers = [
        ("F4", 2 * prod(tensor.shape)) if _is_packed(name, tensor) else (tensor.dtype, prod(tensor.shape))
        for name, tensor in stored.items()
    ]
    return replace(size_of_tensors(numbers), tensors=len(numbers))


def header_bytes(path: Path) -> int:
    """The length of a file's header, as the file announces it."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(8), "little")


def lost(folder: Path) -> list[str]:
    """The tensors that the index names and no file holds. Some are not lost: converters leave out tied weights, which are
    in the files under another name, and keep the index. Raises UnreadableError for an index that contradicts the files."""
    if (folder / SINGLE).is_file():
        return []
    written = _weight_map(folder, MAX_SMALL_BYTES)
    there = {name: tensor.file.name for name, tensor in stored_in(weight_files(folder)).items()}
    for name, file in there.items():
        if written.get(name) != file:
            says = f"says {written[name]}" if name in written else "does not name it"
            raise UnreadableError(
                f"holds {shown(name)} in {file}, and its index {says}. Are these files of one model? Copy or download them "
                f"again"
            )
    return sorted(written.keys() - there.keys())


def unread_files(folder: Path, files: Iterable[Path]) -> tuple[str, ...]:
    """A sentence about safetensors files in the folder that are not read, if there are any."""
    first, *others = (*sorted(path.name for path in {*folder.glob("*.safetensors")} - {*files}), "")
    more = f" and {len(others) - 1} more weight files" if len(others) > 1 else ""
    return (f"Its folder also holds {shown(first)}{more}, which transformers does not read.",) if first else ()


# --- quantised folders

# Settings of a quantisation within config.json, whatever they are part of, such as the settings of the texts, and files beside
# it in which other programs keep theirs; with the method of those that do not name it.
_SETTINGS = {"quantization_config": None, "compression_config": "compressed-tensors"}
_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq", "hf_quant_config.json": "modelopt"}


def check_method(folder: Path, config: Settings, most_bytes: int = MAX_CONFIG_BYTES) -> list[tuple[str, Settings]]:
    """The methods by which a folder is quantised, with their settings. Raises UnreadableError for one that is not undone here.

    config      the contents of its config.json
    most_bytes  of a file beside it
    """
    files = {name: of for name, of in _FILES.items() if (folder / name).is_file()}
    beside = {name: checked_object(folder / name, most_bytes) for name in files}
    found = list(_settings(config))
    if found and isinstance(said := found[0][0], dict):
        for name, settings in beside.items():
            _check_same(said, name, settings)
    found = found or [(settings, files[name]) for name, settings in beside.items()]
    methods = []
    for settings, usual in found:
        method = settings.get("quant_method", usual) if isinstance(settings, dict) else None
        # transformers goes by these two first; older configurations say no more.
        if isinstance(settings, dict) and (settings.get("load_in_8bit") or settings.get("load_in_4bit")):
            method = "bitsandbytes"
        if not isinstance(method, str) or not method:
            raise UnreadableError("is quantised, and its settings do not name the method (quant_method) by which it is")
        if method not in METHODS:
            _refuse(method)
        METHODS[method](settings, {})
        methods.append((method, settings))
    return methods


def _check_same(said: Settings, name: str, settings: Settings) -> None:
    """Refuse settings that config.json and a file beside it give differently: some programs read this one, some that one."""
    for key in _GPTQ | _AWQ | dict.fromkeys(("group_size", "q_group_size")):
        here, there = (str(each.get(key)).lower() for each in (said, settings))
        if "none" not in (here, there) and here != there:
            raise UnreadableError(
                f"is quantised with {key} = {shown(here, 60)} by config.json, and {shown(there, 60)} by {name}"
            )


def _refuse(method: str, setting: str = "") -> NoReturn:
    raise UnreadableError(
        f"is quantised by the method {shown(method, 60)}{setting}, which cannot be undone here. Give the model before its "
        f"quantisation, or a GGUF file of it"
    )


def _settings(config: Mapping[str, Any]) -> Iterator[tuple[Any, str | None]]:
    parts: list[Any] = [config]
    for part in parts:
        yield from ((part[name], method) for name, method in _SETTINGS.items() if part.get(name) is not None)
        parts += [value for name, value in part.items() if isinstance(value, dict) and name not in _SETTINGS]


def undo(config: PreTrainedConfig, stored: Mapping[str, Stored]) -> None:
    """Have transformers undo FP8 and MXFP4 when it loads these weights, also where the hardware could do without; others are
    undone before it gets them. Raises UnreadableError for weights of which it would give other numbers."""
    for part in (config, config.get_text_config(decoder=True)):
        settings = vars(part).pop("quantization_config", None) or {}
        if settings.get("quant_method") in ("fp8", "mxfp4"):
            vars(part)["quantization_config"] = settings | {"dequantize": True}
            METHODS[settings["quant_method"]](settings, stored)


def _check_fp8(settings: Settings, stored: Mapping[str, Stored]) -> None:
    """Every weight in FP8 has a scale for each of its blocks. transformers reads one without a scale as it is, and takes the
    size of the blocks from the number of scales, which differs where the last block is smaller than the others."""
    blocks = settings.get("weight_block_size", [128, 128])
    if blocks is not None and not (are_whole(blocks, 1) and len(blocks) == 2):
        why = f"is quantised by the method fp8 in blocks of {shown(repr(blocks), 60)}, where two sizes are"
        raise UnreadableError(why)
    for name, weight in stored.items():
        scaled = stored.get(name.removesuffix("_scale_inv")) if name.endswith("weight_scale_inv") else None
        if scaled and scaled.dtype in REAL:
            raise UnreadableError(
                f"holds {shown(name)}, the scales of a weight in {scaled.dtype}, where it is one in FP8"
            )
        if not weight.dtype.startswith("F8") or name.endswith(_SCALES):
            continue
        stem = name.removesuffix("weight")
        check_quantised(settings, stem)
        scale = next((stored[place] for end in _SCALES if (place := stem + end) in stored), None)
        if scale is None:
            raise UnreadableError(f"holds {shown(name)} in {weight.dtype}, and no scale of it")
        if (form := settings.get("fmt")) is not None and not f"F8_{form}".upper().startswith(weight.dtype):
            raise UnreadableError(
                f"holds {shown(name)} in {weight.dtype}, and its settings say {shown(str(form), 60)} (fmt)"
            )
        counts, lengths = ((1, 1, *tensor.shape)[-2:] for tensor in (scale, weight))
        sizes = lengths if blocks is None else blocks
        for count, length, size in zip(counts, lengths, sizes, strict=True):
            if count != -(-length // size) or (count > 1 and length % size):
                raise UnreadableError(
                    f"holds {shown(name)} of the shape {[*weight.shape]} with scales of the shape {[*scale.shape]}, which are "
                    f"not those of whole blocks of {blocks}"
                )


_SCALES = ("weight_scale_inv", "scale", "qscale_weight")


def _check_mxfp4(_settings: Settings, stored: Mapping[str, Stored]) -> None:
    """Every weight in MXFP4 is [experts, rows, blocks, 16] bytes of two numbers of 4 bits each, beside [experts, rows, blocks]
    bytes, the exponents of the blocks (OCP Microscaling Formats 1.0). transformers checks neither."""
    counterparts = {"blocks": "scales", "scales": "blocks"}
    for name, weight in stored.items():
        stem, _, what = name.rpartition("_")
        if what not in counterparts:
            continue
        counterpart = f"{stem}_{counterparts[what]}"
        if counterpart not in stored:
            raise UnreadableError(f"holds {shown(name)}, and not {shown(counterpart)}")
        other = stored[counterpart]
        blocks, scales = (weight, other) if what == "blocks" else (other, weight)
        if {blocks.dtype, scales.dtype} != {"U8"} or blocks.shape != (*scales.shape, 16) or len(scales.shape) != 3:
            raise UnreadableError(
                f"holds {shown(stem)} in blocks {blocks.dtype} {[*blocks.shape]} with scales {scales.dtype} {[*scales.shape]}, "
                f"which is not MXFP4: blocks of 16 bytes, with a byte for each"
            )


def check_quantised(settings: Settings, stem: str) -> None:
    """Refuse a quantised module that the settings leave out of the quantisation. stem: its name, with a point"""
    for key in ("ignore", "modules_to_not_convert", "llm_int8_skip_modules"):
        names = settings.get(key)
        for name in names if isinstance(names, list) else ():
            if f".{stem}".endswith(f".{name}."):
                raise UnreadableError(f"holds {shown(stem)}weight quantised, which its settings leave as it is ({key})")


def _is_packed(name: str, tensor: Stored) -> bool:
    """Whether a tensor holds two numbers of 4 bits in each byte."""
    return name.endswith("_blocks") and tensor.dtype == "U8" and tensor.shape[-1:] == (16,)


def _expect(method: str, settings: Settings, allowed: Mapping[str, tuple[object, ...]]) -> None:
    """Refuse other values of settings than these. 4.0 and true are other values than 4 and 1."""
    for name, values in allowed.items():
        if repr(value := settings.get(name)) not in map(repr, values):
            why = " (activations are not quantised here)" if name in _ROUNDED else ""
            _refuse(method, f" with {shown(repr(value), 60)} as its {name}{why}")


def _check_compressed(settings: Settings, _stored: Mapping[str, Stored]) -> None:
    """Refuse what changes more than weights: activations and caches in few bits, rotations, weights that are left out."""
    method, groups = "compressed-tensors", settings.get("config_groups")
    _expect(method, settings, _ROUNDED | {"transform_config": (None, {}), "quantization_status": (None, "compressed")})
    if isinstance(sparse := settings.get("sparsity_config"), dict):
        _expect(method, sparse, {"format": (None, "dense")})
    if not isinstance(groups, dict) or not groups:
        _refuse(method, " without config_groups")
    for group in groups.values():
        own = group if isinstance(group, dict) else {}
        _expect(method, own | {"format": own.get("format") or settings.get("format")}, _GROUP)
        if not isinstance(weights := own.get("weights"), dict):
            _refuse(method, " with a group that does not say how its weights are held")
        _expect(method, weights, _WEIGHTS)
        size, grouped = weights.get("group_size"), weights["strategy"] == "group"
        if not (are_whole([size], 1) if grouped else size in (None, -1)):
            _refuse(method, f" with {shown(repr(size), 60)} as its group_size, by {weights['strategy']}")


def _check_sizes(method: str, settings: Settings, *names: str) -> None:
    """Refuse sizes of groups that are none, and two that differ. -1: a row is one group"""
    sizes = {repr(settings[name]): settings[name] for name in names if settings.get(name) is not None}
    if len(sizes) > 1 or not (sizes.keys() <= {"-1"} or are_whole([*sizes.values()], 1)):
        _refuse(method, f" with {shown(' and '.join(sizes), 60)} as its group_size")


def _check_gptq(settings: Settings, _stored: Mapping[str, Stored]) -> None:
    _expect("gptq", settings, _GPTQ)
    _check_sizes("gptq", settings, "group_size")
    own = settings.get("dynamic")
    if any(not str(pattern).startswith("-:") for pattern in own or ()):
        _refuse("gptq", " with settings of single modules (dynamic)")


def _check_awq(settings: Settings, _stored: Mapping[str, Stored]) -> None:
    _expect("awq", settings, _AWQ)
    _check_sizes("awq", settings, "group_size", "q_group_size")


# The values that settings may have: None where one is left out.
_FLAG = (None, True, False)
_ROUNDED = dict.fromkeys(("input_activations", "output_activations", "kv_cache_scheme"), (None,))
_GROUP = {"format": ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")} | _ROUNDED
_ORDERS = (None, False, True, "group", "weight", "dynamic", "static")
_WEIGHTS = {"strategy": ("tensor", "channel", "group"), "type": ("int", "float"), "num_bits": (4, 8)}
_WEIGHTS |= {"symmetric": _FLAG, "dynamic": (None, False), "block_structure": (None,), "actorder": _ORDERS}
_ZEROS = (None, "gptq", "gptq_v2")
_GPTQ = {"bits": (4, 8), "checkpoint_format": _ZEROS, "format": _ZEROS, "is_marlin_format": (None, False)}
_GPTQ |= {"sym": _FLAG, "desc_act": _FLAG}
_GEMM = (None, "gemm", "GEMM")
_AWQ = {"bits": (None, 4), "w_bit": (None, 4), "version": _GEMM, "checkpoint_format": _GEMM, "format": _GEMM}
_AWQ |= {"zero_point": (None, True)}

# The methods that are undone here, by their names in `quant_method`. Each checks its settings and, where transformers undoes it
# when it loads the weights, their headers.
METHODS: dict[str, Callable[[Settings, Mapping[str, Stored]], None]] = {
    "fp8": _check_fp8,
    "mxfp4": _check_mxfp4,
    "gptq": _check_gptq,
    "awq": _check_awq,
    "compressed-tensors": _check_compressed,
    "bitsandbytes": lambda *_: None,  # its tensors say all
}


# --- what a network does not read, and what no file holds

REAL = ("F64", "F32", "F16", "BF16")
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
    notes = [*reading.left_out(), *reading.made_up(lacking), *reading.untied()]
    if unknown := [name for name in lost if not reading.is_read(name)]:
        raise UnreadableError(f"has an index that names {shown(unknown[0])}, which no file holds")
    return tuple(notes)


@dataclass(frozen=True)
class Filling:
    """What fills parts of a network: tensors of its files, each with the pattern by which the converter fits it.

    converter  None: one tensor fills one part as it stands there
    """

    targets: tuple[str, ...]
    converter: WeightConverter | None
    patterns: Mapping[str, str]


def fillings(network: PreTrainedModel, stored: Mapping[str, Stored]) -> list[Filling]:
    """How the tensors of some files fill a network, but for those for which it has no place."""
    reading = _Reading(network, stored)
    patterns: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    alone = []
    for name, place in reading.places.items():
        if place.targets[0] not in reading.parts:
            continue
        if place.converter is None:
            alone.append(Filling(place.targets, None, {name: ""}))
        else:
            patterns[place.targets][name] = place.pattern
    converters = {place.targets: place.converter for place in reading.places.values()}
    return alone + [Filling(targets, converters[targets], names) for targets, names in patterns.items()]


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
            if place.is_scaled and (dtype.startswith("F8") or name.endswith(("_blocks", "_scales"))):
                continue
            if wanted != (dtype in REAL):
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
        unread = [name for name, place in self.places.items() if place.targets[0] not in self.parts]
        reasons = {name: self._why_harmless(name) for name in unread}
        if matter := [name for name, why in reasons.items() if why is None]:
            raise UnreadableError(
                f"holds {_counted(matter)}, which {self.kind} does not read, so it would be another model. Check that its "
                f"config.json belongs to these weights"
            )
        return self._sentences(f"{self.kind} leaves out", {name: why or "" for name, why in reasons.items()})

    def made_up(self, lacking: Iterable[str]) -> list[str]:
        """Sentences about parts of the network that no tensor fills. Raises UnreadableError if one matters."""
        filled = {target for place in self.places.values() for target in place.targets}
        computed = self.network._keys_to_ignore_on_load_missing or ()
        unsaved = self.network._keys_to_ignore_on_save or ()
        absent = self.parts.keys() - filled
        reasons = {name: "" if _fits(unsaved, name) else _COMPUTED for name in absent if _fits(computed, name)}
        reasons |= {name: _MADE_UP for name in lacking if ".pooler." in f".{name}"}
        if matter := sorted(set(lacking) - reasons.keys()):
            raise UnreadableError(f"has no weights for {len(matter)} parts of {self.kind}, such as {matter[0]}")
        return self._sentences("The files lack", reasons)

    def untied(self) -> list[str]:
        """Sentences about weights that are one by config.json and two in the files. transformers then reads both; before
        version 5, and in other programs, the embeddings stand for both."""
        announced = self.network.get_expanded_tied_weights_keys(all_submodels=True)
        return [
            f"By its config.json {shown(name)} is {shown(other)} (tie_word_embeddings), and its files hold two that differ. "
            f"Both are read, as transformers does; other programs may read one."
            for name, other in announced.items()
            if name not in self.network.all_tied_weights_keys
        ]

    def _sentences(self, says: str, reasons: Mapping[str, str]) -> list[str]:
        names = defaultdict(list)
        for name, why in sorted(reasons.items()):
            names[why].append(name)
        return [f"{says} {_counted(names[why])}: {why}." for why in names if why]

    # --- what is harmless

    def _why_harmless(self, name: str) -> str | None:
        """Why a tensor that is not read changes no number: "" for constants, which need no note; None if it may change one."""
        if self._is_computed(name) or (name.endswith(".bias") and not self.values(name).any()):  # GPTQ writes such
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
        is_base = self.network.base_model is self.network
        beside = is_base and any(other.startswith(f"{prefix}.") for other in self.stored)
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
