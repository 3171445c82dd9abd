"""Written dates as what the network reads: token numbers in tensors, texts of like length together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from transformers import PreTrainedTokenizerBase

from .dates import Written, draw

SORTED_TOGETHER = 16  # batches: texts of like length need little padding


@dataclass(frozen=True, eq=False)
class Batch:
    """input_ids and attention_mask are [texts, characters + 1], the others [texts, 11].

    What the decoder has written begins with <s>, what it shall write ends with </s>: its row i predicts character i.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    decoder_input_ids: torch.Tensor
    wanted: torch.Tensor

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What the network is called with."""
        names = ("input_ids", "attention_mask", "decoder_input_ids")
        return {name: getattr(self, name) for name in names}


def batch_of(tokenizer: PreTrainedTokenizerBase, written: Sequence[Written]) -> Batch:
    read = tokenizer([one.text for one in written], padding=True, return_tensors="pt")
    wanted = tokenizer([one.answer for one in written], return_tensors="pt")["input_ids"]
    start = torch.tensor([[tokenizer.bos_token_id]] * len(written))
    return Batch(read["input_ids"], read["attention_mask"], torch.cat([start, wanted[:, :-1]], dim=1), wanted)


def endless(
    tokenizer: PreTrainedTokenizerBase, random: Random, dates: Sequence, forms: Sequence[str], size: int
) -> Iterator[Batch]:
    """Batches of dates that are drawn as they are needed."""
    while True:
        drawn = [draw(random, dates, forms) for _ in range(SORTED_TOGETHER * size)]
        parts = in_parts(drawn, size)
        random.shuffle(parts)
        for part in parts:
            yield batch_of(tokenizer, part)


def in_parts(written: Sequence[Written], size: int) -> list[list[Written]]:
    """Parts of this size at most, from the shortest texts to the longest."""
    by_length = sorted(written, key=lambda one: len(one.text))
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]
