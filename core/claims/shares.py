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
from .writing import STRONG, PassageWriting, writer_of

HALVES, GROUPS = 2, 64
MOST_TOKENS = 512  # of a passage: what is asked of each pair of its tokens is held for every claim
LOOKING, TESTING = range(HALVES)
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

    Where a claim says what the head writes, DRAWN queries of each passage count (`core.claims.writing`). shares and recalled
    are how many of them write the token that they look at; chance is how many would write any token of the vocabulary, and
    usual how many write another one of the passage.
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
    """What follows from the mask of some rows alone, which most layers share. W of the claims have keys in the passage.

    allowed  as in `Rows`
    wanted   [rows, W, keys] 1 for the keys of each claim
    numbers  the sums over these rows that follow from it, by their names in `ClaimSums`: [1 or heads, W]
    usual    [1 or heads, 3 K, rows × keys], of the K of these claims whose keys do not follow from their position: how often
             a weight counts, over the number of pairs at its distance that a claim does not speak of, once for each of the
             claim's keys at this distance, then for each key of the claim's queries; then 1 for the keys of these queries
    """

    allowed: Tensor
    wanted: Tensor
    numbers: dict[str, Tensor]
    usual: Tensor


class PassageShares:
    """The numbers of one passage, layer by layer. Nothing in it grows with the number of layers but these numbers."""

    def __init__(self, claims: Sequence[Claim], taken: Capture, facts: Facts, kind: Kind) -> None:
        """Raises InputError for a tokenizer that does not say where in an annotated text its tokens stand."""
        self._calls, self._length = taken.each_layer(kind), len(facts)
        self._spoken = np.array([claim.is_spoken_of(facts) and not claim.is_about_writing for claim in claims])
        wanted = [claim.wanted(facts) for claim in claims]
        self._places = [place for place, keys in enumerate(wanted) if keys.any()]
        own = [claims[place] for place in self._places]
        self._least = torch.tensor([claim.least for claim in own], dtype=torch.float64)
        self._wanted = torch.tensor(
            np.array([wanted[place] for place in self._places], np.bool_).reshape(len(own), *facts.back.shape)
        )
        self._content = [place for place, claim in enumerate(own) if not claim.by_position]
        self._others = torch.from_numpy(~facts.rests)
        about_resting = torch.tensor([own[place].is_about_resting for place in self._content], dtype=torch.bool)
        self._comparable = self._others | about_resting[:, None]
        writing = [place for place, claim in enumerate(claims) if claim.is_about_writing]
        writer = writer_of(taken.model, kind) if writing else None
        self._writing = writer and PassageWriting(writer, facts, [claims[place].speaks(facts) for place in writing])
        self._written = writing if writer else []
        self._masks: list[_OfMask] = []
        self._layers: list[dict[str, Tensor]] = []
        self._strong: list[Tensor] = []

    def add(self, layer: Iterable[Rows]) -> None:
        """Add a layer, from all of its rows."""
        blocks = list(layer)
        allowed = [rows.allowed.cpu() for rows in blocks]
        if not self._masks or any(
            not torch.equal(one.allowed, other) for one, other in zip(self._masks, allowed, strict=True)
        ):
            self._masks = self._read_masks(blocks, allowed)
        parts = [self._of_rows(rows, mask) for rows, mask in zip(blocks, self._masks, strict=True)]
        sums = {name: sum((part[name] for part in parts[1:]), start=parts[0][name]) for name in parts[0]}
        wanted, every, given = sums["usual"].chunk(3, dim=1)
        sums["usual"] = torch.zeros_like(sums["shares"])
        sums["usual"][:, self._content] = torch.where(every > 0, given * wanted / every, 0)
        self._strong.append(sums.pop("strong"))
        self._layers.append(sums)
        call = next(self._calls)
        if self._writing is not None:
            self._writing.add(call, blocks)

    def _of_rows(self, rows: Rows, mask: _OfMask) -> dict[str, Tensor]:
        """The sums over some rows, by their names in `ClaimSums`: [heads, W]; "usual" is still threefold, as in `_OfMask`, and
        "strong" the same for all claims: [heads]."""
        weights = rows.weights.float().cpu()
        shares = (weights.transpose(0, 1) @ mask.wanted.mT).double()  # [rows, heads, W]
        head, query, key = self._strong_keys(weights)
        nothing = torch.zeros(len(weights), mask.wanted.shape[1])
        usual = (
            (weights.flatten(1)[:, None] @ mask.usual.mT)[:, 0]
            if len(mask.usual) > 1
            else weights.flatten(1) @ mask.usual[0].T
        )
        return {
            "shares": shares.sum(dim=0),
            "recalled": (shares >= self._least).sum(dim=0),
            "strong": head.bincount(minlength=len(weights)),
            "hits": nothing.index_add_(0, head, mask.wanted[query, :, key]),
            "usual": usual.double(),
            **{name: numbers.expand(len(weights), -1) for name, numbers in mask.numbers.items()},
        }

    def _strong_keys(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The head, the row and the key of each query that gives at least STRONG to a key where attention does not rest."""
        head, query = (weights.amax(dim=-1) >= STRONG).nonzero().T
        most, key = (weights[head, query] * self._others[: weights.shape[2]]).max(dim=-1)
        is_elsewhere = most >= STRONG
        return head[is_elsewhere], query[is_elsewhere], key[is_elsewhere]

    def _read_masks(self, blocks: Sequence[Rows], allowed: Sequence[Tensor]) -> list[_OfMask]:
        """What follows from the masks of a layer: of all its rows, since other queries stand anywhere in the passage."""
        content, heads = self._wanted[self._content], max(map(len, allowed))
        # Numbers of pairs at each distance: those of a claim, all those of its queries, and those that it does not speak of.
        wanted_pairs, query_pairs, other_pairs = counts = torch.zeros(3, heads, len(content), 2 * self._length)
        of_rows = []
        for rows, may in zip(blocks, allowed, strict=True):
            wanted = content[:, rows.start : rows.stop, : may.shape[2]]
            belongs = may[:, None] & wanted  # [1 or heads, K, rows, keys]
            comparable = may[:, None] & (self._comparable[:, None, : may.shape[2]] | wanted)
            parts = belongs, comparable & belongs.any(dim=-1, keepdim=True), comparable & ~wanted
            pairs = torch.stack(parts).float()
            counts[..., self._distances(rows, may)] += _by_distance(pairs)
            of_rows.append(pairs[1:])
        known = other_pairs > 0
        each, of_them = (torch.where(known, of / other_pairs.clamp_min(1), 0) for of in (wanted_pairs, query_pairs))
        # Distances at which there are no others count as the mean of those with some.
        scale = wanted_pairs.sum(dim=-1) / (wanted_pairs * known).sum(dim=-1).clamp_min(1)
        usual = torch.stack([each, of_them]) + each * (scale - 1)[..., None]
        masks = []
        for rows, may, (of_query, others) in zip(blocks, allowed, of_rows, strict=True):
            by_pair = usual[:, : len(may), :, self._distances(rows, may)].unfold(-1, may.shape[2], 1).flip(-2)
            threefold = torch.cat([*(others * by_pair), of_query], dim=1)
            masks.append(self._of_mask(rows, may, threefold.flatten(2)))
        return masks

    def _distances(self, rows: Rows, allowed: Tensor) -> slice:
        """Where the distances key - query of some rows stand, from the last query and the first key, among all in a passage."""
        first = self._length - rows.stop + 1
        return slice(first, first + sum(allowed.shape[1:]) - 1)

    def _of_mask(self, rows: Rows, allowed: Tensor, usual: Tensor) -> _OfMask:
        wanted = self._wanted[:, rows.start : rows.stop, : allowed.shape[2]].transpose(0, 1).float().contiguous()
        number = allowed.transpose(0, 1).float() @ wanted.mT  # [rows, 1 or heads, W]
        chance = number.double() / allowed.sum(dim=-1).T[..., None].clamp_min(1)
        return _OfMask(allowed, wanted, {"queries": (number > 0).sum(dim=0), "chance": chance.sum(dim=0)}, usual)

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Counts and sums over the passage, by the names of `ClaimSums`: [C, H]."""
        most = max(map(len, self._strong))

        def whole(layers: Sequence[Tensor], places: Sequence[int]) -> NDArray[np.float64]:
            """[C, H] from the numbers of some claims in each layer, which may have fewer heads than others."""
            found = np.zeros((len(self._spoken), most * len(layers)))
            found[places] = torch.cat([pad(layer, (0, 0, 0, most - len(layer))) for layer in layers]).T
            return found

        found = {name: whole([layer[name] for layer in self._layers], self._places) for name in self._layers[0]}
        found["strong"] = whole([strong[:, None] for strong in self._strong], np.flatnonzero(self._spoken).tolist())
        if self._writing is not None:
            written = self._writing.numbers()
            for name, numbers in found.items():
                numbers[self._written] = whole([layer[name] for layer in written], self._written)[self._written]
        return found


def _by_distance(pairs: Tensor) -> Tensor:
    """[..., rows, keys] summed along its diagonals: [..., rows + keys - 1], from the last row and the first key."""
    rows, keys = pairs.shape[-2:]
    # Each row begins one place later than the row below it.
    moved = pad(pairs.flip(-2), (0, rows)).flatten(-2)[..., : rows * (rows + keys - 1)]
    return moved.unflatten(-1, (rows, rows + keys - 1)).sum(dim=-2)


@torch.inference_mode()
def measure(claims: Sequence[Claim], taken: Capture, facts: Facts, kind: Kind | None = None) -> PassageShares:
    """Measure a passage in all heads."""
    kind = taken.kinds[0] if kind is None else kind
    measured = PassageShares(claims, taken, facts, kind)
    for blocks in taken.in_rows(kind):
        measured.add(blocks)
    return measured
