"""The model card: what was trained, on what, and how well it does, with every number as it was measured."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import transformers

from .batches import BATCH
from .dates import FIRST, HELD_OUT, KNOWN, LAST, SPLIT_SEED, TWO_DIGIT_YEARS, WrittenDate, split, write
from .learning import LEARNING_RATE
from .measuring import DigitShares


@dataclass(frozen=True, eq=False)
class Training:
    """A training and what was measured after it.

    losses   of each step
    minutes  the training alone
    known, held_out  dates that were held out, in known forms and in those held out, and whether each answer was right
    """

    seed: int
    losses: Sequence[float]
    minutes: float
    numbers: int
    sha256: str
    known: tuple[Sequence[WrittenDate], Sequence[bool]]
    held_out: tuple[Sequence[WrittenDate], Sequence[bool]]
    alignment: DigitShares


def card(run: Training) -> str:
    training, held_out = split()
    layer, head = run.alignment.best
    share = run.alignment.share.mean(-1)
    return f"""---
license: mit
language: en
pipeline_tag: translation
---

# written-dates

A small encoder-decoder that turns written dates into ISO dates, by characters: it reads "the 3rd of march 1987" and writes
"1987-03-03". It was trained for one purpose, to show cross-attention that can be checked by eye, and is good for nothing else.

- **Limits**: dates only. Given any other text, it still writes something like a date, without any warning. {FIRST:%Y} to
  {LAST:%Y} in the Gregorian calendar, English names, printable ASCII, at most 63 characters (it learned from
  dates of about 40 at most). The day comes before the month where both are numbers: 3/4/1987 is 3 April. Two digits of a year
  are read as POSIX does: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068.
- **Network**: BART (`BartForConditionalGeneration`), encoder of 2 layers, decoder of 1, 4 heads of 32 dimensions in each, {run.numbers:,}
  numbers in float32. sha256 of model.safetensors: `{run.sha256}`
- **Tokens**: a token a character. What is read ends with `</s>`; the decoder starts with `<s>`.
- **Licence**: MIT, as the repository that it comes with.

## Training

`python -m tools.training --seed {run.seed} --steps {len(run.losses)}` in the repository makes it anew: {len(run.losses):,} steps of {BATCH} dates, AdamW with a
learning rate of {LEARNING_RATE} at most, next-character cross-entropy and nothing else: no loss told the attention where to look.
It took {run.minutes:.0f} minutes on a machine of two cores, of which torch was given {torch.get_num_threads()} and others had their share.
Mean loss of the first 100 steps {np.mean(run.losses[:100]):.4f}, of the last 100 {np.mean(run.losses[-100:]):.5f}.
PyTorch {torch.__version__.partition("+")[0]}, transformers {transformers.__version__}, Python {platform.python_version()}.

**Data.** `tools/training/dates.py` writes dates: all {len(training) + len(held_out):,} days from {FIRST} to {LAST} (forms with two-digit years: 1969 to 2068) in
{len(KNOWN)} forms, in capitals or none (4 in 10), with a stray blank or comma now and then, weekdays always right. They are drawn anew
for every step. **Split.** {len(held_out):,} of the days, chosen with the seed {SPLIT_SEED}, are seen in no form; {len(HELD_OUT)} forms are never seen.

## Exact match

The whole answer, character for character, by greedy generation (`generate`). Dates that were held out, with their stray blanks,
commas and capitals.

| | dates | right |
| --- | --- | --- |
| known forms | {len(run.known[1]):,} | {np.mean(run.known[1]):.2%} |
| forms held out | {len(run.held_out[1]):,} | {np.mean(run.held_out[1]):.2%} |

{_by_form("Known form", KNOWN, *run.known)}

{_by_form("Form held out", HELD_OUT, *run.held_out)}

## Cross-attention and the true alignment

For each of the eight digits of an answer, the share of attention on the characters that it comes from, over the {len(run.known[1]):,} dates in
known forms. Of a number that is the digit itself (of a number of one digit, both digits of the answer come from it), of a word the
word, of the century of a two-digit year both its digits. The row that counts is the one that *predicts* the digit. The decoder
reads `<s>` first, so that row is labelled with the character before: the row of `<s>` predicts the first digit of the year, the
row of that digit the second.

Best is head {layer}.{head} with {share[layer, head]:.1%}; the mean over all heads is {share.mean():.1%}, attention which is the same on all
characters and `</s>` would have {run.alignment.uniform.mean():.1%}. "Largest" is how often the row's largest weight lies on one of those characters.

{_by_head(run.alignment)}
"""


def _by_form(title: str, forms: Sequence[str], written: Sequence[WrittenDate], right: Sequence[bool]) -> str:
    rows = [f"| {title} | for example | dates | right |", "| --- | --- | --- | --- |"]
    _, dates = split()
    for form in forms:
        of_form = [good for date, good in zip(written, right, strict=True) if date.form == form]
        example = write(next(day for day in dates if day.year in TWO_DIGIT_YEARS), form).text
        rows.append(f"| `{form}` | {example} | {len(of_form):,} | {np.mean(of_form):.1%} |")
    return "\n".join(rows)


def _by_head(alignment: DigitShares) -> str:
    digits = ["Y1", "Y2", "Y3", "Y4", "M1", "M2", "D1", "D2"]
    rows = ["| head | share | largest | " + " | ".join(digits) + " |", "| --- " * 11 + "|"]
    layers, heads, _ = alignment.share.shape
    for layer, head in np.ndindex(layers, heads):
        share, largest = alignment.share[layer, head], alignment.largest[layer, head]
        rows.append(_row(f"{layer}.{head}", share.mean(), largest.mean(), share))
    rows.append(_row("mean", alignment.share.mean(), alignment.largest.mean(), alignment.share.mean((0, 1))))
    rows.append(_row("uniform", alignment.uniform.mean(), None, alignment.uniform))
    return "\n".join(rows)


def _row(name: str, share: float, largest: float | None, digits: np.ndarray) -> str:
    cells = [f"{share:.1%}", "" if largest is None else f"{largest:.1%}", *(f"{digit:.0%}" for digit in digits)]
    return f"| {name} | {' | '.join(cells)} |"
