"""LoRA adapters: what a fine-tuning has learned beside the weights of a model, merged into them by the library peft.

Beside a weight W of the shape [out, in], two thin matrices B [out, r] and A [r, in] are trained. The fine-tuned model computes
with W + s B A, where s is alpha / r (Hu et al. 2021, https://arxiv.org/abs/2106.09685) or alpha / sqrt(r) (rsLoRA,
Kalajdzievski 2023, https://arxiv.org/abs/2312.03732). DoRA then scales each row to a length of its own (Liu et al. 2024,
https://arxiv.org/abs/2402.09353).

peft leaves out tensors for which a model has no place, makes up those that a file lacks, and takes one of two for the same
place, without an error. So these are refused here. So are settings under which the merged weights would be other ones than
those that were trained, and ranks other than those of the file: peft makes matrices of the announced rank first.

Patterns of modules in the settings are regular expressions, which may take longer than anybody lives. They are matched here,
within a limit, and peft gets the names of the modules.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import regex
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ..errors import shown
from .bounds import UnreadableError, check_files, checked_object
from .fields import are_whole
from .weight_files import stored_in

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
AND = " + adapter "  # in a revision: between that of a model and that of the adapter which is merged into it

# Settings that peft applies when it merges, and those that matter only while an adapter is trained.
_APPLIED = {
    *("peft_type", "base_model_name_or_path", "revision", "init_lora_weights", "bias", "lora_bias", "fan_in_fan_out"),
    *("r", "rank_pattern", "lora_alpha", "alpha_pattern", "use_rslora", "use_dora", "modules_to_save"),
    *("target_modules", "exclude_modules", "layers_pattern", "layers_to_transform"),
}
_TRAINING = {
    *("auto_mapping", "inference_mode", "lora_dropout", "megatron_core", "peft_version", "runtime_config", "task_type"),
    *("corda_config", "eva_config", "loftq_config", "lora_ga_config", "qalora_group_size"),
}
# Beginnings that leave the weights of the model as they are. After the others the adapter is for changed weights.
_BEGINNINGS = (True, False, None, "gaussian", "eva", "orthogonal")
_MAIN = (None, "main")  # the only revision of a model that is looked for

_PREFIX = "base_model.model."  # begins the name of each tensor
_WITHIN = re.compile(r"\.(lora_\w+|base_layer|weight|bias)(\.|$)")  # what follows the name of a module
_REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_SPELLINGS = re.compile(
    r"\.(default|modules_to_save|base_layer)(?=\.)|(?<=\.lora_magnitude_vector)\.weight$"
)  # say no more
_LONGEST = 10  # seconds, for all patterns and all modules: a thousand of each take two
_TOO_LONG = "which takes too long to match"
# Expressions that are not read: the package regex writes repeats out, and knows recursion and more that Python's does not.
_LONGEST_PATTERN, _MOST_REPEATS = 4_000, 1_000
_UNREAD = re.compile(r"\(\?(?!:|=|!|<=|<!|P<\w|[aims]+\))|\{(?!\d*,?\d*\})|\(\*")
_BIASES = {"lora_only": ".base_layer.bias", "all": ".bias"}  # what names of trained biases hold, by the setting `bias`
_TASKS = ("SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS")  # kinds of adapters that hold the head of a task


@dataclass(frozen=True)
class Adapter:
    """An adapter in a folder.

    base      the model that it is for, as `load_model` takes it
    task      peft's name of what it was trained for, such as "CAUSAL_LM"; None: not said
    revision  the commit of a hub id; None: the hash of its file
    """

    folder: Path
    name: str
    base: str
    task: str | None = None
    revision: str | None = None

    @property
    def file(self) -> Path:
        """The file of its weights."""
        return self.folder / WEIGHTS


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def read_adapter(folder: Path, name: str, revision: str | None = None) -> Adapter:
    """The adapter in a folder. Raises UnreadableError for one that cannot be merged, by its settings alone."""
    check_files(folder)
    settings = checked_object(folder / CONFIG)
    kind, base, task = (settings.get(name) for name in ("peft_type", "base_model_name_or_path", "task_type"))
    if kind != "LORA":
        raise UnreadableError(
            f"is an adapter for another model, of the kind {shown(str(kind), 60)}; only LORA is merged here. Merge it into "
            f"that model (peft: merge_and_unload) and save the whole"
        )
    if not isinstance(base, str) or not base.strip():
        raise UnreadableError(
            f"is an adapter that does not name its model. Write the name or the folder of that model into its {CONFIG}, as "
            f"base_model_name_or_path"
        )
    _check_settings(settings)
    return Adapter(folder, name, base.strip(), task if isinstance(task, str) else None, revision)


def _is_rank(value: object) -> bool:
    return type(value) is int and 0 < value < 2**31


def _is_real(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < 1e9  # type: ignore[arg-type]  # a NaN is not


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_names(value: object) -> bool:
    return isinstance(value, str) or _are_texts(value)


def _each(allows: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(allows, value.values()))


# What settings may be if they are there, in words.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "r": ("a whole number from 1", _is_rank),
    "lora_alpha": ("a number", _is_real),
    "rank_pattern": ("whole numbers from 1 by modules", _each(_is_rank)),
    "alpha_pattern": ("numbers by modules", _each(_is_real)),
    "target_modules": ("a text or a list of texts", _are_names),
    "exclude_modules": ("a text or a list of texts", _are_names),
    "modules_to_save": ("a list of texts", _are_texts),
    "layers_to_transform": ("a whole number or a list", lambda value: are_whole([value]) or are_whole(value)),
    "layers_pattern": (
        "a name or a list",
        lambda value: _are_names(value) and not re.search(r"[^\w.]", "".join(value)),
    ),
    "bias": ("none, all or lora_only", lambda value: value in ("none", "all", "lora_only")),
    **dict.fromkeys(
        ("use_dora", "use_rslora", "fan_in_fan_out", "lora_bias"), ("true or false", lambda v: type(v) is bool)
    ),
}


def _check_settings(settings: Mapping[str, Any]) -> None:
    for name, (words, allows) in _KINDS.items():
        counts = name in ("r", "lora_alpha") and name in settings  # peft computes with these, null or not
        if ((value := settings.get(name)) is not None or counts) and not allows(value):
            raise UnreadableError(f"is an adapter with {shown(repr(value), 60)} as its {name}, which has to be {words}")
    if (beginning := settings.get("init_lora_weights")) not in _BEGINNINGS:
        raise UnreadableError(
            f"is an adapter for weights that {shown(str(beginning), 60)} has changed (init_lora_weights). Save it as one for "
            f"its model (peft: save_pretrained with path_initial_model_for_weight_conversion)"
        )
    if (revision := settings.get("revision")) not in _MAIN:
        raise UnreadableError(
            f"is an adapter for revision {shown(str(revision), 60)} of its model. Download that revision, and write its folder "
            f"into {CONFIG}, as base_model_name_or_path, with null as revision"
        )
    others = [name for name, value in settings.items() if value and name not in _APPLIED | _TRAINING]
    if others:
        raise UnreadableError(
            f"is an adapter with the setting {shown(others[0], 60)}, which cannot be merged into a model. Only ordinary LoRA, "
            f"rsLoRA and DoRA are"
        )


def merge(network: PreTrainedModel, adapter: Adapter) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """The network with the adapter merged into its weights, in place, and sentences about what is left out.

    Raises UnreadableError for an adapter of another model: with tensors for which the network has no place, of another shape,
    or fewer than its settings announce; and for numbers that are not finite. Raises ValueError if peft finds no module that it
    is for.
    """
    if any(weight.is_meta for weight in network.parameters()):
        raise UnreadableError("is an adapter, which is not merged into weights that stay on the disk (device_map)")
    from peft import LoraConfig, PeftModel, set_peft_model_state_dict  # takes two seconds, and few open an adapter

    if not adapter.file.is_file():
        raise UnreadableError(f"has no {WEIGHTS}. Weights in other formats, such as pickles, are never opened")
    modules, own = {name for name, _ in network.named_modules(remove_duplicate=False)}, f"{network.base_model_prefix}."
    stored = load_file(adapter.file)
    _refuse_copies(stored, modules, own)
    tensors = {_placed(name, modules, own): tensor for name, tensor in stored.items()}
    for name, tensor in tensors.items():
        if tensor.dtype not in _REAL:
            raise UnreadableError(
                f"holds {shown(name)} in {tensor.dtype}, where an adapter has real numbers of 16 bits or more"
            )
        if not torch.isfinite(tensor).all():
            raise UnreadableError(f"holds {shown(name)}, with numbers that are not finite")
    heads = _heads(tensors, network, adapter)
    tensors = {name: tensor for name, tensor in tensors.items() if name not in heads}
    _refuse_shared(tensors, network)

    config: Any = LoraConfig.from_pretrained(str(adapter.folder))
    config.inference_mode, config.task_type = True, None  # a task would want its head
    # peft too goes by the ends of names.
    named = config.modules_to_save or ()
    saved = [name for name in named if any(f".{one}".endswith(f".{name}") for one in modules)]
    config.modules_to_save = saved or None
    unused = _settle(config, modules, tensors)
    if adapter.task not in _TASKS:  # peft names heads of all kinds of tasks
        unused += [f"modules_to_save of {name}" for name in named if name not in saved]
    whole = PeftModel(network, config)
    try:
        loaded = set_peft_model_state_dict(whole, tensors, ignore_mismatched_sizes=True)
    except KeyError as error:
        raise UnreadableError(
            f"lacks the weights of {shown(str(error.args[0]))}, which its {CONFIG} announces"
        ) from error
    if loaded.unexpected_keys:
        raise _another(f"holds {shown(loaded.unexpected_keys[0])}, for which its model has no place", adapter)
    announced = (".lora_", _BIASES.get(config.bias, ".lora_"))
    if lacking := [
        name for name in loaded.missing_keys if any(part in name for part in (*announced, ".modules_to_save."))
    ]:
        raise _another(f"has no weights that fit {shown(lacking[0])}", adapter)
    announced += tuple(f".{name}." for name in config.modules_to_save or ())
    replaced = [name.removeprefix(_PREFIX) for name in tensors if not any(part in name for part in announced)]
    merged = whole.merge_and_unload(safe_merge=True)  # type: ignore[operator]
    merged.requires_grad_()  # as in every other model; peft keeps them as they are
    others = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
    return merged, (
        *(f"No module of the adapter uses its {shown(each)}{others}." for each in unused[:1]),
        *(f"The adapter's {shown(name)} is left out: the head of a task." for name in sorted(heads)),
        *(f"The adapter replaces {shown(name)}, which its {CONFIG} does not announce." for name in sorted(replaced)),
    )


def _settle(config: Any, modules: Collection[str], tensors: Mapping[str, Tensor]) -> list[str]:
    """Have a LoraConfig of peft's name modules instead of patterns, and the ranks in the file. Returns the patterns of ranks
    and alphas that no module of the file uses. Raises UnreadableError for other ranks than those, and for a pattern that takes
    too long or is none."""
    until = perf_counter() + _LONGEST
    for name in ("target_modules", "exclude_modules"):
        pattern = getattr(config, name)
        if isinstance(pattern, str) and pattern != "all-linear":
            setattr(config, name, {module for module in modules if _matches(pattern, module, name, until)})
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}
    used: dict[str, set[str]] = {"rank_pattern": set(), "alpha_pattern": set()}
    for name, tensor in tensors.items():
        module, found, rest = name.removeprefix(_PREFIX).partition(".lora_")
        place = {"A": 0, "embedding_A": 0, "B": 1, "embedding_B": 1}.get(rest.split(".")[0])
        if not found or place is None:
            continue
        announced, alphas[module] = (
            _of_pattern(config, one, module, usual, until, used[one])
            for one, usual in (("rank_pattern", config.r), ("alpha_pattern", config.lora_alpha))
        )
        ranks[module] = announced
        if tensor.ndim < 2 or tensor.shape[place] != announced:
            raise UnreadableError(
                f"holds {shown(name)} of the shape {[*tensor.shape]}, where the {CONFIG} of the adapter announces the rank "
                f"{announced:,}"
            )
    unused = [f"{one} of {key}" for one, keys in used.items() for key in getattr(config, one) or () if key not in keys]
    # peft takes keys for patterns too, and for ends of names.
    config.rank_pattern = {f"(?<!.){re.escape(module)}": rank for module, rank in ranks.items()}
    config.alpha_pattern = {f"(?<!.){re.escape(module)}": alpha for module, alpha in alphas.items()}
    # That of modules for which the file has none; these are refused, but made before.
    config.r = config.r if config.r in ranks.values() else 1
    return unused


def _of_pattern(settings: Any, name: str, module: str, usual: Any, until: float, used: set[str]) -> Any:
    """The value for a module, as peft's get_pattern_key finds it. used: gets the key"""
    patterns = getattr(settings, name) or {}
    key = next((key for key in patterns if _matches(rf"(.*\.)?({key})", module, name, until)), None)
    if key is None:
        return usual
    used.add(key)
    return patterns[key]


