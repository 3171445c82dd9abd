"""Small vocabularies of every kind, with the letters by which other kinds mark blanks, bytes and pieces of words.

What each writes was worked out by hand, and is compared with `decode` of the tokenizer itself where that reads added tokens as
they stand in a text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import transformers as t
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())


@dataclass(frozen=True)
class Written:
    """A vocabulary, a text in it, the texts of its tokens with | between them, its words likewise, and the kinds of its tokens.

    decoded  how `decode` writes it: an added token as if it were a piece, or without a decoder, with a blank after each piece
    """

    make: Callable[[], t.PreTrainedTokenizerBase]
    text: str
    tokens: str
    words: str
    kinds: str
    decoded: Literal["as it is written", "around it", "not as it stands in a text", "without a decoder"] = (
        "as it is written"
    )


ADDED, NO_DECODER = "not as it stands in a text", "without a decoder"


def fast(model, pre_tokenizer=None, decoder=None, normalizer=None, added=(), **roles):
    tokenizer = Tokenizer(model)
    for name, part in {"pre_tokenizer": pre_tokenizer, "decoder": decoder, "normalizer": normalizer}.items():
        if part is not None:
            setattr(tokenizer, name, part)
    made = t.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)
    made.add_tokens([*added])
    return made


def byte_level(*added, pieces=(), merges=(), decoder=True, **options):
    vocabulary = {piece: number for number, piece in enumerate([*LETTERS, *pieces])}
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model = models.BPE(vocabulary, list(merges), **options)
    return fast(model, splitter, decoders.ByteLevel() if decoder else None, added=added)


MALTESE = ("<unk>", "▁", "▁Ġobż", "Ċ", "Ġ", "!", "¡", "▁un", "able", "##x", "Ã", "©", "‹41›", "<0x41>", "</w>", "</s>")


def sentencepiece(*added, decoder=None, **options):
    model = models.Unigram([(piece, -1.0) for piece in MALTESE], unk_id=0, **options)
    how = pre_tokenizers.Metaspace(), decoder or decoders.Metaspace()
    return fast(model, *how, added=added, unk_token="<unk>", eos_token="</s>")


def in_bytes():
    return sentencepiece(decoder=decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), byte_fallback=True)


def blanks():
    """As Gemma's: several blanks are an added token, and one that is made by merging."""
    pieces = {piece: number for number, piece in enumerate(["<unk>", "▁", "▁▁", "a"])}
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    model = models.BPE(pieces, [("▁", "▁")], unk_token="<unk>")
    return fast(
        model, None, decoder, normalizers.Replace(" ", "▁"), [AddedToken("▁▁", normalized=False)], unk_token="<unk>"
    )


def wordpiece(*added, prefix="##", decoder=True):
    pieces = ("[UNK]", "un", f"{prefix}able", "##", ".", "a", "Ġa", "▁", "<0x41>")
    model = models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    model.continuing_subword_prefix = prefix
    how = pre_tokenizers.WhitespaceSplit(), decoders.WordPiece(prefix) if decoder else None
    return fast(model, *how, added=added, unk_token="[UNK]")


def whole_words():
    pieces = ("?", "##a", "Ġb", "▁c", "d</w>", "12")
    model = models.WordLevel({piece: number for number, piece in enumerate(pieces)}, unk_token="?")
    return fast(model, pre_tokenizers.WhitespaceSplit(), unk_token="?")


def characters():
    model = models.WordLevel({letter: number for number, letter in enumerate("?ab #")}, unk_token="?")
    return fast(model, pre_tokenizers.Split("", "isolated"), decoders.Fuse())


def clip():
    pieces = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    return t.CLIPTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}, merges=[])


def ctrl():
    """A tokenizer in Python, where "c@@" tells that a word goes on."""
    with TemporaryDirectory() as folder:
        words, merges = Path(folder, "vocab.json"), Path(folder, "merges.txt")
        words.write_text('{"<unk>": 0, "c@@": 1, "at": 2, "a": 3, "##a": 4}')
        merges.write_text("#version: 0.2\na t</w>\n\n")
        return t.CTRLTokenizer(str(words), str(merges))


def with_ends(decoder):
    pieces = ("u", "n", "t</w>", "t", "#</w>", "#")
    model = models.BPE({piece: number for number, piece in enumerate(pieces)}, [], end_of_word_suffix="</w>")
    return fast(model, pre_tokenizers.WhitespaceSplit(), decoder)


