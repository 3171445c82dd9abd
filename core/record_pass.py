"""Record one pass of a transformers model into a file that Headlight's `open_capture` opens without the model.

Copy this file alone to where the model runs; it needs torch, transformers (with tokenizers) and safetensors. docs/captures.md
says more.

    model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16", device_map="auto")
    record(model, AutoTokenizer.from_pretrained(name), "A text.", "pass.safetensors", layers=[0, 39, 79], heads=[4, 17])
"""

import hashlib
import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache, partial
from typing import Any

import torch
import transformers as t
from safetensors.torch import save_file
from tokenizers import decoders, pre_tokenizers
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

FORMAT, SEAL, VERSION = "headlight pass", "sha256", 1
BEST = 100  # most probable next tokens whose texts are in the file
CELLS = 2**22  # of a mask that are looked at together
# Arguments of attention that shape its scores.
SHAPING = dict.fromkeys(["scaling", "position_bias", "softcap", "s_aux", "sliding_window", "is_causal"])
# Arguments of attention that change nothing about the scores, or that the mask already contains.
WITHOUT_EFFECT = {
    *("cache", "cache_position", "layer_idx", "past_key_values", "position_embeddings", "position_ids", "use_cache"),
    *("cu_seq_lens_k", "cu_seq_lens_q", "max_length_k", "max_length_q", "num_items_in_batch", "window_size", "dropout"),
    *("seq_idx", "logits_to_keep", "output_attentions", "output_hidden_states", "output_router_logits", "return_dict"),
    *("deterministic", "grid_thw", "head_mask", "vision_feature_layer"),
}
# Of torch's attention: True and False, or none where a causal module needs none. Of an architecture's own: numbers to add.
MASKS = {"sdpa": sdpa_mask, "eager": eager_mask}


class PassFile:
    """The arrays and the description of a file, collected layer by layer."""

    def __init__(self) -> None:
        self.arrays: dict[str, Tensor] = {}
        self.calls: dict[str, list[dict[str, Any]]] = {}
        self._seen: list[tuple] = []  # the latest masks and biases, which layers may share, with their entries

    def add(self, kind: str, layer: int, arrays: dict[str, Tensor], *, mask: Tensor | None = None,
            bias: Tensor | None = None, causal: bool = False, **values: Any) -> dict[str, Any]:  # fmt: skip
        """Add a layer by its number in the model, and return its entry in the description.

        arrays  query, key, value, output [heads, tokens, size], and sinks [heads] where it has them
        mask    [1 or heads, 1 or queries, keys] bool, or additive; bias likewise: it is added to the scaled scores
        values  scale; softcap, or None; label: what is special about the layer, in words
        """
        calls = self.calls.setdefault(kind, [])
        kept = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
        self.arrays |= {f"{kind}.{len(calls)}.{name}": array for name, array in kept.items()}
        size = kept["query"].shape[1], kept["key"].shape[1]
        of = [size, *((part.device, part.data_ptr(), part.shape) for part in (mask, bias) if part is not None)]
        forms = next((forms for seen, forms, *_ in self._seen if seen == of), None) or self._forms(mask, bias, *size)
        self._seen = [*self._seen[-3:], (of, forms, mask, bias)]  # held, or others could take their places in memory
        calls.append({"layer": layer, "mask": "causal" if causal else forms[0], "bias": forms[1], **values})
        return calls[-1]

    def widen(self, kind: str, arrays: dict[str, Tensor]) -> None:
        """Put values and outputs beside those of the latest layer: it attends again with its queries and keys (DiffLlama)."""
        for name in ("value", "output"):
            place = f"{kind}.{len(self.calls[kind]) - 1}.{name}"
            self.arrays[place] = torch.cat([self.arrays[place], arrays[name].detach().cpu()], dim=-1)

    def keep(self, form: str, array: Tensor) -> str:
        """Keep an array that several layers may share. Returns its name: equal ones are kept once."""
        array, alike = array.detach().cpu().contiguous(), [name for name in self.arrays if name.startswith(f"{form}.")]
        name = next((name for name in alike if torch.equal(self.arrays[name], array)), f"{form}.{len(alike)}")
        self.arrays[name] = array
        return name

    def _forms(self, mask: Tensor | None, bias: Tensor | None, queries: int, keys: int) -> tuple[str, str]:
        form = "none"
        if mask is not None and mask.dtype != torch.bool:
            allowed = mask > torch.finfo(mask.dtype).min / 2  # all other entries of an additive mask are a bias
            rest, mask = torch.where(allowed, mask, 0), allowed
            bias = (rest if bias is None else rest.float() + bias.float()) if bool(rest.any()) else bias
        if mask is not None:
            mask, size = mask[..., :keys].expand(-1, queries, -1), max(1, CELLS // keys)
            form = self.keep("runs", runs_of(mask[:, at : at + size] for at in range(0, queries, size)))
        if bias is None or not bool((bias := bias[..., :keys]).any()):
            return form, "none"
        if bias.shape[1] == queries:
            by_distance = torch.cat([bias[:, :, 0].flip(1), bias[:, 0, 1:]], dim=1)  # of key - query, rising
            rows = by_distance.unfold(1, keys, 1)  # of the last query first
            if all(torch.equal(bias[:, query], rows[:, queries - 1 - query]) for query in range(queries)):
                return form, self.keep("by_distance", by_distance)
        return form, self.keep("bias", bias)

    def save(self, path: str | os.PathLike, **description: Any) -> None:
        """Write the file. It is there as a whole or not at all."""
        model = {**description["model"], "name": name_alone(description["model"]["name"])}
        content = {"version": VERSION, "calls": self.calls, **description, "model": model}
        text, part = json.dumps(content, ensure_ascii=False, allow_nan=False), f"{os.fspath(path)}.part"
        save_file(self.arrays, part, {FORMAT: sealed(text, self.arrays)})
        os.replace(part, path)


def name_alone(name: str) -> str:
    """The name of a model on a hub as it is; of a folder or file without the folders that it is in."""
    return name if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) else re.split(r"[/\\]", name.rstrip("/\\"))[-1] or name


