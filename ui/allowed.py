"""The models that this host loads: decided by the name alone, before a folder is looked at or a hub is asked."""

import time
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from core import InputError
from core.models.allowed import Allowed, Place
from core.models.catalogue import not_installed
from core.models.on_disk import OLLAMA, ModelOnDisk, models_on_disk
from core.units import bytes_in_words
from ui import given, settings
from ui.markdown import plain

_IN_HELP = 20  # models on this disk


def offered() -> list[str]:
    """The models that are offered by name, first those that are installed. Pages open with the first one."""
    return sorted(_allowed().named, key=not_installed().__contains__)


def places_of(name: str) -> tuple[Place, ...]:
    """The places where a model may be looked for.

    Raises InputError (field "model") with the same words for everything that is not allowed, whether or not it exists.
    """
    if not (places := loads().places_of(name)):
        raise InputError(f"This host does not load that. {_sentence()}", field="model")
    return places


def may_read(path: str) -> bool:
    """Whether models may be loaded from this folder or file, as the settings say, or the one that `headlight` was given."""
    return path in _given() or _allowed().may_read(path)


def loads() -> Allowed:
    """What this host loads: as the settings say, and what `headlight` was given."""
    allowed = _allowed()
    return replace(allowed, models=(*allowed.models, *_given()))


def _given() -> list[str]:
    return [] if (path := given.file()) is None else [str(path)]


def _allowed() -> Allowed:
    of_host = settings.current()
    return Allowed(of_host.hub, of_host.folders, of_host.models)


def models_here() -> dict[str, str]:
    """The models on this disk that may be loaded, by name, each with what it is: in which program's folder, its architecture,
    and the memory that it needs. They are looked for at most every ten seconds, since every change on a page draws the menu."""
    return _here()[0]


def not_listed() -> str:
    """A sentence about what is on this disk and not among these models, "" if there is nothing."""
    return _here()[1]


def _here() -> tuple[dict[str, str], str]:
    allowed = settings.current()
    return _looked(allowed, int(time.monotonic() / 10)) if allowed.folders else ({}, "")


@lru_cache(maxsize=1)
def _looked(allowed: settings.Settings, _moment: int) -> tuple[dict[str, str], str]:
    on_disk, left_out = models_on_disk(lambda path: may_read(str(path)))
    found = [model for model in on_disk if allowed.hub or model.path.suffix == ".gguf" or model.name.startswith(OLLAMA)]
    # The menu is narrow, and the browser knows an option by its words: short ones if they are its own.
    short = Counter(_short(model) for model in found)
    words = {
        model.name: f"{_short(model) if short[_short(model)] == 1 else model.label} · "
        f"{bytes_in_words(model.size.needed('float32'))} · {model.architecture} · {model.place}"
        for model in found
    }
    return words, left_out


def _short(model: ModelOnDisk) -> str:
    return Path(model.label).stem if model.path.suffix == ".gguf" else model.label


def model_help() -> str:
    """The help beside the field for a model: what can be typed there."""
    here = list(models_here().values())
    more = [f"and {len(here) - _IN_HELP} more"] if len(here) > _IN_HELP else []
    listed = [f"- {plain(words)}" for words in here[:_IN_HELP] + more]
    said = ["Those of this disk, with the memory that they need in float32:", "\n".join(listed)] if here else []
    return "\n\n".join(["The listed models are there at once.", *said, _sentence()])


def _sentence() -> str:
    allowed = settings.current()
    ways = []
    if allowed.hub:
        ways.append("a Hugging Face name such as openai-community/gpt2")
    if allowed.folders:
        which = "" if allowed.folders is True else " among those that it allows"
        ways.append(f"the path of a GGUF file, or of a folder with safetensors or a LoRA adapter{which}")
    if ways:
        return f"You can also type {' or '.join(ways)}."
    named = _allowed().named
    return f"It has {', '.join(named[:-1])} and {named[-1]}; on your own computer Headlight opens any model."
