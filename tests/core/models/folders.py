"""Folders of models that are changed in one place, and the error with which a model is then refused."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from core.models.loading import load_model
from tests.refusals import refused

Weights = dict[str, torch.Tensor]
Change = Callable[[Path], object]


def refusal(name: object, field: str = "model", **options: object) -> str:
    with refused(field) as raised:
        load_model(name, **options)  # type: ignore[arg-type]
    return str(raised.value)


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | changes))


def edit_config(folder: Path, **changes: object) -> None:
    edit(folder / "config.json", **changes)


def edit_weights(folder: Path, change: Callable[[Weights], object], name: str = "model.safetensors") -> None:
    weights = load_file(folder / name)
    change(weights)
    save_file({key: tensor.clone() for key, tensor in weights.items()}, folder / name, {"format": "pt"})


# Changes of a folder.


def written(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def removed(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def configured(**changes: object) -> Change:
    return lambda folder: edit_config(folder, **changes)


def weighted(change: Callable[[Weights], object]) -> Change:
    return lambda folder: edit_weights(folder, change)