def sealed(text: str, arrays: dict[str, Tensor]) -> str:
    """A description with a hash of all that the file holds, which tells whether it was changed after it was written."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {[*array.shape]}".encode())
        digest.update(array.flatten().view(torch.uint8).numpy().data)
    return f'{text[:-1]}, "{SEAL}": "{digest.hexdigest()}"}}'


def runs_of(blocks: Iterable[Tensor]) -> Tensor:
    """The runs of keys that each query may attend to, (first, one after the last): int32 [heads, queries, runs, 2].
    blocks: rows of a mask [1 or heads, rows, keys] bool, one block after another."""
    parts = []
    for allowed in blocks:
        steps = pad(allowed.to(torch.int8), (1, 1)).diff(dim=-1).flatten(0, 1)
        (row, first), (_, stop) = (steps == 1).nonzero(as_tuple=True), (steps == -1).nonzero(as_tuple=True)
        count = torch.bincount(row, minlength=len(steps))
        within = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        runs = torch.zeros(len(steps), max(1, int(count.max())), 2, dtype=torch.int32, device=steps.device)
        runs[row, within] = torch.stack([first, stop], dim=1).int()
        parts.append(runs.unflatten(0, allowed.shape[:2]).cpu())
    widest = max(part.shape[2] for part in parts)
    return torch.cat([pad(part, (0, 0, 0, widest - part.shape[2])) for part in parts], dim=1)


class Spelling:
    """What each token of a tokenizer writes. The decoder is asked for it, token by token between two letters, and the added
    tokens, which are found in a text as they stand. The letters of a piece tell nothing: "Ġ" is a blank in one vocabulary and
    a letter of Maltese in another.

    is_apart  whether the decoder puts blanks between tokens, as those of WordPiece and of whole words do
    suffix    the mark with which the last piece of a word ends, or ""
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, backend = tokenizer, getattr(tokenizer, "backend_tokenizer", None)
        self._model = None if backend is None else backend.model
        self.suffix = getattr(self._model, "end_of_word_suffix", None) or ""
        self._decode = tokenizer.convert_tokens_to_string if backend is None else self._decoder_of(backend)
        self._added = {**getattr(tokenizer, "added_tokens_decoder", {})}
        self._special = {*tokenizer.all_special_ids}
        self._known: dict[int, tuple[str, bytes, bool, bool] | None] = {}
        self.is_apart = self._between() == " "
        is_bytes = self._between("Ã", "©") == "é"
        self.in_bytes = is_bytes and self._between("Ġ") == " "
        self._byte_of = _gpt2_bytes() if self.in_bytes else {chr(byte): byte for byte in range(256 * is_bytes)}
        self._falls_back = self._between("<0xC3>", "<0xA9>") == "é"

    def of(self, token: int) -> tuple[str, bytes, bool, bool] | None:
        """The piece in the vocabulary, the bytes that it adds to a text, and whether a blank may stand before and after it:
        between two tokens it does where both say so. None for a number without a token."""
        if token not in self._known:
            self._known[token] = self._asked(token)
        return self._known[token]

    def is_literal(self, token: int) -> bool:
        """Whether this is an added token that its decoder would read as another text."""
        known = self.of(token)
        return known is not None and token in self._added and self._read(known[0]) != known[1:]

    def _asked(self, token: int) -> tuple[str, bytes, bool, bool] | None:
        try:
            (piece,) = self._tokenizer.convert_ids_to_tokens([token])
        except Exception:  # some tokenizers give None, others fail, each with another error
            return None
        if piece is None:
            return None
        data, before, after = self._read(piece)
        added = self._added.get(token)
        is_found = added is not None and (added.special or not self._makes(token, piece, data))
        if is_found or token in self._special:
            data, before, after = piece.encode(), self.is_apart, self.is_apart
        return piece, data, before, after

    def _read(self, piece: str) -> tuple[bytes, bool, bool]:
        """The bytes that the decoder makes of a piece, without the blanks that it puts around them, and these."""
        if self._byte_of and self._byte_of.keys() >= {*piece}:
            data = bytes(map(self._byte_of.__getitem__, piece))
        elif self._falls_back and (byte := re.fullmatch("<0x([0-9A-F]{2})>", piece)):
            data = bytes.fromhex(byte[1])
        else:
            data = (self._between(piece) or "").encode()
        before, after = (self.is_apart and one == b" " for one in (data[:1], data[-1:]))
        data = data[before : len(data) - after]
        if not data:  # a mark without a word, such as "##" alone, stands for itself
            return piece.encode(), self.is_apart, self.is_apart
        is_last = self.suffix and data.endswith(self.suffix.encode())
        return data.removesuffix(self.suffix.encode()) + b" " if is_last else data, before, after

    def _makes(self, token: int, piece: str, read: bytes) -> bool:
        """Whether an added token is one that the model makes of a text by itself, as Gemma's of several blanks are."""
        if self._model is None or self._model.token_to_id(piece) != token:
            return False
        # A part of a character, or a control character, is what the letters of a word mean as bytes.
        if re.search(r"[\ufffd\0-\x08\x0e-\x1f\x7f-\x9f]", read.decode(errors="replace")):
            return False
        if getattr(self._model, "ignore_merges", False):
            self._model = deepcopy(self._model)  # which makes pieces by merges alone
            self._model.ignore_merges = False
        try:
            return [made.id for made in self._model.tokenize(piece)] == [token]
        except Exception:  # of a model without a token for what is unknown
            return False

    def _between(self, *pieces: str) -> str | None:
        """What is written of pieces between two letters; None where it is not known."""
        try:
            text = self._decode(["a", *pieces, "a"])
        except Exception:  # of pieces that are not in a vocabulary
            return None
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "a" else None

    def _decoder_of(self, backend: Any) -> Any:
        """The function that joins pieces; of a tokenizer without a decoder, the one that fits how it splits a text."""
        if backend.decoder is not None:
            return backend.decoder.decode
        split = {} if backend.pre_tokenizer is None else json.loads(backend.pre_tokenizer.__getstate__())
        for step in split.get("pretokenizers", [split]):
            if step.get("type") == "ByteLevel":
                return decoders.ByteLevel().decode
            if step.get("type") == "Metaspace":
                return decoders.Metaspace(step["replacement"], step["prepend_scheme"]).decode
        if self.suffix:
            return decoders.BPEDecoder(self.suffix).decode
        prefix = getattr(self._model, "continuing_subword_prefix", None)
        return decoders.WordPiece(prefix, cleanup=False).decode if prefix else " ".join


