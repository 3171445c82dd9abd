"""What a page draws, by nothing but its address: computed by core, without the app."""

from collections.abc import Mapping
from functools import cache
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core import Capture, attend, capture, direct_contributions, head_metrics, probe_heads, softmax
from core.attention.sources import random_matrices
from core.capturing.edits.edits import every
from core.capturing.edits.lines import edits_of
from core.heads.metrics import most_telling
from core.models.model import Model
from tests.browser.driver import STAGES
from tests.conftest import loaded

SENTENCE = "The animal didn't cross the street because it was too tired."
FRANCE = "The capital of France is"
OPENING = {"all-MiniLM-L6-v2": (5, 11), "SmolLM2-135M-Instruct": (13, 8)}
OF_STAGE = {"query": "Query", "key": "Key", "raw": "Raw scores", "scaled": "Scaled", "mask": "Mask", "masked": "Masked"}
OF_STAGE |= {"weights": "Softmax", "value": "Value", "output": "Output"}
PROBED = ("duplicate", "induction")  # are measured on random tokens
Drawn = dict[str, NDArray | None]


def drawn_by(address: str) -> Drawn:
    """The numbers of the pictures of a page with this address, by their names; a page that is not known here draws none."""
    parts = urlsplit(address)
    said = {name: words[-1] for name, words in parse_qs(parts.query, keep_blank_values=True).items()}
    of_page = {"heads": _heads, "step_by_step": _steps, "what_if": _what_if, "softmax": _softmax}
    page = of_page.get(parts.path.strip("/"))
    return {} if page is None else page(said, parse_qs(parts.query).get("edit", []))


def _heads(said: Mapping[str, str], _: list[str]) -> Drawn:
    taken, layer, head = _head(said)
    name = said.get("metric") or most_telling(_metrics(taken))
    trace = taken.trace(layer, head)
    if name == "pair":
        cell = int(said["query"]), int(said["key"])
        every = [taken.trace(*place) for place in np.ndindex(taken.layers(), taken.heads())]
        weights = [one.weights[cell] if one.mask[cell] else np.nan for one in every]
        grid = np.array(weights).reshape(taken.layers(), taken.heads())
    else:
        table = _direct(taken) if name == "contribution" else _probe(taken.model) if name in PROBED else _metrics(taken)
        grid = table.pivot(index="layer", columns="head", values=name).to_numpy()
    return {"atlas": grid, "head": np.where(trace.mask, trace.weights, np.nan)}


def _steps(said: Mapping[str, str], _: list[str]) -> Drawn:
    if said.get("source") == "random":
        sizes = [int(said.get(name, opening)) for name, opening in (("queries", 6), ("keys", 8), ("dk", 4), ("dv", 4))]
        made = random_matrices(*sizes, seed=int(said.get("seed", 0)))
        trace = attend(made.query, made.key, made.value)
    else:
        taken, layer, head = _head(said)
        trace = taken.trace(layer, head)
    return {"As it is": STAGES[OF_STAGE[said.get("stage", "weights")]](trace)}


def _what_if(said: Mapping[str, str], lines: list[str]) -> Drawn:
    taken, layer, head = _head(said)
    edits = every([edits_of(line) for line in lines if not line.startswith("off ")])
    changed = capture(taken.model, said.get("text", SENTENCE), edits=edits) if edits else taken
    traces = {"compared first": taken.trace(layer, head), "compared second": changed.trace(layer, head)}
    drawn: Drawn = {name: np.where(trace.mask, trace.weights, np.nan) for name, trace in traces.items()}
    if np.array_equal(*drawn.values(), equal_nan=True):
        drawn["compared second"] = None  # one picture for both
    return drawn


def _softmax(said: Mapping[str, str], _: list[str]) -> Drawn:
    scores = np.array([float(word) for word in said.get("scores", "1.0, 0.5, 2.5, -0.1").split(",")])
    return {"weights": softmax(scores / float(said.get("temperature", 1)))}


def _head(said: Mapping[str, str]) -> tuple[Capture, int, int]:
    name = said.get("model", "all-MiniLM-L6-v2")
    layer, head = (int(said.get(part, opening)) for part, opening in zip(("layer", "head"), OPENING[name], strict=True))
    return _taken(name, said.get("text", SENTENCE)), layer, head


@cache
def _taken(name: str, text: str) -> Capture:
    return capture(loaded(name), text)


@cache
def _metrics(taken: Capture) -> pd.DataFrame:
    return head_metrics(taken)


@cache
def _direct(taken: Capture) -> pd.DataFrame:
    return direct_contributions(capture(taken.model, input_ids=taken.input_ids, components=True))


@cache
def _probe(model: Model) -> pd.DataFrame:
    return probe_heads(model)
