"""Sentence vectors: how a model makes one vector of a text from the vectors of its tokens.

A folder of sentence-transformers says it in modules.json and in the files of its modules (Reimers and Gurevych 2019,
https://arxiv.org/abs/1908.10084). For any other model it is the mean over all tokens, as in sentence-transformers itself.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import PreTrainedTokenizerBase

from ..errors import InputError, shown
from .fields import Fields, are_whole, read_json

MODULES = "modules.json"
MOST_BYTES, MOST_LISTS = 1_000_000, 1_000  # of a file, and in it
_HOME = "sentence_transformers."  # begins the types of its own modules
_PATH = re.compile(r"(?!\.)[\w.-]{0,100}")  # of a module: a folder beside modules.json, or that one itself
# Files that hold the settings of the network's module: sentence_<...>_config.json.
_SETTINGS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# Settings of the network's module with the values that they have where its vectors are the last hidden states.
_USUAL: dict[str, Any] = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "text": {"method": "forward", "method_output_name": "last_hidden_state"},  # within modality_config
}
_WITHOUT_EFFECT = {"modality_config", "max_seq_length", "do_lower_case", "unpad_inputs"}


def _weighted(vectors: Tensor) -> Tensor:
    weights = torch.arange(1, vectors.shape[-2] + 1, dtype=vectors.dtype, device=vectors.device)
    return (vectors * (weights / weights.sum())[:, None]).sum(dim=-2)


# By the names of sentence-transformers: what it is, and its formula, from [..., tokens, d_model] to [..., d_model].
POOLINGS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "mean": ("the mean over all tokens of the last hidden state", lambda vectors: vectors.mean(dim=-2)),
    "cls": ("the last hidden state of the first token", lambda vectors: vectors[..., 0, :]),
    "lasttoken": ("the last hidden state of the last token", lambda vectors: vectors[..., -1, :]),
    "max": (
        "the largest number over all tokens in each dimension of the last hidden state",
        lambda vectors: vectors.amax(dim=-2),
    ),
    "weightedmean": ("the mean over all tokens of the last hidden state, weighted by 1, 2, 3 ...", _weighted),
    "mean_sqrt_len_tokens": (
        "the sum over all tokens of the last hidden state, divided by the root of their number",
        lambda vectors: vectors.sum(dim=-2) / vectors.shape[-2] ** 0.5,
    ),
}
# As older files name them, in the order in which several are joined.
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class SentenceVector:
    """How a model makes one vector of a text.

    pooling     names of POOLINGS; several are joined, one after another
    normalized  whether the vector is then scaled to length 1
    max_tokens  the most tokens that sentence-transformers reads, special ones included; it cuts a longer text. None: not said
    lower_case  whether texts are put into small letters first
    left_out    what sentence-transformers does besides, in words: its vector is another one then
    """

    pooling: tuple[str, ...] = ("mean",)
    normalized: bool = False
    max_tokens: int | None = None
    lower_case: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """What the vector is: "the mean over all tokens of the last hidden state, scaled to length 1"."""
        pooled = ", joined with ".join(POOLINGS[name][0] for name in self.pooling)
        return f"{pooled}, scaled to length 1" if self.normalized else pooled

    def pooled(self, vectors: Tensor) -> Tensor:
        """The vector before it is scaled, from those of the tokens: [..., tokens, d_model] to [..., size]."""
        return torch.cat([POOLINGS[name][1](vectors) for name in self.pooling], dim=-1)

    def of(self, vectors: Tensor) -> Tensor:
        """The sentence vector from the vectors of the tokens: [..., tokens, d_model] to [..., size]."""
        pooled = self.pooled(vectors)
        return normalize(pooled, dim=-1) if self.normalized else pooled

    def notes(self, name: str) -> tuple[str, ...]:
        """What is to be known of the sentence vectors of a model of this name."""
        if not self.left_out:
            return ()
        return (
            f"The sentence vector of {name} is not that of sentence-transformers, which also uses what is left out here: "
            f"{', '.join(self.left_out)}. Here it is {self.in_words}.",
        )


# --- from a folder


class _UnreadError(Exception):
    """A file of the folder cannot be read; the message names it."""


def is_sentence_transformer(folder: Path) -> bool:
    """Whether sentence-transformers has written this folder."""
    return (folder / MODULES).is_file()


def network_folder(folder: Path) -> Path:
    """The folder of the network. Old versions of sentence-transformers put it into one of its own, such as 0_Transformer."""
    try:
        inside = folder / _modules(folder)[0][1]
    except _UnreadError:
        return folder
    return inside if not (folder / "model.safetensors").is_file() and (inside / "config.json").is_file() else folder


def module_folders(folder: Path) -> list[Path]:
    """The folders of the modules of sentence-transformers."""
    try:
        return [folder / path for _, path in _modules(folder)]
    except _UnreadError:
        return []


def sentence_vector_in(folder: Path, tokenizer: PreTrainedTokenizerBase | None) -> SentenceVector:
    """How the model in a folder makes a sentence vector. What cannot be read of its files is named in `left_out`."""
    if not is_sentence_transformer(folder):
        return SentenceVector()
    try:
        (kind, path), *others = _modules(folder)
        paths = [folder / path / f"sentence_{name}_config.json" for name in _SETTINGS]
        settings = next((_json(path) for path in paths if path.exists()), {})
        pooling, normalized, left_out = _steps(folder, others)
        left_out = [*_around(folder), *_unusual(kind, settings), *left_out]
    except _UnreadError as error:
        return SentenceVector(left_out=(f"{error}, which cannot be read",))
    limit = settings.get("max_seq_length") or getattr(tokenizer, "model_max_length", None)
    # A tokenizer without a limit says 10^30.
    most = limit if are_whole([limit], 1) else None
    shortly = tuple(shown(words, 100) for words in left_out)
    return SentenceVector(pooling, normalized, most, settings.get("do_lower_case") is True, shortly)


def _modules(folder: Path) -> list[tuple[str, str]]:
    """(type, path) of each module of a folder, in their order."""
    parts = _json(folder / MODULES, list)
    modules: list[Any] = [(part.get("type"), part.get("path")) for part in parts if isinstance(part, dict)]
    are_texts = all(isinstance(said, str) for module in modules for said in module)
    if not 0 < len(modules) == len(parts) or not are_texts or not all(_PATH.fullmatch(path) for _, path in modules):
        raise _UnreadError(MODULES)
    return modules


def _steps(folder: Path, modules: list[tuple[str, str]]) -> tuple[tuple[str, ...], bool, list[str]]:
    """(the pooling, whether the vector is scaled to length 1, what is left out) of the modules after the network."""
    pooling, normalized, left_out = None, False, []
    for kind, path in modules:
        own = kind.rpartition(".")[2] if kind.startswith(_HOME) else ""
        if own == "Pooling" and pooling is None:
            pooling = _pooling(_json(folder / path / "config.json"))
        elif own == "Normalize" and pooling is not None and _scales_sentences(folder / path / "config.json"):
            normalized = True
        elif own != "Dropout":  # which does nothing outside of training
            left_out.append(own or kind)
    return pooling or ("mean",), normalized, left_out if pooling else [*left_out, "its own pooling"]


def _scales_sentences(path: Path) -> bool:
    """Whether a module of normalisation works on the sentence vector, and not on those of the tokens."""
    config = _json(path) if path.exists() else {}
    return {config.get(f"module_{side}_name") for side in ("input", "output")} <= {None, "sentence_embedding"}


def _pooling(config: dict[str, Any]) -> tuple[str, ...]:
    given = config.get("pooling_mode", [name for flag, name in _FLAGS.items() if config.get(flag) is True] or "mean")
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) and name in POOLINGS for name in names):
        raise _UnreadError(f"the pooling {shown(str(given), 100)}")
    return tuple(names)


def _unusual(kind: str, settings: dict[str, Any]) -> list[str]:
    """What the network's module does other than to give the last hidden states of a text."""
    own = [] if kind.startswith(_HOME) and kind.endswith(".Transformer") else [kind]
    given = {**settings, **Fields(settings).part("modality_config").values}
    others = [name for name, value in settings.items() if value and name not in {*_USUAL, *_WITHOUT_EFFECT}]
    return own + [f"{name} {given[name]}" for name in _USUAL if given.get(name, _USUAL[name]) != _USUAL[name]] + others


def _around(folder: Path) -> list[str]:
    """What is done to every text before the network reads it, or to what comes of it."""
    path = folder / "config_sentence_transformers.json"
    config = _json(path) if path.exists() else {}
    kind, name, prompts = config.get("model_type", ""), config.get("default_prompt_name"), config.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    other = [] if kind in ("", "SentenceTransformer") else [f"the kind of model, {kind}"]
    return other + ([f"the prompt “{prompt}” before every text"] if prompt else [])


def _json(path: Path, kind: type = dict) -> Any:
    with suppress(OSError, InputError):
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            return read_json(path.read_bytes(), MOST_LISTS, kind)
    raise _UnreadError(path.name if path.name != "config.json" else f"{path.parent.name}/config.json")
