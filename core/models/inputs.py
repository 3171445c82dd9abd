"""The inputs of a model: texts, token numbers and images, checked and turned into tensors, and the pass over them."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from transformers import BatchEncoding, Cache, PreTrainedModel, PreTrainedTokenizerBase

from ..errors import (
    InputError,
    check_index,
    first_line,
    image_error,
    model_error,
    shortened,
    text_error,
)
from ..record_pass import start_token
from ..units import listed
from .calls import came_from_a_call, heard_by
from .chat_templates import written_message
from .fields import tokenizing
from .images import MAX_PIXELS, Tiles, eight_bits, pixel_values, processed, squeezing, tiles_alone
from .model import Model, read_by, reads_texts_beside
from .tokens import token_texts

TokenNumbers = Sequence[int] | NDArray[np.integer]
SIDES = "sides"  # the entry of inputs that tells which of two texts each token belongs to; the network does not read it
MAX_UNKNOWN = 5  # unknown pieces that an error names; further ones are counted
MAX_PIECES = 20  # pieces of a text that should be one token, in an error


class TooLongError(InputError):
    """The text has `count` tokens, and at most `limit` can be read."""

    def __init__(self, count: int, limit: int, field: str) -> None:
        super().__init__(
            f"The text has {count:,} tokens; at most {limit:,} can be read. "
            f"Shorten it, or keep only the first {limit:,} tokens.",
            field=field,
        )
        self.count = count
        self.limit = limit


def all_inputs(
    model: Model,
    text: str | None = None,
    *,
    pair: str | None = None,
    target: str | TokenNumbers | None = None,
    input_ids: TokenNumbers | None = None,
    max_tokens: int | None = None,
    truncate: bool = False,
) -> dict[str, torch.Tensor]:
    """The inputs of a text: `input_ids` [1, tokens], and `token_type_ids` if the tokenizer makes them.

    The arguments are those of `capture`. A pair of texts also gives `sides` [1, tokens] (see `Capture`) if the tokenizer
    tells the two texts apart, and an encoder-decoder model `decoder_input_ids` [1, tokens].
    """
    if model.reads_images:
        field = "text" if input_ids is None else "input_ids"
        raise InputError(f"{model.name} reads images, not texts. Give it an image.", field=field)
    if (given := read_by(type(model.network))) != "texts":
        beside = " together with texts, and neither alone" if reads_texts_beside(type(model.network)) else ", not texts"
        raise model_error(f"{model.name} reads {given}{beside}. Choose another model.")
    limit = token_limit(model, max_tokens)
    if input_ids is None:
        inputs = _encode(model, text, pair, limit, truncate)
    else:
        ids = torch.as_tensor(input_ids).reshape(1, -1)
        _check_numbers(ids[0].numpy(force=True), known_tokens(model.network), "input_ids")
        inputs = {"input_ids": ids[:, : _length(ids.shape[1], limit, truncate, "input_ids")].long()}
    if model.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([target_ids(model, target, max_tokens, truncate)])
    return inputs


def replaced_tokens(model: Model, inputs: dict[str, torch.Tensor], texts: Mapping[int, str]) -> dict[str, torch.Tensor]:
    """The inputs with other tokens at some positions of the text.

    texts  the text of the new token, by position

    If a token begins with a blank, so does the token that replaces it. Raises InputError (field "replace_tokens") for a
    position outside the text and for a text that is not one token.
    """
    if not texts:
        return inputs
    if "input_ids" not in inputs:
        raise text_error("An image has no tokens that could be replaced by others.")
    ids, image = inputs["input_ids"].clone(), image_token(model)
    for position, text in texts.items():
        check_index(position, ids.shape[1], "token", field="replace_tokens")
        if "pixel_values" in inputs and int(ids[0, position]) == image:
            why = f"Token {position:,} stands for a part of the image. Only tokens of the text can be replaced."
            raise InputError(why, field="replace_tokens")
        before = token_texts(model.tokenizer, [int(ids[0, position])])[0]
        ids[0, position] = one_token(model, text, with_blank=before.startswith(" "), field="replace_tokens")
    return inputs | {"input_ids": ids}


def image_token(model: Model) -> int | None:
    """The number of the token that stands for a part of an image; None for a model that does not read images with texts."""
    return getattr(model.network.config, "image_token_id", None)


def word_tokens(model: Model, text: str, *, with_blank: bool, field: str) -> list[int]:
    """The token numbers of a word: a single one if there is one for it.

    with_blank  whether it is tried with a blank before it first, as words within a text begin
    field       of the error

    Raises InputError for a model without a tokenizer.
    """
    if model.tokenizer is None:
        raise InputError(f"{model.name} came without a tokenizer: it knows no texts.", field=field)
    spelled = [f" {text}", text] if with_blank and not text.startswith(" ") else [text]
    with tokenizing(model.name, **{field: text}):
        spellings = [model.tokenizer(one, add_special_tokens=False)["input_ids"] for one in spelled]
    return next((ids for ids in spellings if len(ids) == 1), spellings[0])


def one_token(model: Model, text: str, *, with_blank: bool, field: str) -> int:
    """The token number of `text`, as in `word_tokens`. Raises InputError for a text that is not one token."""
    ids = word_tokens(model, text, with_blank=with_blank, field=field)
    if len(ids) == 1:
        return ids[0]
    pieces = " | ".join(token_texts(model.tokenizer, ids[:MAX_PIECES])) or "none"
    further = " | …" if len(ids) > MAX_PIECES else ""
    raise InputError(
        f"“{shortened(text)}” is {len(ids):,} tokens for {model.name} ({pieces}{further}); one token is needed. Choose a "
        f"shorter word, or one of these.",
        field=field,
    )


def require_same_length(model: Model, ids: Sequence[int], other: Sequence[int], *, field: str) -> None:
    """Raise InputError for texts with different numbers of tokens: heads are patched token by token."""
    if len(ids) == len(other):
        return
    longer = "The text" if len(ids) > len(other) else "The other text"
    position = next((place for place, pair in enumerate(zip(ids, other, strict=False)) if pair[0] != pair[1]), None)
    differ = ""
    if position is not None:
        pair = token_texts(model.tokenizer, (ids[position], other[position]))
        differ = " They first differ at token {}: “{}” and “{}”.".format(position, *pair)
    raise InputError(
        f"Patching needs two texts of as many tokens. The text has {len(ids):,}, the other one {len(other):,}. {longer} is "
        f"longer.{differ} Replace words by others of as many tokens.",
        field=field,
    )


def target_ids(
    model: Model, target: str | TokenNumbers | None, max_tokens: int | None = None, truncate: bool = False
) -> tuple[int, ...]:
    """The tokens of an encoder-decoder model's decoder: its start token, then the tokens of the target.

    target  a text, tokenized without special tokens; or token numbers, which follow the start token (a start token among
            them comes twice); None or empty: the start token alone

    Raises InputError: field "model" for a model that names no start token, "target" for a text with pieces that the tokenizer
    does not know and for numbers beyond the tokens; TooLongError.
    """
    limit = token_limit(model, max_tokens)
    if (start := start_token(model.network)) is None:
        why = f"{model.name} does not say with which token its decoder begins. Name it in its configuration"
        raise model_error(f"{why} (decoder_start_token_id), or choose another model.")
    decoder = model.network.get_decoder()
    _check_known(model, decoder, [start])
    if target is None or len(target) == 0:
        return (start,)
    if isinstance(target, str):
        written = _written(model, target)
    else:
        numbers = np.asarray(target)
        _check_numbers(numbers, known_tokens(decoder), "target")
        written = tuple(numbers.tolist())
    ids = (start, *written)[: _length(len(written) + 1, limit, truncate, "target")]
    _check_known(model, decoder, ids)
    return ids


def chat_ids(model: Model, message: str) -> tuple[int, ...]:
    """The tokens of a conversation in the model's chat template: this message, then the beginning of the answer. Raises
    InputError (field "chat") for a model without a chat template, and as `written_message` does."""
    if model.tokenizer is None or not model.chats:
        raise InputError(f"{model.name} has no chat template. Let it continue the text as it is.", field="chat")
    if not message.strip():
        raise text_error("The text is blank. Type at least one word.")
    with tokenizing(model.name, text=message):
        written = written_message(model.name, model.tokenizer, message)
        return tuple(model.tokenizer(written, add_special_tokens=False)["input_ids"])


def _written(model: Model, target: str) -> tuple[int, ...]:
    """The tokens of a target text. Some tokenizers have a separate vocabulary for targets."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        why = f"{model.name} came without a tokenizer: it cannot read a target text. Give token numbers instead."
        raise InputError(why, field="target")
    with tokenizing(model.name, target=target):
        ids = tuple(tokenizer(text_target=target, add_special_tokens=False, verbose=False)["input_ids"])
    unknown = list(dict.fromkeys(_unknown_pieces(tokenizer, target))) if tokenizer.unk_token_id in ids else []
    if not unknown:
        return ids
    named = listed([f"“{shortened(piece)}”" for piece in unknown], MAX_UNKNOWN)
    why = f"{model.name} has no token for {named}. Write the target without, or give token numbers."
    raise InputError(why, field="target")


