"""A pass whose components are constants of their own, and whose norms are linear maps with the scale that they had.

torch's backward pass then adds up what a number owes to each component (`core.capturing.components.written`). No architecture
needs code of its own. The pass runs in a twin of the network that shares all of its numbers. The network itself stays as it is.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.weak import WeakTensorKeyDictionary
from transformers.pytorch_utils import Conv1D

from ...attention.shaping import BY_HEAD, BY_PAIR
from ...errors import InputError, model_error
from ...models.calls import Call, heard_by, wide
from ...models.model import Model
from ...models.modules import asks_the_registry
from ..calls.head_places import Side
from ..continuing import forward_of, is_stream
from ..finite import NotFiniteError, are_finite
from ..rounding import OF_LOGITS, rounding_error
from .linear_maps import Biased, Held, HeldNorm, LinearMap, first_other, passes_on, steps_to
from .written import Components, Readout, Role, Written


@dataclass(frozen=True, eq=False)
class Reading:
    """What a running attention call reads as its queries, or as its keys and values.

    stream      what the norm before it reads, or what the attention itself reads if there is none
    norm        that norm; None: there is none
    components  of the pass so far
    connected   the ids of the constants that the stream was made from
    call_on     makes the call anew, from something else in the place of what the norm gave
    """

    stream: Tensor
    norm: nn.Module | None
    components: Components
    connected: Collection[int]
    call_on: Callable[[Tensor], Call]


class ComponentPass:
    """Notes the components of one pass while it runs, in a twin of the network in which they are constants."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._written: list[Written] = []
        self._reads: list[tuple[Tensor, Tensor]] = []
        self._held: list[Held] = []
        self._visits: Counter[str] = Counter()  # of layers so far, of each stack
        self._originals: dict[int, nn.Module] = {}  # by the id of the twin
        self._running = ""  # the stack whose layer runs
        self._starts: dict[str, Tensor] = {}  # the constants with which the streams begin, by stack
        # By what a norm gave: the norm, and what it read.
        self._norms: MutableMapping[Tensor, tuple[nn.Module, Tensor]] = WeakTensorKeyDictionary()
        self._arguments: tuple[list[Any], Any] = [], None  # of the attention module that runs, as a tree
        self._logits = 1  # the number of last positions that the language-model head is run at
        self._followed: set[Any] = set()  # steps that are known to be linear
        # Whether parts of layers of this class return what they read plus more, and the biases that they add in the end.
        self._adding: dict[type[nn.Module], bool] = {}
        self._added: dict[type[nn.Module], tuple[str, ...]] = {}
        self._end_read = self._end_gave = None  # what the language-model head read, and gave at the last position
        self._stacks: dict[int, str] = {}
        self._usual: set[type[nn.Module]] = set()
        for name in model.lists_of_layers:
            for layer in model.network.get_submodule(name).children():
                stack = "decoder" if "decoder" in name else "encoder"
                self._stacks[id(layer)] = stack if model.is_encoder_decoder else ""
                if any(map(asks_the_registry, layer.modules())):
                    self._usual.update(map(type, layer.modules()))

    def model(self, logits: int = 1) -> Model:
        """The model with the twin of its network. It has to be run with gradients.

        logits  the number of last positions at which it gives logits

        Raises InputError for a model on several devices, whose modules run other code than their own.
        """
        if any("forward" in vars(module) for module in self._model.network.modules()):
            raise model_error(
                f"{self._model.name} is spread over several devices, where its components are not kept. Load it on one."
            )
        self._logits = logits
        return replace(self._model, network=self._twin(self._model.network))

    # --- the pass

    def read(self, call: Call) -> Call:
        """The next attention call without its past, as a capture keeps it."""
        self._reads.append((call.query, call.key))
        inputs = {name: part.detach() for name, part in vars(call).items() if isinstance(part, Tensor)}
        shaping = call.shaping.each((*BY_PAIR, *BY_HEAD), Tensor.detach)
        return replace(call, **inputs, shaping=shaping, module=self._originals[id(call.module)])

    def wrote(self, call: Call) -> Tensor:
        """The output of the heads of this call with which the pass continues."""
        stack = "" if call.kind == "self" else call.kind
        return self._constant(call.output, "head", stack, call.layer)

    def reading(self, call: Call, side: Side) -> Reading:
        """What the running attention call reads as its queries, or as its keys and values. Raises InputError if that is
        neither a residual stream nor a norm of one, or doesn't follow from components alone."""
        leaves, spec = self._arguments
        streams = list({id(leaf): leaf for leaf in leaves if is_stream(leaf) and leaf.requires_grad}.values())
        if len(streams) != (2 if call.kind == "cross" else 1):
            raise self._refused("its heads read something else than a residual stream or its norm")
        given = streams[0 if side == "query" else -1]
        norm, stream = self._norms.get(given, (None, given))
        if norm is None and not self._reads_stream(given, past_norms=False):
            raise self._refused("its heads read something else than a residual stream or its norm")
        self._check(stream)
        components = Components(tuple(self._written), (), stream, tuple(self._held), None)
        connected = {id(constant) for constant in _constants(stream)}

        def call_on(left: Tensor) -> Call:
            anew = tree_unflatten([left if leaf is given else leaf for leaf in leaves], spec)
            return _calls_of(call.module, anew)[call.part]

        return Reading(stream, norm, components, connected, call_on)

    def components(self, returned: Any) -> Components:
        """The components of the pass that has returned this. Raises InputError for a model whose output or attention does not
        follow from its components alone."""
        final = getattr(returned, "last_hidden_state", None) if self._end_read is None else self._end_read
        if final is None or not final.requires_grad:
            raise self._refused("what it returns does not follow from its layers alone")
        if (unlike := next((part for part in self._written if not are_finite(part.tensor.detach())), None)) is not None:
            raise NotFiniteError(self._model, f"layer {unlike.number} ({unlike.role})")
        self._check(final, *(read for both in self._reads for read in both))
        head = None if self._end_read is None else self._model.network.get_output_embeddings()
        added = getattr(self._model.network, "final_logits_bias", None)  # of Marian and other relatives of BART
        added = None if added is None else wide(added.detach().flatten())
        factor = None
        if self._end_gave is not None:
            logits = wide(returned.logits[0, -1].detach())
            factor = _factor(self._end_gave, logits if added is None else logits - added)
        readout = None if head is None else Readout(head.weight.detach(), head.bias, factor, added)
        return Components(tuple(self._written), tuple(self._reads), final, tuple(self._held), readout)

    def _check(self, *tensors: Tensor) -> None:
        """Raise InputError unless these follow from components as sums do."""
        for tensor in tensors:
            if (step := first_other(tensor, self._followed)) is not None:
                raise self._refused(f"its residual stream passes through “{step}”, which is not a sum")
        if (unlike := next((held for held in self._held if not held.holds), None)) is not None:
            raise self._refused(f"its {unlike.name} is not a norm of a known form")

    def _refused(self, reason: str) -> InputError:
        return model_error(f"{self._model.name} cannot be taken apart into components: {reason}.")

    def _constant(self, tensor: Tensor, role: Role, where: str, number: int | None) -> Tensor:
        constant = tensor.detach().requires_grad_()
        self._written.append(Written(role, where, number, constant))
        return constant

    # --- the twin

    def _twin(
        self, module: nn.Module, layer: tuple[str, int] | None = None, *, is_attention: bool = False
    ) -> nn.Module:
        """A module that shares its numbers with another one, and notes what that one does.

        layer         the stack and the number of the layer that it is a part of
        is_attention  whether it is a part of an attention module
        """
        twin = copy.copy(module)
        self._originals[id(twin)] = module
        own = forward_of(twin)
        if _is_norm(module):
            twin.forward = partial(self._hold, module, layer)
            return twin
        is_attention = is_attention or asks_the_registry(module)
        own_numbers = module._parameters.items()
        twin.__dict__["_parameters"] = {name: self._parameter(name, one, layer) for name, one in own_numbers}
        stack = self._stacks.get(id(module))
        twin._modules = {}
        for number, (name, child) in enumerate(module._modules.items()):
            inside = (self._stacks[id(child)], number) if id(child) in self._stacks else layer
            twin._modules[name] = None if child is None else self._twin(child, inside, is_attention=is_attention)
        if stack is not None:
            twin.forward = partial(self._visit, own, stack)
        elif module is self._model.network.get_output_embeddings():
            twin.forward = partial(self._end, module.forward)
        elif asks_the_registry(module):
            twin.forward = partial(self._attend, own)
        elif layer is not None and type(module) not in self._usual:
            twin.forward = partial(self._compute, module, own, "rest")
        elif layer is not None and not is_attention and not _is_linear(module) and not _holds_more(module):
            twin.forward = partial(self._compute, module, own, "mlp")
        elif type(module) is nn.Linear:
            weight, bias = twin.weight, twin.bias  # not the twin, which would keep itself alive
            twin.forward = lambda x: LinearMap.apply(x, weight, bias)
        return twin

    def _parameter(self, name: str, numbers: Tensor | None, layer: tuple[str, int] | None) -> Tensor | None:
        """A parameter without gradient; a bias is a component."""
        if numbers is None or name != "bias":
            return None if numbers is None else numbers.detach()
        return self._constant(numbers, "bias", *(layer or ("", None)))

    def _visit(self, own: Callable, stack: str, *inputs: Any, **options: Any) -> Any:
        """Run a layer. The first of a stack reads the embeddings; some networks also hand them to later ones (Zamba)."""
        self._running = stack
        self._visits[stack] += 1
        leaves, spec = tree_flatten((inputs, options))
        if stack not in self._starts:
            place = next(at for at, leaf in enumerate(leaves) if is_stream(leaf))
            leaves[place] = self._starts[stack] = self._constant(leaves[place], "embedding", stack, None)
        start = self._starts[stack]
        leaves = [start if _is_same(leaf, start) else leaf for leaf in leaves]
        inputs, options = tree_unflatten(leaves, spec)
        return own(*inputs, **options)

    def _hold(self, norm: nn.Module, layer: tuple[str, int] | None, x: Tensor, *more: Any, **options: Any) -> Any:
        if more or options:  # it depends on more than what it is the norm of
            return norm.forward(x, *more, **options)
        with torch.no_grad():
            output = norm.forward(x)
            if not x.requires_grad:
                return output
            held = Held(norm, x, output)
        self._held.append(held)
        bias = self._constant(held.bias, "bias", *(layer or ("", None))) if held.bias.any() else held.bias
        given = HeldNorm.apply(x, bias, output, held)
        self._norms[given] = norm, x
        return given

    def _attend(self, own: Callable, *inputs: Any, **options: Any) -> Any:
        self._arguments = tree_flatten((inputs, options))
        returned = own(*inputs, **options)
        self._arguments = [], None
        return returned

    def _compute(self, module: nn.Module, own: partial[Any], role: Role, *inputs: Any, **options: Any) -> Any:
        """Run a part of a layer whose output is a component. What reads a component alone is on the way of that one."""
        if not any(map(self._reads_stream, _tensors((inputs, options)))):
            return own(*inputs, **options)
        # What a hybrid's layer has in the place of attention may keep a state, so that it cannot be tried.
        if role == "mlp" and self._adds(type(module), own, *inputs, **options):
            return own(*inputs, **options)
        numbers = _parameters(own)
        biases = [numbers[name] for name in self._added.get(type(module), ()) if name in numbers]
        with torch.no_grad():
            leaves, spec = tree_flatten(module.forward(*inputs, **options))
            place = next(at for at, leaf in enumerate(leaves) if is_stream(leaf))
            rest = leaves[place] - sum(biases)
        stack = self._running
        leaves[place] = Biased.apply(self._constant(rest, role, stack, self._visits[stack] - 1), leaves[place], *biases)
        return tree_unflatten(leaves, spec)

    def _adds(self, kind: type[nn.Module], own: partial[Any], *inputs: Any, **options: Any) -> bool:
        """Whether parts of layers of this class add to the stream themselves, so that what they return is not a component. This
        is tried once for each class."""
        if kind not in self._adding:
            before, given = len(self._written), _tensors((inputs, options))
            self._adding[kind] = False
            with suppress(RuntimeError):  # of one that writes into what its own parts gave (Llama 4's experts)
                gave = _tensors(own(*inputs, **options))
                self._adding[kind] = any(passes_on(tensor, given) for tensor in gave)
                self._added[kind] = _added_biases(next(filter(is_stream, gave)), own)
            del self._written[before:]
        return self._adding[kind]

    def _reads_stream(self, x: Tensor, *, past_norms: bool = True) -> bool:
        """Whether a tensor comes from a residual stream, not from a single component. past_norms: also through norms"""
        starts = {id(start) for start in self._starts.values()}
        return any(id(constant) in starts for constant in _constants(x, past_norms=past_norms))

    def _end(self, head: Callable, read: Tensor) -> Tensor:
        """The language-model head, at the last positions only: all would be [tokens, vocabulary]."""
        self._end_read = read
        with torch.no_grad():
            logits = head(read[:, -self._logits :])
        self._end_gave = wide(logits[0, -1])
        return logits


