"""What claims say, measured on one passage after another, for every head: counts, and sums that are exact.

Passages fall into two halves by a hash of their text: one for looking, one for testing. Each half is parted into GROUPS groups
by the same hash, whose sums are kept apart: from them follows an interval (random groups, Wolter 2007, chapter 2). So the
result does not depend on the order or the place of passages, and its size not on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..averages import ExactSum
from ..capturing.calls.rows import Rows
from ..capturing.capture import Capture
from ..errors import InputError
from ..models.modules import Kind
from ..models.passages import Passage, text_hash
from .claim import Claim
from .facts import Facts

HALVES, GROUPS = 2, 64
MOST_TOKENS = 512  # of a passage: what is asked of each pair of its tokens is held for every claim
LOOKING, TESTING = range(HALVES)
STRONG = 0.5  # of a query's attention on one key: the head has chosen it
COUNTS = ("queries", "recalled", "hits", "strong", "passages")
SUMS = ("shares", "chance", "usual")


def half_and_group(text: str) -> tuple[int, int]:
    """The half of a passage, and its group in there; 64 bits of a hash are as good as drawn at random."""
    number = text_hash(text)
    return number % HALVES, number // HALVES % GROUPS


@dataclass(eq=False)
class ClaimSums:
    """C claims over passages, at first none, for H heads. Everything is counted for all heads, whichever a claim is about.

    heads     [H, 2] the layer and the number of each
    queries   [HALVES, GROUPS, C, H] int64: queries that meet the condition and may attend to such a key
    shares    the sums of their weights on these keys: [HALVES, GROUPS, C, H]
    recalled  [HALVES, C, H] int64: those of which the share is at least the least share
    chance    the sums of what as many keys get that are drawn evenly from those that a query may attend to: [HALVES, C, H]
    usual     the sums of what these keys would get if only their distance counted: [HALVES, C, H]; 0 for claims whose keys
              follow from their position. A key then weighs what keys at its distance get that the claim does not speak of,
              on average over the passage (where there are none, the mean of the claim's other keys); what the claim's queries
              give is parted by these weights. The first key and special ones, where attention rests, stay out of all of this,
              unless the claim is about them
    strong    [HALVES, C, H] int64: queries that give at least STRONG to one key that is neither the first nor special
    hits      [HALVES, C, H] int64: those of them that meet the condition, and where this key is one of the claim's
    passages  [HALVES, C] int64: passages with such a query
    """

    claims: tuple[Claim, ...]
    heads: NDArray[np.int64]
    passages: NDArray[np.int64] = field(init=False)
    queries: NDArray[np.int64] = field(init=False)
    recalled: NDArray[np.int64] = field(init=False)
    hits: NDArray[np.int64] = field(init=False)
    strong: NDArray[np.int64] = field(init=False)
    shares: ExactSum = field(init=False)
    chance: ExactSum = field(init=False)
    usual: ExactSum = field(init=False)

    def __post_init__(self) -> None:
        count, heads = len(self.claims), len(self.heads)
        self.passages = np.zeros((HALVES, count), np.int64)
        self.queries = np.zeros((HALVES, GROUPS, count, heads), np.int64)
        self.shares = ExactSum.zeros(HALVES, GROUPS, count, heads)
        self.recalled, self.hits, self.strong = (np.zeros((HALVES, count, heads), np.int64) for _ in range(3))
        self.chance, self.usual = (ExactSum.zeros(HALVES, count, heads) for _ in range(2))
        self.require_heads()

    def require_heads(self) -> None:
        """Raise InputError (field "claims") for a claim about a head that is not among these."""
        there = {tuple(place) for place in self.heads.tolist()}
        for claim in self.claims:
            if claim.place is not None and claim.place not in there:
                last = ".".join(map(str, self.heads[-1].tolist()))
                raise InputError(
                    f"“{claim}”: there is no head {claim.head}; they run from 0.0 to {last}.", field="claims"
                )

    def add(self, passage: Passage, measured: PassageShares, places: Sequence[int] | None = None) -> None:
        """Add a passage that has been measured in every layer. places: of these heads among all of the model; None: all"""
        half, group = half_and_group(passage.text)
        numbers = measured.numbers()
        if places is not None:
            numbers = {name: values[:, places] for name, values in numbers.items()}
        self.queries[half, group] += numbers["queries"].astype(np.int64)
        for name in ("recalled", "hits", "strong"):
            getattr(self, name)[half] += numbers[name].astype(np.int64)
        self.passages[half] += (numbers["queries"] > 0).any(axis=1)
        for name in SUMS:
            place = (half, group) if name == "shares" else half
            sums = getattr(self, name)
            ExactSum(sums.whole[place], sums.part[place]).add(numbers[name])  # in place: of the others nothing changes

    def merge(self, other: ClaimSums) -> None:
        """Add the sums over other passages. Raises ValueError for those of other claims or heads."""
        if self.claims != other.claims or not np.array_equal(self.heads, other.heads):
            raise ValueError("Sums of other claims or heads cannot be added.")
        for name in COUNTS:
            numbers = getattr(self, name)
            numbers += getattr(other, name)
        for name in SUMS:
            getattr(self, name).merge(getattr(other, name))


@dataclass(frozen=True, eq=False)
class _OfMask:
    """What follows from the mask of some rows alone, which most layers share.

    allowed  as in `Rows`
    wanted   [rows, keys, C] 1 for the keys of each claim
    counted  [rows, 1 or heads, C] bool: queries that a claim speaks of, and that may attend to a key of its
    numbers  the sums over these rows that follow from it, by their names in `ClaimSums`: [1 or heads, C]
    usual    [1 or heads, rows × keys, 3 C] how often a weight counts, over the number of pairs at its distance that a claim
             does not speak of: once for each of the claim's keys at this distance, then for each key of the claim's queries;
             then 1 for the keys of the claim's queries
    """

    allowed: Tensor
    wanted: Tensor
    counted: Tensor
    numbers: dict[str, Tensor]
    usual: Tensor


class PassageShares:
    """The numbers of one passage, layer by layer. Nothing in it grows with the number of layers but these numbers."""

    def __init__(self, claims: Sequence[Claim], facts: Facts) -> None:
        self._least = torch.tensor([claim.least for claim in claims], dtype=torch.float64)
        # A passage without annotation says nothing of claims that need it, and "not its head" is not every key there.
        spoken = [facts.is_annotated or not claim.needs_annotation for claim in claims]
        when = [claim.condition(facts) & is_spoken for claim, is_spoken in zip(claims, spoken, strict=True)]
        self._spoken, self._when = torch.tensor(spoken), torch.from_numpy(np.stack(when))
        self._keys = torch.from_numpy(np.stack([claim.key_set(facts) for claim in claims]))
        self._content = torch.tensor([not claim.by_position for claim in claims])
        resting = facts.are("special") | (np.arange(len(facts)) == 0)
        self._others = torch.from_numpy(~resting).float()
        rests = torch.tensor([claim.is_about_resting for claim in claims])
        self._comparable = torch.from_numpy(~resting) | rests[:, None]
        self._masks: list[_OfMask] = []
        self._layers: list[dict[str, Tensor]] = []

    def add(self, layer: Iterable[Rows]) -> None:
        """Add a layer, from all of its rows."""
        blocks = list(layer)
        allowed = [rows.allowed.cpu() for rows in blocks]
        if not self._masks or any(
            not torch.equal(one.allowed, other) for one, other in zip(self._masks, allowed, strict=True)
        ):
            self._masks = self._read_masks(blocks, allowed)
        parts = [self._of_rows(rows, mask) for rows, mask in zip(blocks, self._masks, strict=True)]
        sums = {name: torch.stack([part[name] for part in parts]).sum(dim=0) for name in parts[0]}
        wanted, every, given = sums["usual"].chunk(3, dim=1)
        sums["usual"] = torch.where(every > 0, given * wanted / every, 0)
        self._layers.append(sums)

    def _of_rows(self, rows: Rows, mask: _OfMask) -> dict[str, Tensor]:
        """The sums over some rows, by their names in `ClaimSums`: [heads, C]; "usual" is still threefold, as in `_OfMask`."""
        weights, part, keys = rows.weights.float().cpu(), slice(rows.start, rows.stop), rows.allowed.shape[2]
        # [rows, heads, C]
        shares = torch.where(mask.counted, (weights.transpose(0, 1) @ mask.wanted).double(), 0)
        # Of the keys where attention does not rest, the one that gets most.
        most, key = (weights * self._others[:keys]).max(dim=-1)
        is_strong = (most >= STRONG).T[..., None]
        on_wanted = self._keys[:, part].permute(1, 2, 0)[torch.arange(len(shares))[:, None], key.T]
        found = {
            "shares": shares,
            "recalled": mask.counted & (shares >= self._least),
            "strong": is_strong & self._spoken,
            "hits": is_strong & on_wanted & self._when[:, part].T[:, None],
        }
        usual = (
            (weights.flatten(1)[:, None] @ mask.usual)[:, 0]
            if len(mask.usual) > 1
            else weights.flatten(1) @ mask.usual[0]
        )
        sums = {name: numbers.sum(dim=0, dtype=torch.float64) for name, numbers in found.items()}
        whole = {name: numbers.expand(len(weights), -1) for name, numbers in mask.numbers.items()}
        return sums | whole | {"usual": usual.double()}

    def _read_masks(self, blocks: Sequence[Rows], allowed: Sequence[Tensor]) -> list[_OfMask]:
        """What follows from the masks of a layer: of all its rows, since other queries stand anywhere in the passage."""
        of_rows, length = [], self._when.shape[1]
        heads = max(map(len, allowed))
        # Numbers of pairs at each distance: those of a claim, all those of its queries, and those that it does not speak of.
        wanted_pairs, query_pairs, other_pairs = torch.zeros(3, heads, 2 * length, len(self._least))
        for rows, may in zip(blocks, allowed, strict=True):
            part, keys = slice(rows.start, rows.stop), may.shape[2]
            wanted = self._keys[:, part, :keys] & self._when[:, part, None]
            comparable = may[:, None] & (self._comparable[:, None, :keys] | wanted)  # [1 or heads, C, rows, keys]
            belongs = may[:, None] & wanted
            parts = belongs, comparable & belongs.any(dim=-1, keepdim=True), comparable & ~wanted
            pairs = [part.flatten(2).mT.float() for part in parts]
            distance = (torch.arange(keys) - torch.arange(rows.start, rows.stop)[:, None] + length).flatten()
            for into, of in zip((wanted_pairs, query_pairs, other_pairs), pairs, strict=True):
                into.index_add_(1, distance, of.expand(heads, -1, -1))
            of_rows.append((may, wanted.permute(1, 2, 0), distance, *pairs[1:]))
        known = (other_pairs > 0) & self._content
        each, of_them = (torch.where(known, of / other_pairs.clamp_min(1), 0) for of in (wanted_pairs, query_pairs))
        # Distances at which there are no others count as the mean of those with some.
        scale = wanted_pairs.sum(dim=1) / (wanted_pairs * known).sum(dim=1).clamp_min(1)
        usual = torch.cat([each, of_them], dim=2) + (each * (scale - 1)[:, None]).repeat(1, 1, 2)
        return [
            self._of_mask(
                may, wanted, torch.cat([others.repeat(1, 1, 2) * usual[: len(may), distance], of_query], dim=2)
            )
            for may, wanted, distance, of_query, others in of_rows
        ]

    def _of_mask(self, allowed: Tensor, wanted: Tensor, usual: Tensor) -> _OfMask:
        number = allowed.transpose(0, 1).float() @ wanted.float()  # [rows, 1 or heads, C]
        choices = allowed.sum(dim=-1).T[..., None].clamp_min(1)
        counted = number > 0
        chance = (number.double() / choices).sum(dim=0)
        return _OfMask(
            allowed,
            wanted.float().contiguous(),
            counted,
            {"queries": counted.sum(dim=0).double(), "chance": chance},
            usual,
        )

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Counts and sums over the passage, by the names of `ClaimSums`: [C, H]."""
        most = max(len(layer["shares"]) for layer in self._layers)

        def whole(layer: Tensor) -> Tensor:
            return pad(layer, (0, 0, 0, most - len(layer)))  # a layer may have fewer heads than others

        return {name: torch.cat([whole(layer[name]) for layer in self._layers]).T.numpy() for name in self._layers[0]}


@torch.inference_mode()
def measure(claims: Sequence[Claim], taken: Capture, facts: Facts, kind: Kind | None = None) -> PassageShares:
    """Measure a passage in all heads."""
    measured = PassageShares(claims, facts)
    for blocks in taken.in_rows(taken.kinds[0] if kind is None else kind):
        measured.add(blocks)
    return measured
