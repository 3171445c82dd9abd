"""A model: a transformers network with its tokenizer, and its properties, whatever its architecture.

And a model as a file describes it: what a pass that was saved says of the model that made it, which is not there.
"""

from __future__ import annotations

# What a model computes is a fact there.
# pyright: reportIncompatibleMethodOverride=false
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

from ..errors import model_error
from .calls import IMPLEMENTATIONS
from .devices import called, short
from .modules import Kind, attention_modules, kind_of, kinds_of_modules, lists_of_layers
from .sentences import SentenceVector
from .sizes import ModelSize
from .tokens import NOT_THERE, whole_text


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A transformers model ready to be captured.

    revision    the exact version: "sha256 <hash>" of the weights in a folder (of a single safetensors file; of several, the
                hash of the lines "<hash>  <name>" that sha256sum prints for them, sorted by name), the same with the
                quantisation for a converted GGUF file, the commit for a hub id, or "in memory"
    image_processor  transformers' own, of a model that reads images alone; None: images are squeezed to its size
    size        the memory that its files need; None for a model in memory
    processor   of a model that reads an image with a text; None for other models, and where its files are missing
    tower_of    the class of the network of two towers, such as "CLIPModel", whose text tower this is; None for other models
    notes       whole sentences about this model that a reader of its numbers should know, such as weights in its files that
                the network leaves out; empty for most models. Whoever loads a model adds to them with `dataclasses.replace`;
                pages show them as plain text beside the choice of the model
    sentence    how it makes one vector of a text
    folder      where the files are that its weights are read from; None for a model in memory
    adapter     the file of the adapter that is merged into these weights; None: none is
    """

    name: str
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    revision: str
    image_processor: Any = None
    size: ModelSize | None = None
    tower_of: str | None = None
    processor: ProcessorMixin | None = None
    notes: tuple[str, ...] = ()
    sentence: SentenceVector = field(default_factory=SentenceVector)
    folder: Path | None = None
    adapter: Path | None = None

    def __repr__(self) -> str:
        return f"<Model {self.name}: {type(self.network).__name__}, {self.dtype}>"

    @property
    def text_config(self) -> Any:
        """The transformers configuration of the part that reads texts; of most models it is the only one."""
        return self.network.config.get_text_config()

    @property
    def dtype(self) -> str:
        """The dtype of the weights, such as "float32"."""
        return str(self.network.dtype).removeprefix("torch.")

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of its weights, in the order of the layers: ("cpu",), ("cuda",), ("cuda", "cuda:1")."""
        device_map = getattr(self.network, "hf_device_map", None)
        devices = device_map.values() if device_map else (weight.device for weight in self.network.parameters())
        return tuple(dict.fromkeys(map(short, devices))) or ("cpu",)

    @property
    def nbytes(self) -> int:
        """Bytes of its weights, on all devices together; shared weights count once."""
        return sum(tensor.nbytes for tensor in (*self.network.parameters(), *self.network.buffers()))

    @property
    def label(self) -> str:
        """Its name, with dtype and device unless these are float32 and cpu."""
        return called(self.name, self.dtype, " and ".join(self.devices))

    @property
    def captures(self) -> bool:
        """Whether its queries, keys and values can be captured. If not, only its weights can (`output_attentions=True`)."""
        return self.network.config._attn_implementation in IMPLEMENTATIONS.values()

    @property
    def reads_images(self) -> bool:
        """Whether it reads one image and nothing else, as vision transformers do."""
        return reads_alone(type(self.network)) == "images" and not self.is_encoder_decoder

    @property
    def takes_images(self) -> bool:
        """Whether it reads an image with a text, as LLaVA does; it also reads a text alone."""
        return self.processor is not None and not self.is_encoder_decoder

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether it has an encoder, which reads a text, and a decoder, which writes another one."""
        return bool(getattr(self.network.config, "is_encoder_decoder", False))

    @property
    def has_language_model_head(self) -> bool:
        """Whether it predicts the next token (a masked language model such as BERT does not)."""
        return self.network.can_generate() and self.network.get_output_embeddings() is not None

    @property
    def register_tokens(self) -> int:
        """Number of tokens of a vision model that stand for no patch, beside the first one (Darcet et al. 2024)."""
        return getattr(self.network.config, "num_register_tokens", 0)

    @property
    def takes_pairs(self) -> bool:
        """Whether it is an encoder whose tokenizer puts a separator between two texts, as BERT's does."""
        if self.tokenizer is None or self.is_encoder_decoder or self.has_language_model_head:
            return False
        separator = self.tokenizer.sep_token_id
        one, two = self.tokenizer("a"), self.tokenizer("a", "a")
        if separator is None or two["input_ids"].count(separator) <= one["input_ids"].count(separator):
            return False
        # A tokenizer may use more token types than the model has embeddings for.
        types = getattr(self.network.config, "type_vocab_size", None)
        return not types or max(two.get("token_type_ids", [0])) < types

    @property
    def chats(self) -> bool:
        """Whether its tokenizer has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None)) and not self.is_encoder_decoder

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens that it can read (with rotary positions: was trained to read), special tokens included; None
        if there is no such number: relative positions as in T5, recurrent models."""
        config = self.text_config
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        if limit is not None and limit > 0:
            return limit - _positions_before_the_first(self.network)
        # A tokenizer without a limit says 10^30.
        limit = getattr(self.tokenizer, "model_max_length", None)
        return int(limit) if limit is not None and limit < 10**9 else None

    @property
    def trained_tokens(self) -> int | None:
        """The most tokens that its sentence vector was made for, if that is less than it can read; None otherwise."""
        trained, limit = self.sentence.max_tokens, self.max_tokens
        return trained if trained is not None and (limit is None or trained < limit) else None

    @cached_property
    def lists_of_layers(self) -> tuple[str, ...]:
        """As `core.models.modules.lists_of_layers` finds them, once: every pass asks for them."""
        return lists_of_layers(self.network)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """As `core.models.modules.kinds_of_modules` finds them."""
        return kinds_of_modules(self.network)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {id(module): name for name, module in self.network.named_modules()}

    def with_twin(self, network: Any) -> Model:
        """The model with a twin of its network, which may lead back into modules of its own: those of both are known."""
        twin = replace(self, network=network)
        twin._names.update(self._names)
        return twin

    def kind_of(self, module: torch.nn.Module) -> Kind:
        """The kind of attention that a module of its network computes."""
        name = self._names[id(module)]
        return self.kinds.get(name) or kind_of(name, self.is_encoder_decoder)

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of these tokens; their numbers if there is no tokenizer."""
        return whole_text(self.tokenizer, ids)

    @property
    def attention_calls(self) -> int | None:
        """Number of attention calls in one pass over a text: of encoder, decoder and cross-attention together; None if these do
        not go through transformers' registry."""
        if not self.captures:
            return None
        config = self.text_config
        # ALBERT goes through a few groups of layers several times.
        groups = getattr(config, "num_hidden_groups", None)
        passes = config.num_hidden_layers / groups if groups else 1
        return round(len(attention_modules(self.network)) * passes) or None


