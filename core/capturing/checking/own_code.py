"""The judge of a model: the same network as transformers runs it alone.

A model is run here with an attention function of ours. The judge builds its class again (core.models.own_copy), which has never
seen that function, and compares what both give over one short text or image: logits or vectors, the weights of every layer
where the class returns them, and the tokens that both write.

How far two right results may be apart is measured on the class itself: its pass is repeated with the result of every module
moved by one rounding error, up or down at random. Two passes that differ by rounding alone differ by little more than that.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from ...errors import InputError, first_line
from ...models.calls import Call, wide
from ...models.inputs import image_text_inputs, run
from ...models.model import Model
from ...models.modules import Kind
from ...models.own_copy import own_copy
from ...units import counted, small_number
from ..calls.rows import row_blocks
from ..generation.generating import Generating
from ..recorder import by_kind, record
from ..rounding import OF_OWN_CODE, rounding_error
from .reading import TEXT, Reading, fixed_image, fixed_inputs, has_weights, returned_by

NEW_TOKENS = 8
IMAGE = 48, 64  # pixels of the image that is read with a text
# Where a network returns the weights of each kind of attention.
_RETURNED_AS: dict[Kind, str] = {
    "self": "attentions",
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
_VECTORS = ("logits", "last_hidden_state", "encoder_last_hidden_state")
# What changes the choice of a token in `generate`, and is not done here.
_PLAIN: dict[str, Any] = {
    "do_sample": False,
    "num_beams": 1,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": None,
    "forced_eos_token_id": None,
    "sequence_bias": None,
}


class Difference(NamedTuple):
    """How far two results are apart: the largest difference, as a share of the largest number.

    what     in words, such as "logits" or "weights of decoder layer 1"
    size     NaN where the results cannot be subtracted: they have other shapes
    allowed  what rounding explains
    """

    what: str
    size: float
    allowed: float

    @property
    def holds(self) -> bool:
        return self.size <= self.allowed


@dataclass(frozen=True)
class OwnCode:
    """What the judge found.

    each     the differences
    why_not  sentences about what could not be compared
    """

    each: tuple[Difference, ...]
    why_not: tuple[str, ...] = ()

    @property
    def holds(self) -> bool | None:
        """Whether everything that was compared is the same but for rounding; None if nothing could be compared."""
        return all(one.holds for one in self.each) if self.each else None

    @property
    def detail(self) -> str:
        """What was compared and what came of it, in sentences."""
        others = " ".join(self.why_not)
        if not self.each:
            return f"Not looked at. {others}"
        if wrong := [one for one in self.each if not one.holds]:
            worst = max(wrong, key=lambda one: one.size if one.size == one.size else torch.inf)
            by = (
                "have another shape"
                if worst.size != worst.size
                else f"differ by {small_number(worst.size)} of the largest number, where rounding explains "
                f"{small_number(worst.allowed)}"
            )
            more = f" And {len(wrong) - 1} more like this." if len(wrong) > 1 else ""
            return f"transformers alone computes this network otherwise: the {worst.what} {by}.{more} {others}".strip()
        worst = max(self.each, key=lambda one: one.size)
        return (
            f"transformers alone gives the same {_listed(self.each)}: within {small_number(worst.size)} of the largest "
            f"number, where rounding explains {small_number(worst.allowed)}. {others}"
        ).strip()

    @property
    def differences(self) -> pd.DataFrame:
        """One row for each comparison: `what`, `difference`, `allowed`."""
        return pd.DataFrame(self.each, columns=["what", "difference", "allowed"])


def compare_with_own_code(model: Model, inputs: dict[str, Tensor] | None = None) -> OwnCode:
    """Compare a model with its class as transformers runs it alone.

    inputs  what both read; None: a short fixed text or image, or both

    Raises the errors of `capture` for a model that cannot be captured.
    """
    inputs = _fixed(model) if inputs is None else inputs
    calls, here = record(model, inputs, logits_to_keep=0)
    kind = type(model.network).__name__
    try:
        own = own_copy(model.network)
        there, moved = _run_twice(model, own, inputs)
        each = _vectors(here, there, moved)
    except Exception as error:  # each class fails in ways of its own
        return OwnCode((), (f"transformers cannot run {kind} alone: {first_line(error)}.",))
    of_logits, why_not = max(one.allowed for one in each), []
    for what, compared in (
        ("weights", lambda: _weights(model, own, inputs, calls, there)),
        ("written tokens", lambda: _written(model, own, inputs, of_logits)),
    ):
        try:
            for one in compared():
                each = (*each, one)
        except _NotComparedError as error:
            why_not.append(f"The {what} were not compared: {error}.")
    return OwnCode(each, tuple(why_not))


def alone(reading: Reading) -> Reading:
    """The reading of the same inputs by the network's own code, for checks that read them again."""
    model = replace(reading.model, network=own_copy(reading.model.network))
    return replace(reading, model=model, returned=returned_by(model, reading.inputs)[0])


