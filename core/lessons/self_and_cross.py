"""Self- and cross-attention: the same stages, with queries from one text and keys and values from another.

Vaswani et al. 2017, sections 3.1 and 3.2.3: an encoder reads a text; a decoder writes one, first looking at what it has
written so far, then at what the encoder has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from ..attention.masks import causal, everything, grid
from ..attention.sources import embed, split_words
from ..attention.trace import Array, AttentionTrace, attend
from ..capturing.capture import Capture, capture
from ..errors import InputError
from ..models.loading import load_model
from .many_heads import LayerWeights, random_layer

Place = Literal["encoder", "decoder", "cross"]
Text = Literal["read", "written"]


@dataclass(frozen=True)
class Block:
    """One attention block: which text its queries come from, and which one its keys and values.

    seed    of its own untrained weights: the three blocks share none
    """

    name: str
    query_text: Text
    key_text: Text
    causal: bool
    seed: int


BLOCKS: dict[Place, Block] = {
    "encoder": Block("Encoder", "read", "read", causal=False, seed=0),
    "decoder": Block("Decoder: first", "written", "written", causal=True, seed=1),
    "cross": Block("Decoder: second", "written", "read", causal=False, seed=2),
}


@dataclass(frozen=True, eq=False)
class Crossing:
    """One block at work; `trace` holds its queries, keys, values and every stage."""

    block: Block
    trace: AttentionTrace
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]


def cross(
    queries_from: Array, keys_from: Array, weights: LayerWeights, *, mask: ArrayLike | None = None
) -> AttentionTrace:
    """One head as wide as the model: queries from one sequence [queries, d_model], keys and values from another
    [keys, d_model]. With the same sequence twice it is self-attention."""
    return attend(queries_from @ weights.W_Q, keys_from @ weights.W_K, keys_from @ weights.W_V, mask=mask)


def crossing(place: Place, read: str, written: str, *, d_model: int = 8) -> Crossing:
    """An untrained block over the words of two texts: `read` by the encoder, `written` so far by the decoder.

    Only this block: its input is the words' own random vectors (`core.attention.sources.embed`), not what earlier blocks
    would make of them. Raises InputError (field "read" or "written") for a text without words.
    """
    block = BLOCKS[place]
    texts: dict[Text, str] = {"read": read, "written": written}
    query_tokens, queries_from = _embedded(texts, block.query_text, d_model)
    key_tokens, keys_from = _embedded(texts, block.key_text, d_model)
    predicate = causal if block.causal else everything
    mask = grid(predicate, len(query_tokens), len(key_tokens))
    trace = cross(queries_from, keys_from, random_layer(d_model, seed=block.seed), mask=mask)
    return Crossing(block, trace, query_tokens, key_tokens)


@dataclass(frozen=True, eq=False)
class OtherKeys:
    """The decoder's second block before and after the read text is exchanged.

    query_change    the largest change of a number in the queries: exactly 0
    output_change   the largest change of a number in the output, which keeps its shape [queries, d_v]
    """

    before: Crossing
    after: Crossing
    query_change: float
    output_change: float


def other_keys(read: str, instead: str, written: str) -> OtherKeys:
    """What changes in cross-attention when the encoder reads another text. Errors as in `crossing`, or with field "instead"."""
    before = crossing("cross", read, written)
    try:
        after = crossing("cross", instead, written)
    except InputError as error:
        raise InputError(str(error), field="instead") from None
    return OtherKeys(
        before,
        after,
        query_change=float(np.abs(after.trace.query - before.trace.query).max()),
        output_change=float(np.abs(after.trace.output - before.trace.output).max()),
    )


def _embedded(texts: dict[Text, str], which: Text, d_model: int) -> tuple[tuple[str, ...], Array]:
    try:
        return embed(texts[which], d_model=d_model)
    except InputError as error:
        raise InputError(str(error), field=which) from None


# --- a small encoder-decoder with the architecture of BART (Lewis et al. 2019, https://arxiv.org/abs/1910.13461) and random
# weights. What is drawn from it shows how its parts are wired, and nothing about language: no weight was ever trained.

D_MODEL = 32
LAYERS, HEADS = 2, 4
MAX_WORDS = 64
START = "<start>"


def read_and_write(read: str, written: str, *, seed: int = 0) -> Capture:
    """One pass of the untrained model: its encoder reads one text, its decoder has written the other so far.

    The kinds of attention of the capture are "encoder", "decoder" and "cross". The decoder's tokens begin with a start mark.
    The same seed gives the same weights, and a word of the written text the same vector whatever is read.

    Raises InputError (field "read" or "written") for a text without words or with more than MAX_WORDS.
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
    if not 1 <= len(words) <= MAX_WORDS:
        raise InputError(
            f"This text has {len(words)} words and punctuation marks; the small model takes 1 to {MAX_WORDS}. "
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
            vocab_size=1 + 2 * MAX_WORDS,
            d_model=D_MODEL,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=2 * D_MODEL,
            decoder_ffn_dim=2 * D_MODEL,
            max_position_embeddings=1 + MAX_WORDS,
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