@cache
def read_by(kind: type[PreTrainedModel]) -> str:
    """The main input of models of this class, in words: "texts", "images", "audio" ..."""
    if kind.main_input_name == "input_ids" and "input_ids" in inspect.signature(kind.forward).parameters:
        return "texts"
    others = [modality for modality in _modalities(kind) if modality != "text"]
    return {"image": "images"}.get(others[0], others[0]) if others else kind.main_input_name.replace("_", " ")


def reads_texts_beside(kind: type[PreTrainedModel]) -> bool:
    """Whether models of this class read texts together with something else, as far as the class says."""
    return "text" in _modalities(kind) and len(_modalities(kind)) > 1


@cache
def reads_alone(kind: type[PreTrainedModel]) -> str | None:
    """What models of this class read, "texts" or "images", if they read nothing else as far as the class says; or None."""
    given, modalities = read_by(kind), set(_modalities(kind))
    parameters = inspect.signature(kind.forward).parameters.values()
    needed = {p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    if given == "images":
        return given if modalities == {"image"} and needed <= {"self", "pixel_values"} else None
    return given if given == "texts" and modalities == {"text"} and needed <= {"self", "input_ids"} else None


def _modalities(kind: type[PreTrainedModel]) -> Sequence[str]:
    known = kind.input_modalities
    if known == "text" and "input_ids" not in (accepted := inspect.signature(kind.forward).parameters):
        known = "image" if "pixel_values" in accepted else known  # RegNet and others leave it as it is by default
    return (known,) if isinstance(known, str) else known


def _positions_before_the_first(network: PreTrainedModel) -> int:
    """Unused rows at the start of the table of positions: in RoBERTa, up to the padding token's id (514 rows, 512 tokens)."""
    for name, module in network.named_modules():
        if isinstance(module, torch.nn.Embedding) and name.endswith("position_embeddings"):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0


# --- as a file describes it


class NoNetwork:
    """In the place of the network of a model that is not there: whatever is asked of it raises InputError."""

    main_input_name = "input_ids"  # so that what is refused is a text, whatever the model once read

    def forward(self, input_ids: object) -> Any:
        return self.run(input_ids)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise model_error(f"This needs the model itself: {NOT_THERE}")


def require_model(model: Model, what: str) -> None:
    """Raise InputError (field "model") for a model that only a file describes. what: what needs the model, "The logit lens"."""
    if isinstance(model, RecordedModel):
        raise model_error(f"{what} needs the model itself: {NOT_THERE}")


@dataclass(frozen=True, eq=False, repr=False)
class RecordedModel(Model):
    """A model as a file describes it: what a `Model` finds out by its network is said here.

    captures  whether the file holds queries, keys and values; otherwise only weights
    is_sealed  whether the file is as it was written; False: it does not say
    devices   where the numbers of the file are now
    checkup   one sentence on the check-up of the model where the file was written; "" if it says nothing
    failed    whether that check-up failed
    labels    for each recorded layer its number among all layers of the model, and what is special about it, in words
    """

    dtype: str = "float32"
    has_language_model_head: bool = False
    is_encoder_decoder: bool = False
    register_tokens: int = 0
    captures: bool = True
    is_sealed: bool = False
    checkup: str = ""
    failed: bool = False
    labels: Mapping[Kind, Sequence[tuple[int, str]]] = field(default_factory=dict)

    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    nbytes: ClassVar[int] = 0
    reads_images: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = False
    chats: ClassVar[bool] = False
    max_tokens: ClassVar[None] = None

    def __repr__(self) -> str:
        return f"<Model {self.name}, {self.dtype}, as a file describes it>"

    @property
    def vocabulary(self) -> dict[str, Any] | None:
        """What the file holds of the tokenizer, as it stands there."""
        tokens: Any = self.tokenizer
        return None if tokens is None else dict(tokens.stored)

    @property
    def attention_calls(self) -> int | None:
        return sum(map(len, self.labels.values()))