def _gpt2_bytes() -> dict[str, int]:
    """The letter of each byte in GPT-2's alphabet: itself, or from 256 on (Radford et al. 2019, section 2.2)."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    others = [byte for byte in range(256) if chr(byte) not in letters]
    return {letter: ord(letter) if ord(letter) < 256 else others[ord(letter) - 256] for letter in letters}


def around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and after a text."""
    bare, whole = ([*tokenizer("a", add_special_tokens=added)["input_ids"]] for added in (False, True))
    at = next((at for at in range(len(whole)) if whole[at : at + len(bare)] == bare), len(whole))
    return whole[:at], whole[at + len(bare) :]


def vocabulary(tokenizer: Any, ids: Iterable[int]) -> dict[str, Any]:
    """The pieces of some tokens as the tokenizer has them, what they write, which are special, and what it puts around every
    text."""
    begin, end = around(tokenizer)
    spelling, numbers = Spelling(tokenizer), sorted({*ids, *begin, *end})
    pieces = {str(token): spelling.of(token) for token in numbers}
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()
    special = {*tokenizer.all_special_ids, *(token for token, entry in added if entry.special)} & {*numbers}
    return {
        "pieces": {token: one and one[0] for token, one in pieces.items()},  # None: the tokenizer has no such token
        "written": {token: [one[1].hex(), *one[2:]] for token, one in pieces.items() if one},
        "special": sorted(special),
        "around": [begin, end],
        # For versions that do not read what is written.
        "bytes": spelling.in_bytes,
        "words": "</w>" if spelling.suffix else "##" if spelling.is_apart else "blanks",
    }


