"""What components gave to queries, to keys and to the answer, as a file keeps it: attribution reads it without the network.

The pass itself keeps what each component wrote, and the network's weights lead from there to every score. Here are the vectors
at the end of that way instead: what each component gave to a head's queries and keys, and to what the last norm gave. They
grow linearly with the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError, check_index
from ...models.calls import Call, wide
from ...models.modules import Kind, first_of
from ...models.tokens import NOT_THERE
from ...record_pass import BEST
from ..calls.edited_call import edit_of
from ..calls.head_places import EVERYWHERE, Side, place_of
from ..sampling import most_probable
from .held_norms import ALLOWED_ROUNDING, rounding_error
from .written import Component, Components, Readout, Written

FINAL = "final"
MOST_BYTES = 4_000_000_000  # of scores in a file, if every component came before every head; about half of them do
# More rounding is allowed than in a number: what is added up to a vector are products over all of the stream.
LOOSER = 8


def name_of(kind: Kind, layer: int, side: Side, head: int) -> str:
    """The name of what a head reads as its queries; of the keys, head is the key head."""
    return f"{kind}.{layer}.{side}.{head}"


@dataclass(frozen=True, eq=False)
class Given:
    """A vector of each token, by the components that it is a sum of.

    parts    [components], their places among all components of the pass; those that gave nothing are left out
    vectors  [tokens, components, size], what each of them gave
    whole    [tokens, size], what the model itself read
    """

    parts: Tensor
    vectors: Tensor
    whole: Tensor

    @classmethod
    def each_of(cls, components: Components, wholes: Tensor) -> list[Given]:
        """wholes: [vectors, tokens, size], made from `reads` or `final`"""
        gave = components.vectors(wholes, components.each)
        found = []
        for number, whole in enumerate(wholes.detach()):
            parts = gave[:, number].flatten(1).any(dim=1).nonzero().flatten()
            vectors = wide(gave[parts, number]).transpose(0, 1).contiguous()
            found.append(cls(parts.int().cpu(), vectors.cpu(), whole.clone().cpu()))
        return found

    @property
    def rounding(self) -> float:
        """The largest difference of the sum from the whole, in units of one rounding error of all that is added up."""
        difference = wide(self.whole) - self.vectors.sum(dim=1)
        size = self.vectors.norm(dim=2).sum(dim=1).clamp_min(torch.finfo(self.vectors.dtype).tiny)
        return float((difference.norm(dim=1) / (rounding_error(self.whole.dtype) * size)).max())


@dataclass(frozen=True, eq=False)
class KeptComponents(Components):
    """The components of a pass from a file. `written` holds what they gave to each vector of `given`.

    listed  all components of the pass, without their places
    given   by the name of the vector: "self.18.key.6" for the keys that head 6 of layer 18 reads, "final" for `final`
    """

    listed: tuple[Component, ...] = ()
    given: Mapping[str, Given] = field(default_factory=dict)

    @classmethod
    def of(cls, listed: Sequence[Component], given: Mapping[str, Given], readout: Readout | None) -> KeptComponents:
        written = tuple(
            Written("head", "", None, one.vectors[None].detach().requires_grad_()) for one in given.values()
        )
        number = [*given].index(FINAL)
        final = _followed(written[number], given[FINAL])[None]
        return cls(written, (), final, (), readout, tuple(listed), given)

    @property
    def dtype(self) -> torch.dtype:
        return self.given[FINAL].whole.dtype

    @property
    def nbytes(self) -> int:
        return sum(one.tensor.nbytes for one in self.written)

    @cached_property
    def each(self) -> tuple[Component, ...]:
        places: dict[int, list[tuple[int, int | None]]] = defaultdict(list)
        for index, one in enumerate(self.given.values()):
            for row, part in enumerate(one.parts.tolist()):
                places[part].append((index, row))
        return tuple(replace(part, places=tuple(places[number])) for number, part in enumerate(self.listed))

    def read(self, kind: Kind, layer: int, head: int, group: int) -> tuple[Tensor, Tensor]:
        names = name_of(kind, layer, "query", head), name_of(kind, layer, "key", head // group)
        if not self.given.keys() >= {*names}:
            raise InputError(
                f"This file does not hold what components gave to the scores of head {layer}.{head}: {NOT_THERE}",
                field="model",
            )
        of_query, of_keys = (_followed(self.written[[*self.given].index(name)], self.given[name]) for name in names)
        return of_query, of_keys

    @property
    def disagreements(self) -> Iterator[tuple[str, float, float]]:
        """Of each vector that is not the sum of what components gave: its name, and its rounding with what is allowed."""
        for name, one in self.given.items():
            allowed = LOOSER * ALLOWED_ROUNDING[one.whole.dtype]
            if not one.rounding <= allowed:
                yield name, one.rounding, allowed


def _followed(one: Written, given: Given) -> Tensor:
    """The vector as the model read it, [tokens, size], which torch follows back to what components gave to it."""
    with torch.enable_grad():
        whole = one.tensor[0].sum(dim=1)
        return wide(given.whole) + (whole - whole.detach())


@torch.enable_grad()
def kept(
    components: Components, calls: Mapping[Kind, Sequence[Call]], scores: Iterable[Any] | None, logits: NDArray | None
) -> KeptComponents:
    """What a file keeps of the components of a pass.

    scores  the heads whose scores can be taken apart later, as `Edits` names heads; None: all
    logits  [vocabulary] of the pass; None for a model that gives vectors

    Raises InputError (field "scores") for more heads than a file can hold.
    """
    if isinstance(components, KeptComponents):
        return components
    final = components.final[0] if logits is None else components.final[0, -1:]
    given = dict(zip([FINAL], Given.each_of(components, final[None]), strict=True))
    chosen = [*_heads(calls, scores)]
    size = len(components.each) * sum(_score_bytes(calls[kind][layer], heads) for kind, layer, heads in chosen)
    if size > MOST_BYTES:
        raise InputError(
            f"The scores of these {sum(len(heads) for *_, heads in chosen):,} heads take up to {size / 1e9:,.1f} GB with what "
            f"components gave to them; a file holds at most {MOST_BYTES / 1e9:.0f} GB. Name heads: scores=[(5, 1)].",
            field="scores",
        )
    for kind, layer, heads in chosen:
        group = calls[kind][layer].group
        reads = {head: components.read(kind, layer, head, group) for head in heads}
        by_side: dict[Side, dict[int, Tensor]] = {
            "query": {head: queries for head, (queries, _) in reads.items()},
            "key": {head // group: keys for head, (_, keys) in reads.items()},
        }
        for side, own in by_side.items():
            wholes = torch.stack([*own.values()])
            if wholes.requires_grad:  # LongT5's encoder reads its keys in another way
                names = [name_of(kind, layer, side, head) for head in own]
                given |= zip(names, Given.each_of(components, wholes), strict=True)
    readout = components.readout
    if readout is not None and logits is not None:
        readout = readout.of_tokens(most_probable(logits, BEST))
    return KeptComponents.of([replace(part, places=()) for part in components.each], given, readout)


def _score_bytes(call: Call, heads: Sequence[int]) -> int:
    """Bytes of the queries and keys of some heads, in float32."""
    keys = {head // call.group for head in heads}
    return 4 * (len(heads) * call.query[0, 0].numel() + len(keys) * call.key[0, 0].numel())


def _heads(calls: Mapping[Kind, Sequence[Call]], scores: Iterable[Any] | None) -> Iterator[tuple[Kind, int, list[int]]]:
    """(kind, layer, its heads) for those that are named and into which nothing is cut.

    Raises InputError for places where there are none.
    """
    places, first = [EVERYWHERE] if scores is None else [*map(place_of, scores)], first_of([*calls])
    for place in places:
        own = calls[place.kind or first]
        check_index(place.layer or 0, len(own), "layer")
        check_index(place.head or 0, own[0].heads, "head")
    for kind, own in calls.items():
        for layer, call in enumerate(own):
            heads = [
                head
                for head in range(call.heads)
                if any(place.covers(kind, layer, head, first) for place in places) and not edit_of(call, head).cuts
            ]
            if heads:
                yield kind, layer, heads
