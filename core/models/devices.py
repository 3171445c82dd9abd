"""Precision and device of a model: dtypes of weights, and the devices of this machine."""

from collections.abc import Mapping
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from ..errors import InputError

# Dtypes of weights, with the bytes of one number.
DTYPES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}

# The strategies by which accelerate spreads a model over several devices.
SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
ON_DISK = "disk"

_FAMILIES = {"cuda": "CUDA device", "mps": "Apple GPU (mps)"}


def devices() -> tuple[str, ...]:
    """The devices of this machine: "cpu", "cuda" (the first GPU), "cuda:1" ..., "mps"."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cuda = ["cuda" if number == 0 else f"cuda:{number}" for number in range(gpus)]
    return ("cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else []))


def checked_dtype(name: str) -> torch.dtype:
    """The torch dtype of this name. Raises InputError (field "dtype") for a name that is not in DTYPES."""
    if name not in DTYPES:
        raise InputError(f"{name!r} is not a dtype for weights. Choose one of {', '.join(DTYPES)}.", field="dtype")
    return getattr(torch, name)


def checked_device(name: str, dtype: str = "float32") -> str:
    """The device by its short name. Raises InputError (field "device") if this machine has no such device, and (field "dtype")
    if the device cannot compute in this dtype."""
    known, wanted = devices(), short(name)
    if wanted not in known:
        family = str(wanted).partition(":")[0]
        is_lacking = family in _FAMILIES and not any(device.startswith(family) for device in known)
        lacking = f"no {_FAMILIES[family]}" if is_lacking else f"no device {name!r}"
        choice = known[0] if len(known) == 1 else f"one of {', '.join(known)}"
        raise InputError(f"This machine has {lacking}; choose {choice}.", field="device")
    if wanted == "mps" and dtype == "float64":
        raise InputError("An Apple GPU (mps) has no float64. Choose float32, or the device cpu.", field="dtype")
    return wanted


def checked_device_map(
    wanted: str | Mapping[str, str | int], dtype: str
) -> tuple[str | dict[str, str], tuple[str, ...]]:
    """(the device_map for transformers, the devices in it). Raises InputError (field "device_map") for an unknown strategy and
    if the package accelerate is not installed; (field "device") for a device that this machine does not have."""
    if find_spec("accelerate") is None:
        raise InputError(
            "Spreading a model over several devices needs the package accelerate. Install it with: pip install accelerate",
            field="device_map",
        )
    if isinstance(wanted, str):
        if wanted not in SPREADS:
            raise InputError(
                f"{wanted!r} is not a device_map. Choose one of {', '.join(SPREADS)}, or say for each part of the network "
                f"which device it goes to.",
                field="device_map",
            )
        return wanted, devices()
    places = {part: ON_DISK if at == ON_DISK else checked_device(short(at), dtype) for part, at in wanted.items()}
    return places, tuple(dict.fromkeys(places.values()))


def short(device: object) -> str:
    """The short name of a device: "cuda" for 0 and for "cuda:0", "cuda:1" for 1."""
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    return "cuda" if name == "cuda:0" else name


def at_hand(module: nn.Module, name: str) -> Tensor:
    """A weight of a module, even if accelerate keeps it on another device and fetches it for each pass."""
    weight = module.get_parameter(name)
    kept = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    return kept[name] if weight.is_meta and kept is not None else weight


def called(name: str, dtype: str, device: str) -> str:
    """A model's name with its dtype and device unless these are float32 and cpu: "all-MiniLM-L6-v2 in bfloat16 on cuda"."""
    in_dtype = "" if dtype == "float32" else f" in {dtype}"
    return name + in_dtype + ("" if device == "cpu" else f" on {device}")
