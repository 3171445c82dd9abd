"""What each component of a network wrote into the residual stream, and what a later number owes to each of them.

With each norm held at the scale that it had, every number that is read from the residual stream is a sum over what was
written into it before: the embeddings, the heads, the feed-forward layers and the biases (Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits", https://transformer-circuits.pub/2021/framework). So the pass is run once with every
component as a constant of its own and every norm as a linear map, and torch's backward pass adds up the shares: what a number
owes to a component is the gradient times what the component wrote. No architecture needs code of its own.

The pass runs in a twin of the network that shares all of its numbers. The network itself stays as it is.
"""

from __future__ import annotations

import copy
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.linalg import vecdot
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.weak import WeakTensorKeyDictionary
from transformers.pytorch_utils import Conv1D

from ..errors import InputError
from ..models.calls import Call, heard_by, wide
from ..models.model import Model
from ..models.modules import Kind, asks_the_registry
from .linearity import Followed, passes_on
from .places import Side

Role = Literal["embedding", "head", "mlp", "rest", "bias"]

# The largest difference of a held norm from the norm, or of a sum from its number, that counts as agreement, in units of
# rounding. Measured on every architecture of docs/architectures.md and both offline models, in 20 texts and 200 scores each: at
# most 4.1 and 3.5; in bfloat16, on both models, 0.7 and 0.4. Leaving out a component of a small BERT makes more than 100.
ALLOWED_ROUNDING = {torch.float32: 16.0, torch.float64: 16.0, torch.float16: 1.25, torch.bfloat16: 1.25}


class Held:
    """A norm as it was applied: y = gain · (x - mean) · scale + bias; the mean only if it is `centred`.

    gain, bias  over the last dimensions of x
    scale       [..., 1], a number for each token
    rounding    the largest difference from what the norm gave, in units of one rounding error, among at least 64 tokens
    holds       whether that is no more than rounding
    name        of the norm's class
    """

    def __init__(self, norm: nn.Module, x: Tensor, y: Tensor) -> None:
        """x and y: what this norm read and gave. The rest is found by trying it on three vectors."""
        self.name = type(norm).__name__
        # Their entries are so large that no epsilon counts, and none is near their mean.
        steps = 1024.0 * (1 + 2 * (torch.arange(x.shape[-1], device=x.device) % 2)).to(x.dtype)
        self.bias, straight, shifted = (wide(norm.forward(vector)) for vector in (steps * 0, steps, steps + 4096))
        self.centred = bool((straight - shifted).abs().max() < 0.01 * (straight - self.bias).abs().max())
        direction = self._about_mean(wide(steps))
        self.gain = (straight - self.bias) * direction.square().mean().sqrt() / direction
        own, given = self._about_mean(wide(x)) * self.gain, wide(y) - self.bias
        self.scale = _quotient(vecdot(own, given), vecdot(own, own))[..., None]
        some_x, some_own, some_scale, some_given = map(_some, (wide(x), own, self.scale, given))
        self.rounding = self._rounding(some_x, some_own * some_scale - some_given, some_scale, y.dtype)
        self.holds = self.rounding <= ALLOWED_ROUNDING[y.dtype]

    def _rounding(self, x: Tensor, difference: Tensor, scale: Tensor, dtype: torch.dtype) -> float:
        largest = x.abs().amax(dim=-1, keepdim=True) * scale.abs() * self.gain.abs().max() + self.bias.abs().max()
        return float(_quotient(difference.abs(), rounding_error(dtype) * largest).max())

    def _about_mean(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=-1, keepdim=True) if self.centred else x

    def transposed(self, gradient: Tensor) -> Tensor:
        """The gradient of x, from that of y."""
        return (self._about_mean(wide(gradient) * self.gain) * self.scale).to(gradient.dtype)


def rounding_error(dtype: torch.dtype) -> float:
    """Of a model in this format. Many norms compute in float32 even if the model is in float64."""
    return max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def _quotient(numbers: Tensor, by: Tensor) -> Tensor:
    return numbers / by.clamp_min(torch.finfo(by.dtype).tiny)