def _fixed(model: Model) -> dict[str, Tensor]:
    if model.takes_images:
        with suppress(InputError):  # for a message that is too long for it, for example
            return image_text_inputs(model, TEXT, fixed_image(*IMAGE))[0]
    return fixed_inputs(model)


class _NotComparedError(Exception):
    """One of the comparisons cannot be made. The message says why, as the end of a sentence."""


def _run_twice(model: Model, own: PreTrainedModel, inputs: dict[str, Tensor], **options: Any) -> tuple[Any, Any]:
    """What the class returns, and what it returns with one rounding error in the result of every module."""
    alone = replace(model, network=own)
    plain = run(alone, inputs, logits_to_keep=0, **options)
    with _one_rounding_error(own):
        return plain, run(alone, inputs, logits_to_keep=0, **options)


@contextmanager
def _one_rounding_error(network: nn.Module) -> Iterator[None]:
    """Move every number that a module with weights returns by one rounding error, up or down at random."""
    random = torch.Generator().manual_seed(0)

    def move(_module: nn.Module, _inputs: Any, returned: Any) -> Any:
        if not (isinstance(returned, Tensor) and returned.is_floating_point()):
            return returned
        signs = torch.randint(0, 2, returned.shape, generator=random).to(returned) * 2 - 1
        return returned * (1 + signs * rounding_error(returned.dtype))

    hooks = [part.register_forward_hook(move) for part in network.modules() if has_weights(part)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _vectors(here: Any, there: Any, moved: Any) -> tuple[Difference, ...]:
    """The logits or the vectors of both passes."""
    names = [name for name in _VECTORS if isinstance(getattr(there, name, None), Tensor)]
    if not names:
        raise ValueError("it returns neither logits nor vectors")
    return tuple(
        _difference(name.replace("last_hidden_state", "vectors").replace("_", " "), *parts)
        for name in names
        for parts in ([getattr(of, name) for of in (here, there, moved)],)
    )


def _difference(what: str, here: Tensor, there: Tensor, moved: Tensor) -> Difference:
    """moved: as `there`, with rounding errors"""
    one, units = rounding_error(there.dtype), OF_OWN_CODE[str(there.dtype).removeprefix("torch.")]
    here, there, moved = (wide(part.detach()).cpu() for part in (here, there, moved))
    allowed = units * max(one, _apart(moved, there))
    return Difference(what, _apart(here, there) if here.shape == there.shape else torch.nan, allowed)


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a share of the largest number of `other`. Numbers that are both -inf are equal."""
    largest = other.abs()[other.isfinite()].max() if other.isfinite().any() else other.new_ones(())
    apart = torch.where(one == other, 0, (one - other).abs()).max() / largest.clamp_min(torch.finfo(other.dtype).tiny)
    return float(apart.nan_to_num(torch.inf, torch.inf))


# --- weights


def _weights(
    model: Model, own: PreTrainedModel, inputs: dict[str, Tensor], calls: Sequence[Call], plain: Any
) -> Iterator[Difference]:
    """The weights of each layer beside those that the class returns, for which it has to use its eager code.

    plain  what the class returns by default. Where its eager code gives something else (PaliGemma, for a text alone), that is
           another network, and its weights say nothing
    """
    try:
        eager = own if own.config._attn_implementation == "eager" else own_copy(model.network, "eager")
        there, moved = _run_twice(model, eager, inputs, output_attentions=True)
    except Exception as error:  # as above
        raise _NotComparedError(f"the class does not return them ({first_line(error)})") from error
    if not all(one.holds for one in _vectors(plain, there, moved)):
        raise _NotComparedError("the class computes something else where it returns them")
    left_out = []
    for kind, layers in by_kind(calls).items():
        returned, with_errors = (_layers(of, kind) for of in (there, moved))
        if len(returned) != len(layers):  # or it is the tower for images, whose weights are not returned
            left_out.append(kind)
            continue
        for number, (call, weights, other) in enumerate(zip(layers, returned, with_errors, strict=True)):
            if weights.ndim != 4 or weights.shape[:3] != (1, call.heads, call.query.shape[2]):
                left_out.append(kind)  # weights of another form, such as those of blocks
                continue
            yield _difference_of_weights(f"weights of {kind} layer {number}".replace("self ", ""), call, weights, other)
    if left_out:
        kinds = ", ".join(dict.fromkeys(left_out))
        raise _NotComparedError(f"of some layers ({kinds} attention) the class returns none of the same form")


def _layers(returned: Any, kind: Kind) -> list[Tensor]:
    """The weights of the layers with this attention; a layer without returns None."""
    layers = getattr(returned, _RETURNED_AS.get(kind, ""), None) or ()
    return [layer for layer in layers if isinstance(layer, Tensor)]


def _difference_of_weights(what: str, call: Call, there: Tensor, moved: Tensor) -> Difference:
    if there.shape[3] != call.key.shape[2]:
        return Difference(what, torch.nan, 0.0)
    here = torch.cat(
        [pad(rows.weights, (0, there.shape[3] - rows.weights.shape[2])) for rows in row_blocks(call)], dim=1
    )
    attending = here.sum(dim=-1, keepdim=True) > 0  # other implementations give such a row any weights
    there, moved = (part[0].to(here.device) for part in (there, moved))
    if call.sinks is not None:  # some classes return rows with the share of the sink, some without
        here, there, moved = (part / part.sum(dim=-1, keepdim=True) for part in (here, wide(there), wide(moved)))
    return _difference(what, *(part * attending for part in (here, there, moved)))


# --- written tokens


def _written(model: Model, own: PreTrainedModel, inputs: dict[str, Tensor], allowed: float) -> Iterator[Difference]:
    """The logits of the tokens that both write, up to the first that is another one: two may be equally probable."""
    if not model.has_language_model_head:
        return
    try:
        written = Generating(model, inputs).write(NEW_TOKENS)
    except Exception as error:  # as above
        raise _NotComparedError(f"nothing could be written here ({first_line(error)})") from error
    try:
        tokens, logits = _generated(own, inputs)
    except Exception as error:  # as above
        raise _NotComparedError(f"`generate` does not run ({first_line(error)})") from error
    for number, (step, token, expected) in enumerate(zip(written.steps, tokens, logits, strict=False), 1):
        size = _apart(wide(torch.as_tensor(step.logits)), expected)
        yield Difference(f"logits of written token {number}", size, allowed)
        if step.token_id != token:
            return


def _generated(own: PreTrainedModel, inputs: dict[str, Tensor]) -> tuple[list[int], list[Tensor]]:
    """The tokens that transformers writes by itself, and the logits [vocabulary] before each."""
    read = {name: part.to(own.device) for name, part in inputs.items() if name != "sides"}
    read["attention_mask"] = torch.ones_like(read["input_ids"])  # else tokens for padding would be left out
    settings = own.generation_config
    ends = settings.eos_token_id if settings.eos_token_id is not None else [0]
    fills = settings.pad_token_id if settings.pad_token_id is not None else torch.tensor(ends).flatten()[0].item()
    generate: Any = own.generate
    with torch.inference_mode():
        made = generate(
            **read,
            **_PLAIN,
            pad_token_id=fills,
            max_new_tokens=NEW_TOKENS,
            output_logits=True,
            return_dict_in_generate=True,
        )
    tokens = made.sequences[0, -len(made.logits) :].tolist()
    return tokens, [wide(row[0]).cpu() for row in made.logits]


def _listed(each: Iterable[Difference]) -> str:
    """What was compared, in short: "logits, weights of 4 layers and 8 written tokens"."""
    names = [one.what for one in each]
    layers, tokens = (sum(name.startswith(of) for name in names) for of in ("weights", "logits of written"))
    parts = [name for name in names if not name.startswith(("weights", "logits of written"))]
    parts += [f"weights of {counted(layers, 'layer')}"] * (layers > 0) + [counted(tokens, "written token")] * (
        tokens > 0
    )
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
