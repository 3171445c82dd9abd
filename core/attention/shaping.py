"""What shapes the scores of attention: all that stands between q · k and a weight, in one record.

A trace, a head, some rows of a layer and a model's attention call each hold such a record and pass it on whole. A further
number of this kind is a field here, with what it does in `capped`, and needs no place in them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

# Fields with an entry for each pair of a query and a key, and fields with a number for each head of a layer.
BY_PAIR, BY_HEAD = ("mask", "bias"), ("sinks",)


@dataclass(frozen=True, eq=False)
class Shaping:
    """What shapes the scores of one head, or of several heads of a layer.

    scale    what the raw scores are multiplied by, usually 1/√d_k
    mask     [queries, keys] bool, True where a query may attend to a key
    bias     [queries, keys] finite, added to the scaled scores (ALiBi, T5)
    softcap  scores are squeezed to ±softcap by softcap · tanh(score / softcap) before bias and mask (Gemma 2), or None
    sinks    a score without a key that takes its share of every row (gpt-oss), or None

    Who holds the record says which arrays these are (NumPy or torch), their leading axes, and what None means.
    """

    scale: Any
    mask: Any = None
    bias: Any = None
    softcap: float | None = None
    sinks: Any = None

    def capped(self, scaled: Any) -> Any:
        """Scaled scores [..., keys], capped where the model caps them (Gemma 2). NumPy arrays or torch tensors."""
        return scaled if self.softcap is None else self.softcap * array_namespace(scaled).tanh(scaled / self.softcap)

    def biased(self, scaled: Any) -> Any:
        """Scaled scores [..., keys], capped, then plus bias: the scores before the mask."""
        return self.capped(scaled) if self.bias is None else self.capped(scaled) + self.bias

    def each(self, names: Iterable[str], change: Callable[[Any], Any]) -> "Shaping":
        """The record with some of its fields changed; those that are None stay None."""
        return replace(self, **{name: change(part) for name in names if (part := getattr(self, name)) is not None})

    @property
    def caps(self) -> dict[str, float]:
        """What `capped` does, as {name: number}: {"soft cap": 50.0}, or nothing."""
        return {} if self.softcap is None else {"soft cap": self.softcap}

    @property
    def words(self) -> tuple[str, ...]:
        """What the model does with the scores besides scale, mask and bias: "soft cap 50", "sinks"."""
        caps = (f"{name} {number:g}" for name, number in self.caps.items())
        return *caps, *(name for name in BY_HEAD if getattr(self, name) is not None)

    @property
    def is_plain(self) -> bool:
        """Whether the scores are only scaled, masked and biased, as torch's own attention can do it."""
        return not self.words


class Shaped:
    """A dataclass that holds a `Shaping` has its fields as attributes too."""

    shaping: Shaping

    def reshaped(self, **changes: Any) -> Self:
        """A copy with other fields of its shaping, or of its own."""
        of_shaping = {name: changes.pop(name) for name in vars(self.shaping).keys() & changes.keys()}
        whole: Any = self
        return replace(whole, shaping=replace(self.shaping, **of_shaping), **changes)

    @property
    def scale(self) -> float:
        return self.shaping.scale

    @property
    def mask(self) -> Any:
        return self.shaping.mask

    @property
    def bias(self) -> Any:
        return self.shaping.bias

    @property
    def softcap(self) -> float | None:
        return self.shaping.softcap

    @property
    def sinks(self) -> Any:
        return self.shaping.sinks


def checked(shaping: Shaping, shape: tuple[int, int], dtype: np.dtype) -> Shaping:
    """The record of one head [queries, keys] from what somebody gave. Mask and bias have the whole shape, also where they were
    None, and a bias of -inf forbids the pair. Raises InputError for what is not allowed."""
    allowed = np.broadcast_to(np.True_, shape) if shaping.mask is None else _mask(shaping.mask, shape)
    bias = np.broadcast_to(dtype.type(0), shape)
    if shaping.bias is not None:
        bias, permitted = _bias(shaping.bias, shape, dtype)
        allowed = allowed & permitted
    scale = _number(shaping.scale, "scale")
    if shaping.softcap is not None and _number(shaping.softcap, "softcap") <= 0:
        raise InputError(f"The soft cap is {shaping.softcap}; it has to be above 0.", field="softcap")
    numbers = replace(shaping, scale=scale, mask=allowed, bias=bias).each(("softcap",), float)
    return numbers.each(BY_PAIR, frozen).each(("sinks",), lambda sinks: _number(sinks, "sinks"))


def frozen(array: NDArray) -> NDArray:
    """The array, read-only from now on."""
    array.setflags(write=False)
    return array


def _mask(mask: ArrayLike, shape: tuple[int, int]) -> NDArray[np.bool_]:
    allowed = np.array(mask)
    if allowed.shape != shape:
        raise InputError(f"The mask has the shape {allowed.shape}; these scores need {shape}.", field="mask")
    if not np.isin(allowed, (0, 1)).all():
        raise InputError("The mask may hold only True and False, or 1 and 0 (1: may attend).", field="mask")
    return allowed.astype(np.bool_)


def _bias(bias: ArrayLike, shape: tuple[int, int], dtype: np.dtype) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """(the finite part of the bias, where it does not forbid)."""
    added = np.array(bias, dtype=dtype)
    if added.shape != shape:
        raise InputError(f"The bias has the shape {added.shape}; these scores need {shape}.", field="bias")
    permitted = ~np.isneginf(added)
    added = np.where(permitted, added, dtype.type(0))
    if not np.isfinite(added).all():
        raise InputError("The bias may hold finite numbers, and -inf where a pair is forbidden.", field="bias")
    return added, permitted


def _number(number: float, name: str) -> float:
    if not np.isfinite(number):
        raise InputError(f"The {name} is {number}; a finite number is needed.", field=name)
    return float(number)