def _unknown_pieces(tokenizer: PreTrainedTokenizerBase, target: str) -> list[str]:
    """The pieces of a target that its tokenizer has no token for; whole words if the tokenizer gives no positions."""

    def encoded(text: str) -> BatchEncoding:
        return tokenizer(text_target=text, add_special_tokens=False, return_offsets_mapping=bool(tokenizer.is_fast))

    if tokenizer.is_fast:
        whole = encoded(target)
        spans = zip(whole["input_ids"], whole["offset_mapping"], strict=True)
        pieces = [target[slice(*span)] for token, span in spans if token == tokenizer.unk_token_id]
    else:
        pieces = [word for word in target.split() if tokenizer.unk_token_id in encoded(word)["input_ids"]]
    return [piece for piece in pieces if piece != tokenizer.unk_token]  # which a target may name


def _check_numbers(ids: NDArray, known: int | None, field: str) -> None:
    """Raise InputError unless these are token numbers: [tokens], below `known`."""
    wrong = ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu" or int(ids.min()) < 0
    if wrong or (known is not None and int(ids.max()) >= known):
        to = "" if known is None else f" to {known - 1:,}"
        raise InputError(f"Token numbers have to be whole numbers from 0{to}, in one row of at least one.", field=field)


def read_token_numbers(text: str) -> tuple[int, ...]:
    """Read typed token numbers: "5, 17 8" -> (5, 17, 8), "" -> (). Raises InputError (field "target")."""
    parts = text.replace(",", " ").split()
    if wrong := next((part for part in parts if re.fullmatch(r"[0-9]{1,9}", part) is None), None):
        raise InputError(
            f"“{wrong[:40]}” is not a token number. Write whole numbers with commas or blanks between.", field="target"
        )
    return tuple(map(int, parts))


