"""Two heads on the same axes: what one gives more than the other, and how far apart their rows are.

How far: the Jensen-Shannon divergence of two rows of weights p and q (Lin 1991, "Divergence Measures Based on the Shannon
Entropy"), in nats, from 0 where they are the same to ln 2 where no key gets anything of both:

    m = (p + q) / 2        JS(p, q) = ½ Σ p ln(p / m) + ½ Σ q ln(q / m)

The sum runs over all keys of both texts: what goes to a key that the other text does not have is weight where the other has
none. A row that sums to less than 1, because a sink takes its share or because nothing may be attended to, has what is missing
as one further outcome.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from ..attention.head import Head
from ..attention.rowwise import Band, Entries, Overview, Pooled, RowwiseMatrix, largest_in
from ..attention.trace import Array
from ..errors import InputError, text_error
from ..progress import stop_point

GAP = -1  # in arrays of positions
NAMED = 6  # tokens of a text in a message


class Labels(NamedTuple):
    """A text for each place of an axis that two texts share.

    first, second  the token of this text; where it has a gap, the other's
    both           the token, or "he / she" where each text has one of its own
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    both: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Alignment:
    """The places of a common axis, from the left to the right.

    first, second  [places] position of the token in this text, None where it has a gap
    equal          [places] whether both have a token here, and the same one

    Every position of either text occurs once and in its order; no place is a gap in both. Make one with `align`.
    """

    first: tuple[int | None, ...]
    second: tuple[int | None, ...]
    equal: tuple[bool, ...]

    @classmethod
    def same(cls, length: int) -> Self:
        """Align a text with itself."""
        return cls(tuple(range(length)), tuple(range(length)), (True,) * length)

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def positions(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """`first` and `second` as arrays, `GAP` where there is none."""
        sides = self.first, self.second
        first, second = (np.array([GAP if at is None else at for at in side], dtype=np.intp) for side in sides)
        return first, second

    @property
    def lengths(self) -> tuple[int, int]:
        """Numbers of tokens of the first and the second text."""
        first, second = (len(self) - len(gaps) for gaps in self.gaps)
        return first, second

    @property
    def gaps(self) -> tuple[list[int], list[int]]:
        """The places that the first text does not have, and those that the second does not have."""
        first, second = (np.flatnonzero(side == GAP).tolist() for side in self.positions)
        return first, second

    def labels(self, tokens: Sequence[str], others: Sequence[str]) -> Labels:
        """The text at each place, for pictures of the first text, of the second, and of both."""
        one = [None if at is None else tokens[at] for at in self.first]
        two = [None if at is None else others[at] for at in self.second]
        return Labels(
            tuple(mine or other or "" for mine, other in zip(one, two, strict=True)),
            tuple(other or mine or "" for mine, other in zip(one, two, strict=True)),
            tuple(map(_of_both, one, two, self.equal)),
        )


def align(tokens: Sequence[str], others: Sequence[str], *, loosely: bool = False) -> Alignment:
    """Put two texts on one axis, by the text of their tokens.

    tokens, others  as in `Capture.tokens`
    loosely         for two tokenizers: " Cat", "##cat" and "cat" are the same, that is, blanks around a token, BERT's mark
                    of a word's later pieces, and case do not count. Else every letter and every blank does

    As many tokens as possible find themselves in the other text, in their order, and each as early as it can: a longest common
    subsequence, as in diff (Hunt and McIlroy 1976). Of what lies between two of them, stretches of one length are paired in
    their order, as "he" and "she" in otherwise equal texts: the same place, another token. Stretches of different lengths have
    gaps on both sides: what was put in, or taken out, moves nothing else.

    Raises InputError (field "text") where the texts have no token in common.
    """
    ours, theirs = (
        [token.strip().removeprefix("##").casefold() or token if loosely else token for token in side]
        for side in (tokens, others)
    )
    places: list[tuple[int | None, int | None, bool]] = []
    at, other_at = 0, 0
    for one, other in [*_common(ours, theirs), (len(ours), len(theirs))]:
        span, other_span = range(at, one), range(other_at, other)
        if len(span) == len(other_span):
            places += [(left, right, False) for left, right in zip(span, other_span, strict=True)]
        else:
            places += [*((left, None, False) for left in span), *((None, right, False) for right in other_span)]
        places.append((one, other, True))
        at, other_at = one + 1, other + 1
    places.pop()  # both ends, where no token is
    if not any(equal for _, _, equal in places):
        raise text_error(
            f"These texts have no token in common, so nothing of one belongs beside anything of the other: "
            f"{_named(tokens)} and {_named(others)}. Write a text that shares some words with the first."
        )
    first, second, equal = zip(*places, strict=True)
    return Alignment(first, second, equal)


def _common(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The positions of a longest common subsequence.

    Row by row from the end, in a tenth of a second and 16 MB for 4,096 tokens, however repetitive they are: difflib needs
    minutes where there are only two kinds. Of each cell is kept whether nothing is lost by leaving out our token there.
    """
    numbers = {token: number for number, token in enumerate(dict.fromkeys([*ours, *theirs]))}
    mine, other = (np.array([numbers[token] for token in side], dtype=np.intp) for side in (ours, theirs))
    needless = np.zeros((len(mine), len(other)), dtype=np.bool_)
    below = np.zeros(len(other) + 1, dtype=np.intp)  # how many tokens the texts have in common from our next one on
    for row in range(len(mine) - 1, -1, -1):
        stop_point()
        longer = np.maximum(below[:-1], below[1:] + (other == mine[row]))
        here = np.maximum.accumulate(longer[::-1])[::-1]
        needless[row] = here == below[:-1]
        below[:-1] = here
    row = column = 0
    while row < len(mine) and column < len(other):
        if mine[row] == other[column]:
            yield row, column
            row, column = row + 1, column + 1
        elif needless[row, column]:
            row += 1
        else:
            column += 1


def _named(tokens: Sequence[str]) -> str:
    shown = " ".join(f"“{token}”" for token in tokens[:NAMED])
    return shown + (" …" if len(tokens) > NAMED else "") if shown else "an empty text"


def _of_both(mine: str | None, other: str | None, equal: bool) -> str:
    if mine is None or other is None or equal:
        return mine or other or ""
    return f"{mine} / {other.lstrip(' ') or other}"


# --- two heads

# Gives the weights of some query rows of a head [rows, keys], and their mask, or True where no mask is known.
RowsOfWeights = Callable[[range], tuple[Array, NDArray[np.bool_] | np.bool_]]


class HasWeights(Protocol):
    """Anything with weights [queries, keys], such as an `AttentionTrace`."""

    @property
    def weights(self) -> Array: ...


class Comparison(NamedTuple):
    """Two heads compared, row by row.

    difference  [rows, columns] weights of the second head minus those of the first, in [-1, 1]; NaN where one text has a gap
    divergence  [rows] Jensen-Shannon divergence of the two rows in nats, in [0, ln 2]; NaN where one text has a gap
    """

    difference: Array
    divergence: Array

    def __repr__(self) -> str:
        """The comparison in one line."""
        return f"<Comparison: {_size(self.difference.shape)} weights, rows {self.mean:.4g} nats apart on average>"

    @property
    def mean(self) -> float:
        return mean_divergence(self.divergence)

    @property
    def worst(self) -> tuple[int, float]:
        return worst_divergence(self.divergence)


def compare(
    trace: HasWeights, other: HasWeights, *, queries: Alignment | None = None, keys: Alignment | None = None
) -> Comparison:
    """Compare the weights of two heads: `difference, divergence = compare(trace, other)`.

    queries, keys  how their rows and columns belong together, from `core.heads.comparing.align`; None: one by one, for equally
                   many. Rows and columns of what is returned are the places of these

    Makes [rows, columns] arrays; for long texts there is `HeadPair`. Raises InputError where the shapes do not fit.
    """
    axes = _axes(trace.weights.shape, other.weights.shape, queries=queries, keys=keys)
    first, second = (lambda rows, of=of: (of.weights[rows.start : rows.stop], np.True_) for of in (trace, other))
    pair = HeadPair(first, second, *axes)
    whole = pair.window(*map(range, pair.shape))
    return Comparison(whole.matrices["difference"].values, whole.row_numbers["divergence"])


def divergence(first: Any, second: Any) -> Any:
    """Jensen-Shannon divergence of rows of weights, as in the module: [..., keys] twice to [...], in [0, ln 2].

    first, second  each row at least 0, with a sum of at most 1; NumPy arrays or torch tensors, and so is the result; shapes may
                   be broadcast to each other. Exactly 0 for equal rows
    """
    xp = array_namespace(first, second)
    missing, other_missing = (xp.clip(1 - xp.sum(side, axis=-1), min=0) for side in (first, second))
    total = xp.sum(_terms(first, second), axis=-1) + _terms(missing, other_missing)
    return xp.clip(total / 2, min=0, max=math.log(2))


def _terms(p: Any, q: Any) -> Any:
    """p ln(p / m) + q ln(q / m) for each outcome, 0 ln 0 being 0."""
    xp = array_namespace(p, q)
    least = xp.finfo(p.dtype).smallest_normal
    m = xp.clip((p + q) / 2, min=least)
    return p * xp.log(xp.clip(p / m, min=least)) + q * xp.log(xp.clip(q / m, min=least))


def mean_divergence(divergence: Array) -> float:
    """Mean over the rows that both have; NaN if they have none."""
    known = divergence[~np.isnan(divergence)]
    return float(known.mean()) if known.size else math.nan


def worst_divergence(divergence: Array) -> tuple[int, float]:
    """(row, divergence) where the two are farthest apart; the first row and NaN if no row is known."""
    row = int(np.argmax(np.nan_to_num(divergence, nan=-1)))
    return row, float(divergence[row])


@dataclass(frozen=True, eq=False)
class HeadPair(RowwiseMatrix):
    """Two heads of texts of any length on common axes, compared a few rows at a time.

    queries, keys  what the rows and the columns are

    Its matrices are "first" and "second", the weights, NaN where the pair is masked (not `allowed`) and where the text has a
    gap, and "difference", second minus first, NaN where the pair is masked in both heads (not `allowed`) or one text has a
    gap. Its row numbers are "divergence", as in `Comparison`, of whole rows also in a window.
    """

    cells = 2**16  # half a megabyte in float64
    first: RowsOfWeights
    second: RowsOfWeights
    queries: Alignment
    keys: Alignment

    @classmethod
    def of(cls, head: Head, other: Head, *, queries: Alignment | None = None, keys: Alignment | None = None) -> Self:
        """Pair two heads, from the same pass or from two. Raises InputError as `compare` does."""
        weights_and_mask = attrgetter("weights", "mask")
        first, second = (lambda rows, of=of: weights_and_mask(of.trace(rows)) for of in (head, other))
        return cls(first, second, *_axes(head.shape, other.shape, queries=queries, keys=keys))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.queries), len(self.keys)

    def band(self, rows: range) -> Band:
        """Compute some rows with all their columns, in float64."""
        (first, allowed), (second, other) = (
            _on_axes(weights, queries[rows.start : rows.stop], keys)
            for weights, queries, keys in zip(
                (self.first, self.second), self.queries.positions, self.keys.positions, strict=True
            )
        )
        matrices = {
            "first": Entries.of(first, allowed),
            "second": Entries.of(second, other),
            "difference": Entries.of(second - first, allowed | other),
        }
        has_gap = np.isnan(first).all(axis=1) | np.isnan(second).all(axis=1)
        apart = np.where(has_gap, np.nan, divergence(np.nan_to_num(first), np.nan_to_num(second)))
        return Band(rows.start, matrices, {"divergence": apart})

    def strongest(self, overview: Overview) -> tuple[int, int]:
        """The (query, key) where the two are farthest apart; of two that are the same, as for one head.

        Weights have habits at the edges, at the first token above all, that are passed over; differences have none.
        """
        difference = overview.matrices["difference"]
        if not _differs(difference):
            return super().strongest(overview)
        values = np.abs(difference.values)
        row, column = np.unravel_index(np.nanargmax(values), values.shape)
        return largest_in(*difference.block(int(row), int(column)), self.exact)

    def exact(self, rows: range, columns: range) -> NDArray[np.floating]:
        """The size of the difference in a window; the weights of the first head where the two are the same in all of it."""
        window = self.window(rows, columns).matrices
        difference = window["difference"]
        return np.abs(difference.values) if _differs(difference) else window["first"].values


def _differs(difference: Pooled) -> bool:
    return bool(np.nan_to_num(difference.values).any())


def _on_axes(
    weights: RowsOfWeights, queries: NDArray[np.intp], keys: NDArray[np.intp]
) -> tuple[Array, NDArray[np.bool_]]:
    """The weights of one head at these places of the common axes, NaN at gaps; and its mask, which forbids no gap."""
    shape = len(queries), len(keys)
    values, allowed = np.full(shape, np.nan), np.ones(shape, dtype=np.bool_)
    positions = queries[queries != GAP]
    if len(positions):
        # All keys are on the axis and in their order, and so are the queries of a stretch of it.
        cells = np.ix_(queries != GAP, keys != GAP)
        values[cells], allowed[cells] = weights(range(int(positions[0]), int(positions[-1]) + 1))
    return values, allowed


def _axes(
    shape: tuple[int, ...], other: tuple[int, ...], *, queries: Alignment | None, keys: Alignment | None
) -> tuple[Alignment, Alignment]:
    """The alignments of rows and columns. Raises InputError where one is needed, or is not of these heads."""
    axes = []
    for axis, (name, given) in enumerate({"queries": queries, "keys": keys}.items()):
        first, second = shape[axis], other[axis]
        if given is None and first != second:
            raise InputError(
                f"The first head has {_size(shape)} weights and the second {_size(other)} (queries × keys): which {name} "
                f"belong together? Give {name}=align(...) of their tokens.",
                field=name,
            )
        if given is not None and given.lengths != (first, second):
            aligned = "This alignment is of {} and {} tokens".format(*given.lengths)
            needed = f"the heads have {first} and {second} {name}. Align the tokens of these heads."
            raise InputError(f"{aligned}, but {needed}", field=name)
        axes.append(Alignment.same(first) if given is None else given)
    return axes[0], axes[1]


def _size(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
