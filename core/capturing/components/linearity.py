"""What torch's record of a computation says: whether it is linear, and whether it passes on what it reads.

Only if everything is linear do the shares of a number add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor

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


class Followed:
    """The steps that are known to be linear, so that each is looked at once."""

    def __init__(self) -> None:
        self._steps: set[Any] = set()

    def first_other(self, tensor: Tensor) -> str | None:
        """The name of a step on the way to a tensor that is not linear, such as "Silu"; None if there is none."""
        seen = []
        for step in steps_to(tensor, lambda step: step not in self._steps):
            if step not in self._steps and not _is_linear(step):
                return _name(step)
            seen.append(step)
        self._steps.update(seen)
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
