"""What is known of the heads of a model: which claims hold for each, and on which texts that was tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.claims.known import known_claims, measured
from ui.views.claims import results
from ui.views.claims.results import Texts
from ui.views.sources.heads import AnyHead

INCLUDED = "included passages"


@dataclass(frozen=True, eq=False)
class Known:
    """What heads do, as `core.claims.known.by_head` gives it.

    texts     the passages on which it was tested, in words
    is_whole  whether that test has come to its end
    """

    table: pd.DataFrame
    texts: str
    is_whole: bool = True

    @property
    def holding(self) -> list[dict[Any, Any]]:
        """The rows that hold."""
        return [row for row in self.table.to_dict("records") if row["verdict"] == "holds"]

    def holding_for(self, head: str) -> list[dict[Any, Any]]:
        """The rows that hold for a head, "17.3", the clearest first."""
        return [row for row in self.holding if row["head"] == head]

    def in_words(self, layers: int, heads: int) -> NDArray[np.object_]:
        """[layers, heads] the claims that hold for each head, with their shares and intervals; "" where none does."""
        words = np.full((layers, heads), "", object)
        for row in self.holding:
            place = tuple(map(int, row["head"].split(".")))
            words[place] += f"{'; ' if words[place] else ''}{row['name']} {share_of(row)}"
        return words


def share_of(row: dict[Any, Any]) -> str:
    """The share of a claim with its interval."""
    return f"{row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%})"


def known_of(head: AnyHead) -> Known | None:
    """What is known of all heads of this kind: kept for the included models, of others as far as somebody has tested the known
    claims on the texts that come along. None for what has not been tested."""
    choice, claims = head.request.model, known_claims()
    if head.kind != head.capture.kinds[0]:
        return None
    if (table := measured(head.capture.model.revision)) is not None:
        return Known(table, INCLUDED)
    if not results.checking.is_known(choice, claims, Texts()):
        return None
    check = results.checking(choice, claims, Texts())
    part = "" if (is_whole := check.done == check.total) else f" (the first {check.done} of {check.total})"
    return Known(results.by_head(choice, check.done), f"{INCLUDED}{part}", is_whole) if check.done else None