class BatchError(ValueError):
    """A batch, or what was said about it, cannot be used. field: the argument at fault"""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class BatchText:
    """The text of a batch that is kept. ids: its tokens; row: its place in the batch; kept: its places among the padding;
    tokens: how many there are, padding included."""

    def __init__(self, size: tuple[int, int], input_ids: Any, row: int | None, attention_mask: Any = None,
                 position_ids: Any = None, tokenizer: Any = None) -> None:  # fmt: skip
        """size: (texts, tokens) of the batch; tokenizer: None if the text is known to have no padding. Raises BatchError"""
        batch, tokens = size
        if batch > 1 and (row is None or attention_mask is None):
            why = f"These are passes over {batch:,} texts. Choose one with row=0 to row={batch - 1}, and give the"
            why = f"{why} attention_mask, which tells tokens from padding."
            raise BatchError(why, "row" if row is None else "attention_mask")
        row = row or 0
        if not 0 <= row < batch:
            raise BatchError(f"There is no row {row}: they run from 0 to {batch - 1}.", "row")
        ids = _of_row(input_ids, row, tokens, "input_ids")
        mask = None if attention_mask is None else _of_row(attention_mask, row, tokens, "attention_mask")
        positions = None if position_ids is None else _of_row(position_ids, row, tokens, "position_ids")
        places = [place for place in range(tokens) if mask is None or mask[place]]
        if not places or places[-1] - places[0] + 1 != len(places):
            raise BatchError("The attention_mask has to be 1 for one token or several in a row.", "attention_mask")
        self.row, self.kept, self.tokens = row, slice(places[0], places[-1] + 1), tokens
        self.ids = ids[self.kept]
        padding = getattr(tokenizer, "pad_token_id", None)
        ends = {getattr(tokenizer, name, None) for name in ("bos_token_id", "eos_token_id")}
        if mask is None and padding is not None and padding not in ends and padding in (ids[0], ids[-1]):
            why = "The text begins or ends with padding. Give the attention_mask, which tells tokens from padding."
            raise BatchError(why, "attention_mask")
        if positions is None and self.kept.start:
            why = "Padding comes before the text. Give the position_ids of the pass, which have to be 0 at the first token"
            raise BatchError(f"{why}, or put the padding after the text.", "position_ids")
        if positions is not None and (at := positions[self.kept]) != [*range(len(places))]:
            why = f"The tokens of the text have the positions {at[0]} to {at[-1]}, so its numbers are not those of the"
            raise BatchError(f"{why} text alone. Run it with positions from 0.", "position_ids")

    @property
    def last(self) -> int:
        """The place of its last token, from the end of the batch: -1 or less."""
        return self.kept.stop - self.tokens - 1

    def of_heads(self, array: Tensor) -> Tensor:
        """[batch, heads, tokens, size] -> [heads, tokens, size]. Raises BatchError unless each of them is a token's."""
        if array.shape[2] != self.tokens:
            why = f"The attention of this model has {array.shape[2]:,} queries or keys where there are {self.tokens:,} tokens"
            raise BatchError(f"{why}: some stand for no token. Such a pass is not recorded.", "model")
        return array[self.row][:, self.kept]

    def of_pairs(self, array: Tensor, keys: "BatchText") -> Tensor:
        """[1 or batch, 1 or heads, 1 or queries, keys] -> [1 or heads, 1 or queries, keys], where the queries are this text."""
        own = array[self.row if len(array) > 1 else 0]
        return own[:, self.kept if own.shape[1] > 1 else slice(None), keys.kept]

    def permissions(self, mask: Tensor | None, keys: "BatchText", *, causal: bool) -> Tensor | None:
        """`of_pairs` of a mask. Raises BatchError if one of these tokens may attend to padding."""
        outside = torch.ones(keys.tokens, dtype=torch.bool)
        outside[keys.kept] = False
        outside[keys.kept.stop :] &= not causal
        if mask is not None and outside.any():
            own = mask[self.row if len(mask) > 1 else 0].expand(-1, self.tokens, -1)[:, self.kept, : keys.tokens]
            allowed = own if own.dtype == torch.bool else own > torch.finfo(own.dtype).min / 2
            outside &= allowed.flatten(0, 1).any(dim=0).cpu()
        if outside.any():
            why = "Tokens of the text attend to padding, so its numbers are not those of the text alone"
            raise BatchError(f"{why}. Run it with its attention_mask.", "attention_mask")
        return None if mask is None else self.of_pairs(mask, keys)