def _matches(pattern: str, module: str, name: str, until: float) -> bool:
    why = "which is not a regular expression of a kind that is read here"
    try:
        counts = [max(map(int, re.findall(r"\d+", one)), default=1) for one in re.findall(r"\{([^}]*)\}", pattern)]
        if len(pattern) <= _LONGEST_PATTERN and not _UNREAD.search(pattern) and math.prod(counts) <= _MOST_REPEATS:
            left = until - perf_counter()
            if left > 0:
                return regex.fullmatch(pattern, module, timeout=left) is not None
            why = _TOO_LONG
    except TimeoutError:
        why = _TOO_LONG
    except (regex.error, ValueError, RecursionError, OverflowError):
        pass
    raise UnreadableError(f"is an adapter with {shown(repr(pattern), 60)} in its {name}, {why}")


def changed_by(file: Path, network: PreTrainedModel) -> set[str]:
    """The parts of a network that the adapter in this file changes, by its header."""
    return {re.sub(r"\.lora_\w+$", ".weight", re.sub(r"\.lora_\w+(?=\.)", "", name)) for name in _inside(file, network)}


def _inside(file: Path, network: PreTrainedModel) -> dict[str, str]:
    """The names of an adapter's tensors by what they are called beside the modules of a network."""
    modules, own = {name for name, _ in network.named_modules(remove_duplicate=False)}, f"{network.base_model_prefix}."
    return {_SPELLINGS.sub("", _placed(name, modules, own)).removeprefix(_PREFIX): name for name in stored_in([file])}