def image_inputs(model: Model, image: ArrayLike) -> dict[str, torch.Tensor]:
    """The inputs of an image: `pixel_values` [1, 3, height, width]. Raises InputError (field "image") for a model of texts."""
    if not model.reads_images:
        raise image_error(f"{model.name} reads texts, not images. Give it a text.")
    if "noise" in inspect.signature(model.network.forward).parameters:  # ViT-MAE leaves parts out, others in each pass
        raise model_error(
            f"{model.name} draws at random which parts of an image it reads, so that no two passes are the same. Choose "
            f"another model."
        )
    pixels = pixel_values(model.name, _image_processor(model), eight_bits(image))
    return {"pixel_values": pixels.to(model.network.dtype)}


def image_tiles(model: Model, image: ArrayLike) -> Tiles:
    """The area of an image that a model of images reads, as one tile."""
    return tiles_alone(model.name, _image_processor(model), eight_bits(image))


def _image_processor(model: Model) -> Any:
    """Its own, or one that squeezes the whole image into the size that the network is made for."""
    size = image_size(model)
    return model.image_processor or squeezing(size)


def image_text_inputs(
    model: Model, text: str | None, image: ArrayLike, max_tokens: int | None = None
) -> tuple[dict[str, torch.Tensor], Tiles]:
    """The inputs of an image with a text, made by the model's own processor, and the areas of the image that it reads.

    Raises InputError: field "image" for a model that reads texts only, or an image that cannot be read; "text" for a text that
    is blank, has no place for the image or places for several, or is too long with the image.
    """
    if model.is_encoder_decoder and (model.processor is not None or read_by(type(model.network)) == "images"):
        raise image_error(f"{model.name} has an encoder and a decoder; with an image only decoders are read.")
    if model.processor is None:
        why = "was loaded without its processor" if "vision" in model.kinds.values() else "reads texts, not images"
        raise image_error(f"{model.name} {why}. Give it a text alone.")
    inputs, tiles = processed(model.name, model.processor, eight_bits(image), text or "")
    count, limit = inputs["input_ids"].shape[1], token_limit(model, max_tokens)
    if limit is not None and count > limit:
        raise image_error(
            f"The image and the text have {count:,} tokens together; at most {limit:,} can be read. Give a smaller image or a "
            f"shorter text."
        )
    _check_known(model, model.network, inputs["input_ids"][0].tolist())
    if "mm_token_type_ids" in inspect.signature(model.network.forward).parameters:  # that of Cosmos 3 leaves them out
        inputs.setdefault("mm_token_type_ids", (inputs["input_ids"] == image_token(model)).long())
    dtype = model.network.dtype
    return {name: part.to(dtype) if part.is_floating_point() else part for name, part in inputs.items()}, tiles


