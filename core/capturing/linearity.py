"""What torch's record of a computation says: whether it is linear, and whether it passes on what it reads.

Only if everything is linear do the shares of a number add up to it.
"""

from __future__ import annotations

from collections.abc import Iterable
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
_OWN = {"HeldNorm", "LinearMap", "torch::autograd::AccumulateGrad"}


class Followed:
    """The steps that are known to be linear, so that each is looked at once."""

    def __init__(self) -> None:
        self._steps: set[Any] = set()

    def first_other(self, tensor: Tensor) -> str | None:
        """The name of a step on the way to a tensor that is not linear, such as "Silu"; None if there is none."""
        waiting, seen = [tensor.grad_fn], set()
        while waiting:
            step = waiting.pop()
            if step is None or step in self._steps or step in seen:
                continue
            if not _is_linear(step):
                return _name(step)
            seen.add(step)
            waiting += [before for before, _ in step.next_functions]
        self._steps |= seen
        return None


def passes_on(tensor: Tensor, given: Iterable[Tensor]) -> bool:
    """Whether a tensor is one of the others plus something, or times a constant, as in a residual connection."""
    given = list(given)
    steps, leaves = {one.grad_fn for one in given} - {None}, {id(one) for one in given if one.is_leaf}
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        step = waiting.pop()
        if step in steps or id(getattr(step, "variable", None)) in leaves:
            return True
        if step is None or step in seen:
            continue
        seen.add(step)
        name = _name(step)
        if name in _SUMS | _MOVES or (name in ("Div", "Mul") and _is_linear(step)):
            waiting += [before for before, _ in step.next_functions]
    return False


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
