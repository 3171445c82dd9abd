"""One pass over a text with heads changed in many ways, and a number for what each change does to its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.branching import Branches, LayerHead
from ..errors import InputError
from ..models.model import Model
from ..models.modules import Kind
from ..progress import OnProgress, step_counter

Measured = Callable[[list[list[LayerHead]]], Iterator[float]]
# Places in an array, such as ([layers], [heads]), and what computes the numbers there. It can be called again after an error.
Piece = tuple[Any, Callable[[], list[float]]]


class Interventions(ABC):
    """One pass, continued with other outputs of its heads; `layers` is how many there are of the chosen kind of attention,
    `heads` how many each layer has."""

    def __init__(self, model: Model, inputs: Mapping[str, Tensor], kind: Kind | None) -> None:
        self._model = model
        self._pass = Branches(model, inputs)
        self._calls = self._pass.layers(kind)
        self.heads = self._pass.heads(kind)
        self.layers = len(self.heads)

    @abstractmethod
    def measured(self, variants: list[list[LayerHead]]) -> Iterator[float]:
        """The number of each of these sets of heads, changed together."""

    def _by_layer(self, layers: int, measured: Measured) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(layer, numbers [heads]) of each head changed alone, from the last of these layers down: only what is above a changed
        head has to be computed again."""
        numbers = measured(self._each(layers))
        for layer in reversed(range(layers)):
            yield layer, np.fromiter(islice(numbers, self.heads[layer]), np.float64)

    def _each(self, layers: int) -> list[list[LayerHead]]:
        """Each head of the first `layers` layers alone, from the last of these layers down."""
        return [[(layer, head)] for layer in reversed(range(layers)) for head in range(self.heads[layer])]

    def _piece(
        self, together: list[list[LayerHead]], measured: Callable[[list[list[LayerHead]]], list[float]]
    ) -> Piece:
        """The piece of some heads, each of which is changed alone."""
        layers, heads = zip(*(head for (head,) in together), strict=True)
        return (list(layers), list(heads)), partial(measured, together)

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