def _is_same(leaf: Any, start: Tensor) -> bool:
    """Whether a tensor that was made from no component has the numbers of the embeddings."""
    return is_stream(leaf) and not leaf.requires_grad and leaf.shape == start.shape and torch.equal(leaf, start)


def _parameters(own: partial[Any]) -> dict[str, Tensor]:
    """The parameters of the twin that a part runs in. own: from `_twin`"""
    return dict(own.args[0]().named_parameters())


def _added_biases(gave: Tensor, own: partial[Any]) -> tuple[str, ...]:
    """The names of the biases that a part adds to what it gives, as they are, as that of an MLP's last matrix: of which any
    product with what it gives has the gradient of a sum. One of several experts does not count, whoever chose it."""
    lists = (name for name, part in own.args[0]().named_modules() if isinstance(part, nn.ModuleList))
    of_experts = tuple(f"{name}." for name in lists)
    direction = torch.arange(1.0, gave.numel() + 1, device=gave.device).sin().reshape(gave.shape).to(gave)
    of_sum = direction.flatten(0, -2).sum(dim=0)
    biases = {
        name: numbers
        for name, numbers in _parameters(own).items()
        if numbers.requires_grad and numbers.shape == of_sum.shape and not name.startswith(of_experts)
    }
    if not biases:
        return ()
    gradients = torch.autograd.grad((gave * direction).sum(), [*biases.values()], retain_graph=True, allow_unused=True)
    unit = OF_LOGITS * rounding_error(gave.dtype) * direction.flatten(0, -2).abs().sum(dim=0)
    found = zip(biases, gradients, strict=True)
    return tuple(name for name, one in found if one is not None and bool(((one - of_sum).abs() <= unit).all()))


