"""What a head does where a claim speaks of it: what its output is worth there, and whether that depends on the claim's keys.

Muting says that something is needed, not what it carries. So the head's output is also patched in from two copies of the
passage (activation patching, Vig et al. 2020; Wang et al. 2023): one with other tokens at the claim's keys, and, as a control,
one with as many other tokens elsewhere. If only the first costs the model its answer, the head carries what these keys hold.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..averages import mean_and_error
from ..capturing.answers import pass_with_losses
from ..capturing.capture import Capture
from ..capturing.edits.edits import Edits
from ..models.model import Model
from ..models.passages import Passage
from ..models.words import special_ids
from ..progress import OnProgress, step_counter
from .claim import Claim
from .examples import for_testing, spoken
from .facts import Facts

MUTED, PATCHED = 20, 12  # passages that are read for each at most
TRIES = 20  # other tokens that are drawn until a text has them again when it is read
WHERE = ("where the claim speaks", "elsewhere")


def muting(
    model: Model,
    claim: Claim,
    place: tuple[int, int],
    passages: Sequence[Passage],
    *,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """The loss of the next token with and without a head, for the queries that a claim speaks of and for all others.

    passages     the first MUTED of the half for testing are read, twice each
    on_progress  called after each passage

    Two rows, where: "where the claim speaks" and "elsewhere". Columns: where; tokens, how many are predicted; passages; before
    and after, the mean of -ln p in nats; change; error, the standard error of the change over passages, NaN for fewer than two.
    Raises InputError (field "model") for models that do not predict the next token.
    """
    rows: list[list[tuple[int, float, float]]] = [[], []]
    step = step_counter(on_progress)
    for passage in for_testing(passages, MUTED):
        taken, facts, speaks, _ = spoken(model, claim, place, passage)
        if len(facts) > 1:
            ids = [*taken.input_ids]
            before, after = (
                pass_with_losses(model, ids, edits=edits)[1] for edits in (Edits(), Edits(mute_heads=[place]))
            )
            spoken_of = np.logical_or.reduce(speaks[:-1], axis=1)
            for into, there in zip(rows, (spoken_of, ~spoken_of), strict=True):
                if there.any():
                    into.append((int(there.sum()), before[there].sum(), after[there].sum()))
        step()
    return pd.DataFrame([_losses(where, measured) for where, measured in zip(WHERE, rows, strict=True)])


def _losses(where: str, measured: list[tuple[int, float, float]]) -> dict[str, float | int | str]:
    """measured: of each passage the number of tokens, and the sums of their losses with and without the head"""
    tokens, before, after = np.array(measured, np.float64).reshape(-1, 3).T
    total, passages = tokens.sum(), len(tokens)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = {"before": before.sum() / total, "after": after.sum() / total}
        change = means["after"] - means["before"]
        # Of a ratio of sums over passages (Cochran 1977, section 6.4).
        spread = ((after - before - change * tokens) ** 2).sum()
        error = np.sqrt(np.float64(passages) / (passages - 1) * spread) / total
    return {"where": where, "tokens": int(total), "passages": passages, **means, "change": change, "error": error}


def patching(
    model: Model,
    claim: Claim,
    place: tuple[int, int],
    passages: Sequence[Passage],
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """The loss of the token after a query, with the head's output from a copy of the passage in which other tokens stand.

    One query of each passage that the claim speaks of, drawn at random. `changed` says which tokens are others: "its keys", or
    "as many other tokens", none of which is the query, one of its keys, the first or special.

    passages     the first PATCHED of the half for testing that have such a query
    on_progress  called after each passage

    Two rows. Columns: changed; queries; change, the mean change of -ln p in nats; error, its standard error, NaN for fewer than
    two. Errors as in `muting`.
    """
    rng, step = np.random.default_rng(seed), step_counter(on_progress)
    changes: list[list[float]] = [[], []]
    for passage in for_testing(passages, 4 * PATCHED):
        if len(changes[0]) == PATCHED:
            break
        taken, facts, keys, _ = spoken(model, claim, place, passage)
        pair = _copies(model, taken, facts, keys, rng)
        if pair is not None:
            query, texts = pair
            ids = [*taken.input_ids]
            before = pass_with_losses(model, ids, start=query + 1)[1][0]
            for into, text in zip(changes, texts, strict=True):
                edits = Edits(patch_heads=[place], patch_from=text)
                into.append(pass_with_losses(model, ids, edits=edits, start=query + 1)[1][0] - before)
        step()
    rows = []
    for changed, values in zip(("its keys", "as many other tokens"), changes, strict=True):
        mean, error = map(float, mean_and_error(values)) if values else (np.nan, np.nan)
        rows.append({"changed": changed, "queries": len(values), "change": mean, "error": error})
    return pd.DataFrame(rows)


def _copies(
    model: Model, taken: Capture, facts: Facts, keys: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[int, tuple[str, str]] | None:
    """A query with keys that can be changed, and the passage with other tokens at them, and with others elsewhere; None where
    there is no such query."""
    ordinary, places = ~facts.rests, np.arange(len(facts))
    changeable = keys & ordinary & (facts.back != 0)
    for query in rng.permutation(np.flatnonzero(changeable.any(axis=1)[:-1])).tolist():
        at, others = np.flatnonzero(changeable[query]), np.flatnonzero(ordinary & ~keys[query] & (places < query))
        if len(at) <= len(others):
            texts = [
                _with_others(model, taken, where, rng) for where in (at, rng.choice(others, len(at), replace=False))
            ]
            if (changed := texts[0]) is not None and (control := texts[1]) is not None:
                return query, (changed, control)
    return None


def _with_others(model: Model, taken: Capture, at: NDArray[np.integer], rng: np.random.Generator) -> str | None:
    """The text of a pass with other tokens, of the same text, at some positions; None where none is read back as it is."""
    tokenizer, ids = model.tokenizer, np.array(taken.input_ids)
    if tokenizer is None:
        return None
    special = special_ids(tokenizer)
    ordinary = [token for token in dict.fromkeys(ids.tolist()) if token not in special]
    for _ in range(TRIES):
        changed = ids.copy()
        changed[at] = rng.choice(ordinary, len(at))
        if (changed[at] == ids[at]).any():
            continue
        text = str(tokenizer.decode([token for token in changed.tolist() if token not in special]))
        if tokenizer(text)["input_ids"] == changed.tolist():
            return text
    return None


def says_what(muted: pd.DataFrame, patched: pd.DataFrame) -> str:
    """What both say together, in a sentence. A change counts from two standard errors."""
    need, control = muted.iloc[0], patched.iloc[1]
    keys = patched.iloc[0]
    if not need["change"] > 2 * need["error"]:
        return "Muting the head changes nothing that can be told from chance."
    if not keys["change"] > 2 * keys["error"]:
        return "The head matters here: the model predicts worse without it. What it carries is not shown."
    if keys["change"] - control["change"] > 2 * np.hypot(keys["error"], control["error"]):
        return (
            "The head carries what these keys hold: other tokens there change what it writes, others elsewhere do not."
        )
    return "The head matters here, and its output depends on more than these keys."
