"""The tokenizer in a GGUF file, as llama.cpp reads it (llama-vocab.cpp in its sources), for transformers.

A file has the tokens, their scores or merges, and settings. How a text is split before tokens are merged stands in it as a name
(tokenizer.ggml.pre). For some names llama.cpp has a simpler expression than the model's own tokenizer.json, because it knows no
classes of upper and lower case and of marks; then the model's is taken.
"""

import re
from contextlib import suppress
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from transformers import TokenizersBackend
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from .gguf_files import GgufFile

_KINDS = ("gemma4", "gpt2", "llama", "t5")

# The tokens with a role, by our names and the file's, and which ones they are where a file does not say it.
_ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
_USUAL = {"llama": {"bos": 1, "eos": 2, "unk": 0}, "t5": {"eos": 1, "unk": 2, "pad": 0}}

# Further roles of tokens that end a text, and the texts of the tokens that have them if a file gives no number.
_ENDING = {
    "eot": "",
    "eom": "",
    "fim_pad": r"<\|fim_pad\|>|<fim[-_]pad>|<PAD>|\[PAD\]",
    "fim_rep": r"<\|(fim_repo|repo_name)\|>|<fim-repo>|<REPO>|<reponame>",
    "fim_sep": r"<\|file_sep\|>",
}
# Tokens that end a text whatever else the file says.
_ENDS = re.compile(
    r"<\|(eot_id|im_end|end|return|calls?|flush|endoftext|eom_id|end_of_text)\|>|<(end_of_turn|end_of_utterance|eos|/s)>"
    r"|_?<EOT>|\[(EOT|EOS)\]|<turn\|>|<\|tool_response>|<｜end▁of▁sentence｜>|\[e~\["
)
# Two that do not, where a file has all tokens of one of these sets: there they end a part of a text.
_NO_ENDS = {
    "<|end|>": [{one, other} for one in ("<|return|>", "<|flush|>") for other in ("<|call|>", "<|calls|>")],
    "</s>": [{"<|tool_response>"}],
}

