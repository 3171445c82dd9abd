"""What a network reads in each pass while it writes, prepared as transformers' own `generate` prepares it.

`prepare_inputs_for_generation` belongs to the network, which decides there what is read anew: Phi-3 drops its cache once the
text is longer than its rotary positions were first made for. The loop around it is that of `generate` for a greedy text
(`GenerationMixin._sample`), of which only the choice of the token is left out.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.generation.configuration_utils import GenerationMode

from ...errors import first_line, model_error
from ...models.model import Model
from ..continuing import twin_of


class Preparation:
    """Prepares one pass after another over a text that grows.

    model  runs these passes; with an encoder, it notes what that returns
    """

    def __init__(self, model: Model, inputs: dict[str, Tensor], grows: str) -> None:
        """inputs: of the first pass; grows: the name of the one that grows. Raises InputError (field "model") for a model whose
        settings ask for a cache that changes its numbers."""
        self._model, self._inputs, self._grows = model, inputs, grows
        network: Any = model.network
        self._network = network
        accepted = inspect.signature(network.forward).parameters
        self._settings = copy.copy(network.generation_config)
        if self._settings.cache_implementation == "quantized":
            raise model_error(
                f"The generation settings of {model.name} ask for a quantised cache, which changes keys and values after they "
                f"are computed. That is not shown. Take cache_implementation out of these settings."
            )
        # The others hold the same numbers in another way: in a tensor of fixed length, or on another device.
        self._settings.cache_implementation = None
        self._settings.use_cache = self._settings.use_cache is not False
        self._given: dict[str, Any] = {name: part for name, part in inputs.items() if name in accepted}
        ids = self._given.pop("input_ids")
        if model.is_encoder_decoder:
            self._given.pop(grows)
        elif "position_ids" in accepted:
            self._given["position_ids"] = self._own(network._prepare_position_ids_for_generation, ids, self._given)
        self.forget(caches=self._settings.use_cache)
        self._encoded: dict[str, Any] = {}
        self.model = model.with_twin(_noting_encoder(network, self._encoded)) if model.is_encoder_decoder else model

    @property
    def caches(self) -> bool:
        """Whether a pass continues from the keys and values of earlier ones."""
        return self._given["use_cache"]

    def forget(self, *, caches: bool) -> None:
        """Leave the keys and values of all passes so far: the next one reads the whole text.

        caches  whether further passes are to keep theirs
        """
        self._is_first = True
        self._given = {name: part for name, part in self._given.items() if not isinstance(part, Cache)}
        self._given["use_cache"] = self._settings.use_cache = caches
        make = self._network._prepare_cache_for_generation
        self._own(make, self._settings, self._given, GenerationMode.GREEDY_SEARCH, 1, 0)

    def next(self, grown: Sequence[int]) -> tuple[dict[str, Any], int]:
        """(what the network reads of this text in its next pass, the number of its tokens that come from the cache). Raises
        InputError (field "model") where transformers leaves the cache but does not read its tokens anew (Phi-4 multimodal)."""
        step = None if self._is_first or not self.caches else 1
        ids, prepare = torch.tensor([grown]), self._network.prepare_inputs_for_generation
        options = {"next_sequence_length": step, "is_first_iteration": self._is_first}
        prepared = self._own(prepare, ids, **options, **self._given)
        read, caches = prepared[self._grows].shape[1], [part for part in prepared.values() if isinstance(part, Cache)]
        # What a cache says of its length it takes from the first layer, which may have no attention (MiniMax).
        cached = caches[0].get_seq_length() or len(grown) - read if caches and not self._is_first else 0
        prepared = {name: part for name, part in prepared.items() if part is not None and name != "logits_to_keep"}
        if read + cached < len(grown):
            raise model_error(
                f"{self._model.name} cannot go on: transformers would read {read:,} of the {len(grown):,} tokens, because it "
                f"leaves the cache at this length. Write a text that ends before it."
            )
        if self._model.is_encoder_decoder and not cached:  # the encoder reads its text again, and is recorded
            prepared.pop("encoder_outputs", None)
            prepared["input_ids"] = self._inputs["input_ids"]
        return prepared, cached

    def keep(self, returned: Any) -> None:
        """Keep what further passes continue from, of what a pass has returned."""
        update, both = self._network._update_model_kwargs_for_generation, self._model.is_encoder_decoder
        self._given = self._own(update, returned, self._given, both) | self._encoded
        self._is_first = False

    @property
    def cache(self) -> Cache | None:
        return next((part for part in self._given.values() if isinstance(part, Cache)), None)

    def _own(self, prepare: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """What the network's own code returns. Raises InputError (field "model") where that fails."""
        try:
            return prepare(*inputs, **options)
        except Exception as error:  # each architecture may need something of its own
            why = f"cannot write a text alone: transformers says “{first_line(error)}”. Choose another model."
            raise model_error(f"{self._model.name} {why}") from error


def _noting_encoder(network: PreTrainedModel, noted: dict[str, Any]) -> Any:
    """A twin of the network that puts what its encoder returns into `noted`, as the decoder takes it."""
    encoder = network.get_encoder()

    def visit(own: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        noted["encoder_outputs"] = own(*inputs, **options)
        return noted["encoder_outputs"]

    return twin_of(network, {name: visit for name, part in network.named_modules() if part is encoder})
