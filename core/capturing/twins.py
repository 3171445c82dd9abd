"""Twins of a network, some modules of which run other code, and the residual stream among what these read and return.

A twin shares all numbers with its network, which itself stays as it is: others can run it meanwhile.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

# Runs in the place of a module: called with the forward of that module in the twin, and with what the module reads.
Visit = Callable[..., Any]


def twin_of(network: nn.Module, visits: Mapping[str, Visit]) -> Any:
    """The network with other code in some of its modules.

    visits  by the name of the module, as `named_modules` has it
    """
    twins: dict[str, Any] = {"": _opened(network)}
    for name, visit in visits.items():
        twin, path = twins[""], ""
        for part in name.split("."):
            path = f"{path}.{part}"
            if path not in twins:
                twins[path] = twin._modules[part] = _opened(twin._modules[part])
            twin = twins[path]
        # On several devices accelerate gives modules a function of their own.
        twin.forward = partial(visit, vars(twin).get("forward") or forward_of(twin))
    return twins[""]


def with_layers(network: nn.Module, lists: Iterable[str], visit: Visit) -> Any:
    """The network with other code in all layers of these lists, as in `twin_of`."""
    layers = (f"{name}.{number}" for name in lists for number in network.get_submodule(name)._modules)
    return twin_of(network, dict.fromkeys(layers, visit))


def forward_of(twin: nn.Module) -> partial[Any]:
    """The forward of its class. A twin that holds this does not keep itself alive."""
    return partial(_run, weakref.ref(twin), type(twin).forward)


def _run(twin: weakref.ref[nn.Module], forward: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    return forward(twin(), *inputs, **options)


def _opened(module: Any) -> Any:
    """A copy of a module that shares everything with it, and can be given other children."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin


def is_stream(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.ndim >= 2


def stream_in(tree: Any) -> Tensor:
    """The residual stream among what a layer reads or returns: the first tensor of real numbers."""
    return next(filter(is_stream, tree_leaves(tree)))


def with_stream(tree: Any, stream: Tensor) -> Any:
    """What a layer returned, with another stream."""
    leaves, spec = tree_flatten(tree)
    leaves[next(at for at, leaf in enumerate(leaves) if is_stream(leaf))] = stream
    return tree_unflatten(leaves, spec)
