"""The attention modules of a network and their kinds."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from typing import Literal

import torch
from transformers import PreTrainedModel

Kind = Literal["self", "encoder", "decoder", "cross", "vision"]


def first_of(kinds: Iterable[Kind]) -> Kind:
    """The kind that is meant where none is named: the first of these that reads a text."""
    for kind in kinds:
        if kind != "vision":
            return kind
    return "self"


# Names of cross-attention modules: in BART, T5, BERT, Moonshine ...
_CROSSING = ("encoder_attn", "encdecatt", "crossatt", "cross_att")


def kind_of(name: str, is_encoder_decoder: bool) -> Kind:
    """The kind of attention of a module or parameter, by its dotted name.

    "cross" if a decoder looks at the text that an encoder has read; otherwise "encoder" or "decoder" in a model of both, and
    "self" in any other model.
    """
    parts = name.lower().split(".")
    if any(crossing in part for part in parts for crossing in _CROSSING):
        return "cross"
    if not is_encoder_decoder:
        return "self"
    return "decoder" if any("decoder" in part for part in parts) else "encoder"


def attention_modules(network: PreTrainedModel) -> dict[str, torch.nn.Module]:
    """The modules that compute attention through transformers' registry, by name; in a model that also reads images or sounds,
    only those that read the text."""
    return {name: module for name, module in _asking(network).items() if not _is_beside_text(network, module)}


def kinds_of_modules(network: PreTrainedModel) -> dict[str, Kind]:
    """The kind of every module that computes attention through transformers' registry, by name.

    "vision" if it belongs to the tower that reads images in a model that reads them with a text; otherwise as `kind_of`.
    """
    is_both = bool(getattr(network.config, "is_encoder_decoder", False))
    asking = _asking(network).items()
    return {name: "vision" if _is_beside_text(network, module) else kind_of(name, is_both) for name, module in asking}


def reads_packed(network: PreTrainedModel) -> list[torch.nn.Module]:
    """The modules of a vision tower that compute attention within parts of one sequence, and hand all of them over in one call
    where flash attention is asked for (Qwen-VL): otherwise they make a call for each part."""
    beside = [module for module in _asking(network).values() if _is_beside_text(network, module)]
    return [module for module in beside if "cu_seq_lens_q=cu_seqlens" in _source_of(type(module).forward)]


def _asking(network: PreTrainedModel) -> dict[str, torch.nn.Module]:
    return {name: module for name, module in network.named_modules() if asks_the_registry(module)}


def _is_beside_text(network: PreTrainedModel, module: torch.nn.Module) -> bool:
    """Whether a module belongs to the part of a model that reads something else, which has a configuration of its own."""
    config, text = network.config, network.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        return False
    own = getattr(module, "config", text)
    # The configuration of GIT as a whole is that of the part that reads texts, too.
    return own is getattr(config, "vision_config", None) if text is config else own is not text


def lists_of_layers(network: PreTrainedModel, attention: Iterable[str] | None = None) -> tuple[str, ...]:
    """The names of the lists of layers that a pass goes through one after another: the first list of modules on the way to each
    attention module, whose items may also have none. Empty for a network that is built otherwise. A list of attention modules
    is not one of layers: BLT has one beside its layers.

    attention  the names of the attention modules; None: those that read the text
    """
    modules = dict(network.named_modules())
    lists: set[str] = set()
    for parts in (name.split(".") for name in (attention_modules(network) if attention is None else attention)):
        above = (".".join(parts[:length]) for length in range(1, len(parts) - 1))
        lists.update(islice((name for name in above if isinstance(modules[name], torch.nn.ModuleList)), 1))
    return tuple(sorted(lists))


def outermost_lists(network: PreTrainedModel) -> tuple[str, ...]:
    """The names of the lists of modules that are in no other list. Most networks have a list of their layers."""
    lists = [name for name, module in network.named_modules() if isinstance(module, torch.nn.ModuleList)]
    return tuple(name for name in lists if not any(name.startswith(f"{other}.") for other in lists))


def text_tower(network: PreTrainedModel) -> PreTrainedModel | None:
    """The tower that reads texts in a network of two towers, which compares the vectors of a text and of an image or sound
    (CLIP, Radford et al. 2021, figure 1); None for any other network.

    In transformers all such networks have the method `get_text_features` and the tower as `text_model`.
    """
    tower = getattr(network, "text_model", None)
    return tower if hasattr(network, "get_text_features") and isinstance(tower, PreTrainedModel) else None


def asks_the_registry(module: torch.nn.Module) -> bool:
    """Whether a module computes attention through transformers' registry, where it can be captured.

    Its forward function says so: that was right for all 157 text architectures tried. transformers' own
    `_can_set_attn_implementation` looks at the source file of a class and is also true for Mamba and FNet, which have no
    attention.
    """
    return "ALL_ATTENTION_FUNCTIONS.get_interface(" in _source_of(type(module).forward)


@cache
def _source_of(function: Callable) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # a built-in function, or one typed into a console
        return ""
