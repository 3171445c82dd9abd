"""The steps of a run that are the same with Ray and without: what comes before the first part, and after the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError
from ..models.inputs import all_inputs
from ..models.model import Model
from ..models.tokens import token_texts
from ..progress import stop_point
from .columns import LAST, MAP
from .settings import RunSettings
from .storing import tables
from .tally import Tally, tally_bytes
from .texts import Problem

# --- before


def require_reader(model: Model) -> None:
    """Raise InputError (field "model") for a model that reads no texts. model: may come without its weights"""
    if model.reads_images:
        raise InputError(f"{model.name} reads images, not texts. Choose another model.", field="model")
    if model.tokenizer is None:
        raise InputError(f"{model.name} came without a tokenizer: it reads no texts.", field="model")


def fitted(settings: RunSettings, model: Model) -> RunSettings:
    """The settings with passages that are no longer than the model reads."""
    longest = min(settings.passage_tokens, model.max_tokens or settings.passage_tokens)
    return replace(settings, passage_tokens=longest)


def bytes_kept(settings: RunSettings, model: Model) -> int:
    """About how much a tally takes, in memory and as a file."""
    config = model.text_config
    layers, per_layer = getattr(config, "num_hidden_layers", 12), getattr(config, "num_attention_heads", 12)
    return tally_bytes(settings, len(settings.heads or ()) or layers * per_layer)


def in_order(census: NDArray[np.void], problems: Sequence[Problem], unread: int) -> NDArray[np.void]:
    """The census sorted by id. Raises InputError (field "data" or "column") where it is empty.

    problems, unread  the first of what could not be read, and how much that is in all
    """
    if not len(census):
        why, is_column = "There is no text in it.", any("no column" in problem.why for problem in problems)
        if problems:
            why += f" The first of {unread:,} problems, in {problems[0].place.file}: {problems[0].why}"
        raise InputError(why, field="column" if is_column else "data")
    return census[np.argsort(census["id"])]


# --- after


def finished_tables(tally: Tally, model: Model) -> Iterator[tuple[str, pa.Table]]:
    """All tables of a finished run, `LAST` last. The map of the heads is among them where scikit-learn is installed."""
    tokens_of = {
        number: token_texts(model.tokenizer, all_inputs(model, passage.text)["input_ids"][0].tolist())
        for number, passage in tally.shown_passages.items()
    }
    made: dict[str, pa.Table] = {}
    for name, table in tables(tally, tokens_of):
        stop_point()
        made[name] = table
        if name == LAST and find_spec("sklearn") is not None:
            from .profiles import map_of  # not at the top: the app does without it

            yield MAP, map_of(*(made[part].to_pandas() for part in ("metrics", "classes", "distances"))).table()
        yield name, table
