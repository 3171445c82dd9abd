"""Norms and linear maps as torch follows them back with each norm held at its scale, and whether all else is linear.

Only if everything is linear do the shares of a number add up to it: torch's record of the computation says so.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import vecdot

from ...models.calls import wide
from ...progress import stop_point
from ..rounding import OF_SUMS, rounding_error


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
        self.holds = self.rounding <= OF_SUMS[y.dtype]

    def _rounding(self, x: Tensor, difference: Tensor, scale: Tensor, dtype: torch.dtype) -> float:
        largest = x.abs().amax(dim=-1, keepdim=True) * scale.abs() * self.gain.abs().max() + self.bias.abs().max()
        return float(_quotient(difference.abs(), rounding_error(dtype) * largest).max())

    def _about_mean(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=-1, keepdim=True) if self.centred else x

    def transposed(self, gradient: Tensor) -> Tensor:
        """The gradient of x, from that of y."""
        return (self._about_mean(wide(gradient) * self.gain) * self.scale).to(gradient.dtype)


def _quotient(numbers: Tensor, by: Tensor) -> Tensor:
    return numbers / by.clamp_min(torch.finfo(by.dtype).tiny)


def _some(part: Tensor) -> Tensor:
    """At least 64 of the entries of the second dimension, evenly, where there are as many."""
    return part[:, :: max(1, part.shape[1] // 64)]


class HeldNorm(torch.autograd.Function):
    """A norm that goes forward as it does, and backward as the linear map that it is with its scale held."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, output: Tensor, norm: Held) -> Tensor:  # noqa: ARG004
        ctx.norm, ctx.of_bias = norm, bias.shape
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        stop_point()  # torch goes through all layers in a single call
        (gradient,) = gradients
        return ctx.norm.transposed(gradient), wide(gradient).sum_to_size(ctx.of_bias), None, None


class Biased(torch.autograd.Function):
    """What a component gave, as it was, which goes back to the component and to the biases that were added to it."""

    @staticmethod
    def forward(ctx: Any, component: Tensor, output: Tensor, *biases: Tensor) -> Tensor:  # noqa: ARG004
        ctx.of_biases = [bias.shape for bias in biases]
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        return gradient, None, *(gradient.sum_to_size(shape) for shape in ctx.of_biases)


class LinearMap(torch.autograd.Function):
    """x @ weight.T + bias, which goes back only for the tokens that have a gradient: a logit depends on a single one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight, ctx.of_bias = weight, None if bias is None else bias.shape
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        stop_point()
        (gradient,) = gradients
        of_bias = None if ctx.of_bias is None else gradient.sum_to_size(ctx.of_bias)
        rows = gradient.detach().any(dim=-1)
        if rows.all():
            return gradient @ ctx.weight, None, of_bias
        back = gradient.new_zeros(*gradient.shape[:-1], ctx.weight.shape[1])
        return back.index_put((rows,), gradient[rows] @ ctx.weight), None, of_bias


# Steps of torch's backward pass that are linear whatever they read: they move numbers, or change their sign. What they join
# may be constant: a cache begins with no keys.
_MOVES = {
    *("Alias", "Cat", "Clone", "Expand", "Index", "Neg", "Permute", "ReshapeAlias", "Select", "Slice", "Split"),
    *("SplitWithSizes", "Squeeze", "Stack", "T", "ToCopy", "Transpose", "Unbind", "UnsafeView", "Unsqueeze", "View"),
    *("ViewAsComplex", "ViewAsReal"),
}
_SUMS = {"Add", "Sub"}  # if all that they add is followed
_PRODUCTS = {"Bmm", "Div", "Mm", "Mul"}  # if one factor is a constant
_OWN = {"Biased", "HeldNorm", "LinearMap", "torch::autograd::AccumulateGrad"}


def steps_to(tensor: Tensor, goes_on: Callable[[Any], bool]) -> Iterator[Any]:
    """The steps on the way to a tensor, each once, from the last one back. goes_on: whether those before a step follow, too"""
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        step = waiting.pop()
        if step is not None and step not in seen:
            seen.add(step)
            yield step
            if goes_on(step):
                waiting += [before for before, _ in step.next_functions]


def first_other(tensor: Tensor, followed: set[Any]) -> str | None:
    """The name of a step on the way to a tensor that is not linear, such as "Silu"; None if there is none.

    followed  steps that are known to be linear, to which the others are added, so that each is looked at once
    """
    seen = []
    for step in steps_to(tensor, lambda step: step not in followed):
        if step not in followed and not _is_linear(step):
            return _name(step)
        seen.append(step)
    followed.update(seen)
    return None


def passes_on(tensor: Tensor, given: Iterable[Tensor]) -> bool:
    """Whether a tensor is one of the others plus something, or times a constant, as in a residual connection."""
    given = list(given)
    steps, leaves = {one.grad_fn for one in given} - {None}, {id(one) for one in given if one.is_leaf}
    found = steps_to(tensor, _keeps)
    return any(step in steps or id(getattr(step, "variable", None)) in leaves for step in found)


def _keeps(step: Any) -> bool:
    """Whether a step gives what it reads, plus something or times a constant."""
    name = _name(step)
    return name in _SUMS | _MOVES or (name in ("Div", "Mul") and _is_linear(step))


def _is_linear(step: Any) -> bool:
    name, follows = _name(step), [before is not None for before, _ in step.next_functions]
    if name in _SUMS:
        return all(follows)
    if name == "Addmm":  # a bias plus a product
        return follows[0] and sum(follows[1:]) == 1
    if name == "Div":
        return follows == [True] or follows == [True, False]
    return name in _MOVES | _OWN or (name in _PRODUCTS and sum(follows) == 1)


def _name(step: Any) -> str:
    """What torch calls a step, without "Backward0"."""
    return step.name().partition("Backward")[0]
