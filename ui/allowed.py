"""The models that this host loads: decided by the name alone, before a folder is looked at or a hub is asked."""

from __future__ import annotations

import os
import re

from core import InputError
from core.models.catalogue import CATALOGUE
from core.models.loading import PLACES, Place
from ui import settings

_HUB_NAME = re.compile(r"(?!.{97})[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def offered() -> list[str]:
    """The models that are offered by name. Pages open with the first one."""
    return [*(entry.name for entry in CATALOGUE), *settings.current().models]


def places_of(name: str) -> tuple[Place, ...]:
    """The places where a model may be looked for.

    Raises InputError (field "model") with the same words for everything that is not allowed, whether or not it exists.
    """
    allowed, name = settings.current(), name.strip()
    if name in offered():
        return PLACES
    places: list[Place] = []
    if allowed.folders is True or (allowed.folders and _is_inside(name, allowed.folders)):
        places.append("folder")
    if allowed.hub and ("folder" in places or _HUB_NAME.fullmatch(name)):
        places.append("hub")
    if not places:
        raise InputError(f"This host does not load that. {_sentence()}", field="model")
    return tuple(places)


def model_help() -> str:
    """The help beside the field for a model: what can be typed there."""
    return f"The listed models are there at once. {_sentence()}"


def _sentence() -> str:
    allowed = settings.current()
    ways = []
    if allowed.hub:
        ways.append("a Hugging Face name such as openai-community/gpt2")
    if allowed.folders:
        which = "" if allowed.folders is True else " among those that it allows"
        ways.append(f"the path of a folder with safetensors{which}")
    if ways:
        return f"You can also type {' or '.join(ways)}."
    return f"It has {', '.join(offered()[:-1])} and {offered()[-1]}; on your own computer Headlight opens any model."


def _is_inside(name: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is inside one of the folders. By its name first: outside of them, not even a link is followed."""
    if name.startswith("~"):
        return False
    try:
        path = os.path.abspath(name)
        return any(
            _within(path, os.path.abspath(folder)) and _within(os.path.realpath(path), os.path.realpath(folder))
            for folder in folders
        )
    except (OSError, ValueError):
        return False


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
