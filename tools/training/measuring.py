"""How well the network does: whether its answers are right, and whether its attention looks where they come from.

Row i of a decoder's attention belongs to the character that it reads there, and predicts the one after it. The decoder reads
<s> first, so the row that predicts character i of the answer is row i, which is labelled with character i - 1. That row is
what is measured here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .batches import batch_of, in_parts
from .dates import DIGITS, WrittenDate

TOGETHER = 256


def right(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, written: Sequence[WrittenDate]) -> list[bool]:
    """Of each, whether transformers' own greedy generation gives the whole answer, character for character."""
    answers: dict[str, str] = {}
    generate: Any = network.generate
    for part in in_parts(written, TOGETHER):
        texts = [date.text for date in part]
        generated = generate(**tokenizer(texts, padding=True, return_tensors="pt"))
        answers |= zip(texts, tokenizer.batch_decode(generated, skip_special_tokens=True), strict=True)
    return [answers[date.text] == date.answer for date in written]


@dataclass(frozen=True, eq=False)
class DigitShares:
    """Cross-attention and the true alignment, for each of the eight digits of the answer; all from 0 to 1.

    share    [layers, heads, 8]: the mean share of attention on the characters that the digit comes from
    largest  [layers, heads, 8]: how often the largest weight lies on one of them
    uniform  [8]: the share that attention gets which is the same on all characters and </s>
    """

    share: NDArray[np.float64]
    largest: NDArray[np.float64]
    uniform: NDArray[np.float64]

    @property
    def best(self) -> tuple[int, int]:
        """Layer and head with the largest share over all digits."""
        layer, head = np.unravel_index(self.share.mean(-1).argmax(), self.share.shape[:2])
        return int(layer), int(head)


@torch.inference_mode()
def alignment(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, written: Sequence[WrittenDate]
) -> DigitShares:
    """Over these dates, with the right answer given to the decoder. Reads the network's own eager attention."""
    before = network.config._attn_implementation or "eager"
    network.set_attn_implementation("eager")
    shares, largest, uniform = [], [], []
    for part in in_parts(written, TOGETHER):
        batch = batch_of(tokenizer, part)
        weights = torch.stack(network(**batch.inputs, output_attentions=True).cross_attentions)
        weights = weights[:, :, :, list(DIGITS)]  # [layers, texts, heads, digits, keys]
        true = _true(part, batch.input_ids.shape[1])
        shares.append((weights * true[:, None]).sum(-1))
        highest = weights.argmax(-1, keepdim=True)
        largest.append(true[None, :, None].expand_as(weights).gather(-1, highest)[..., 0])
        uniform.append(true.sum(-1) / batch.attention_mask.sum(-1, keepdim=True))
    network.set_attn_implementation(before)
    share, most = (torch.cat(parts, dim=1).double().mean(1).numpy() for parts in (shares, largest))
    return DigitShares(share, most, torch.cat(uniform).double().mean(0).numpy())


def _true(written: Sequence[WrittenDate], keys: int) -> torch.Tensor:
    """[texts, digits, keys]: 1 where a digit comes from, else 0."""
    true = torch.zeros(len(written), len(DIGITS), keys)
    for text, date in enumerate(written):
        for digit, place in enumerate(DIGITS):
            span = date.spans[place]
            assert span is not None
            true[text, digit, slice(*span)] = 1
    return true
