"""What each component of a network wrote into the residual stream, and what a later number owes to each of them.

With each norm held at the scale that it had, every number that is read from the residual stream is a sum over what was
written into it before: the embeddings, the heads, the feed-forward layers and the biases (Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits", https://transformer-circuits.pub/2021/framework). What a number owes to a component is the
gradient times what the component wrote. `core.capturing.components.running` runs the pass whose gradients these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.linalg import vecdot

from ...errors import InputError, check_index
from ...models.calls import wide
from ...models.modules import Kind
from ...progress import stop_point
from .linear_maps import Held

Role = Literal["embedding", "head", "mlp", "rest", "bias"]


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
    head    None for what is not a head
    places  in `Components.written`: (index, the head or None)
    """

    name: str
    role: Role | Literal["group"]
    where: str
    layer: int | None
    head: int | None
    places: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, eq=False)
class Readout:
    """The language-model head: logits are factor · (weight · final + bias) + added.

    weight  [tokens, d_model]
    bias    [tokens], of the head; None: nothing
    factor  None if the model changes its logits in another way afterwards, as by a soft cap
    added   [tokens], what the model adds to the logits after the head; None: nothing
    """

    weight: Tensor
    bias: Tensor | None
    factor: float | None
    added: Tensor | None

    def contrast(self, of: Tensor, token: int, against: int | Literal["mean"] | None) -> Tensor:
        """The row of a token, minus that of another or the mean row. of: one of `weight`, `bias` and `added`"""
        row = self._row(of, token, "token")
        if against is None:
            return row
        if against == token:
            why = "A token is compared with itself here: choose another one to compare it with."
            raise InputError(why, field="against")
        return row - (wide(of).mean(dim=0) if against == "mean" else self._row(of, against, "against"))

    def _row(self, of: Tensor, token: int, field: str) -> Tensor:
        check_index(token, len(self.weight), "token", field=field)
        return wide(of[token]).clone()  # products round otherwise where a row lies elsewhere in memory


@dataclass(frozen=True, eq=False)
class Components:
    """The components of one pass, and what is linear in them.

    written   in the order of the pass
    reads     for each attention call its queries and keys, after rotation and norms, as torch follows them back
    final     [1, tokens, d_model], what the last norm gave, likewise: the language-model head reads it
    held      the norms as they were applied, in the order of the pass
    readout   what reads logits from `final`; None for a model without a language-model head
    """

    written: tuple[Written, ...]
    reads: tuple[tuple[Tensor, Tensor], ...]
    final: Tensor
    held: tuple[Held, ...]
    readout: Readout | None

    def read(self, kind: Kind, layer: int, head: int) -> tuple[Tensor, Tensor]:
        """What a head reads as its queries and its keys, each [tokens, d_k], as torch follows them back."""
        heads = [(one.where or "self", one.number) for one in self.written if one.role == "head"]
        queries, keys = self.reads[heads.index((kind, layer))]
        with torch.enable_grad():
            return queries[0, head], keys[0, head * keys.shape[1] // queries.shape[1]]

    @property
    def dtype(self) -> torch.dtype:
        """What the pass computed in."""
        return self.final.dtype

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
                own = one.role if one.number is None else f"{one.role} {one.number}"
                name = f"{one.where} {own if head is None else f'{one.number}.{head}'}".strip()
                known = found.get(name, Component(name, one.role, one.where, one.number, head))
                found[name] = replace(known, places=(*known.places, (index, head)))
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
        pairs = ((wide(one.tensor.detach()), wide(gradient)) for one, gradient in both if gradient is not None)
        return sum(float(vecdot(wrote.abs().flatten(), owed.abs().flatten())) for wrote, owed in pairs)

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
                index: _share(self.written[index], gradients[index])
                for part in parts
                for index, _ in part.places
                if gradients[index] is not None
            }
            nothing = vector.detach().new_zeros(())
            sums = [
                sum((of_head(shares[index], head) for index, head in part.places if index in shares), nothing)
                for part in parts
            ]
        # A component that comes later than the vector has no part in it, and its sum no gradient.
        owed = []
        for one in sums:
            stop_point()
            is_earlier = one.requires_grad
            owed.append(
                torch.autograd.grad(one, direction, retain_graph=True)[0] if is_earlier else torch.zeros_like(vector)
            )
        return torch.stack(owed).detach()


def of_head(share: Tensor, head: int | None) -> Tensor:
    """The sum of a share over its tokens, of one of its heads where it has any."""
    return (share if head is None else share[:, head]).sum()


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
