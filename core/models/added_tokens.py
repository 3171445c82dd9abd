"""The tokens that a tokenizer puts around every text, and what is to be said of texts that bring them along.

Whoever pastes a rendered chat template, or types "<s> ..." or "[CLS] ...", gives a text a second beginning.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..errors import shortened
from ..record_pass import around
from ..units import listed
from .model import Model
from .tokens import RecordedTokens, token_texts

Ids = Sequence[int]
NAMED = 3  # places within a text that are named; the others are counted


def text_notes(
    model: Model, ids: Ids, target_ids: Ids = (), sides: Ids = (), *, of_vectors: bool = False
) -> tuple[str, ...]:
    """Sentences about the tokens that a model reads; none for most texts.

    target_ids  what a decoder has written, with its start token
    sides       as in `Capture`
    of_vectors  whether a sentence vector is made of the text
    """
    tokenizer, notes = model.tokenizer, []
    if tokenizer is not None and len(ids):
        begin, end = _around(tokenizer)
        own: Any = (getattr(tokenizer, name, None) for name in ("bos_token_id", "cls_token_id"))
        first = begin or [token for token in own if token == ids[0]][:1]
        times, times_end = _times(ids, first), _times(ids[::-1], end[::-1])
        twice = [f"begins with {_named(model, first)} {_often(times)}"] if times > 1 else []
        twice += [f"ends with {_named(model, end)} {_often(times_end)}"] if times_end > 1 else []
        if twice:
            adds = f" The tokenizer of {model.name} adds {'one' if len(twice) == 1 else 'both'} to every text."
            notes.append(f"The text {' and '.join(twice)}.{adds if begin or times < 2 else ''}")
        after, only_begin = range(times * len(begin), len(ids)), {*begin} - {*end}
        within = [at for at in after if ids[at] in only_begin and sides[at : at + 1] != (-1,)]
        if within and begin[0] != getattr(tokenizer, "eos_token_id", None):
            places = listed([*map(str, within)], NAMED)
            notes.append(
                f"{_named(model, begin)}, with which every text begins, also stands within this one: at token {places}."
            )
        if _times(target_ids, start := target_ids[:1]) > 1:
            notes.append(f"What the decoder has written begins with {_named(model, start)} twice: it adds one itself.")
    most = model.trained_tokens
    if of_vectors and most is not None and len(ids) > most:
        notes.append(
            f"The text has {len(ids):,} tokens. {model.name} was made for at most {most:,}, where sentence-transformers cuts "
            f"a text, so the sentence vector here differs from the one there."
        )
    return tuple(notes)


def without_added(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """The text without the tokens at its ends that the tokenizer adds by itself: "<s> Hello" becomes "Hello".

    Whether a blank beside them is kept depends on which text has the tokens of the given one, without their doubles.
    """
    begin, end = ("".join(token_texts(tokenizer, ids)) for ids in _around(tokenizer))
    inner = text
    while begin and inner.lstrip().startswith(begin):
        inner = inner.lstrip().removeprefix(begin)
    while end and inner.rstrip().endswith(end):
        inner = inner.rstrip().removesuffix(end)
    if inner == text:
        return text
    wanted = _once(tokenizer, text)
    spellings = [of(one) for one, of in product((inner.lstrip(), inner), (str.rstrip, str))]
    return next((one for one in spellings if _ids(tokenizer, one) == wanted), inner.strip())


@lru_cache(maxsize=4)
def _around(tokenizer: PreTrainedTokenizerBase | RecordedTokens) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text, as far as it is special."""
    both = tokenizer.around if isinstance(tokenizer, RecordedTokens) else around(tokenizer)
    special = {*tokenizer.all_special_ids}
    begin, end = ([*ids] if special.issuperset(ids) else [] for ids in both)
    return begin, end


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return tokenizer(text, verbose=False)["input_ids"]


def _once(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a text, with each of those around it once."""
    ids, (begin, end) = _ids(tokenizer, text), _around(tokenizer)
    ids = ids[max(0, _times(ids, begin) - 1) * len(begin) :]
    return ids[: len(ids) - max(0, _times(ids[::-1], end[::-1]) - 1) * len(end)]


def _times(ids: Ids, unit: Ids) -> int:
    """How many times the tokens begin with these, one after the other."""
    times, size = 0, len(unit)
    while size and [*ids[times * size : (times + 1) * size]] == [*unit]:
        times += 1
    return times


def _named(model: Model, ids: Ids) -> str:
    return f"“{shortened(''.join(token_texts(model.tokenizer, ids)))}”"


def _often(times: int) -> str:
    return "twice" if times == 2 else f"{times:,} times"