CAT = {"pieces": ("Ġc", "Ġca", "Ġcat"), "merges": (("Ġ", "c"), ("Ġc", "a"), ("Ġca", "t"))}
VOCABULARIES = {
    "words with accents, added": Written(
        lambda: byte_level("Straße", "kuća", "naïve"),
        "Straße kuća",
        "Straße| |kuća",
        "Straße| kuća",
        "word,blank,word part",
        ADDED,
    ),
    "letters with accents, added": Written(
        lambda: byte_level("ß", "ć"), "ßać", "ß|a|ć", "ßać", "word,word part,word part", ADDED
    ),
    "letters that bytes have as well, added": Written(
        lambda: byte_level("é", "©", "Ģ"),
        "é鬱 ĩ©aĢ",
        "é|‹E9›|‹AC›|‹B1›| |‹C4›|‹A9›|©|a|Ģ",
        "é|鬱| ĩ©aĢ",
        "word,word,word part,word part,blank,word part,word part,word part,word part,word part",
        ADDED,
    ),
    "a word that is there already, added": Written(
        lambda: byte_level("Ġcat", **CAT), "a cat", "a| cat", "a| cat", "word,word"
    ),
    "a piece that is not there, added": Written(lambda: byte_level("Ġdog"), "Ġdog", "Ġdog", "Ġdog", "word", ADDED),
    "with blanks, added": Written(lambda: byte_level(" big "), "a big a", "a| big |a", "a| big |a", "word,word,word"),
    "marks of other kinds, added": Written(
        lambda: byte_level("‹41›", "<0x41>", "▁a", "##a"),
        "‹41›<0x41>▁a##a",
        "‹41›|<0x41>|▁a|##a",
        "‹41›<0x41>▁a##a",
        "word,word part,word part,word part",
    ),
    "whole pieces without merges, added": Written(
        lambda: byte_level("ćevapi", "čaj", pieces=("ćevapi", "čaj"), ignore_merges=True),
        "ćevapičaj",
        "ćevapi|čaj",
        "ćevapičaj",
        "word,word part",
        ADDED,
    ),
    "bytes without a decoder": Written(
        lambda: byte_level(decoder=False), "a é", "a| |‹C3›|‹A9›", "a| é", "word,blank,word part,word part", NO_DECODER
    ),
    "bytes of ByT5": Written(
        t.ByT5Tokenizer,
        "é Ġ##",
        "‹C3›|‹A9›| |‹C4›|‹A0›|#|#|</s>",
        "é| Ġ|#|#|</s>",
        "word,word part,blank,word part,word part,punctuation,punctuation,special",
    ),
    "Maltese in SentencePiece": Written(
        sentencepiece,
        "Ġobż Ċ Ġ!¡Ã©",
        " Ġobż| |Ċ| |Ġ|!|¡|Ã|©",
        " Ġobż| Ċ| Ġ|!|¡|Ã©",
        "word,blank,word part,blank,word part,punctuation,punctuation,word,word part",
    ),
    "marks of other kinds in SentencePiece": Written(
        sentencepiece,
        "unable##x ‹41› <0x41> </w>",
        " un|able|##x| |‹41›| |<0x41>| |</w>",
        " unable##x| ‹41›| <0x41>| </w>",
        "word,word part,word part,blank,word part,blank,word part,blank,word part",
    ),
    "bytes in SentencePiece": Written(
        in_bytes, "un Aable", " un| |A|able", " un| Aable", "word,blank,word part,word part"
    ),
    "▁ in an added token": Written(
        lambda: sentencepiece("x▁y"), "un x▁y", " un| |x▁y", " un| x▁y", "word,blank,word part", ADDED
    ),
    "several blanks, added": Written(blanks, "a  a a", "a|  |a| |a", "a|  |a| a", "word,blank,word,blank,word part"),
    "WordPiece": Written(
        lambda: wordpiece("##new", "Straße"),
        "unable Ġa ▁ <0x41> ##new Straße",
        "un|##able|Ġa|▁|<0x41>|##new|Straße",
        "unable|Ġa|▁|<0x41>|##new|Straße",
        "word,word part,word,word,word,word,word",
        ADDED,
    ),
    "WordPiece with another mark": Written(
        lambda: wordpiece(prefix="@@"),
        "unable ## a",
        "un|@@able|##|a",
        "unable|##|a",
        "word,word part,punctuation,word",
    ),
    "WordPiece without a decoder": Written(
        lambda: wordpiece(decoder=False), "unable a", "un|##able|a", "unable|a", "word,word part,word", NO_DECODER
    ),
    "whole words": Written(
        whole_words, "##a Ġb ▁c d</w> 12", "##a|Ġb|▁c|d</w>|12", "##a|Ġb|▁c|d</w>|12", "word,word,word,word,number"
    ),
    "characters": Written(
        characters,
        "ab a##b",
        "a|b| |a|#|#|b",
        "ab| a|#|#|b",
        "word,word part,blank,word part,punctuation,punctuation,word",
    ),
    "CLIP": Written(
        clip,
        "é a",
        "<|startoftext|>|‹C3›|‹A9› |a |<|endoftext|>",
        "<|startoftext|>|é |a |<|endoftext|>",
        "special,word,word part,word,special",
        "around it",
    ),
    "a tokenizer in Python": Written(ctrl, "cat a", "c@@|at|a", "cat|a", "word,word part,word"),
    "ends of words": Written(
        lambda: with_ends(decoders.BPEDecoder()), "unt t", "u|n|t |t ", "unt |t ", "word,word part,word part,word"
    ),
    "ends of words without a decoder": Written(
        lambda: with_ends(None), "unt t", "u|n|t |t ", "unt |t ", "word,word part,word part,word", NO_DECODER
    ),
}
