"""The tokenizers of GGUF files: texts become the tokens that llama.cpp makes of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
from transformers import TokenizersBackend
from transformers.convert_slow_tokenizer import bytes_to_unicode

from core.capturing.generation import generating
from core.models.gguf_files import GgufFile, read_gguf
from core.models.gguf_tokens import end_tokens, tokenizer
from core.models.loading import load_model
from core.models.tokens import token_texts, whole_text
from tests.core.gguf_files import write_gguf
from tests.core.models.test_conversion import tiny_tensors, write_tiny
from tests.refusals import refused

BYTES = bytes_to_unicode()
NORMAL, UNKNOWN, CONTROL, ADDED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
BYTE_TOKENS = {f"<0x{byte:02X}>": BYTE for byte in range(256)}

# The expressions of llama.cpp's llama-vocab.cpp, by what a file says of its splitting.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
OLD = (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")
ENDS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|"
EXPRESSIONS = {
    None: OLD,
    "": OLD,
    "default": OLD,
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"),
    "bloom": (r" ?[^(\s|.,!?…。，、।۔،)]+",),
    "viking": (r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"),
    "gpt-2": (GPT2,),
    "smollm": (r"\p{N}", GPT2),
    "llama-bpe": (SHORT + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + ENDS,),
    "minicpm5": (r"\p{N}{1,3}", SHORT + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+" + ENDS),
    "qwen2": (SHORT + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + ENDS,),
    "ufakzeka": (r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + ENDS,),
    "qwen35": (SHORT + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}" + ENDS.replace(r"[^\s\p{L}", r"[^\s\p{L}\p{M}"),),
    "deepseek-v3": (
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
HARD = (
    "It's   12 or 1234567, isn't it?\n\n  (x<=10)…",
    "I'LL don't 'tis \t\t½ + ²₃ = ٣٤٥ 4",
    "日本語 ça va e\u0301 हिन्दी 👍🏽 中1文2字",
    "a\t\tb  \r\nc \n d  ",
    "`x` 1a (a)、b۔ $5 3.14",
)


def pieces_of(text: str, cut: str | None) -> list[str]:
    """A text as llama.cpp splits it: each expression splits the pieces so far."""
    pieces = [text]
    for expression in EXPRESSIONS[cut]:
        pieces = [part for piece in pieces for part in regex.split(f"({expression})", piece) if part]
    return pieces


@pytest.mark.usefixtures("cache")
def test_a_qwen2_with_another_splitting(tmp_path):
    """AutoTokenizer takes every tokenizer of a qwen2 for Qwen2's, which has single digits."""
    tensors = tiny_tensors() | {
        f"blk.{layer}.attn_{part}.bias": np.zeros(size, np.float32)
        for layer in range(2)
        for part, size in (("q", 32), ("k", 16), ("v", 16))
    }
    for cut, splits in {"llama-bpe": ["123"], "qwen2": ["1", "2", "3"]}.items():
        path = write_tiny(tmp_path / f"{cut}.gguf", tensors, "qwen2", **{"tokenizer.ggml.pre": cut})
        made = load_model(path).tokenizer
        assert [piece for piece, _ in made.backend_tokenizer.pre_tokenizer.pre_tokenize_str("123")] == splits


def file_of(path: Path, kind: str, pieces: dict, special: dict, **settings: Any) -> GgufFile:
    """A file with these tokens, each with its type, and special ones by their part in the file's settings."""
    said = {
        "model": kind,
        "pre": None,
        "tokens": [*pieces],
        "token_type": [*pieces.values()],
        "scores": [-1.0 - 0.1 * number for number in range(len(pieces))],
        "merges": None,
        **{f"{role}_token_id": special.get(role) for role in {"bos", "eos", "unknown", "padding"} | {*special}},
        **settings,
    }
    embedding = {"token_embd.weight": np.zeros((len(pieces), 4), np.float32)}
    whole = {name if "." in name else f"tokenizer.ggml.{name}": value for name, value in said.items()}
    return read_gguf(write_gguf(path, "llama", whole, embedding))


def tokenizer_of(*arguments: Any, **settings: Any) -> TokenizersBackend:
    return tokenizer(file_of(*arguments, **settings))


@pytest.mark.parametrize("cut", EXPRESSIONS)
def test_texts_are_split_as_in_llama_cpp(cut, tmp_path):
    """With another setting or none, as in old files."""
    every = dict.fromkeys((*BYTES.values(), "ab"), NORMAL)
    made = tokenizer_of(tmp_path / "bytes.gguf", "gpt2", every, {}, pre=cut, merges=["a b"], add_bos_token=False)
    for text in HARD:
        spelled = ["".join(BYTES[byte] for byte in piece.encode()) for piece in pieces_of(text, cut)]
        assert [piece for piece, _ in made.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)] == spelled, text
        assert made.decode(made(text)["input_ids"]) == text


