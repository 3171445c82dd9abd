"""What a view needs from a model: declared beside the view with `@needs(...)`, and checked by whoever offers it.

Every view of a pass needs queries and keys: `choose_text` checks that, before there is a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from core import Model

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Need:
    """Something that a model has or lacks. missing: says what a model lacks, after its name"""

    is_met: Callable[[Model], bool]
    missing: str


# A model of images without queries and keys is refused when it reads one: it exposes no weights either.
QUERIES_AND_KEYS = Need(lambda model: model.captures or model.reads_images, "exposes only its attention weights")
TEXTS = Need(lambda model: not model.reads_images, "reads images, not texts")
NEXT_TOKENS = Need(lambda model: model.has_language_model_head, "predicts no next token")


def missing(model: Model, *needs: Need) -> str | None:
    """Return a sentence that says what a model lacks, and what to do; None if it meets all needs."""
    lacking = [need.missing for need in needs if not need.is_met(model)]
    return f"{model.name} {' and '.join(lacking)}. Choose another model." if lacking else None


@dataclass(frozen=True)
class View(Generic[Arguments, Result]):
    """A function that shows something, and what it needs from a model."""

    show: Callable[Arguments, Result]
    needs: tuple[Need, ...]

    def __call__(self, *given: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self.show(*given, **named)

    def missing(self, model: Model) -> str | None:
        return missing(model, *self.needs)


def needs(*needs: Need) -> Callable[[Callable[Arguments, Result]], View[Arguments, Result]]:
    """Declare what the decorated view needs from a model."""
    return lambda show: View(show, needs)
