"""What the page Why shows in one run, and where on the path it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core import Capture
from core.heads.attribution import Attribution
from core.heads.paths import MOST_HOPS, Path, Stop
from core.units import small_number
from ui import state
from ui.requests import AnswerRequest
from ui.views.why import results

SIDES = {"key": "Into the key", "query": "Into the query", "pairs": "Pairs"}


@dataclass(frozen=True, eq=False)
class View:
    """What the page shows in one run.

    at     the stop: 0 is the answer
    side   what is shown of its score: one of `SIDES`
    texts  those of the answer and of what it is compared with
    """

    capture: Capture
    of: AnswerRequest
    path: Path
    at: int
    side: str
    texts: tuple[str, str]

    @property
    def stop(self) -> Stop | None:
        """The head of this stop; None at the answer."""
        return self.path.stops[self.at - 1] if self.at else None

    @property
    def after(self) -> Stop | None:
        """The next head on the path; None at its end."""
        return self.path.stops[self.at] if self.at < len(self.path.stops) else None

    def looked_at(self, stop: Stop) -> str:
        """The token at which the head of a stop looked."""
        return self.capture.tokens(stop.hop.kind)[1][stop.key]


def attribution_of(view: View) -> Attribution:
    """The attribution of the stop's number."""
    if view.stop is None:
        assert view.path.answer is not None
        return view.path.answer
    return view.stop.of_query if view.side == "query" else view.stop.of_key


def pairs_of(view: View, stop: Stop) -> pd.DataFrame:
    with st.spinner("Multiplying what both sides were made from"):
        return results.pairs(view.of.text, stop.hop, stop.query, stop.key)


def signed(number: float) -> str:
    return f"{number:z.2f}".replace("-", "−") if abs(number) >= 0.005 or not number else small_number(number)


def opening_side(path: Path, at: int) -> str:
    """What the path goes on from."""
    return path.stops[at].hop.side if at < len(path.stops) else "key"


def follow_path(hops: Sequence[str]) -> None:
    st.session_state[state.PATH] = ", ".join(hops[:MOST_HOPS])
    go_to(min(len(hops), MOST_HOPS))
    st.session_state[state.CUTS] = []


def go_to(stop: int) -> None:
    st.session_state[state.STOP] = str(stop)
    st.session_state[state.SIDE] = None
