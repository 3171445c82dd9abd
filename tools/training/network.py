"""The network and its tokenizer: a BART of a few small layers that reads and writes characters."""

import string
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

START, PAD, END, UNKNOWN = "<s>", "<pad>", "</s>", "<unk>"
SPECIAL = (START, PAD, END, UNKNOWN)
BLANK = "▁"  # how the vocabulary writes a blank, by which words can be told from their characters
MAX_TOKENS = 64


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A token a character: printable ASCII, all else is unknown. What is read ends with </s>."""
    letters = [BLANK, *sorted(set(string.printable) - set(string.whitespace))]
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizers.Replace(" ", BLANK)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, vocabulary[END])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        model_max_length=MAX_TOKENS,
        clean_up_tokenization_spaces=False,
    )


def make_network(tokenizer: PreTrainedTokenizerFast, **changes: Any) -> BartForConditionalGeneration:
    """With random weights, from torch's generator. The decoder starts with <s>, so its row i predicts character i."""
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "d_model": 128,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
        "max_position_embeddings": MAX_TOKENS,
        "dropout": 0.05,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "bos_token_id": tokenizer.bos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.bos_token_id,
        "forced_eos_token_id": None,
        "use_cache": True,
    }
    network = BartForConditionalGeneration(BartConfig(**settings | changes))
    network.generation_config.max_length = MAX_TOKENS
    return network