def _constants(x: Tensor, *, past_norms: bool = True) -> Iterator[Tensor]:
    """The constants that a tensor was made from. past_norms: also those behind a norm."""
    if x.is_leaf:
        yield x
    for step in steps_to(x, lambda step: past_norms or not isinstance(getattr(step, "norm", None), Held)):
        if (constant := getattr(step, "variable", None)) is not None:
            yield constant


def _calls_of(module: nn.Module, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Call]:
    """The attention calls that a module makes of these arguments, apart from any pass."""
    heard: list[Call] = []

    def hear(call: Call) -> Call:
        heard.append(call)
        return call

    inputs, options = arguments
    with torch.no_grad(), heard_by(hear):
        module(*inputs, **options)
    return heard


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not any(map(_is_linear, module.children()))


def _is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear map, or nothing at all in a pass without training."""
    kinds = nn.Linear | Conv1D | nn.Identity | nn.ModuleList
    return isinstance(module, kinds) or "drop" in type(module).__name__.lower()


def _holds_more(module: nn.Module) -> bool:
    """Whether a part of a layer holds norms or attention, so that it is more than one component."""
    return any(_is_norm(part) or asks_the_registry(part) for part in module.modules())


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _factor(head_gave: Tensor, logits: Tensor) -> float | None:
    """What logits are the output of the language-model head times; None if they are not."""
    factor = float(logits @ head_gave / (head_gave @ head_gave))
    unit = rounding_error(logits.dtype) * logits.abs().max()
    return factor if bool((logits - factor * head_gave).abs().max() <= OF_LOGITS * unit) else None