# Of SentencePiece: "ab" is merged before "bc", and "<|x ▁|>" is written with a blank and a mark.
PIECES = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL} | BYTE_TOKENS
PIECES |= dict.fromkeys(("ab", "bc", "▁a", "▁▁", "▁", "a", "b", "c", "▁ab"), NORMAL)
PIECES |= {"  c": ADDED, "<|x ▁|>": CONTROL, "[EOS]": NORMAL, "<|endoftext|>": CONTROL}
SPECIAL = {"bos": 1, "eos": 2, "unknown": 0}
LETTERS = dict.fromkeys(BYTES.values(), NORMAL) | dict.fromkeys(("ab", "Ġab", "abc", "Ġx"), NORMAL)
LETTERS |= {"<s>": CONTROL, "<｜x y｜>": CONTROL, "  ": ADDED, "<|im_end|>": NORMAL}
T5 = {"<pad>": CONTROL, "</s>": CONTROL, "<s>": CONTROL, "<unk>": UNKNOWN}
T5 |= dict.fromkeys(("▁", "a", "▁a", "b"), NORMAL)
T5_SPECIAL = {"padding": 0, "eos": 1, "bos": 2, "unknown": 3}


def lowering_a(**changed: int) -> bytes:
    """The table of SentencePiece that replaces "A" by "a": a double-array trie and the texts that it points to."""
    trie = np.zeros(0x400, "<u4")
    trie[0] = changed.get("root", 0x100) << 10
    trie[0x100 ^ ord("A")] = changed.get("row", 0x200) << 10 | 1 << 8 | ord("A")
    trie[0x341] = changed.get("text", 0)
    return changed.get("size", trie.nbytes).to_bytes(4, "little") + trie.tobytes() + b"a\0"


def spaced(prefix: bool | None, extra: bool | None) -> dict[str, Any]:
    return {"add_space_prefix": prefix, "remove_extra_whitespaces": extra}


# By kind: the tokens, the special ones, and the settings unless others are given.
VOCABULARIES: dict[str, tuple[dict[str, int], dict[str, int], dict[str, Any]]] = {
    "llama": (PIECES, SPECIAL, {}),
    "gpt2": (LETTERS, {"bos": [*LETTERS].index("<s>")}, {"pre": "gpt-2", "merges": ["Ġ ab", "a b"], "scores": None}),
    "t5": (T5, T5_SPECIAL, {"precompiled_charsmap": lowering_a()}),
}


@pytest.mark.parametrize(
    ("kind", "settings", "text", "tokens"),
    [
        ("llama", {}, "ab abc", ["<s>", "▁ab", "▁ab", "c"]),
        ("llama", {}, "  ab", ["<s>", "▁▁", "▁ab"]),
        ("llama", {"add_space_prefix": True}, "abc", ["<s>", "▁ab", "c"]),
        ("llama", {"add_space_prefix": False}, "abc ab", ["<s>", "ab", "c", "▁ab"]),
        ("llama", {}, "a  ca<|x ▁|> b", ["<s>", "▁a", "  c", "▁a", "<|x ▁|>", "▁▁", "b"]),
        ("llama", {}, "é\n", ["<s>", "▁", "<0xC3>", "<0xA9>", "<0x0A>"]),
        ("llama", {}, "b[EOS]b", ["<s>", "▁", "b", "[EOS]", "▁", "b"]),
        ("llama", {"add_bos_token": False, "add_eos_token": True}, "c", ["▁", "c", "</s>"]),
        ("llama", {"bos_token_id": None, "eos_token_id": 2**31, "unknown_token_id": None}, "c", ["<s>", "▁", "c"]),
        ("llama", {"scores": [0.0] * 259 + [-2.0, -1.0] + [-3.0] * 11}, "abc", ["<s>", "▁a", "bc"]),
        ("llama", {"general.name": "My Phi-3"}, "c<|x ▁|> \n b", ["<s>", "▁", "c", "<|x ▁|>", "▁", "b"]),
        ("gpt2", {}, "abc  x", ["ab", "c", "  ", "x"]),
        ("gpt2", {"pre": "llama-bpe"}, "abc ab", ["<s>", "abc", "Ġab"]),
        ("gpt2", {"pre": "llama-bpe", "add_bos_token": False}, "abc x", ["abc", "Ġx"]),
        ("gpt2", {"pre": "dbrx"}, "abc", ["ab", "c"]),
        ("gpt2", {"pre": "qwen2", "add_bos_token": True}, "abc", ["<s>", "ab", "c"]),
        ("gpt2", {}, "a<｜x y｜>ab<|im_end|>c", ["a", "<｜x y｜>", "ab", "<|im_end|>", "c"]),
        ("gpt2", {"merges": ["Ġ x", "a b", "Ġ ab", "a b"]}, " ab x", ["Ġab", "Ġx"]),
        ("t5", spaced(True, True), "  Ab  a é ", ["▁a", "b", "▁a", "▁", "<unk>", "</s>"]),
        ("t5", spaced(False, True), "Ab", ["▁a", "b", "</s>"]),
        ("t5", spaced(True, False), " ab a", ["▁", "▁a", "b", "▁a", "</s>"]),
        ("t5", spaced(False, False), "ab  a", ["a", "b", "▁", "▁a", "</s>"]),
        ("t5", spaced(None, None), "aé", ["a", "<unk>", "</s>"]),
    ],
)
def test_texts_become_the_tokens_of_llama_cpp(kind, settings, text, tokens, tmp_path):
    """They were taken from it (build 11549, through xllamacpp)."""
    pieces, special, usual = VOCABULARIES[kind]
    made = tokenizer_of(tmp_path / "pieces.gguf", kind, pieces, special, **usual | settings)
    assert made.convert_ids_to_tokens(made(text)["input_ids"]) == tokens