# The types of the settings that llama.cpp reads; they begin with tokenizer.ggml.
_TYPES = {
    "model": ("string",),
    "pre": ("string",),
    "tokens": ("[string]",),
    "merges": ("[string]",),
    "scores": ("[float32]", "[int32]"),
    "token_type": ("[int32]",),
    "precompiled_charsmap": ("[uint8]", "[int8]"),
    "token_type_count": ("uint32",),
    "add_bos_token": ("bool",),
    "add_eos_token": ("bool",),
    "add_space_prefix": ("bool",),
    "remove_extra_whitespaces": ("bool",),
    **{f"{role}_token_id": ("uint32",) for role in (*_ROLES.values(), *_ENDING)},
    "suppress_tokens": ("[int32]",),
}
_MAX_SQUARES = 500_000_000  # of the lengths of all tokens: finding merges takes so many steps. Gemma's have 14 million
_NEEDED: Any = object()  # stands for the default of a setting that a file must have
_NORMAL, _UNKNOWN, _CONTROL, _ADDED, _UNUSED = 1, 2, 3, 4, 5  # the types of tokens

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3, _QWEN2 = GGUF_PRE_TOKENIZER_SPLITS["llama3"], GGUF_PRE_TOKENIZER_SPLITS["qwen2"]
_SPACED = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
# A file without a name is older than the setting. llama.cpp then splits off punctuation, splits what is left in GPT-2's way,
# and numbers into groups of three digits from the left, whatever the model was trained with.
_OLD = (r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", r"[0-9]{3}")

# Expressions by which a text is split, one after the other, by the names in tokenizer.ggml.pre. transformers knows some.
SPLITS: dict[str, tuple[str, ...]] = {name: (split,) for name, split in GGUF_PRE_TOKENIZER_SPLITS.items()} | {
    name: splits
    for names, splits in {
        "default": _OLD,
        "falcon": (r"[\p{P}$+<=>^~|`]+", _GPT2, r"[0-9]{3}"),
        "bloom poro-chat gpt3-finnish": (_SPACED,),
        "viking": (_SPACED, r"\p{N}"),
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": (r"\p{N}", _GPT2),
        "gpt-2 phi-2 mpt olmo jais trillion gigachat mellum granite-docling exaone4 a.x-4.0": (_GPT2,),
        "modern-bert jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe": (_GPT2,),
        "stablelm2 hunyuan solar-open grok-2": (_QWEN2,),
        "ufakzeka": (_QWEN2.removeprefix(_CONTRACTIONS),),
        "laguna": (r"[^\n]+|[\n]+", _QWEN2),
        "chatglm-bpe glm4 glm5": (_LLAMA3,),
        "minicpm5": (r"\p{N}{1,3}", _LLAMA3.replace("{1,3}", "+")),
        "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4": _DEEPSEEK3,
    }.items()
    for name in names.split()
}
# Those that put the token of the beginning before a text unless the file says otherwise, and those that take a piece as it is
# if it is a token, whatever the merges are.
_BEGINNING = {"tekken", *(name for name, splits in SPLITS.items() if splits == (_LLAMA3,))} - {
    *("chatglm-bpe", "dbrx", "glm4", "glm5", "smaug-bpe")
}
_WHOLE = _BEGINNING | {"glm4", "glm5", "minicpm5"}

# Tokens that llama.cpp takes for special by their texts, whatever their type is in the file.
_BY_TEXT = re.compile(
    r"<\|(eot_id|eom_id|im_end|end|return|call|calls|flush|endoftext|end_of_text|channel|message|start|constrain"
    r"|repo_name|file_sep|(code_)?(prefix|suffix|middle)|fim_(prefix|suffix|middle|pad|repo))\|>"
    r"|<fim[-_](prefix|suffix|middle|pad)>|<fim-repo>|<reponame>|<(PAD|REPO|eos|/s|end_of_turn|end_of_utterance)>|<turn\|>|<\|tool_response>"
    r"|▁?<(PRE|SUF|MID)>|_?<EOT>|\[(EOT|EOS|PAD)\]|\[e~\[|<｜(end▁of▁sentence|fim▁(begin|hole|end))｜>"
)


def special_tokens(file: GgufFile) -> dict[str, int]:
    """The numbers of the tokens with a role, by "bos", "eos", "unk" and "pad". A number beyond the tokens says no more than a
    missing one, as in llama.cpp."""
    ids, count = {}, _count(file)
    for role, theirs in _ROLES.items():
        number = _said(file, f"{theirs}_token_id", count)
        if number >= count:
            number = _USUAL.get(_said(file, "model", ""), {}).get(role, count)
        if number < count:
            ids[role] = number
    return ids


def end_tokens(file: GgufFile) -> list[int]:
    """The numbers of the tokens after which llama.cpp writes no further one: by their roles, and by their texts."""
    tokens = dict(enumerate(file.texts("tokenizer.ggml.tokens")))
    usual = {"gpt2": 11}.get(_said(file, "model", ""))  # llama.cpp's, where a file has no eos
    ends = {special_tokens(file).get("eos", usual)} | {number for number in tokens if _ENDS.fullmatch(tokens[number])}
    for role, texts in _ENDING.items():
        said = _said(file, f"{role}_token_id", len(tokens))
        ends |= {said} if said in tokens else {at for at in tokens if texts and re.fullmatch(texts, tokens[at])}
    by_number = {number: tokens[number] for number in ends if number in tokens}
    never = {text for text, sets in _NO_ENDS.items() if any(each <= {*by_number.values()} for each in sets)}
    return sorted(number for number, text in by_number.items() if text not in never)


def suppressed_tokens(file: GgufFile) -> list[int]:
    """The numbers of the tokens that are never written."""
    return [number for number in _said(file, "suppress_tokens", []) if 0 <= number < _count(file)]


def tokenizer(file: GgufFile) -> TokenizersBackend:
    """The tokenizer that the file describes. Raises InputError (field "model") if it is of a kind that is not known, or has
    settings or tokens that do not fit."""
    for name in _TYPES:
        _said(file, name, None)
    kind, way, ids = _said(file, "model", None), _said(file, "pre", "") or "default", special_tokens(file)
    if kind not in _KINDS:
        file.refuse(f"has a tokenizer of the kind {str(kind)[:60]!r}. Kinds that can be read are {', '.join(_KINDS)}")
    if kind == "gpt2" and way not in SPLITS:
        file.refuse(f"splits texts in a way that is not known here (tokenizer.ggml.pre is {way[:60]!r})")
    rows = file.shape("token_embd.weight")
    if rows is not None and rows[0] != _count(file):
        file.refuse(f"lists {_count(file):,} tokens and has embeddings for {rows[0]:,}")
    tokens = file.texts("tokenizer.ggml.tokens")
    tokens = [token or f"[EMPTY_{number}]" for number, token in enumerate(tokens)]
    if len({*tokens}) < len(tokens):
        file.refuse("lists a token twice")
    if sum(len(token) ** 2 for token in tokens) > _MAX_SQUARES:
        file.refuse(f"lists tokens of up to {max(map(len, tokens)):,} characters, which no vocabulary has")
    types = _numbers(file, "token_type", [_NORMAL] * len(tokens))
    if kind == "t5":
        tokens = _with_sentinels(tokens, types)
    made_by = {"gpt2": _of_bytes, "llama": _of_scores, "t5": _of_unigrams, "gemma4": _of_merges}
    backend = made_by[kind](file, tokens, types, ids, way)
    _add(file, backend, tokens, types)
    adds_bos = kind == "llama" or (kind == "gpt2" and way in _BEGINNING)
    # A Gemma 4 says that it adds one, and its own tokenizer does not: its chat template writes it.
    flags = {
        "add_bos_token": kind != "gemma4" and _said(file, "add_bos_token", adds_bos),
        "add_eos_token": _said(file, "add_eos_token", kind == "t5"),
    }
    for role in ("bos", "eos"):
        if flags[f"add_{role}_token"] and role not in ids:
            file.refuse(f"adds a token to every text (tokenizer.ggml.add_{role}_token) and does not say which")
    template = file.settings.get("tokenizer.chat_template")
    roles = {f"{role}_token": tokens[number] for role, number in ids.items()}
    chat = {"chat_template": template.value} if template is not None and template.kind == "string" else {}
    made = TokenizersBackend(tokenizer_object=backend, **roles, **flags, **chat)
    if len(made) != len(tokens):
        file.refuse(f"lists {len(tokens):,} tokens, of which a tokenizer with {len(made):,} was made")
    return made


# --- what the file says


def _said(file: GgufFile, name: str, default: Any = _NEEDED) -> Any:
    """A setting of the tokenizer; of a list of texts, their number. Raises InputError for a missing one without a default."""
    value = file.said(f"tokenizer.ggml.{name}", _TYPES[name], default)
    if value is _NEEDED:
        file.refuse(f"lacks the setting tokenizer.ggml.{name}")
    return value


def _count(file: GgufFile) -> int:
    return _said(file, "tokens", 0)


def _numbers(file: GgufFile, name: str, default: Any = _NEEDED) -> list[float]:
    """A number for every token; the file may list more."""
    numbers, count = _said(file, name, default), _count(file)
    if len(numbers) < count:
        file.refuse(f"lists {count:,} tokens and has a {name} for {len(numbers):,}")
    if not np.isfinite(numbers).all():
        file.refuse(f"has a {name} that is not finite")
    return numbers[:count]


def _merges(file: GgufFile) -> list[tuple[str, str]]:
    """The pairs that are merged, the first one first. A pair is written as two texts with a blank between them; the first may
    be a blank itself."""
    _said(file, "merges")
    pairs = [(text[:1], *text[1:].partition(" ")) for text in file.texts("tokenizer.ggml.merges")]
    return list(dict.fromkeys((first + rest, second) for first, rest, blank, second in pairs if blank))


# --- the four kinds


def _by_token(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def _of_bytes(file: GgufFile, tokens: list[str], _types: list[float], _ids: dict[str, int], way: str) -> Tokenizer:
    """GPT-2's: texts in bytes, each written as a letter."""
    backend = Tokenizer(models.BPE(vocab=_by_token(tokens), merges=_merges(file), ignore_merges=way in _WHOLE))
    splits: list[Any] = [Split(Regex(split), "isolated") for split in SPLITS[way]]
    splitter = Sequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
    return _with_steps(backend, None, splitter, decoders.ByteLevel())


def _of_scores(file: GgufFile, tokens: list[str], types: list[float], ids: dict[str, int], _way: str) -> Tokenizer:
    """SentencePiece's with merges: of two neighbours that are a token together, those with the best score are merged first."""
    scores, vocabulary = _numbers(file, "scores"), _by_token(tokens)
    ranked = sorted(range(len(tokens)), key=lambda number: (-scores[number], number))
    merges = [
        (token[:place], token[place:])
        for token in (tokens[number] for number in ranked if types[number] in (0, _NORMAL, _UNUSED))
        for place in range(1, len(token))
        if token[:place] in vocabulary and token[place:] in vocabulary
    ]
    return _of_characters(merges, tokens, ids, _said(file, "add_space_prefix", True))


def _of_merges(file: GgufFile, tokens: list[str], _types: list[float], ids: dict[str, int], _way: str) -> Tokenizer:
    """Gemma 4's: as before, with merges in the file."""
    lines = Split(Regex(r"[^\n]+|[\n]+"), "isolated")
    return _of_characters(_merges(file), tokens, ids, False, lines)


def _of_characters(
    merges: list[tuple[str, str]], tokens: list[str], ids: dict[str, int], prefixed: bool, splitter: Any = None
) -> Tokenizer:
    unknown = {"unk_token": tokens[ids["unk"]]} if "unk" in ids else {}
    options: dict[str, Any] = {"byte_fallback": True, "fuse_unk": True, **unknown}
    backend = Tokenizer(models.BPE(vocab=_by_token(tokens), merges=merges, **options))
    return _with_steps(backend, _marked(prefixed), splitter, _as_text(prefixed))


def _of_unigrams(file: GgufFile, tokens: list[str], _types: list[float], ids: dict[str, int], _way: str) -> Tokenizer:
    """SentencePiece's with probabilities, T5's: of all ways to split a text, the most probable one."""
    if "unk" not in ids:
        file.refuse("does not say which token stands for unknown characters (tokenizer.ggml.unknown_token_id)")
    scores = _numbers(file, "scores")
    in_bytes = {f"<0x{byte:02X}>" for byte in range(256)} <= {*tokens}
    backend = Tokenizer(models.Unigram([*zip(tokens, scores, strict=True)], ids["unk"], in_bytes))
    steps: list[Any] = []
    if (table := _said(file, "precompiled_charsmap", None)) is not None:
        steps.append(_precompiled(file, bytes(byte & 255 for byte in table)))
    strips = _said(file, "remove_extra_whitespaces", False)
    prefixed = strips or _said(file, "add_space_prefix", False)
    if strips:
        steps += [normalizers.Replace(Regex(r"\A +| +\z"), ""), normalizers.Replace(Regex(" +"), " ")]
    return _with_steps(backend, _marked(prefixed, steps), None, _as_text(prefixed))


def _with_sentinels(tokens: list[str], types: list[float]) -> list[str]:
    """T5 writes a gap in a text as <extra_id_0> to <extra_id_99>, which are the first unused tokens in a file, the last one
    first."""
    gaps = [number for number, token in enumerate(tokens) if re.fullmatch(r"\[PAD\d+\]", token)][:100]
    named = {number: f"<extra_id_{99 - place}>" for place, number in enumerate(gaps)}
    for number in gaps:
        types[number] = _CONTROL
    return [named.get(number, token) for number, token in enumerate(tokens)]


def _precompiled(file: GgufFile, table: bytes) -> normalizers.Normalizer:
    """SentencePiece's table of characters and what they become: a trie, as 32-bit numbers after their length in bytes, and the
    texts that it points to. The package tokenizers looks into it without checking a place."""
    length = int.from_bytes(table[:4], "little")
    units = np.frombuffer(table[4 : 4 + length // 4 * 4], "<u4") if 4 <= length < len(table) - 4 else np.zeros(0, "<u4")
    texts = table[4 + length :]
    # A place plus the offset that stands there leads to a row of 256 places, one for each next byte; a node that ends a text
    # has the place of what it becomes in the first of them.
    offsets = (units >> 10) << ((units & 512) >> 6)
    rows = (np.arange(len(units)) ^ offsets).astype(np.int64)
    nodes = units < 2**31
    starts = units[rows[nodes & (units & 256 > 0) & (rows < len(units))]] & (2**31 - 1)
    with suppress(ValueError):  # also of texts that are not UTF-8
        texts.decode()
        sound = len(units) > 0 and bool(((rows[nodes] | 255) < len(units)).all())
        sound = sound and all(start < len(texts) and texts[start] & 192 != 128 for start in starts.tolist())
        if sound:
            return normalizers.Precompiled(table)
    return file.refuse("has a table of characters that is damaged (tokenizer.ggml.precompiled_charsmap)")


def _as_text(prefixed: bool) -> Any:
    first = [decoders.Strip(" ", 1, 0)] if prefixed else []
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *first])


def _marked(prefixed: bool, steps: Any = ()) -> normalizers.Normalizer:
    """These steps, and then blanks become SentencePiece's marks."""
    prefix = [normalizers.Prepend("▁")] if prefixed else []
    return normalizers.Sequence([*steps, *prefix, normalizers.Replace(" ", "▁")])


def _with_steps(backend: Tokenizer, normalizer: Any, splitter: Any, decoder: Any) -> Tokenizer:
    backend.normalizer, backend.pre_tokenizer, backend.decoder = normalizer, splitter, decoder
    return backend


def _add(file: GgufFile, backend: Tokenizer, tokens: list[str], types: list[float]) -> None:
    """Have special tokens and those that were added to the vocabulary found in a text before it is split."""
    name = file.settings.get("general.name")
    # llama.cpp knows by the name that the special tokens of Phi 3 take the blanks that follow them.
    greedy = name is not None and any(part in name.value.lower() for part in ("phi-3", "phi3"))
    for token, kind in zip(tokens, types, strict=True):
        special = kind in (_CONTROL, _UNKNOWN) or _BY_TEXT.fullmatch(token) is not None
        if special or kind == _ADDED:
            strips = greedy and token not in ("<unk>", "<s>", "<|endoftext|>")
            backend.add_tokens([AddedToken(token, normalized=False, special=special, rstrip=strips)])
