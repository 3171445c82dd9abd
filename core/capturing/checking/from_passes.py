"""Checks by further passes: what may change no number, and what must."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

from ...models.inputs import run
from ..rounding import rounding_error
from .finding import Finding
from .reading import Reading, returned_by

PADDING = 3  # tokens that are put around a text
KEPT = 3  # tokens that are read after the others, from the cache
# How far two passes over the same text may be apart, in rounding errors of the largest number: kernels for other sizes add up
# in another order, and what one layer rounds the next ones enlarge.
OF_PASSES = 2_000


def later_tokens(reading: Reading) -> Finding:
    """Another last token changes no row before it in a decoder."""
    name = "decoder_input_ids" if reading.model.is_encoder_decoder else "input_ids"
    ids = reading.inputs.get(name)
    if ids is None or ids.shape[1] < 3:
        return Finding(None, "The model reads no text.")
    other = ids.clone()
    other[0, -1] = ids[0, 1] if ids[0, 1] != ids[0, -1] else ids[0, 0]
    moved = _apart(reading.returned[:-1], returned_by(reading.model, reading.inputs | {name: other})[:-1])
    if not (reading.model.has_language_model_head or reading.model.is_encoder_decoder):
        ways = "changes the rows" if moved > 0 else "changes no row"
        return Finding(True, f"Another last token {ways} before it. In an encoder either may be right.")
    if moved <= _allowed(reading) / 16:
        return Finding(True, "Another last token changes nothing before it.")
    return Finding(
        False,
        f"Another last token changes the rows before it by {moved:.2g} of the largest logit. They see later tokens.",
    )


def padding(reading: Reading) -> Finding:
    """Padding around the text, masked, changes nothing."""
    ids, model = reading.inputs.get("input_ids"), reading.model
    accepted = inspect.signature(model.network.forward).parameters
    if ids is None or "attention_mask" not in accepted:
        return Finding(None, "The model takes no padding.")
    is_decoder = model.has_language_model_head and not model.is_encoder_decoder
    if is_decoder and "position_ids" not in accepted:
        return Finding(None, "The model does not take the positions of a text with padding before it.")
    # A decoder is padded before the text, where its queries look.
    sides = (PADDING, 0) if is_decoder else (0, PADDING)
    value = int(ids[0, -2])
    padded = {
        name: torch.nn.functional.pad(part, sides, value=value if name == "input_ids" else 0)
        for name, part in reading.inputs.items()
        if name in ("input_ids", "token_type_ids")
    }
    mask = torch.nn.functional.pad(torch.ones_like(ids), sides)
    positions = {"position_ids": (mask.cumsum(1) - 1).clamp_min(0)} if is_decoder else {}
    given = returned_by(model, reading.inputs | padded | {"attention_mask": mask} | positions)
    rows = given if model.is_encoder_decoder else given[sides[0] : sides[0] + ids.shape[1]]
    return _same(
        reading,
        reading.returned,
        rows,
        f"{PADDING} padding tokens {'before' if is_decoder else 'after'} the text change",
    )


def cache_of_keys(reading: Reading) -> Finding:
    """A text that is read in two parts, the second from the keys and values of the first, gives the same logits."""
    model, ids = reading.model, reading.inputs.get("input_ids")
    if ids is None or not model.has_language_model_head or model.is_encoder_decoder:
        return Finding(None, "The model is no decoder: it keeps no keys and values.")
    first = run(model, {"input_ids": ids[:, :-KEPT]}, use_cache=True)
    kept = getattr(first, "past_key_values", None)
    if kept is None:
        return Finding(None, "The model keeps no keys and values.")
    rest = returned_by(model, {"input_ids": ids[:, -KEPT:]}, use_cache=True, past_key_values=kept)
    return _same(reading, reading.returned[-KEPT:], rest, "Reading the end from the cache changes")


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
