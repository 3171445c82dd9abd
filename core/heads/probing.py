"""Heads on repeated random tokens, where nothing but the repetition can be followed.

Elhage et al. 2021 and Olsson et al. 2022: a row of random tokens, then the same row again. In the second half an induction
head looks at the token after the earlier copy, a duplicate-token head at the copy itself. Random tokens have no meaning and
no grammar, so that a score says what the head does rather than what the text is like.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..averages import mean_and_error
from ..capturing.calls.rows import Rows, row_blocks, weights_at
from ..capturing.capture import Capture, capture
from ..errors import InputError
from ..models.inputs import known_tokens
from ..models.model import Model
from ..models.words import special_ids
from ..progress import OnProgress, step_counter
from .metrics import NAMES, head_metrics

# What the probe adds to the metrics of a text: the shift from a token's copy to where the score looks.
SCORES = {"duplicate": 0, "induction": 1}
CLEAR = 3.0  # standard errors by which a score has to be above its null
LEAST = 0.1  # and by how much at least: less than a tenth of the attention is not a habit


def probe_heads(
    model: Model, length: int = 50, seeds: Sequence[int] = (0, 1, 2, 3), *, on_progress: OnProgress | None = None
) -> pd.DataFrame:
    """Every metric of every head on `length` random tokens read twice: a row a head.

    Columns: layer, head; for each metric its mean over the seeds and `<name>_error`, the standard error of that mean (NaN for
    a single seed). For duplicate and induction, which are measured over the second half only, also

        <name>_null        the mean score on the same tokens with the second half shuffled, at the very same places: what a
                           head gets that looks there for any other reason, such as always looking so far back
        <name>_null_error  its standard error
        is_<name>          whether the head may be called by that name: in every seed its score is above every null score of
                           its own, their difference is more than 3 standard errors and at least 0.1

    Each text is wrapped in the special tokens that the model's tokenizer adds. There are 2 passes for each seed.
    Raises InputError if the model reads no text, knows too few tokens to choose from or cannot read 2 · length of them.
    """
    if length < 4 or not len(seeds):
        raise InputError("A probe needs at least 4 tokens and one seed.", field="length")
    limit = longest(model)
    if length > limit:
        raise InputError(f"{model.name} can read at most {limit} random tokens twice, not {length}.", field="length")
    runs, nulls, step = [], [], step_counter(on_progress)
    for seed in seeds:
        repeated, shuffled = random_texts(model, length, seed)
        passed = capture(model, input_ids=repeated.ids)
        runs.append(head_metrics(passed).assign(**_scores(passed, repeated, length)))
        step()
        nulls.append(_scores(capture(model, input_ids=shuffled.ids), shuffled, length))
        step()
    table = runs[0][["layer", "head"]].copy()
    for name in NAMES:
        table[name], table[f"{name}_error"] = mean_and_error([run[name] for run in runs])
    for name in SCORES:
        scores, null = (np.stack([run[name] for run in of]) for of in (runs, nulls))
        table[f"{name}_null"], table[f"{name}_null_error"] = mean_and_error(null)
        table[f"is_{name}"] = stands_clear(scores, null)
    return table


def longest(model: Model) -> int:
    """Largest number of random tokens that the model can read twice, with the special tokens of its tokenizer."""
    before, after, ordinary = _frame(model)
    room = len(ordinary) if model.max_tokens is None else (model.max_tokens - len(before) - len(after)) // 2
    return min(room, len(ordinary))


def stands_clear(scores: NDArray[np.floating], null: NDArray[np.floating]) -> NDArray[np.bool_]:
    """True for heads that score clearly above their null: [seeds, heads] twice -> [heads]. One seed makes nothing clear."""
    mean, error = mean_and_error(scores - null)
    with np.errstate(invalid="ignore"):
        above = scores.min(axis=0) > null.max(axis=0)
        return above & (mean >= LEAST) & (mean > CLEAR * error)


@dataclass(frozen=True, eq=False)
class RandomText:
    """ids [tokens], and where in them the second half begins."""

    ids: NDArray[np.integer]
    second: int


def random_texts(model: Model, length: int, seed: int) -> tuple[RandomText, RandomText]:
    """`length` different random tokens twice over, and the same with the second half in an order without fixed points."""
    rng = np.random.default_rng(seed)
    before, after, ordinary = _frame(model)
    if len(ordinary) < length:
        raise InputError(f"The model knows {len(ordinary)} tokens, fewer than {length}.", field="length")
    half = rng.choice(ordinary, size=length, replace=False)

    def followed_by(second: NDArray) -> RandomText:
        return RandomText(np.concatenate([before, half, second, after]).astype(np.int64), len(before) + length)

    return followed_by(half), followed_by(half[_no_fixed_points(rng, length)])


def _no_fixed_points(rng: np.random.Generator, length: int) -> NDArray[np.integer]:
    """A random order in which nothing stays where it was, nor moves on by one."""
    places = np.arange(length)
    for _ in range(1000):
        order = rng.permutation(length)
        if not (order == places).any() and not (order == (places + 1) % length).any():
            return order
    return np.roll(places, 2)  # very short halves have few such orders


def _frame(model: Model) -> tuple[list[int], list[int], NDArray[np.integer]]:
    """The special tokens before and after a text, and all tokens that are ordinary ones."""
    embedded = known_tokens(model.network)
    if model.tokenizer is None:
        return [], [], np.arange(embedded or 0)
    special = special_ids(model.tokenizer)
    ids = model.tokenizer("a")["input_ids"]
    ordinary = [place for place, token in enumerate(ids) if token not in special]
    known = len(model.tokenizer) if embedded is None else min(embedded, len(model.tokenizer))
    usable = np.setdiff1d(np.arange(known), list(special))
    return ids[: ordinary[0]], ids[ordinary[-1] + 1 :], usable


def _scores(passed: Capture, text: RandomText, length: int) -> dict[str, NDArray[np.float64]]:
    """The mean weight of the second half's queries on the key `length` before them, and on the one after that: by name,
    [layers · heads]. By position, not by token, so that the cells are the same in a shuffled half."""
    scores: dict[str, list[NDArray]] = {name: [] for name in SCORES}
    for call in passed.each_layer():
        blocks = list(row_blocks(call, rows=range(text.second, text.second + length)))
        for name, shift in SCORES.items():
            scores[name].append(mean_on_copies(blocks, length, shift))
    return {name: np.concatenate(parts).astype(np.float64) for name, parts in scores.items()}


def mean_on_copies(blocks: Iterable[Rows], length: int, shift: int) -> NDArray[np.floating]:
    """[heads] the mean weight of these queries on the key that is `shift` after the one `length` before them."""
    copies = ((rows, torch.arange(rows.start, rows.stop)[:, None] - length) for rows in blocks)
    weights = [weights_at(rows.weights, copy + shift) for rows, copy in copies]
    return torch.cat(weights, dim=1)[..., 0].mean(dim=1).numpy(force=True)
