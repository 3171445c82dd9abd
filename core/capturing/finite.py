"""Passes that give NaN or infinity: they are refused, in words that name where such a number comes first.

To find the place the pass is run once more, in a twin of the network whose modules are watched.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ..errors import InputError
from ..models.calls import Call, heard_by, wide
from ..models.inputs import run
from ..models.model import Model
from .calls.edited_call import EditedCall
from .continuing import is_stream, twin_of


class NotFiniteError(InputError):
    """A pass gives NaN or infinity. The field is "edits" if a change makes it do so, else "dtype" in float16, else "model"."""

    def __init__(self, model: Model, place: nn.Module | str | None = None, *, changed: bool = False) -> None:
        """place: the module where it was seen, or words; changed: whether a change makes it do so"""
        self._model, half = model, model.dtype == "float16"
        self._place = _in_words(model, place) if isinstance(place, nn.Module) else place or ""
        advice = ["switch one off, or change less"] * changed + ["choose bfloat16, which holds larger numbers"] * half
        super().__init__(
            f"{'With these changes ' * changed}{model.name} gives NaN or infinity{' in float16' * half}"
            f"{self._place and ', first in '}{self._place}: {', or '.join(advice) or 'choose another text or model'}.",
            field="edits" if changed else "dtype" if half else "model",
        )

    def explained(
        self, inputs: Mapping[str, Tensor], heard: Callable[[Call], Call], *, changed: bool = False, **options: Any
    ) -> Self:
        """The error with the place where such a number comes first, for which the model is run once more over these inputs.

        heard    called at every attention call
        changed  whether the pass had changes, which are now left out
        """
        try:
            with heard_by(heard):
                run(replace(self._model, network=_Watch(self._model.network).twin()), dict(inputs), **options)
        except _FoundError as found:
            return type(self)(self._model, str(found))
        return type(self)(self._model, self._place, changed=changed)


class _FoundError(InputError):
    """Ends the watched pass. Its message is the place."""


def _in_words(model: Model, module: nn.Module) -> str:
    name = next((name for name, part in model.network.named_modules() if part is module), "")
    number = re.search(r"\.(\d+)\.", name)
    return f"layer {number[1]} ({name})" if number else name


def are_finite(*tensors: Tensor) -> bool:
    """Whether no number in these tensors is NaN or infinite."""
    # A sum takes a quarter of the time; it may be infinite though no number is.
    return all(
        bool(tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32)).isfinite())
        or bool(tensor.isfinite().all())
        for tensor in tensors
    )


def is_finite_call(call: Call, new: slice = slice(None)) -> bool:
    """Whether all numbers of an attention call are finite. new: those of its keys that no call before had"""
    key = call.key[:, :, new]
    if not are_finite(call.query, key, call.value[:, :, new], call.output):
        return False
    if not isinstance(call, EditedCall):
        return True
    # A hardmax or a sigmoid makes finite weights of infinite scores.
    factor = max(1.0, *(abs(edit.scale(call.scale)) for edit in call.edits.values()))
    largest = float(wide(call.query).abs().max()) * float(wide(key).abs().max()) * call.query.shape[-1]
    return largest * factor < torch.finfo(wide(key).dtype).max


def gives_finite(returned: Any, positions: int = 1) -> bool:
    """Whether what a network returned is finite. A logit may be -inf: that token never comes next.

    positions  at how many last positions logits are asked for; 0: at all
    """
    logits, hidden = (getattr(returned, name, None) for name in ("logits", "last_hidden_state"))
    if logits is not None:
        return bool(logits[:, -positions:].amax(dim=-1).isfinite().all())
    return hidden is None or are_finite(hidden)


class _Watch:
    """Watches what the modules of a network read and return while its twin runs."""

    def __init__(self, network: nn.Module) -> None:
        self._names = {id(module): name for name, module in network.named_modules()}
        # By module: the list of layers that it stands in.
        self._lists = {id(part): id(of) for of in network.modules() if isinstance(of, nn.ModuleList) for part in of}
        self._running = [network]
        self._visits: Counter[int] = Counter()  # of each list, as ALBERT goes through one layer several times

    def twin(self) -> nn.Module:
        """The network that is watched. Not kept here, or both would keep each other alive."""
        network = self._running[0]
        watched = {
            name: partial(self._run, part) for name, part in network.named_modules(remove_duplicate=False) if name
        }
        twin = twin_of(network, watched)
        # Not watched, or it would not say what it accepts.
        vars(twin).pop("forward", None)
        return twin

    def _run(self, module: nn.Module, own: Callable, *inputs: Any, **options: Any) -> Any:
        # What a module reads was made in the module around it; masks are additive and may hold -inf.
        if any(bool((wide(part) == torch.inf).any() | part.isnan().any()) for part in _streams(inputs, options)):
            self._found(self._running[-1])
        self._running.append(module)
        self._visits[self._lists.get(id(module), 0)] += 1
        returned = own(*inputs, **options)
        if not are_finite(*_streams(returned)[:1]):
            self._found(module)
        self._running.pop()
        return returned

    def _found(self, module: nn.Module) -> None:
        layer = next(
            (self._visits[self._lists[id(part)]] - 1 for part in self._running if id(part) in self._lists), None
        )
        name = self._names[id(module)] or type(module).__name__
        own = [part for part in module.parameters(recurse=False) if not part.is_meta]
        name += "" if are_finite(*own) else ", whose weights hold such numbers"
        raise _FoundError(name if layer is None else f"layer {layer} ({name})", field="model")


def _streams(*trees: Any) -> list[Tensor]:
    return list(filter(is_stream, tree_leaves(trees)))
