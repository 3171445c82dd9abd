"""An attention call some of whose heads are edited: what is changed in each head, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..attention.masks import Predicate
from ..attention.trace import AS_IT_IS, Instead, Weighing
from ..models.calls import Call

Pattern = Callable[[NDArray[np.integer], NDArray[np.bool_]], NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class HeadEdit:
    """What is changed in one head.

    scale_by      what the scale is multiplied by
    unscaled      whether the scale is 1 instead, before that
    mask          in the place of the model's own mask
    blocked_keys  positions that no query may attend to
    blocked_pairs [pairs, 2] positions of query and key
    weighing      how scores become weights
    pattern       weights [rows, keys] in the place of the head's own, from the positions of some queries and from which keys
                  they may attend to [rows, keys]; rows of NaN where these stay
    painted       the pairs (query, key) to which the pattern gives attention although they may be masked or blocked
    output        [queries or 1, d_v] in the place of the head's own output; further queries keep theirs
    """

    scale_by: float = 1.0
    unscaled: bool = False
    mask: Predicate | None = None
    blocked_keys: tuple[int, ...] = ()
    blocked_pairs: tuple[tuple[int, int], ...] = ()
    weighing: Weighing = "softmax"
    pattern: Pattern | None = None
    painted: tuple[tuple[int, int], ...] = ()
    output: Tensor | None = None

    def scale(self, own: float) -> float:
        return (1.0 if self.unscaled else own) * self.scale_by

    @property
    def changes_mask(self) -> bool:
        return self.mask is not None or bool(self.blocked_keys or self.blocked_pairs or self.painted)

    @property
    def changes_weights(self) -> bool:
        return self.scale_by != 1 or self.unscaled or self.changes_mask or self.places_weights

    @property
    def places_weights(self) -> bool:
        """Whether the weights are something else than the softmax of the scores."""
        return self.weighing != "softmax" or self.pattern is not None

    def allowed(self, rows: range, own: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which keys these queries may attend to [rows, keys], from which the model lets them."""
        if not self.changes_mask:
            return own
        queries, keys = np.arange(rows.start, rows.stop)[:, None], np.arange(own.shape[1])
        allowed = np.array(own if self.mask is None else np.broadcast_to(self.mask(queries, keys), own.shape))
        allowed[:, [key for key in self.blocked_keys if key < own.shape[1]]] = False
        for pairs, may in ((self.blocked_pairs, False), (self.painted, True)):  # what is painted is attended to
            for query, key in pairs:
                if query in rows and key < own.shape[1]:
                    allowed[query - rows.start, key] = may
        return allowed

    def instead(self, rows: range, allowed: NDArray[np.bool_], d_v: int) -> Instead:
        """What takes the place of these rows of the weights and of the output, in NumPy."""
        if not self.places_weights and self.output is None:
            return AS_IT_IS
        weights = None if self.pattern is None else self.pattern(np.arange(rows.start, rows.stop), allowed)
        output = None
        if self.output is not None:
            given = self.output.float() if self.output.dtype in (torch.float16, torch.bfloat16) else self.output
            output = of_rows(given.numpy(force=True), rows, d_v)
        return Instead(self.weighing, weights, output)


def of_rows(given: NDArray[np.floating], rows: range, width: int) -> NDArray[np.floating]:
    """These rows of [rows or 1, width], a single one being that of all; NaN where there are none."""
    if len(given) == 1:
        return np.broadcast_to(given, (len(rows), width)).copy()
    found = np.full((len(rows), width), np.nan, dtype=given.dtype)
    there = given[rows.start : rows.stop]
    found[: len(there)] = there
    return found


@dataclass(frozen=True, eq=False)
class EditedCall(Call):
    """A call some of whose heads are edited; `output` is what the edited heads give.

    edits  what is changed in which query head
    """

    edits: Mapping[int, HeadEdit] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, call: Call, edits: Mapping[int, HeadEdit]) -> EditedCall:
        """The same inputs and output, with edits that have not been computed yet."""
        given = {name: getattr(call, name) for name in call.__dataclass_fields__}
        return cls(**given, edits=edits)

    def giving(self, output: Tensor) -> EditedCall:
        return replace(self, output=output)


UNEDITED = HeadEdit()


def edit_of(call: Call, head: int) -> HeadEdit:
    """What is changed in a head of a call."""
    return call.edits.get(head, UNEDITED) if isinstance(call, EditedCall) else UNEDITED
