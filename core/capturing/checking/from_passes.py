"""Checks by further passes: what may change no number.

In a decoder, one reading in two parts with padding before it shows that all of this changes nothing. Only if it differs, each
is tried by itself.
"""

from __future__ import annotations

import inspect

from torch import Tensor

from ...models.checkups import Finding
from ..rounding import rounding_error
from .reading import KEPT, PADDING, Reading, returned_by

# How far two passes over the same text may be apart, in rounding errors of the largest number: kernels for other sizes add up
# in another order, and what one layer rounds the next ones enlarge.
OF_PASSES = 2_000


def later_tokens(reading: Reading) -> Finding:
    """Another last token changes no row before it in a decoder."""
    if not (reading.writes or reading.model.is_encoder_decoder):
        return Finding(None, "The model is not a decoder: tokens may see later ones.")
    if _unchanged(reading) is not None:
        return Finding(True, f"The {KEPT} last tokens change nothing before them.")
    name = "decoder_input_ids" if reading.model.is_encoder_decoder else "input_ids"
    ids, other = reading.inputs[name], reading.inputs[name].clone()
    other[0, -1] = ids[0, 1] if ids[0, 1] != ids[0, -1] else ids[0, 0]
    changed, _ = returned_by(reading.model, reading.inputs | {name: other})
    moved = _apart(reading.returned[:-1], changed[:-1])
    if moved <= _allowed(reading) / 16:
        return Finding(True, "Another last token changes nothing before it.")
    return Finding(
        False,
        f"Another last token changes the rows before it by {moved:.2g} of the largest number. They see later tokens.",
    )


def padding(reading: Reading) -> Finding:
    """Padding around the text, masked, changes nothing."""
    accepted = inspect.signature(reading.model.network.forward).parameters
    if "input_ids" not in reading.inputs or "attention_mask" not in accepted:
        return Finding(None, "The model takes no padding.")
    if reading.writes and "position_ids" not in accepted:
        return Finding(None, "The model does not take the positions of a text with padding before it.")
    if (rows := _unchanged(reading)) is None:
        rows = reading.again(padding=PADDING)
    where = "before" if reading.writes else "after"
    return _same(reading, reading.returned, rows, f"{PADDING} padding tokens {where} the text change")


def cache_of_keys(reading: Reading) -> Finding:
    """A text that is read in two parts, the second from the keys and values of the first, gives the same."""
    if "input_ids" not in reading.inputs or not reading.writes:
        return Finding(None, "The model is not a decoder, and keeps no keys and values.")
    if (rows := _unchanged(reading)) is None:
        rows = reading.again(kept=KEPT)
    return _same(reading, reading.returned[-KEPT:], rows[-KEPT:], "Reading the end from the cache changes")


def _unchanged(reading: Reading) -> Tensor | None:
    """`Reading.in_parts`, if it differs so little that nothing of it needs another look."""
    rows = reading.in_parts
    return None if rows is None or _apart(reading.returned, rows) > _allowed(reading) / 16 else rows


def _same(reading: Reading, one: Tensor, other: Tensor, what: str) -> Finding:
    apart = _apart(one, other)
    holds = apart <= _allowed(reading)
    size = "nothing but rounding" if holds else f"the result by {apart:.2g} of its largest number"
    return Finding(holds, f"{what} {size}.")


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a share of the largest number."""
    return float((one - other).abs().max() / one.abs().max().clamp_min(1e-30))


def _allowed(reading: Reading) -> float:
    own = rounding_error(reading.model.network.dtype)
    return OF_PASSES * own if own < 1e-5 else 16 * own