def _of_row(given: Any, row: int, tokens: int, name: str) -> list[int]:
    """The whole numbers of a text: of one, or of each of a batch. Raises BatchError unless there are as many as tokens."""
    numbers = torch.as_tensor(given).cpu()
    own = numbers if numbers.ndim < 2 else numbers[row if len(numbers) > 1 else 0]
    if own.shape != (tokens,):
        why = f"There are {own.numel():,} {name}, and the pass has {tokens:,} tokens, padding included."
        raise BatchError(why, name)
    return own.long().tolist()


def start_token(model: t.PreTrainedModel) -> int | None:
    """The token with which a decoder begins, as transformers' own `generate` takes it; None if nothing names one. A model that
    also reads images may have it in its text configuration."""
    places = (model.config, model.config.get_text_config(), getattr(model, "generation_config", None))
    names = ("decoder_start_token_id", "bos_token_id")
    return next((token for name in names for at in places if (token := getattr(at, name, None)) is not None), None)


def own_ways(network: nn.Module, way: str | None = None) -> Iterator[tuple[Any, str]]:
    """The configurations in a network, each with the way in which transformers computes attention there by itself: "sdpa" or
    "eager"; without parts whose attention cannot be recorded. Inner parts come after those around them, and count."""
    if isinstance(network, t.PreTrainedModel):
        way = network.get_correct_attn_implementation(None) if network._can_set_attn_implementation() else None
    if way is not None and isinstance(config := getattr(network, "config", None), t.PreTrainedConfig):
        yield config, way
    for child in network.children():
        yield from own_ways(child, way)


def switch(network: nn.Module, names: Mapping[str, str]) -> dict[int, tuple[Any, str]]:
    """Let each part of a network compute attention by the function of a name, by the part's own way. Returns what was before,
    as (configuration, name)."""
    before: dict[int, tuple[Any, str]] = {}
    for config, way in own_ways(network):
        before.setdefault(id(config), (config, config._attn_implementation or way))
        config._attn_implementation = {"": names[way]}  # and not of the configurations in it
    return before


class UnknownAttentionError(ValueError):
    """Attention is computed in a way that is not known here."""


@cache
def own_attention(forward: Callable) -> Callable | None:
    """The attention of an architecture's own, which the forward function of its module gives to transformers' registry as what
    is used by default; None if it gives none."""
    forward = inspect.unwrap(forward)
    name = re.search(r"get_interface\([^()]*,\s*(\w+),?\s*\)", inspect.getsource(forward))
    return forward.__globals__.get(name[1]) if name else None


