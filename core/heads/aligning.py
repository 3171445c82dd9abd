"""Two texts on one axis: which token of one stands where in the other, and what only one of them has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
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
    def same(cls, length: int) -> Alignment:
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
    ours, theirs = ([_loosened(token) if loosely else token for token in side] for side in (tokens, others))
    places: list[tuple[int | None, int | None, bool]] = []
    at, other_at = 0, 0
    for one, other in [*_common(ours, theirs), (len(ours), len(theirs))]:
        span, other_span = range(at, one), range(other_at, other)
        is_paired = len(span) == len(other_span)
        pairs = (
            zip_longest(span, other_span) if is_paired else chain(zip_longest(span, ()), zip_longest((), other_span))
        )
        places += [(left, right, False) for left, right in pairs]
        places.append((one, other, True))
        at, other_at = one + 1, other + 1
    places.pop()  # both ends, where no token is
    if not any(equal for _, _, equal in places):
        raise InputError(
            f"These texts have no token in common, so nothing of one belongs beside anything of the other: "
            f"{_named(tokens)} and {_named(others)}. Write a text that shares some words with the first.",
            field="text",
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


def _loosened(token: str) -> str:
    return token.strip().removeprefix("##").casefold() or token


def _named(tokens: Sequence[str]) -> str:
    shown = " ".join(f"“{token}”" for token in tokens[:NAMED])
    return shown + (" …" if len(tokens) > NAMED else "") if shown else "an empty text"


def _of_both(mine: str | None, other: str | None, equal: bool) -> str:
    if mine is None or other is None or equal:
        return mine or other or ""
    return f"{mine} / {other.lstrip(' ') or other}"