def image_size(model: Model) -> tuple[int, int]:
    """(height, width) of the images that the model reads, in pixels. Raises InputError if its configuration does not say."""
    config = getattr(model.network.config, "vision_config", model.network.config)  # of the tower of CLIP, say
    if getattr(config, "num_channels", 3) != 3 or getattr(config, "image_size", None) is None:
        raise model_error(
            f"{model.name} reads images of another kind than red, green and blue in one fixed size. "
            f"Choose another model."
        )
    height, width = np.broadcast_to(config.image_size, 2).tolist()
    if height * width > MAX_PIXELS:
        raise model_error(
            f"{model.name} wants images of {height:,} × {width:,} pixels; at most {MAX_PIXELS // 1_000_000} million are "
            f"read. Choose another model."
        )
    return height, width


def run(model: Model, inputs: dict[str, torch.Tensor], *, gradients: bool = False, **options: object) -> Any:
    """Run one pass and return the network's output.

    gradients  whether torch keeps what it needs to follow the pass backwards
    options  for the network; by default it keeps no key/value cache and gives a language model's logits at the last position
             only (`logits_to_keep` is the number of last positions, 0 for all)
    """
    accepted = inspect.signature(model.network.forward).parameters
    if "use_cache" in accepted:
        options.setdefault("use_cache", False)
    if model.has_language_model_head and "logits_to_keep" in accepted:
        # All positions would be [tokens, vocabulary]: 400 MB at 2,048 tokens. They are given as positions: told how many of the
        # last ones, Gemma 4 leaves the queries of other tokens out of its layers that share keys.
        last: Any = options.get("logits_to_keep", 1)
        options["logits_to_keep"] = torch.arange(-last, 0) if last else 0
    else:
        options.pop("logits_to_keep", None)
    # Other entries of the inputs would be passed on down to the attention call.
    read = {name: part.to(_reading_device(model.network)) for name, part in inputs.items() if name in accepted}
    try:
        with torch.enable_grad() if gradients else torch.inference_mode():
            return model.network(**read, **options)
    except InputError:
        raise
    except Exception as error:  # each architecture reports a missing input in its own way
        if model.reads_images and isinstance(error, ValueError | RuntimeError) and not came_from_a_call(error):
            height, width = read["pixel_values"].shape[-2:]
            raise image_error(
                f"{model.name} cannot read {width:,} × {height:,} pixels, which its image processor makes of this image: "
                f"{first_line(error)}. Choose another one."
            ) from error
        may_lack = "input_ids" in inputs and not came_from_a_call(error)
        why = cannot_read(model.network) if may_lack else None
        if why is None:
            raise
        raise model_error(f"{model.name} {why}. Choose another model.") from error


