"""One pass over a text with heads changed in many ways, and a number for what each change does to its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.branching import Branches, LayerHead, batches
from ..errors import InputError
from ..models.model import Model
from ..models.modules import Kind
from ..progress import OnProgress, step_counter

Measure = Callable[[list[list[LayerHead]]], list[float]]  # a number for each of these sets of heads, changed together
# Places in an array, such as ([layers], [heads]), and what computes the numbers there. It can be called again after an error.
Piece = tuple[Any, Callable[[], list[float]]]


class Interventions:
    """One pass, continued with other outputs of its heads; `layers` is how many there are of the chosen kind of attention,
    `heads` how many each layer has."""

    def __init__(self, model: Model, inputs: Mapping[str, Tensor], kind: Kind | None) -> None:
        self._model = model
        self._pass = Branches(model, inputs)
        self._calls = self._pass.layers(kind)
        self.heads = self._pass.heads(kind)
        self.layers = len(self.heads)

    def _heads_in_pieces(self, layers: int, size: int, measure: Measure) -> Iterator[Piece]:
        """Pieces ((layers, heads), their numbers) of each head of the first `layers` layers changed alone, `size` of them at a
        time, from the last of these layers down: only what is above a changed head has to be computed again."""
        each = [[(layer, head)] for layer in reversed(range(layers)) for head in range(self.heads[layer])]
        for together in batches(each, size):
            of_layers, heads = zip(*(head for (head,) in together), strict=True)
            yield (list(of_layers), list(heads)), partial(measure, together)

    def _by_layer(self, layers: int, pieces: Iterable[Piece]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(layer, numbers [heads]) from the pieces of the first `layers` layers."""
        numbers = chain.from_iterable(measured() for _, measured in pieces)
        for layer in reversed(range(layers)):
            yield layer, np.fromiter(islice(numbers, self.heads[layer]), np.float64)

    def table(
        self, name: str, by_layer: Iterable[tuple[int, NDArray[np.float64]]], on_progress: OnProgress | None
    ) -> pd.DataFrame:
        """A row a head, with the columns layer, head and `name`; NaN for layers that do not come."""
        numbers = [np.full(heads, np.nan) for heads in self.heads]
        step = step_counter(on_progress)
        for layer, of_heads in by_layer:
            numbers[layer] = of_heads
            step()
        rows = [(layer, head, number) for layer, row in enumerate(numbers) for head, number in enumerate(row)]
        return pd.DataFrame(rows, columns=pd.Index(["layer", "head", name]))

    def _check_token(self, token: int) -> None:
        """Raise InputError for a token that the model cannot predict."""
        last = len(self._pass.answer) - 1
        if not 0 <= token <= last:
            of_model = f"the vocabulary of {self._model.name} has the numbers 0 to {last:,}."
            raise InputError(f"There is no token {token:,}: {of_model}", field="token")