def causal_alone(way: str, module: nn.Module, query: Tensor, mask: Tensor | None, is_causal: bool | None) -> bool:
    """Whether a query attends to no later key although there is no mask: torch's function is told so for a module that does not
    say otherwise. In an architecture's own code only a mask forbids anything. is_causal: what the call says, if anything"""
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return way == "sdpa" and mask is None and query.shape[2] > 1 and bool(is_causal)


def chosen(mask: Tensor | None, indices: Tensor | None, keys: int) -> Tensor | None:
    """The mask that leaves each query the keys that were chosen for it: what networks do themselves for transformers' own ways,
    and leave to other attention functions (DeepSeek V3.2). indices: [batch, queries, some], or None"""
    if mask is None or indices is None:
        return mask
    others = torch.ones(*indices.shape[:2], keys, dtype=torch.bool, device=mask.device).scatter(
        -1, indices.long(), False
    )
    lowest = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
    return mask[..., :keys].masked_fill(others[:, None], lowest)


def attended(way: str, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
             **options: Any) -> Tensor:  # fmt: skip
    """The output of attention, [batch, queries, heads, d_v], by torch's function, which needs no memory for weights, or, with a
    soft cap or sinks, which that does not know, by the architecture's own code."""
    causal = causal_alone(way, module, query, mask, options.get("is_causal"))
    if options.get("softcap") is None and options.get("s_aux") is None:
        options["is_causal"] = causal
        return sdpa_attention_forward(module, query, key, value, mask, **options)[0]
    if (own := own_attention(type(module).forward)) is None:
        raise UnknownAttentionError(
            f"{type(module).__name__} has no attention code of its own for a soft cap or sinks."
        )
    if causal:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
    return own(module, query, key, value, mask, **options)[0]


