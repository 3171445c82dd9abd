"""LoRA adapters: what a fine-tuning has learned beside the weights of a model, merged into them by the library peft.

Beside a weight W of the shape [out, in], two thin matrices B [out, r] and A [r, in] are trained. The fine-tuned model computes
with W + s B A, where s is alpha / r (Hu et al. 2021, https://arxiv.org/abs/2106.09685) or alpha / sqrt(r) (rsLoRA,
Kalajdzievski 2023, https://arxiv.org/abs/2312.03732). DoRA then scales each row to a length of its own (Liu et al. 2024,
https://arxiv.org/abs/2402.09353).

peft leaves out tensors for which a model has no place, and makes up those that a file lacks, without an error. So both are
refused here. So are settings under which the merged weights would be other ones than those that were trained.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from ..errors import shown
from .bounds import UnreadableError, check_files, checked_object
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


def _check_settings(settings: Mapping[str, Any]) -> None:
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
    tensors = {_placed(name, modules, own): tensor for name, tensor in load_file(adapter.file).items()}
    if odd := [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]:
        raise UnreadableError(f"holds {shown(odd[0])}, with numbers that are not finite")
    heads = _heads(tensors, network, adapter)
    tensors = {name: tensor for name, tensor in tensors.items() if name not in heads}
    _refuse_shared(tensors, network)

    config: Any = LoraConfig.from_pretrained(str(adapter.folder))
    config.inference_mode, config.task_type = True, None  # a task would want its head
    # peft too goes by the ends of names.
    saved = (name for name in config.modules_to_save or () if any(f".{one}".endswith(f".{name}") for one in modules))
    config.modules_to_save = [*saved] or None
    whole = PeftModel(network, config)
    try:
        loaded = set_peft_model_state_dict(whole, tensors, ignore_mismatched_sizes=True)
    except KeyError as error:
        raise UnreadableError(
            f"lacks the weights of {shown(str(error.args[0]))}, which its {CONFIG} announces"
        ) from error
    if loaded.unexpected_keys:
        raise _another(f"holds {shown(loaded.unexpected_keys[0])}, for which its model has no place", adapter)
    if lacking := [name for name in loaded.missing_keys if ".lora_" in name or ".modules_to_save." in name]:
        raise _another(f"has no weights that fit {shown(lacking[0])}", adapter)
    merged = whole.merge_and_unload(safe_merge=True)  # type: ignore[operator]
    merged.requires_grad_()  # as in every other model; peft keeps them as they are
    return merged, tuple(f"The adapter's {shown(name)} is left out: the head of a task." for name in sorted(heads))


def modules_of(file: Path, network: PreTrainedModel) -> set[str]:
    """The modules of a network whose weights the adapter in this file changes, by its header."""
    modules, own = {name for name, _ in network.named_modules(remove_duplicate=False)}, f"{network.base_model_prefix}."
    return {_module(_placed(name, modules, own).removeprefix(_PREFIX)) for name in stored_in([file])}


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
