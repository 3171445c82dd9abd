"""What a model is: a transformers network with its tokenizer, and what can be asked of it whatever its architecture."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .calls import IMPLEMENTATION
from .devices import called, short
from .images import ImageSettings
from .modules import attention_modules
from .sizes import ModelSize
from .tokens import whole_text


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A transformers model ready to be captured.

    revision    what exactly was read: "sha256 <hash>" of the weights of a folder (of the only safetensors file; of several,
                the hash of the lines "<hash>  <name>" that sha256sum prints for them, sorted by name), the same with
                the quantisation of a converted GGUF file, the commit of a hub id, or "in memory"
    image_settings  how a model that reads images wants their colours
    size        what its files hold; None for a model in memory
    tower_of    the class of the two towers of which this is the one that reads texts, such as "CLIPModel"; None for a model
                that is all there is
    """

    name: str
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    revision: str
    image_settings: ImageSettings = field(default_factory=ImageSettings)
    size: ModelSize | None = None
    tower_of: str | None = None

    def __repr__(self) -> str:
        """In one line, without its network."""
        return f"<Model {self.name}: {type(self.network).__name__}, {self.dtype}>"

    @property
    def dtype(self) -> str:
        """Of the weights: "float32" and the like."""
        return str(self.network.dtype).removeprefix("torch.")

    @property
    def devices(self) -> tuple[str, ...]:
        """Where its weights are, in the order of the layers: ("cpu",), ("cuda",), ("cuda", "cuda:1")."""
        placed = getattr(self.network, "hf_device_map", None)
        found = placed.values() if placed else (weight.device for weight in self.network.parameters())
        return tuple(dict.fromkeys(map(short, found))) or ("cpu",)

    @property
    def nbytes(self) -> int:
        """The memory of its weights, on all devices together; what is shared counts once."""
        return sum(tensor.nbytes for tensor in (*self.network.parameters(), *self.network.buffers()))

    @property
    def label(self) -> str:
        """Its name, with dtype and device where these are not float32 and the CPU."""
        return called(self.name, self.dtype, " and ".join(self.devices))

    @property
    def captures(self) -> bool:
        """Whether queries, keys and values can be had. Where not, only the weights (`output_attentions=True`) can."""
        return self.network.config._attn_implementation == IMPLEMENTATION

    @property
    def reads_images(self) -> bool:
        """Whether it reads one image, and nothing else, as vision transformers do."""
        return reads_images_alone(type(self.network)) and not self.is_encoder_decoder

    @property
    def is_encoder_decoder(self) -> bool:
        return bool(getattr(self.network.config, "is_encoder_decoder", False))

    @property
    def has_language_model_head(self) -> bool:
        """Whether it gives probabilities of the next token (a masked language model such as BERT's does not)."""
        return self.network.can_generate() and self.network.get_output_embeddings() is not None

    @property
    def takes_pairs(self) -> bool:
        """Whether it is an encoder whose tokenizer puts a separator between two texts, as BERT's does."""
        if self.tokenizer is None or self.is_encoder_decoder or self.has_language_model_head:
            return False
        separator = self.tokenizer.sep_token_id
        one, two = self.tokenizer("a"), self.tokenizer("a", "a")
        if separator is None or two["input_ids"].count(separator) <= one["input_ids"].count(separator):
            return False
        # A tokenizer may tell the texts apart by more types than a model of another folder has embeddings for.
        types = getattr(self.network.config, "type_vocab_size", None)
        return not types or max(two.get("token_type_ids", [0])) < types

    @property
    def chats(self) -> bool:
        """Whether its tokenizer knows how a conversation is written down for it."""
        return bool(getattr(self.tokenizer, "chat_template", None)) and not self.is_encoder_decoder

    @property
    def max_tokens(self) -> int | None:
        """How many tokens it can read (or was trained to read, with rotary positions), special ones included.

        None where nothing says so: relative positions as in T5, recurrent models.
        """
        config = self.network.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        if limit is not None and limit > 0:
            return limit - _positions_before_the_first(self.network)
        # A tokenizer that knows no limit says 10^30.
        limit = getattr(self.tokenizer, "model_max_length", None)
        return int(limit) if limit is not None and limit < 10**9 else None

    def text_of(self, ids: Sequence[int]) -> str:
        """The text that these tokens stand for; their numbers where there is no tokenizer."""
        return whole_text(self.tokenizer, ids)

    @property
    def attention_calls(self) -> int | None:
        """How many attention calls one pass over a text makes: encoder, decoder and cross together.

        None where nothing says so, because attention is not computed through transformers' registry.
        """
        if not self.captures:
            return None
        config = self.network.config.get_text_config()
        # ALBERT passes through a few groups of layers again and again.
        groups = getattr(config, "num_hidden_groups", None)
        passes = config.num_hidden_layers / groups if groups else 1
        return round(len(attention_modules(self.network)) * passes) or None


def read_by(kind: type[PreTrainedModel]) -> str:
    """What models of this class are given, in words: "texts", "images", "audio" ..."""
    if kind.main_input_name == "input_ids":
        return "texts"
    known = kind.input_modalities
    others = [given for given in ((known,) if isinstance(known, str) else known) if given != "text"]
    return {"image": "images"}.get(others[0], others[0]) if others else kind.main_input_name.replace("_", " ")


def reads_images_alone(kind: type[PreTrainedModel]) -> bool:
    """Whether models of this class read images, and nothing beside them."""
    return read_by(kind) == "images" and _modalities(kind) == {"image"}


def reads_texts_alone(kind: type[PreTrainedModel]) -> bool:
    """Whether models of this class read texts, and by all that it says nothing beside them."""
    given = inspect.signature(kind.forward).parameters.values()
    needed = {one.name for one in given if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD}
    return read_by(kind) == "texts" and _modalities(kind) == {"text"} and needed <= {"self", "input_ids"}


def _modalities(kind: type[PreTrainedModel]) -> set[str]:
    known = kind.input_modalities
    return {known} if isinstance(known, str) else set(known)


def _positions_before_the_first(network: PreTrainedModel) -> int:
    """RoBERTa and its kin keep the table of positions up to the padding token's id unused: 514 rows are 512 tokens."""
    for name, module in network.named_modules():
        if isinstance(module, torch.nn.Embedding) and name.endswith("position_embeddings"):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0
