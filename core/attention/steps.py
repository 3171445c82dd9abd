"""Weights that a model returned token by token while it wrote, joined to whole matrices.

`generate(output_attentions=True)` of transformers returns a tuple for each step, with an array [1, heads, queries, keys] for
each layer. In the first step the model reads the prompt. In each further one it reads the token that it has just written: one
more query and, except in cross-attention, one more key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from ..errors import InputError

MOST_NUMBERS = 2**30  # of all layers together: 4 GB in float32. With a sliding window the steps hold far fewer


def are_steps(attentions: Sequence[Any]) -> TypeGuard[Sequence[tuple[Any, ...]]]:
    """Whether these are the steps of `generate`, and not the layers of one pass."""
    return len(attentions) > 0 and all(isinstance(step, tuple) and len(step) > 0 for step in attentions)


def joined(steps: Sequence[tuple[Any, ...]], beams: Any = None, *, most_numbers: int = MOST_NUMBERS) -> list[Any]:
    """The weights of each layer over all steps, [1, heads, queries, keys], and None for a layer without weights. A key that was
    not there yet when a query was read has the weight 0, as under a causal mask.

    beams  the row of `beam_indices` for the text that is wanted: where its beam stood in each step, and -1 after its end.
           None: there is one text, without beams

    Raises InputError (field "attentions") for steps of several texts or beams, which change places from step to step, without
    `beams`; for steps that do not follow each other; and for more weights than `most_numbers`. Field "beams" for places that
    these steps do not have.
    """
    if len({len(step) for step in steps}) > 1:
        raise _refused("The steps have different numbers of layers.")
    if beams is not None:
        steps = _of_beam(steps, beams)
    most_of_layer = most_numbers // len(steps[0])
    return [_joined(number, layers, most_of_layer) for number, layers in enumerate(zip(*steps, strict=True))]


def _of_beam(steps: Sequence[tuple[Any, ...]], beams: Any) -> list[tuple[Any, ...]]:
    """The steps of one text, as if it had been written alone."""
    places = np.asarray(beams.cpu() if hasattr(beams, "cpu") else beams)
    ends = np.flatnonzero(places < 0)
    places = places[: ends[0]] if len(ends) else places
    count = min((len(part) for step in steps for part in step if np.ndim(part) == 4), default=0)
    if places.ndim != 1 or places.dtype.kind not in "iu" or not 0 < len(places) <= len(steps) or places.max() >= count:
        why = f"The beams are one row of beam_indices: for each of {len(steps)} steps at most, a place from 0 to {count - 1}."
        raise InputError(why, field="beams")
    return [
        tuple(None if part is None else part[place : place + 1] for part in step)
        for step, place in zip(steps, places.tolist(), strict=False)
    ]


def _joined(number: int, parts: Sequence[Any], most_numbers: int) -> Any:
    if all(part is None for part in parts):
        return None
    for step, part in enumerate(parts):
        shape = tuple(getattr(part, "shape", ()))
        if len(shape) != 4 or shape[1] != parts[0].shape[1] or (step > 0 and shape[2] != 1):
            raise _refused(
                f"Layer {number} of step {step} has the shape {shape}, where [1, heads, queries, keys] is expected, with one "
                f"query from step 1 on."
            )
        if shape[0] != 1:
            raise _refused(
                f"The steps hold {shape[0]} texts or beams, and beams change places from step to step. Write one text, with "
                f"num_beams=1, or give beams=returned.beam_indices[0]."
            )
    _, heads, read, first = parts[0].shape
    # A decoder's own keys grow with its text. Those of cross-attention are there from the beginning.
    grows = read == first and not (read == 1 and len(parts) > 1 and parts[1].shape[3] == 1)
    queries = read + len(parts) - 1
    keys_in_all = queries if grows else first
    if heads * queries * keys_in_all > most_numbers:
        raise _refused(
            f"{queries:,} queries × {keys_in_all:,} keys of every head are too many to join. Give fewer steps or layers."
        )
    whole = _zeros(parts[0], (1, heads, queries, keys_in_all))
    for step, part in enumerate(parts):
        there = read + step if grows else first
        keys = part.shape[3]
        if keys > there or (keys < there and not grows):
            raise _refused(
                f"Layer {number} of step {step} has {keys:,} keys, where {there:,} tokens were there to attend to."
            )
        rows = slice(0, read) if step == 0 else slice(read + step - 1, read + step)
        whole[:, :, rows, there - keys : there] = part  # a sliding window keeps the last keys
    return whole


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of the kind of an array: of NumPy, or a tensor of torch on its device."""
    return like.new_zeros(shape) if hasattr(like, "new_zeros") else np.zeros(shape, like.dtype)


def _refused(message: str) -> InputError:
    return InputError(message, field="attentions")