@dataclass(frozen=True)
class Added:
    """What ordinary LoRA adds to a weight: scale * left @ right, [rows, r] @ [r, columns].

    left, right  the names of these tensors in the file
    turned       whether they stand there as [r, rows] and [columns, r]
    """

    file: Path
    left: str
    right: str
    turned: bool
    scale: float

    def makes(self, merged: Tensor, base: Tensor, first: int) -> bool:
        """Whether numbers of a merged weight, one after another from `first` on, are the sum, but for rounding: of the product
        in float32, and of what is added and of the sum in the weight's own precision."""
        with safe_open(self.file, framework="pt") as file:
            left, right = (file.get_tensor(name).float() for name in (self.left, self.right))
        left, right = (left.T, right.T) if self.turned else (left, right)
        last, columns = first + len(merged), right.shape[1]
        left = left[first // columns : -(-last // columns)] * self.scale
        added = (left @ right).flatten()[first % columns :][: len(merged)]
        own, single = (torch.finfo(dtype).eps for dtype in (merged.dtype, torch.float32))
        # No product is larger than that of the lengths of a row and a column.
        of_product = single * (right.shape[0] + 3) * left.norm(dim=1).max() * right.norm(dim=0).max()
        merged, base = merged.float(), base.float()
        allowed = (merged.abs() + added.abs()).mul_(0.51 * own + 2 * single).add_(of_product)
        return bool(((merged - base).sub_(added).abs_() <= allowed).all())


def added_by(file: Path, network: PreTrainedModel) -> dict[str, Added]:
    """What the adapter in this file adds to weights of a network, by their names: those to which it adds no more than B A, in
    linear maps and tables. DoRA does more."""
    settings, stored, inside = checked_object(file.parent / CONFIG), stored_in([file]), _inside(file, network)
    patterns, until, made = SimpleNamespace(alpha_pattern=settings.get("alpha_pattern")), perf_counter() + _LONGEST, {}
    for inner, a in inside.items():
        module, _, rest = inner.partition(".lora_")
        if rest not in ("A.weight", "embedding_A") or len(stored[a].shape) != 2 or settings.get("use_dora"):
            continue
        b, rank = inside[f"{module}.lora_{rest.replace('A', 'B')}"], stored[a].shape[0]
        alpha = _of_pattern(patterns, "alpha_pattern", module, settings.get("lora_alpha", 8), until, set())
        turned = isinstance(network.get_submodule(module), Conv1D | nn.Embedding)
        scale = alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)
        made[f"{module}.weight"] = Added(file, *((a, b) if turned else (b, a)), turned, scale)
    return made


