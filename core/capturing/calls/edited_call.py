"""An attention call with edited heads: the changes of each head, before anything is computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...attention.masks import Predicate
from ...attention.trace import Weighing
from ...models.calls import Call, wide
from .head_places import PathIntoHead

# What takes the place of a component that is cut: nothing, its mean over all tokens, or what it is in another text.
Cut = Literal["zero", "mean", "patch"]

# Fixed patterns by name: the key that gets all of a query's attention, from their positions; None: all it may attend to.
PATTERNS: dict[str, Callable[[NDArray[np.integer]], NDArray[np.integer]] | None] = {
    "uniform": None,
    "previous": lambda query: query - 1,
    "first": lambda query: np.zeros_like(query),
    "self": lambda query: query,
}


@dataclass(frozen=True, eq=False)
class HeadEdit:
    """The changes of one head by all edits together.

    scale_by  what the scale is multiplied by
    unscaled  whether the scale is 1 instead, before that
    mask      in place of the model's own mask
    blocked   (query, key) that may not attend; query -1 is every query
    weighing  how scores become weights
    pattern   one of `PATTERNS` in place of the head's own weights; a row stays as it is if the pattern names a key that is
              masked or missing
    painted   query -> key -> share: whole rows of weights, also in place of the pattern. These keys get attention even if
              they are masked or blocked
    output    [queries or 1, d_v] in place of the head's own output; further queries keep theirs
    cuts      the paths into this head that are cut
    """

    scale_by: float = 1.0
    unscaled: bool = False
    mask: Predicate | None = None
    blocked: tuple[tuple[int, int], ...] = ()
    weighing: Weighing = "softmax"
    pattern: str | None = None
    painted: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    output: Tensor | None = None
    cuts: Mapping[PathIntoHead, Cut] = field(default_factory=dict)

    def scale(self, own: float) -> float:
        return (1.0 if self.unscaled else own) * self.scale_by

    @property
    def changes_mask(self) -> bool:
        return self.mask is not None or bool(self.blocked or self.painted)

    @property
    def attends_anew(self) -> bool:
        """Whether the output has to be computed again from the queries, keys and values."""
        return self.scale_by != 1 or self.unscaled or self.changes_mask or self.places_weights or bool(self.cuts)

    @property
    def changes(self) -> bool:
        return self.attends_anew or self.output is not None

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
        allowed[:, [key for query, key in self.blocked if query < 0 and key < own.shape[1]]] = False
        blocked = ((query, key) for query, key in self.blocked if query >= 0)
        painted = ((query, key) for query, row in self.painted.items() for key in row)
        for pairs, is_allowed in ((blocked, False), (painted, True)):
            for query, key in pairs:
                if key < own.shape[1] and query in rows:
                    allowed[query - rows.start, key] = is_allowed
        return allowed

    def weights(self, rows: range, allowed: NDArray[np.bool_]) -> NDArray[np.floating]:
        """The given weights of these queries [rows, keys], NaN in rows that stay. allowed: [rows, keys] bool."""
        nothing = np.full(allowed.shape, np.nan)
        weights = nothing if self.pattern is None else _by_pattern(self.pattern, np.array(rows), allowed)
        for query, shares in self.painted.items():
            if query in rows:
                weights[query - rows.start] = 0
                weights[query - rows.start, list(shares)] = list(shares.values())
        return weights

    def output_of(self, rows: range, d_v: int) -> NDArray[np.floating] | None:
        """The given output of these queries [rows, d_v], NaN in rows that stay; None if none is given."""
        if self.output is None:
            return None
        given = wide(self.output).numpy(force=True)
        given = given if len(given) > 1 else np.broadcast_to(given, (rows.stop, d_v))
        part = given[rows.start : rows.stop]
        output = np.full((len(rows), d_v), np.nan, dtype=given.dtype)
        output[: len(part)] = part
        return output


def _by_pattern(name: str, queries: NDArray[np.integer], allowed: NDArray[np.bool_]) -> NDArray[np.floating]:
    """The weights of a pattern [rows, keys], NaN in rows whose key is masked or missing."""
    key_of = PATTERNS[name]
    if key_of is None:
        return np.where(allowed, 1 / np.maximum(allowed.sum(axis=1, keepdims=True), 1), 0.0)
    keys, rows = key_of(queries), np.arange(len(queries))
    is_there = (keys >= 0) & (keys < allowed.shape[1])
    is_there &= allowed[rows, np.where(is_there, keys, 0)]
    weights = np.full(allowed.shape, np.nan)
    weights[is_there] = 0
    weights[rows[is_there], keys[is_there]] = 1
    return weights


@dataclass(frozen=True, eq=False)
class EditedCall(Call):
    """A call with edited heads. Its `output` is that of the edited computation.

    Where the keys or values of a head were made from something else, heads no longer share any: key_heads is heads.

    edits  the changes by query head
    """

    edits: Mapping[int, HeadEdit] = field(default_factory=dict)


UNEDITED = HeadEdit()


def beside(one: Call, other: Call) -> Call:
    """Two calls with the same queries and keys as one, with their values side by side, and so their outputs."""
    value, output = (torch.cat([getattr(call, name) for call in (one, other)], dim=-1) for name in ("value", "output"))
    together = replace(one, value=value, output=output)
    if not isinstance(together, EditedCall):
        return together
    edits = {head: _beside(edit, edit_of(other, head)) for head, edit in together.edits.items()}
    return replace(together, edits=edits)


def _beside(one: HeadEdit, other: HeadEdit) -> HeadEdit:
    if one.output is None or other.output is None:
        return one
    return replace(one, output=torch.cat([one.output, other.output], dim=-1))


def edit_of(call: Call, head: int) -> HeadEdit:
    """The changes of a head of a call."""
    return call.edits.get(head, UNEDITED) if isinstance(call, EditedCall) else UNEDITED
