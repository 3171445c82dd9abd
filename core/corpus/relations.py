"""The share of a head's attention that goes along grammatical relations, beside what its distances alone would put there.

Words attend as in Clark et al. 2019 (https://arxiv.org/abs/1906.04341, section 4.1): to a word the sum over its tokens, from a
word their mean. A head that always looks at the previous word also looks at many subjects: its baseline for a relation is what
it gives, on average over all pairs of words, at the distances at which that relation stands.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exact_sums import ExactSum
from ..models.passages import Passage

FARTHEST = 64  # words to either side that are told apart; those beyond count as if they stood there
DIRECTIONS = ("to the head", "to the dependent")


@dataclass(eq=False)
class Relations:
    """Attention between the words of annotated passages, added up, of H heads.

    attention  relation -> sums of the attention along it: [H, 2]
    offsets    (relation, key word - query word in the direction of the head) -> how many there are
    by_offset  sums of the attention between any two words by key word - query word, from -FARTHEST on: [H, 2 FARTHEST + 1]
    pairs      how many pairs these are: [2 FARTHEST + 1]
    """

    by_offset: ExactSum
    pairs: NDArray[np.int64]
    attention: dict[str, ExactSum] = field(default_factory=dict)
    offsets: Counter[tuple[str, int]] = field(default_factory=Counter)

    @classmethod
    def empty(cls, heads: int) -> Relations:
        span = 2 * FARTHEST + 1
        return cls(ExactSum.zeros(heads, span), np.zeros(span, np.int64))

    def add(self, passage: Passage, there: NDArray[np.bool_], attention: NDArray[np.float64]) -> None:
        """Add an annotated passage: attention [H, words, words]. there: [words] those that have tokens; others are left out"""
        offset = _near(np.subtract.outer(np.arange(len(there)), np.arange(len(there))).T) + FARTHEST
        both = np.logical_and.outer(there, there) & ~np.eye(len(there), dtype=bool)
        heads = len(attention)
        sums = np.zeros((len(self.pairs), heads))
        np.add.at(sums, offset[both], attention[:, both].T)
        self.by_offset.add(sums.T)
        np.add.at(self.pairs, offset[both], 1)
        sums_of: dict[str, NDArray] = {}
        for relation in passage.relations:
            word, head = relation.dependent, relation.head
            if word != head and there[word] and there[head]:
                along = sums_of.setdefault(relation.name, np.zeros((heads, 2)))
                along += np.stack([attention[:, word, head], attention[:, head, word]], axis=1)
                self.offsets[relation.name, int(_near(head - word))] += 1
        for name, along in sums_of.items():
            self.attention.setdefault(name, ExactSum.zeros(heads, 2)).add(along)

    def merge(self, other: Relations) -> None:
        self.by_offset.merge(other.by_offset)
        self.pairs += other.pairs
        self.offsets += other.offsets
        for name, along in other.attention.items():
            self.attention.setdefault(name, ExactSum.zeros(*along.whole.shape)).merge(along)

    def table(self) -> pd.DataFrame:
        """A row for each relation, direction and head: place (of the head), relation, direction, count, attention, baseline.

        Without relations there is only the column place.
        """
        with np.errstate(invalid="ignore"):
            usual = self.by_offset.values / self.pairs  # NaN where no two words have that distance
        tables = []
        for name, along in sorted(self.attention.items()):
            of = {offset: number for (relation, offset), number in self.offsets.items() if relation == name}
            count = sum(of.values())
            for way, sign in enumerate((1, -1)):
                baseline = usual[:, [sign * offset + FARTHEST for offset in of]] @ np.array([*of.values()]) / count
                columns: dict[str, Any] = {"place": np.arange(len(usual)), "relation": name}
                columns |= {"direction": DIRECTIONS[way], "count": count}
                columns |= {"attention": along.values[:, way] / count, "baseline": baseline}
                tables.append(pd.DataFrame(columns))
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"place": np.empty(0, np.int64)})


def _near(offset: Any) -> Any:
    return np.clip(offset, -FARTHEST, FARTHEST)