def _another(what: str, adapter: Adapter) -> UnreadableError:
    return UnreadableError(f"{what}. Check that it is an adapter for {shown(adapter.base)}")


def _placed(name: str, modules: Collection[str], own: str) -> str:
    """The name of a tensor as this network has it, which begins with `own` where it is a part: adapters for a task are trained
    on a class in which this network is a part, or which is a part of this network."""
    inner = name.removeprefix(_PREFIX)
    if _module(inner) in modules:
        return name
    others = (inner.removeprefix(own), own + inner)
    return next((_PREFIX + other for other in others if _module(other) in modules), name)


def _refuse_copies(names: Iterable[str], modules: Collection[str], own: str) -> None:
    """Raise UnreadableError if two tensors are for the same place. peft takes one of them."""
    copies = defaultdict(list)
    for name in names:
        copies[_SPELLINGS.sub("", _placed(name, modules, own))].append(name)
    if twice := next((both for both in copies.values() if len(both) > 1), None):
        first, second, *_ = sorted(twice)
        raise UnreadableError(f"is an adapter with two tensors for one place: {shown(first)} and {shown(second)}")


def _module(inner: str) -> str:
    return _WITHIN.split(inner, maxsplit=1)[0]


def _heads(tensors: Iterable[str], network: PreTrainedModel, adapter: Adapter) -> set[str]:
    """The tensors of the head of a task, which reads what the network gives."""
    if adapter.task not in _TASKS:
        return set()
    parts = dict(network.named_children())
    inner = {name: name.removeprefix(_PREFIX) for name in tensors}
    return {name for name, rest in inner.items() if "lora_" not in rest and rest.split(".")[0] not in parts}


def _refuse_shared(tensors: Mapping[str, Tensor], network: PreTrainedModel) -> None:
    """Raise UnreadableError if LoRA changes a weight that two modules share. It was trained for one of them, and merging it
    would change both."""
    places: dict[int, list[str]] = {}
    for module, part in network.named_modules():
        for weight in part.parameters(recurse=False):
            places.setdefault(id(weight), []).append(module)
    shared = {module for modules in places.values() if len(modules) > 1 for module in modules}
    changed = {_module(name.removeprefix(_PREFIX)) for name in tensors if ".lora_" in name}
    if both := sorted(shared & changed):
        raise UnreadableError(
            f"is an adapter that changes {shown(both[0])}, a weight that its model also uses elsewhere, so it cannot be merged"
        )
