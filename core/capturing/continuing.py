"""Passes that begin where another one differs: layers before that are taken from the other pass and not computed again.

What a layer returns depends on the inputs and on what the layers before it did. So a pass over the same inputs with a change
in layer 23 is the same up to there, to the last bit. The layers run in a twin of the network, some modules of which run other
code. A twin shares all numbers with its network, which itself stays as it is: others can run it meanwhile.
"""

import copy
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from ..models.calls import Call
from ..models.model import Model

# Bytes that a pass keeps to be continued. Of a longer text nothing is kept: each change is then a whole pass.
MAX_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Begun:
    """What another pass over the same inputs continues from.

    inputs    the tensors that the pass read, before any of its tokens was replaced
    calls     its attention calls, in their order
    returned  for each run of a layer what it returned, on the CPU, and how many attention calls there had been by then. Empty
              where every pass has to be a whole one: the network has no list of layers, computes attention between them, has
              layers that write into what others returned, or would have to keep more than `MAX_BYTES`
    nbytes    of what the layers returned
    """

    inputs: Mapping[str, Tensor]
    calls: tuple[Call, ...]
    returned: tuple[tuple[Any, int], ...] = ()
    nbytes: int = 0

    def reads(self, inputs: Mapping[str, Tensor]) -> bool:
        """Whether this pass has read the very same."""
        return self.inputs.keys() == inputs.keys() and all(map(torch.equal, self.inputs.values(), inputs.values()))


class Layers:
    """The layers of one pass as they run: from the first on that makes a changed call they are computed.

    calls  number of attention calls so far; whoever hears a call counts it here
    heard  these calls, where a further pass may continue from this one
    """

    def __init__(
        self, model: Model, begun: Begun | None = None, first: int = 0, *, variants: int = 1, keeps: bool = True
    ) -> None:
        """begun: the pass that is continued; first: the number of the first call that changes; variants: how many passes run
        side by side, as a batch; keeps: whether a further pass is to continue from this one."""
        self.calls = 0
        self.heard: Sequence[Call] = ()
        self._model = model
        self._begun, self._first, self._variants, self._keeps = begun, first, variants, keeps
        self._returned: list[tuple[Any, int]] = []
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # of what the latest layer returned, which layers may share
        self._sums: list[tuple[Tensor, Tensor]] = []  # of each kept tensor, to see whether it is changed later
        self._nbytes = 0
        self._is_safe = True

    def model(self) -> Model:
        """The model, with a twin of its network that runs these layers. Not kept here, or both would keep each other alive."""
        return replace(self._model, network=with_layers(self._model.network, self._model.lists_of_layers, self._visit))

    @property
    def taken(self) -> tuple[Call, ...]:
        """The attention calls that are taken from the other pass."""
        if self._begun is None:
            return ()
        return self._begun.calls[: max((calls for _, calls in self._begun.returned if calls <= self._first), default=0)]

    def begun(self, inputs: Mapping[str, Tensor]) -> Begun:
        """What a further pass can continue from, after this one."""
        calls = tuple(self.heard)
        is_as_returned = all(torch.equal(tensor.sum(), before) for tensor, before in self._sums)
        if not self._is_safe or not is_as_returned or self._nbytes > MAX_BYTES:
            return Begun(dict(inputs), calls)
        return Begun(dict(inputs), calls, tuple(self._returned), self._nbytes)

    def _visit(self, compute: Callable, *inputs: Any, **options: Any) -> Any:
        """Run a layer, or return what it returned. Visits are counted, since ALBERT runs the same layer again."""
        number = len(self._returned)
        earlier = self._begun.returned if self._begun is not None else ()
        if number >= len(earlier) or earlier[number][1] > self._first:
            self._is_safe &= self.calls == (self._returned[-1][1] if self._returned else 0)
            returned = compute(*inputs, **options)
            self._returned.append((self._kept(returned) if self._keeps else None, self.calls))
            return returned
        returned, self.calls = earlier[number]
        self._returned.append(earlier[number])
        is_last = any(calls > self._first for _, calls in earlier[number + 1 : number + 2])
        return tree_map_only(Tensor, partial(self._for_all, copied=is_last), returned)

    def _kept(self, returned: Any) -> Any:
        """What a layer has returned, on the CPU; None once that is too much."""
        copies: dict[int, tuple[Tensor, Tensor]] = {}
        for tensor in tree_leaves(returned):
            if isinstance(tensor, Tensor) and id(tensor) not in copies:
                known = self._copies.get(id(tensor))  # the position bias of T5 goes through all layers
                copies[id(tensor)] = known or (tensor, tensor.cpu())
                if known is None:
                    self._nbytes += tensor.nbytes
                    self._sums.append((copies[id(tensor)][1], copies[id(tensor)][1].sum()))
        self._copies = copies
        if self._nbytes > MAX_BYTES:
            self._sums = []
            return None
        return tree_map_only(Tensor, lambda tensor: copies[id(tensor)][1], returned)

    def _for_all(self, tensor: Tensor, copied: bool) -> Tensor:
        """A kept tensor for every variant; copied: for a next layer that is computed, and may write into it."""
        tensor = tensor.to(self._model.network.device)
        if tensor.ndim == 0 or tensor.shape[0] != 1:
            return tensor
        shared = tensor.expand(self._variants, *tensor.shape[1:])
        return shared.clone() if copied else shared


# --- twins

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
