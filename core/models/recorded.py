"""A model as a file describes it: what a pass that was saved says of the model that made it, which is not there."""

# What a model computes is a fact here.
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..errors import InputError
from .model import Model
from .modules import Kind
from .tokens import NOT_THERE


class NoNetwork:
    """In the place of the network of a model that is not there: whatever is asked of it raises InputError."""

    main_input_name = "input_ids"  # so that what is refused is a text, whatever the model once read

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(f"This needs the model itself: {NOT_THERE}", field="model")


def require_model(model: Model, what: str) -> None:
    """Raise InputError (field "model") for a model that only a file describes. what: what needs the model, "The logit lens"."""
    if isinstance(model, RecordedModel):
        raise InputError(f"{what} needs the model itself: {NOT_THERE}", field="model")


@dataclass(frozen=True, eq=False, repr=False)
class RecordedModel(Model):
    """A model as a file describes it: what a `Model` finds out by its network is said here.

    captures  whether the file holds queries, keys and values; otherwise only weights
    is_sealed  whether the file is as it was written; False: it does not say
    devices   where the numbers of the file are now
    labels    for each recorded layer its number among all layers of the model, and what is special about it, in words
    """

    dtype: str = "float32"
    has_language_model_head: bool = False
    is_encoder_decoder: bool = False
    register_tokens: int = 0
    captures: bool = True
    is_sealed: bool = False
    labels: Mapping[Kind, Sequence[tuple[int, str]]] = field(default_factory=dict)

    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    nbytes: ClassVar[int] = 0
    reads_images: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = False
    chats: ClassVar[bool] = False
    max_tokens: ClassVar[None] = None

    def __repr__(self) -> str:
        """The model in one line."""
        return f"<Model {self.name}, {self.dtype}, as a file describes it>"

    @property
    def vocabulary(self) -> dict[str, Any] | None:
        """What the file holds of the tokenizer, as it stands there."""
        tokens: Any = self.tokenizer
        if tokens is None:
            return None
        pieces = {str(token): piece for token, piece in tokens.pieces.items()}
        return {
            "pieces": pieces,
            "special": sorted(tokens.all_special_ids),
            "around": [list(ids) for ids in tokens.around],
            "bytes": tokens.in_bytes,
            "words": tokens.marks,
        }

    @property
    def attention_calls(self) -> int | None:
        return sum(map(len, self.labels.values()))
