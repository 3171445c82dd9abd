"""Written dates as what the network reads: token numbers in tensors, texts of like length together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from transformers import PreTrainedTokenizerBase

from .dates import KNOWN, WrittenDate, draw, split

BATCH = 128  # texts
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
        """The arguments of the network."""
        return {name: getattr(self, name) for name in ("input_ids", "attention_mask", "decoder_input_ids")}


def batch_of(tokenizer: PreTrainedTokenizerBase, written: Sequence[WrittenDate]) -> Batch:
    read = tokenizer([date.text for date in written], padding=True, return_tensors="pt")
    wanted = tokenizer([date.answer for date in written], return_tensors="pt")["input_ids"]
    start = torch.tensor([[tokenizer.bos_token_id]] * len(written))
    return Batch(read["input_ids"], read["attention_mask"], torch.cat([start, wanted[:, :-1]], dim=1), wanted)


def batches(tokenizer: PreTrainedTokenizerBase, seed: int) -> Iterator[Batch]:
    """Batches to train with, without end: dates that are not held out, in known forms, drawn as they are needed."""
    random, (dates, _) = Random(seed), split()
    while True:
        parts = in_parts([draw(random, dates, KNOWN) for _ in range(SORTED_TOGETHER * BATCH)], BATCH)
        random.shuffle(parts)
        for part in parts:
            yield batch_of(tokenizer, part)


def in_parts(written: Sequence[WrittenDate], size: int) -> list[list[WrittenDate]]:
    """Parts of this size at most, from the shortest texts to the longest."""
    by_length = sorted(written, key=lambda date: len(date.text))
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]