def record(model: t.PreTrainedModel, tokenizer: Any, text: str | Mapping[str, Any], path: str | os.PathLike, *,
           row: int | None = None, target: str | None = None, layers: Collection[int] | None = None,
           heads: Collection[int] | None = None) -> None:  # fmt: skip
    """Run the model once over a text, and write the file. What a layer gives goes to the CPU as it comes, and nothing is kept
    that grows with the square of the text. target: what a decoder has written; layers, heads: their numbers, None for all.
    text: or what the tokenizer has made of several texts, of which `row` is written, without its padding."""
    both, file, seen = bool(model.config.is_encoder_decoder), PassFile(), Counter()
    latest: list[Any] = []  # the module, the queries and the keys of the call before
    names = {id(module): name.lower() for name, module in model.named_modules()}
    if not isinstance(text, str | Mapping):
        why = 'Give a text, or what tokenizer(texts, padding=True, return_tensors="pt") returns, and row= for one of them.'
        raise BatchError(why, "text")
    batch = {"input_ids": tokenizer(text)["input_ids"]} if isinstance(text, str) else text
    # A model that counts its own positions, from its token of padding on, is given none.
    places = [module for name, module in model.named_modules() if "position" in name]
    counts = any(getattr(module, "padding_idx", None) is not None for module in places)
    takes = inspect.signature(model.forward).parameters.keys() - ({"position_ids"} if counts else set())
    given = {name: torch.as_tensor(value, device=model.device) for name, value in batch.items() if name in takes}
    inputs = {name: torch.atleast_2d(value) for name, value in given.items()}
    ids, (mask, positions) = inputs["input_ids"], map(inputs.get, ("attention_mask", "position_ids"))
    own = BatchText((len(ids), ids.shape[1]), ids, row, mask, positions, None if isinstance(text, str) else tokenizer)
    sides = {"self": (own, own), "encoder": (own, own)}
    if both:
        written = tokenizer(target, add_special_tokens=False)["input_ids"] if target else []
        if (start := start_token(model)) is None:
            raise ValueError(f"{type(model).__name__} names no decoder_start_token_id. Set it in model.config.")
        ids = torch.tensor([[start, *written]] * len(ids), device=model.device)
        inputs["decoder_input_ids"] = ids
        of_target = BatchText((len(ids), ids.shape[1]), ids, own.row, torch.ones_like(ids))
        sides |= {"decoder": (of_target, of_target), "cross": (of_target, own)}
    end = sides["decoder"][0] if both else own

    def attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, way: str,
                  indices: Tensor | None = None, **options: Any) -> tuple[Tensor, None]:  # fmt: skip
        mask = chosen(mask, indices, key.shape[2])
        if unknown := sorted(
            name for name in options.keys() - WITHOUT_EFFECT - SHAPING.keys() if options[name] is not None
        ):
            raise ValueError(f"{type(module).__name__} has {', '.join(unknown)}, which this recorder does not know.")
        output = attended(way, module, query, key, value, mask, **options)
        scaling, position_bias, softcap, s_aux, sliding_window, is_causal = map(options.get, SHAPING)
        causal = causal_alone(way, module, query, mask, is_causal)
        scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
        name, count, shared = names[id(module)], query.shape[1], query.shape[1] // key.shape[1]
        is_cross = any(word in name for word in ("encoder_attn", "encdecatt", "crossatt", "cross_att"))
        kind = "cross" if is_cross else "self" if not both else "decoder" if "decoder" in name else "encoder"
        again = [one is other for one, other in zip(latest, (module, query, key), strict=False)] == [True] * 3
        latest[:] = module, query, key
        seen[kind] += not again
        layer = seen[kind] - 1
        if layers is None or layer in layers:
            some = sorted(heads or range(count))
            of_keys = [head // shared for head in some] if heads else range(count // shared)
            words = [f"sliding window {sliding_window}"] * bool(sliding_window) + ["sinks"] * (s_aux is not None)
            words += [f"soft cap {softcap}"] * bool(softcap)
            words += [f"heads {', '.join(map(str, some))} of {count}"] * bool(heads)
            of_queries, keys = sides[kind]
            arrays = {
                "query": of_queries.of_heads(query)[some],
                "output": of_queries.of_heads(output.transpose(1, 2))[some],
            }
            arrays |= {"key": keys.of_heads(key)[of_keys], "value": keys.of_heads(value)[of_keys]}
            arrays |= {} if s_aux is None else {"sinks": s_aux.flatten()[some]}
            values = {"scale": scale, "softcap": softcap, "label": ", ".join(words), "causal": causal}
            of_pairs = {"mask": of_queries.permissions(mask, keys, causal=causal)}
            of_pairs["bias"] = None if position_bias is None else of_queries.of_pairs(position_bias, keys)
            for of, one in of_pairs.items():
                values[of] = one if one is None or len(one) == 1 or not heads else one[some]
            if again:
                file.widen(kind, arrays)
            else:
                file.add(kind, layer, arrays, **values)
        return output, None

    for way, mask_function in MASKS.items():
        t.AttentionInterface.register(f"recorded-{way}", partial(attention, way=way))
        t.AttentionMaskInterface.register(f"recorded-{way}", mask_function)
    options = {"use_cache": False, "logits_to_keep": torch.tensor([end.last], device=model.device)}
    before = switch(model, {way: f"recorded-{way}" for way in MASKS})
    try:
        with torch.inference_mode():
            returned = model(**inputs, **{name: value for name, value in options.items() if name in takes})
    finally:
        for config, name in before.values():
            config._attn_implementation = {"": name}
    if not file.calls:
        raise ValueError(f"Nothing was recorded: {type(model).__name__} does not use transformers' AttentionInterface.")
    ids, predicts = {*own.ids, *end.ids}, model.can_generate()
    file.arrays |= {"input_ids": torch.tensor(own.ids)} | ({"target_ids": torch.tensor(end.ids)} if both else {})
    if predicts:
        file.arrays["logits"] = returned.logits[own.row, -1 if "logits_to_keep" in takes else end.last].float().cpu()
        ids |= {*file.arrays["logits"].argsort(descending=True)[:BEST].tolist()}
    elif hasattr(returned, "last_hidden_state"):
        file.arrays["vectors"] = returned.last_hidden_state[own.row, end.kept].float().cpu().contiguous()
    of = {"name": model.config._name_or_path or type(model).__name__, "dtype": str(model.dtype).removeprefix("torch.")}
    of |= {"revision": getattr(model.config, "_commit_hash", None) or "not known", "predicts": predicts, "both": both}
    file.save(path, model=of, vocabulary=vocabulary(tokenizer, ids))
