"""A small encoder-decoder with the architecture of BART and random weights, built in memory.

Lewis et al. 2019, https://arxiv.org/abs/1910.13461. What is drawn from it shows how its parts are wired, and nothing about
language: no weight was ever trained.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from core.capturing import Capture, capture
from core.errors import InputError
from core.models import load_model
from core.sources import split_words

D_MODEL = 32
LAYERS, HEADS = 2, 4
MOST_WORDS = 64
START = "<start>"


def read_and_write(read: str, written: str, *, seed: int = 0) -> Capture:
    """One pass of the untrained model: its encoder reads one text, its decoder has written the other so far.

    The kinds of attention of the capture are "encoder", "decoder" and "cross". The decoder's tokens begin with a start mark.
    The same seed gives the same weights, and a word of the written text the same vector whatever is read.

    Raises InputError (field "read" or "written") for a text without words or with more than MOST_WORDS.
    """
    writing, reading = _words(written, "written"), _words(read, "read")
    # The words written come first: their numbers, and so their vectors, do not depend on what is read.
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys((START, *writing, *reading)))}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_word_by_word(vocabulary), unk_token=START, bos_token=START, pad_token=START
    )
    model = load_model(_network(seed), tokenizer=tokenizer)
    return capture(model, " ".join(reading), target=" ".join(writing))


def query_changes(before: Capture, after: Capture) -> NDArray[np.floating]:
    """The largest change of a number in the queries of the cross-attention, for each layer: [layers].

    The decoder must have written the same in both passes.
    """
    return np.array(
        [
            max(
                float(np.abs(after.trace(layer, head, "cross").query - before.trace(layer, head, "cross").query).max())
                for head in range(before.heads("cross"))
            )
            for layer in range(before.layers("cross"))
        ]
    )


def _words(text: str, field: str) -> tuple[str, ...]:
    words = split_words(text)
    if not 1 <= len(words) <= MOST_WORDS:
        raise InputError(
            f"This text has {len(words)} words and punctuation marks; the small model takes 1 to {MOST_WORDS}. "
            f"Change it.",
            field=field,
        )
    return words


def _word_by_word(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=START))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return tokenizer


def _network(seed: int) -> BartForConditionalGeneration:
    network = BartForConditionalGeneration(
        BartConfig(
            vocab_size=1 + 2 * MOST_WORDS,
            d_model=D_MODEL,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=2 * D_MODEL,
            decoder_ffn_dim=2 * D_MODEL,
            max_position_embeddings=1 + MOST_WORDS,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=0,
            decoder_start_token_id=0,
            forced_eos_token_id=None,
        )
    )
    # Its own generator: the global one is shared by all threads. Variance 1/d_model keeps queries and keys at variance 1.
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, D_MODEL**-0.5, generator=generator)
    return network