ENDS = "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> "
ENDS += (
    "<end_of_utterance> <eos> <turn|> <｜end▁of▁sentence｜> [e~[ </s> <|flush|> <|return|> <|fim_pad|> <|fim_repo|> "
)
ENDS += "<|file_sep|>"
ROLES = dict(zip(("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"), range(2, 8), strict=True))


@pytest.mark.parametrize(
    ("kind", "tokens", "special", "ends"),
    [
        ("gpt2", f"<s> {ENDS} <|fim_prefix|> <|stop|> <pad>", {"eos": 2, "padding": 256}, f"# {ENDS}"),
        ("gpt2", "<|im_end|> <x>", {}, ", <|im_end|>"),
        ("gpt2", "<x>", {"eos": 9999, "eot": 9999}, ","),
        ("gpt2", "<x> <PAD> <REPO> <|file_sep|> <|eom_id|>", ROLES, "# $ % & ' ( <|eom_id|>"),
        ("gpt2", "<|end|> <|return|> <|call|>", {"eos": 256}, "<|return|> <|call|>"),
        ("gpt2", "<|end|> <|flush|> <|calls|>", {"eos": 2}, "# <|flush|> <|calls|>"),
        ("gpt2", "<|end|> <|call|>", {"eos": 2}, "# <|end|> <|call|>"),
        ("gpt2", "<eos> <|tool_response> </s>", {"eos": 258}, "<eos> <|tool_response>"),
        ("llama", "<x>", {}, "</s> [EOS] <|endoftext|>"),
        ("llama", "<x>", {"eos": len(PIECES)}, "</s> [EOS] <|endoftext|> <x>"),
    ],
)
def test_a_text_ends_where_llama_cpp_ends_it(kind, tokens, special, ends, tmp_path):
    """Each token was written first by llama.cpp (build 11549, through xllamacpp), which then stopped or went on."""
    pieces = {"llama": PIECES, "gpt2": dict.fromkeys(BYTES.values(), NORMAL)}[kind]
    pieces = pieces | dict.fromkeys(tokens.split(), CONTROL)
    found = end_tokens(file_of(tmp_path / "ends.gguf", kind, pieces, special))
    assert [[*pieces][number] for number in found] == ends.split()


@pytest.mark.usefixtures("cache")
def test_a_model_ends_its_texts_there_and_never_writes_what_is_suppressed(tmp_path):
    settings = {"eos_token_id": 5, "suppress_tokens": [7, 9999]}
    said = {f"tokenizer.ggml.{name}": value for name, value in settings.items()}
    model = load_model(write_tiny(tmp_path / "ends.gguf", tiny_tensors(), **said))
    assert generating.ends(model) == {0, 5}  # <|end|>, and what the file says
    assert model.network.generation_config.suppress_tokens == [7]