def cache_of(returned: Any) -> dict[str, Cache]:
    """The keys and values that a pass has kept, under the name by which its network reads them; empty if it kept none.

    The name is `past_key_values` up to transformers 5.23, and then `cache`.
    """
    return {name: part for name, part in returned.items() if isinstance(part, Cache)}


def cannot_read(network: PreTrainedModel) -> str | None:
    """Why a network cannot read a text of one token, as the end of a sentence; None if it can, and if the error may be due to
    missing weights (on torch's meta device)."""
    ids = torch.zeros((1, 1), dtype=torch.long, device=_reading_device(network))
    is_both = getattr(network.config, "is_encoder_decoder", False)
    try:
        with heard_by(None), torch.inference_mode():
            network(input_ids=ids, **{"decoder_input_ids": ids} if is_both else {})
    except Exception as error:  # as in `run`
        if not (ids.is_meta and isinstance(error, RuntimeError)):
            return f"cannot read a text alone: transformers says “{first_line(error)}”"
    return None


def _reading_device(network: PreTrainedModel) -> torch.device:
    """The device of the first weights, those of the token embeddings; "meta" if it has no weights yet."""
    devices = [weight.device for weight in network.parameters()]
    return next((device for device in devices if device.type != "meta"), devices[0])


def token_limit(model: Model, max_tokens: int | None) -> int | None:
    """The number of tokens that can be read: the model's own limit or `max_tokens`, whichever is less; None for no limit."""
    return min((limit for limit in (model.max_tokens, max_tokens) if limit is not None), default=None)


def _length(count: int, limit: int | None, truncate: bool, field: str) -> int:
    """The number of tokens that are read of so many. Raises TooLongError if these are too many and are not to be cut."""
    if limit is None or count <= limit:
        return count
    if not truncate:
        raise TooLongError(count, limit, field)
    return limit


def _encode(
    model: Model, text: str | None, pair: str | None, limit: int | None, truncate: bool
) -> dict[str, torch.Tensor]:
    if model.tokenizer is None:
        raise text_error(f"{model.name} came without a tokenizer: it reads the numbers of tokens, not texts.")
    if text is None or not text.strip():
        raise text_error("The text is blank. Type at least one word.")
    if pair is not None and not model.takes_pairs:
        raise InputError(f"{model.name} takes one text, not a pair. Leave the second text empty.", field="pair")
    with tokenizing(model.name, text=text, pair=pair or ""):
        encoded = model.tokenizer(text, pair or None, return_tensors="pt", verbose=False)
    count = encoded["input_ids"].shape[1]
    if _length(count, limit, truncate, "text") < count:
        encoded = model.tokenizer(
            text, pair or None, return_tensors="pt", truncation=True, max_length=limit, verbose=False
        )
    if encoded["input_ids"].shape[1] == 0:
        raise text_error("The text has no tokens. Type at least one word.")
    _check_known(model, model.network, encoded["input_ids"][0].tolist())
    inputs = {name: encoded[name] for name in ("input_ids", "token_type_ids") if name in encoded}
    if pair and encoded.is_fast:
        sides = [-1 if side is None else side for side in encoded.sequence_ids(0)]
        inputs[SIDES] = torch.tensor([sides])
    return inputs


def known_tokens(network: PreTrainedModel) -> int | None:
    """The number of tokens that this part of the model has embeddings for; None if that is unknown."""
    try:
        embeddings = network.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # some models compute them, and FSMT's decoder does not give them
        embeddings = None
    if (weight := getattr(embeddings, "weight", None)) is not None:
        return weight.shape[0]
    config = getattr(network, "config", None)
    return None if config is None else getattr(config.get_text_config(), "vocab_size", None)


def _check_known(model: Model, network: PreTrainedModel, ids: Sequence[int]) -> None:
    """Raise InputError for a token without an embedding: the tokenizer then belongs to another model."""
    known = known_tokens(network)
    if known is not None and (unknown := [token for token in ids if not 0 <= token < known]):
        raise model_error(
            f"{model.name} has embeddings for the tokens 0 to {known - 1:,}, and this text has token "
            f"{unknown[0]:,}: its tokenizer or its start token belongs to another model. Put the files of one model into "
            f"its folder, or choose another model."
        )
