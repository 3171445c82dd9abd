"""The metrics of heads by their definitions, in NumPy. Nothing here comes from core."""

import numpy as np


def numbers(rows, query, ids, classes, allowed) -> dict[str, np.ndarray]:
    """Every metric of a query by its definition: name -> [heads], NaN where there is nothing to measure."""
    nothing = np.full(len(rows), np.nan)
    place = np.arange(len(ids))
    special, marks = (np.array([one == name for one in classes]) for name in ("special", "punctuation"))

    def at(key):
        return rows[:, key] if 0 <= key < len(ids) else nothing

    def on(keys):
        return rows[:, keys].sum(axis=1) if len(keys) else nothing

    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(rows > 0, -rows * np.log(rows), 0).sum(axis=1)
    earlier = [key for key in range(query) if ids[key] == ids[query]]
    others = allowed & (place > 0) & (place != query) & ~special
    return {
        "entropy": entropy,
        "entropy_share": entropy / np.log(allowed.sum()) if allowed.sum() > 1 else nothing,
        "sink": rows[:, 0],
        "self": rows[:, query],
        "previous": at(query - 1),
        "next": at(query + 1),
        "special": rows[:, special].sum(axis=1),
        "punctuation": on(np.flatnonzero(marks)),
        "duplicate": on(earlier),
        "induction": on([key + 1 for key in earlier if key + 1 < query]),
        "distance": rows @ np.abs(place - query) / rows.sum(axis=1),
        "largest": rows.max(axis=1),
        "elsewhere": rows[:, others].max(axis=1) if others.any() else nothing,
        "locality": rows[:, np.abs(place - query) <= 5].sum(axis=1),
    }