def _some(part: Tensor) -> Tensor:
    """At least 64 of the entries of the second dimension, evenly, where there are as many."""
    return part[:, :: max(1, part.shape[1] // 64)]


class _HeldNorm(torch.autograd.Function):
    """A norm that goes forward as it does, and backward as the linear map that it is with its scale held."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, output: Tensor, norm: Held) -> Tensor:  # noqa: ARG004
        ctx.norm, ctx.of_bias = norm, bias.shape
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        return ctx.norm.transposed(gradient), wide(gradient).sum_to_size(ctx.of_bias), None, None


class _LinearMap(torch.autograd.Function):
    """x @ weight.T + bias, which goes back only for the tokens that have a gradient: a logit depends on a single one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight, ctx.of_bias = weight, None if bias is None else bias.shape
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        of_bias = None if ctx.of_bias is None else gradient.sum_to_size(ctx.of_bias)
        rows = gradient.detach().any(dim=-1)
        if rows.all():
            return gradient @ ctx.weight, None, of_bias
        back = gradient.new_zeros(*gradient.shape[:-1], ctx.weight.shape[1])
        return back.index_put((rows,), gradient[rows] @ ctx.weight), None, of_bias


@dataclass(frozen=True, eq=False)
class Written:
    """What one component wrote, or all heads of a layer, as a constant of the pass.

    role    "rest" for what a layer of a hybrid model has in the place of attention, as a whole
    where   the kind of attention of heads, and otherwise the "encoder" or "decoder" of a model of both; "" in other models
    number  of the layer; None for what belongs to none. Heads count the layers that have attention, as a capture does
    tensor  [1, tokens, width]; of heads their output before W_O, [1, tokens, heads, d_v]; of a bias the parameter itself
    """

    role: Role
    where: str
    number: int | None
    tensor: Tensor


@dataclass(frozen=True)
class Component:
    """A component, or a group of several that are summed up.

    name    "embedding", "16.0" for a head, "mlp 9", "bias 9"; in an encoder-decoder model "encoder mlp 1", "cross 1.2"
    where   the kind of attention of a head, and otherwise the "encoder" or "decoder" of a model of both; "" in other models
    layer   None for what belongs to no layer
    head    None for what is no head
    places  in `Components.written`: (index, the head or None)
    """

    name: str
    role: Role | Literal["group"]
    where: str
    layer: int | None
    head: int | None
    places: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, eq=False)
class Components:
    """The components of one pass, and what is linear in them.

    written   in the order of the pass
    reads     for each attention call its queries and keys, after rotation and norms, as torch follows them back
    final     [1, tokens, d_model], what the last norm gave, likewise: the language-model head reads it
    held      the norms as they were applied, in the order of the pass
    head      the language-model head; None for a model without one
    factor    of a model with a language-model head: what its logits are the output of that head times, before `added`; None
              if the model changes them in another way afterwards, as by a soft cap
    added     [vocabulary], what the model adds to the logits after the language-model head; None: nothing
    """

    written: tuple[Written, ...]
    reads: tuple[tuple[Tensor, Tensor], ...]
    final: Tensor
    held: tuple[Held, ...]
    head: nn.Linear | None
    factor: float | None
    added: Tensor | None

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept here alone: the outputs of heads are in the attention calls, biases in the network."""
        norms = (part for norm in self.held for part in (norm.gain, norm.bias, norm.scale))
        own = (one.tensor for one in self.written if one.role not in ("head", "bias"))
        return sum(part.nbytes for part in (*norms, *own, self.final))

    @property
    def rounding(self) -> float:
        """The largest difference of a held norm from the norm itself, in units of one rounding error."""
        return max((norm.rounding for norm in self.held), default=0.0)

    @cached_property
    def each(self) -> tuple[Component, ...]:
        """Every component once, from the embeddings to the last layer."""
        found: dict[str, Component] = {}
        for index, one in enumerate(self.written):
            heads = range(one.tensor.shape[2]) if one.role == "head" else [None]
            for head in heads:
                known = found.get(name := _name(one, head))
                places = (*(known.places if known else ()), (index, head))
                found[name] = Component(name, one.role, one.where, one.number, head, places)
        return tuple(sorted(found.values(), key=_in_order))

    def owed(self, number: Tensor) -> list[Tensor]:
        """What a number, made from `reads` or `final`, owes to each component.

        One tensor for each of `written`: [tokens], of heads [tokens, heads], of a bias one number.
        """
        return self.shares(self.gradients(number))

    def shares(self, gradients: Sequence[Tensor | None]) -> list[Tensor]:
        """What a number owes to each component, from its `gradients`: as in `owed`."""
        return [_share(*both) for both in zip(self.written, gradients, strict=True)]

    def size(self, gradients: Sequence[Tensor | None]) -> float:
        """The sum of the sizes of all products that the shares of a number are sums of: its rounding error grows with it."""
        both = zip(self.written, gradients, strict=True)
        sizes = (
            vecdot(wide(one.tensor.detach()).abs().flatten(), wide(gradient).abs().flatten())
            for one, gradient in both
            if gradient is not None
        )
        return sum(map(float, sizes))

    def gradients(self, number: Tensor, *, create_graph: bool = False) -> tuple[Tensor | None, ...]:
        """The gradient of a number with respect to what each component wrote, in the shape of its `tensor`; None for 0."""
        constants = [one.tensor for one in self.written]
        return torch.autograd.grad(number, constants, retain_graph=True, create_graph=create_graph, allow_unused=True)

    def vectors(self, vector: Tensor, parts: Sequence[Component]) -> Tensor:
        """What a vector, made from `reads` or `final`, owes to some of the components: [components, *its shape].

        The gradient of its product with a direction is linear in the direction, so its own gradient is the vector itself.
        """
        with torch.enable_grad():
            # Any direction will do in which no token that counts happens to have a gradient of 0.
            direction = torch.arange(1.0, vector.numel() + 1).sin().reshape(vector.shape).to(vector).requires_grad_()
            gradients = self.gradients((vector * direction).sum(), create_graph=True)
            shares = {
                index: _share(self.written[index], gradients[index]) for part in parts for index, _ in part.places
            }
            sums = [torch.stack([_of_head(shares[index], head) for index, head in part.places]).sum() for part in parts]
        # A component that comes later than the vector has no part in it, and its sum no gradient.
        owed = [
            torch.autograd.grad(one, direction, retain_graph=True)[0] if one.requires_grad else None for one in sums
        ]
        return torch.stack([torch.zeros_like(vector) if one is None else one for one in owed]).detach()


def _of_head(share: Tensor, head: int | None) -> Tensor:
    return (share if head is None else share[:, head]).sum()


def _name(one: Written, head: int | None) -> str:
    name = one.role if one.number is None else f"{one.role} {one.number}"
    return f"{one.where} {name if head is None else f'{one.number}.{head}'}".strip()


def _in_order(component: Component) -> tuple[bool, float, int, int]:
    """The encoder before the decoder; the embeddings, the layers, and biases after the last one."""
    roles: tuple[Role, ...] = get_args(Role)
    layer = component.layer if component.layer is not None else -inf if component.role == "embedding" else inf
    return component.where in ("decoder", "cross"), layer, roles.index(component.role), component.head or 0


def _share(one: Written, gradient: Tensor | None) -> Tensor:
    """What a number owes to a component, from its gradient: as in `Components.owed`."""
    tensor = wide(one.tensor.detach())
    if one.role == "bias":
        return tensor.new_zeros(()) if gradient is None else (tensor * wide(gradient)).sum()
    shares = tensor.new_zeros(tensor.shape[:-1]) if gradient is None else vecdot(tensor, wide(gradient))
    # Some architectures put all tokens of a batch into one dimension.
    return shares[0] if one.role == "head" else shares.flatten()


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

    def __init__(self, model: Model, kind_of: Callable[[Call], Kind]) -> None:
        self._model, self._kind_of = model, kind_of
        self._written: list[Written] = []
        self._reads: list[tuple[Tensor, Tensor]] = []
        self._held: list[Held] = []
        self._calls: Counter[Kind] = Counter()  # so far, of each kind
        self._visits: Counter[str] = Counter()  # of layers so far, of each stack
        self._originals: dict[int, nn.Module] = {}  # by the id of the twin
        self._running = ""  # the stack whose layer runs
        self._starts: set[int] = set()  # the ids of the constants with which the streams begin
        # By what a norm gave: the norm, and what it read.
        self._norms: MutableMapping[Tensor, tuple[nn.Module, Tensor]] = WeakTensorKeyDictionary()
        self._arguments: tuple[list[Any], Any] = [], None  # of the attention module that runs, as a tree
        self._logits = 1  # the number of last positions that the language-model head is run at
        self._followed = Followed()
        self._adding: dict[
            type[nn.Module], bool
        ] = {}  # whether parts of layers of this class return what they read plus more
        self._end_read = self._end_gave = None  # what the language-model head read, and gave at the last position
        self._stacks = {
            id(layer): self._stack_of(name)
            for name in model.lists_of_layers
            for layer in model.network.get_submodule(name).children()
        }
        self._usual = {
            type(part)
            for name in model.lists_of_layers
            for layer in model.network.get_submodule(name).children()
            if any(map(asks_the_registry, layer.modules()))
            for part in layer.modules()
        }

    def model(self, logits: int = 1) -> Model:
        """The model with the twin of its network. It has to be run with gradients.

        logits  the number of last positions at which it gives logits

        Raises InputError for a model on several devices, whose modules run other code than their own.
        """
        if any("forward" in vars(module) for module in self._model.network.modules()):
            raise InputError(
                f"{self._model.name} is spread over several devices, where its components are not kept. Load it on one.",
                field="model",
            )
        self._logits = logits
        return replace(self._model, network=self._twin(self._model.network))

    # --- the pass

    def read(self, call: Call) -> Call:
        """The next attention call without its past, as a capture keeps it."""
        self._reads.append((call.query, call.key))
        inputs = {name: part.detach() for name, part in vars(call).items() if isinstance(part, Tensor)}
        return replace(call, **inputs, module=self._originals[id(call.module)])

    def wrote(self, call: Call) -> Tensor:
        """The output of the heads of this call with which the pass continues."""
        kind = self._kind_of(call)
        self._calls[kind] += 1
        return self._constant(call.output, "head", "" if kind == "self" else kind, self._calls[kind] - 1)

    def reading(self, call: Call, side: Side) -> Reading:
        """What the running attention call reads as its queries, or as its keys and values.

        Raises InputError if that is neither a residual stream nor a norm of one, or doesn't follow from components alone.
        """
        leaves, spec = self._arguments
        streams = list({id(leaf): leaf for leaf in leaves if is_stream(leaf) and leaf.requires_grad}.values())
        if len(streams) != (2 if self._kind_of(call) == "cross" else 1):
            raise self._refused("its heads read something else than a residual stream or its norm")
        given = streams[0 if side == "query" else -1]
        norm, stream = self._norms.get(given, (None, given))
        if norm is None and not self._reads_stream(given, past_norms=False):
            raise self._refused("its heads read something else than a residual stream or its norm")
        self._check(stream)
        components = Components(tuple(self._written), (), stream, tuple(self._held), None, None, None)
        connected = {id(constant) for constant in _constants(stream)}

        def call_on(left: Tensor) -> Call:
            return _call_of(call.module, tree_unflatten([left if leaf is given else leaf for leaf in leaves], spec))

        return Reading(stream, norm, components, connected, call_on)

    def components(self, returned: Any) -> Components:
        """The components of the pass that has returned this.

        Raises InputError for a model whose output or attention does not follow from its components alone.
        """
        final = getattr(returned, "last_hidden_state", None) if self._end_read is None else self._end_read
        if final is None or not final.requires_grad:
            raise self._refused("what it returns does not follow from its layers alone")
        self._check(final, *(read for both in self._reads for read in both))
        head = None if self._end_read is None else self._model.network.get_output_embeddings()
        added = getattr(self._model.network, "final_logits_bias", None)  # of Marian and other relatives of BART
        added = None if added is None else wide(added.detach().flatten())
        factor = None
        if self._end_gave is not None:
            logits = wide(returned.logits[0, -1].detach())
            factor = _factor(self._end_gave, logits if added is None else logits - added)
        return Components(tuple(self._written), tuple(self._reads), final, tuple(self._held), head, factor, added)

    def _check(self, *tensors: Tensor) -> None:
        """Raise InputError unless these follow from components as sums do."""
        for tensor in tensors:
            if (step := self._followed.first_other(tensor)) is not None:
                raise self._refused(f"its residual stream passes through “{step}”, which is no sum")
        if (unlike := next((held for held in self._held if not held.holds), None)) is not None:
            raise self._refused(f"its {unlike.name} is no norm of a known form")

    def _refused(self, reason: str) -> InputError:
        return InputError(f"{self._model.name} cannot be taken apart into components: {reason}.", field="model")

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
        own = partial(_run, weakref.ref(twin), type(module).forward)  # or each would keep itself alive
        if _is_norm(module):
            twin.forward = partial(self._hold, module, layer)
            return twin
        is_attention = is_attention or asks_the_registry(module)
        twin.__dict__["_parameters"] = {
            name: self._parameter(name, numbers, layer) for name, numbers in module._parameters.items()
        }
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
            twin.forward = lambda x: _LinearMap.apply(x, weight, bias)
        return twin

    def _stack_of(self, name: str) -> str:
        if not self._model.is_encoder_decoder:
            return ""
        return "decoder" if "decoder" in name else "encoder"

    def _parameter(self, name: str, numbers: Tensor | None, layer: tuple[str, int] | None) -> Tensor | None:
        """A parameter without gradient; a bias is a component."""
        if numbers is None or name != "bias":
            return None if numbers is None else numbers.detach()
        return self._constant(numbers, "bias", *(layer or ("", None)))

    def _visit(self, own: Callable, stack: str, *inputs: Any, **options: Any) -> Any:
        """Run a layer. The first of a stack reads the embeddings."""
        self._running = stack
        self._visits[stack] += 1
        if self._visits[stack] == 1:
            leaves, spec = tree_flatten((inputs, options))
            place = next(at for at, leaf in enumerate(leaves) if is_stream(leaf))
            leaves[place] = self._constant(leaves[place], "embedding", stack, None)
            self._starts.add(id(leaves[place]))
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
        given = _HeldNorm.apply(x, bias, output, held)
        self._norms[given] = norm, x
        return given

    def _attend(self, own: Callable, *inputs: Any, **options: Any) -> Any:
        self._arguments = tree_flatten((inputs, options))
        returned = own(*inputs, **options)
        self._arguments = [], None
        return returned

    def _compute(self, module: nn.Module, own: Callable, role: Role, *inputs: Any, **options: Any) -> Any:
        """Run a part of a layer whose output is a component. What reads a component alone is on the way of that one."""
        if not any(map(self._reads_stream, _tensors((inputs, options)))):
            return own(*inputs, **options)
        # What a hybrid's layer has in the place of attention may keep a state, so that it cannot be tried.
        if role == "mlp" and self._adds(type(module), own, *inputs, **options):
            return own(*inputs, **options)
        with torch.no_grad():
            leaves, spec = tree_flatten(module.forward(*inputs, **options))
        place = next(at for at, leaf in enumerate(leaves) if is_stream(leaf))
        stack = self._running
        leaves[place] = self._constant(leaves[place], role, stack, self._visits[stack] - 1)
        return tree_unflatten(leaves, spec)

    def _adds(self, kind: type[nn.Module], own: Callable, *inputs: Any, **options: Any) -> bool:
        """Whether parts of layers of this class add to the stream themselves, so that what they return is no component. It is
        tried once for each class."""
        if kind not in self._adding:
            before, given = len(self._written), _tensors((inputs, options))
            self._adding[kind] = False
            with suppress(RuntimeError):  # of one that writes into what its own parts gave (Llama 4's experts)
                self._adding[kind] = any(passes_on(tensor, given) for tensor in _tensors(own(*inputs, **options)))
            del self._written[before:]
        return self._adding[kind]

    def _reads_stream(self, x: Tensor, *, past_norms: bool = True) -> bool:
        """Whether a tensor comes from a residual stream, not from a single component. past_norms: also through norms"""
        return any(id(constant) in self._starts for constant in _constants(x, past_norms=past_norms))

    def _end(self, head: Callable, read: Tensor) -> Tensor:
        """The language-model head, at the last positions only: all would be [tokens, vocabulary]."""
        self._end_read = read
        with torch.no_grad():
            logits = head(read[:, -self._logits :])
        self._end_gave = wide(logits[0, -1])
        return logits


def _run(module: weakref.ref[nn.Module], forward: Callable, *inputs: Any, **options: Any) -> Any:
    return forward(module(), *inputs, **options)


def _constants(x: Tensor, *, past_norms: bool = True) -> Iterator[Tensor]:
    """The constants that a tensor was made from. past_norms: also those behind a norm."""
    seen, waiting = set(), [x.grad_fn]
    if x.is_leaf:
        yield x
    while waiting:
        if (step := waiting.pop()) is None or step in seen:
            continue
        seen.add(step)
        if (constant := getattr(step, "variable", None)) is not None:
            yield constant
        if past_norms or not isinstance(getattr(step, "norm", None), Held):
            waiting += [before for before, _ in step.next_functions]


def _call_of(module: nn.Module, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Call:
    """The attention call that a module makes of these arguments, apart from any pass."""
    heard: list[Call] = []

    def hear(call: Call) -> Call:
        heard.append(call)
        return call

    inputs, options = arguments
    with torch.no_grad(), heard_by(hear):
        module(*inputs, **options)
    return heard[0]


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


def is_stream(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.ndim >= 2


def _factor(head_gave: Tensor, logits: Tensor) -> float | None:
    """What logits are the output of the language-model head times; None if they are not."""
    factor = float(logits @ head_gave / (head_gave @ head_gave))
    unit = rounding_error(logits.dtype) * logits.abs().max()
    return factor if bool((logits - factor * head_gave).abs().max() <= 16 * unit) else None