@pytest.mark.parametrize("cut", ["gpt-2", "llama-bpe"])
def test_words_that_were_added_are_read_as_they_stand(cut, tmp_path):
    """llama.cpp writes an added token as it stands in the file, and the bytes of any other one."""
    pieces = LETTERS | {"Straße": ADDED, "ćevapi": ADDED, "čaj": ADDED, "Ã©": NORMAL}
    made = tokenizer_of(
        tmp_path / "added.gguf", "gpt2", pieces, {}, pre=cut, add_bos_token=False, merges=["a b", "Ã ©"]
    )
    ids = made("Straßećevapičajéab  ")["input_ids"]
    assert token_texts(made, ids) == ("Straße", "ćevapi", "čaj", "é", "ab", "  ")
    assert whole_text(made, ids) == "Straßećevapičajéab  "


def test_unknown_characters_of_a_t5_in_bytes(tmp_path):
    """As the tokenizer of mT5 writes them. llama.cpp writes <unk>."""
    made = tokenizer_of(tmp_path / "t5.gguf", "t5", T5 | BYTE_TOKENS | {"[PAD264]": UNUSED}, T5_SPECIAL)
    assert made.tokenize("aé<extra_id_99>") == ["a", "<0xC3>", "<0xA9>", "<extra_id_99>"]


def test_the_tokens_of_a_gemma_4(tmp_path):
    """Texts are merged line by line, with spaces as "▁" and in characters, not bytes. Its own tokenizer writes no <bos>,
    whatever the file says: the chat template does."""
    special = {"padding": 0, "eos": 1, "bos": 2, "unknown": 3}
    tokens = {"<pad>": 3, "<eos>": 3, "<bos>": 3, "<unk>": 3, "<|turn>": 4}
    tokens |= dict.fromkeys(("\n", "\n\n", "▁", "a", "b", "▁a", "ab", "▁ab", "▁▁"), 1) | BYTE_TOKENS
    merges = ["\n \n", "▁ ▁", "▁ a", "a b", "▁a b"]
    settings = {"merges": merges, "add_bos_token": True, "add_space_prefix": False}
    made = tokenizer_of(tmp_path / "gemma4.gguf", "gemma4", tokens, special, **settings)
    text = "<|turn>ab  ab é\n\nab ab\n"
    ids = made(text)["input_ids"]
    expected = ["<|turn>", "ab", "▁▁", "ab", "▁", "<0xC3>", "<0xA9>", "\n\n", "ab", "▁ab", "\n"]
    assert made.convert_ids_to_tokens(ids) == expected
    assert made.decode(ids) == text


@pytest.mark.parametrize(
    ("kind", "changed", "why"),
    [
        ("llama", {"model": None}, "kind 'None'. Kinds that can be read are gemma4, gpt2, llama, t5"),
        ("llama", {"model": 3}, "model = 3, which is of the type uint32 and has to be of the type string"),
        ("gpt2", {"pre": "kimi-k2"}, r"tokenizer\.ggml\.pre is 'kimi-k2'"),
        ("gpt2", {"merges": None}, "lacks the setting tokenizer.ggml.merges"),
        ("llama", {"scores": None}, "lacks the setting tokenizer.ggml.scores"),
        ("llama", {"scores": [float("nan")] * len(PIECES)}, "has a scores that is not finite"),
        ("llama", {"scores": [0.0] * 9}, "lists 272 tokens and has a scores for 9"),
        ("llama", {"token_type": [1.0] * len(PIECES)}, r"type \[float32\] and has to be of the type \[int32\]"),
        ("llama", {"tokens": ["a"] * len(PIECES)}, "lists a token twice"),
        ("llama", {"add_bos_token": 1}, "add_bos_token = 1, which is of the type uint32 and has to be .* bool"),
        ("llama", {"bos_token_id": 1.0}, "bos_token_id = 1.0, which is of the type float32"),
        ("gpt2", {"merges": ["a b"], "add_bos_token": True, "bos_token_id": None}, "does not say which"),
        ("t5", {"precompiled_charsmap": lowering_a(root=0x400)}, "table of characters that is damaged"),
        ("t5", {"precompiled_charsmap": lowering_a(row=0x1FFFFF)}, "table of characters that is damaged"),
        ("t5", {"precompiled_charsmap": lowering_a(text=9)}, "table of characters that is damaged"),
        ("t5", {"precompiled_charsmap": lowering_a(size=2**31)}, "table of characters that is damaged"),
        ("t5", {"precompiled_charsmap": b"abc"}, "table of characters that is damaged"),
        ("t5", {"precompiled_charsmap": [0.5]}, r"\[float32\] and has to be of the type \[uint8\] or \[int8\]"),
    ],
)
def test_what_is_not_a_tokenizer(kind, changed, why, tmp_path):
    with refused("model", why):
        tokenizer_of(tmp_path / "odd.gguf", kind, PIECES, SPECIAL, **changed)
