"""An attention call with edited heads: the changes of each head, before anything is computed."""

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

# Fixed patterns by name: the key that gets all of a query's attention, from their positions; None: all it may attend to.
PATTERNS: dict[str, Callable[[NDArray[np.integer]], NDArray[np.integer]] | None] = {
    "uniform": None,
    "previous": lambda query: np.maximum(query - 1, 0),
    "first": lambda query: np.zeros_like(query),
    "self": lambda query: query,
}


@dataclass(frozen=True, eq=False)
class HeadEdit:
    """The changes of one head by all edits together.

    scale_by       what the scale is multiplied by
    unscaled       whether the scale is 1 instead, before that
    mask           in place of the model's own mask
    blocked_keys   positions that no query may attend to
    blocked_pairs  [pairs, 2] positions of query and key
    weighing       how scores become weights
    pattern        one of `PATTERNS` in place of the head's own weights; a row stays as it is if the pattern names a key that is
                   masked or missing
    painted        query -> key -> share: whole rows of weights, also in place of the pattern. These keys get attention even if
                   they are masked or blocked
    output         [queries or 1, d_v] in place of the head's own output; further queries keep theirs
    """

    scale_by: float = 1.0
    unscaled: bool = False
    mask: Predicate | None = None
    blocked_keys: tuple[int, ...] = ()
    blocked_pairs: tuple[tuple[int, int], ...] = ()
    weighing: Weighing = "softmax"
    pattern: str | None = None
    painted: Mapping[int, Mapping[int, float]] = field(default_factory=lambda: MappingProxyType({}))
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
        """Whether the weights are anything but the softmax of the scores."""
        return self.weighing != "softmax" or self.gives_weights

    @property
    def gives_weights(self) -> bool:
        """Whether rows of weights are given, by a pattern or by painting."""
        return self.pattern is not None or bool(self.painted)

    def allowed(self, rows: range, own: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The keys that these queries may attend to: [rows, keys] bool. own: those that the model allows."""
        if not self.changes_mask:
            return own
        queries, keys = np.arange(rows.start, rows.stop)[:, None], np.arange(own.shape[1])
        allowed = np.array(own if self.mask is None else np.broadcast_to(self.mask(queries, keys), own.shape))
        allowed[:, [key for key in self.blocked_keys if key < own.shape[1]]] = False
        painted = tuple((query, key) for query, row in self.painted.items() for key in row)
        for pairs, may in ((self.blocked_pairs, False), (painted, True)):  # painted keys are attended to
            for query, key in pairs:
                if query in rows and key < own.shape[1]:
                    allowed[query - rows.start, key] = may
        return allowed

    def instead(self, rows: range, allowed: NDArray[np.bool_], d_v: int) -> Instead:
        """These rows of the weights and of the output that replace the head's own, in NumPy."""
        if not self.places_weights and self.output is None:
            return AS_IT_IS
        weights = self._weights(np.arange(rows.start, rows.stop), allowed) if self.gives_weights else None
        output = None
        if self.output is not None:
            given = self.output.float() if self.output.dtype in (torch.float16, torch.bfloat16) else self.output
            output = of_rows(given.numpy(force=True), rows, d_v)
        return Instead(self.weighing, weights, output)

    def _weights(self, queries: NDArray[np.integer], allowed: NDArray[np.bool_]) -> NDArray[np.floating]:
        """The given weights of these queries [rows, keys], NaN in rows that stay. allowed: [rows, keys] bool."""
        nothing = np.full(allowed.shape, np.nan)
        weights = nothing if self.pattern is None else _by_pattern(self.pattern, queries, allowed)
        for row, query in enumerate(queries.tolist()):
            if query in self.painted:
                weights[row] = 0
                for key, share in self.painted[query].items():
                    weights[row, key] = share
        return weights


def _by_pattern(name: str, queries: NDArray[np.integer], allowed: NDArray[np.bool_]) -> NDArray[np.floating]:
    """The weights of a pattern [rows, keys], NaN in rows whose key is masked or missing."""
    key_of = PATTERNS[name]
    if key_of is None:
        choices = allowed.sum(axis=1, keepdims=True)
        return np.where(allowed, 1 / np.maximum(choices, 1), 0.0)
    keys, rows = key_of(queries), np.arange(len(queries))
    there = keys < allowed.shape[1]
    there &= allowed[rows, np.where(there, keys, 0)]
    weights = np.full(allowed.shape, np.nan)
    weights[there] = 0
    weights[rows[there], keys[there]] = 1
    return weights


def of_rows(given: NDArray[np.floating], rows: range, width: int) -> NDArray[np.floating]:
    """Some rows of [rows or 1, width], where a single row stands for all; NaN for rows that are missing."""
    if len(given) == 1:
        return np.broadcast_to(given, (len(rows), width)).copy()
    chosen = np.full((len(rows), width), np.nan, dtype=given.dtype)
    part = given[rows.start : rows.stop]
    chosen[: len(part)] = part
    return chosen


@dataclass(frozen=True, eq=False)
class EditedCall(Call):
    """A call with edited heads. Its `output` is that of the edited computation.

    edits  the changes by query head
    """

    edits: Mapping[int, HeadEdit] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, call: Call, edits: Mapping[int, HeadEdit]) -> EditedCall:
        """The call with edits that are not computed yet: inputs and output stay as they are."""
        given = {name: getattr(call, name) for name in call.__dataclass_fields__}
        return cls(**given, edits=edits)

    def giving(self, output: Tensor) -> EditedCall:
        return replace(self, output=output)


UNEDITED = HeadEdit()


def edit_of(call: Call, head: int) -> HeadEdit:
    """The changes of a head of a call."""
    return call.edits.get(head, UNEDITED) if isinstance(call, EditedCall) else UNEDITED
