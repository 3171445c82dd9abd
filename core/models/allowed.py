"""Which models may be loaded: decided by the name alone, before a folder is looked at or a hub is asked."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .catalogue import CATALOGUE
from .loading import PLACES, Place
from .on_disk import OLLAMA, ollama_folder

_HUB_NAME = re.compile(r"(?!.{97})[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True)
class Allowed:
    """What whoever runs this program allows.

    hub      any model of the Hugging Face hub, by its name
    folders  models in folders and GGUF files: all, none, or those in these folders and what is inside them
    models   further models, by name or folder, whatever the two above say
    """

    hub: bool
    folders: bool | tuple[str, ...]
    models: tuple[str, ...] = ()

    @property
    def named(self) -> list[str]:
        """The models that are allowed by their names: those of the catalogue, and the further ones."""
        return [*(entry.name for entry in CATALOGUE), *self.models]

    def places_of(self, name: str) -> tuple[Place, ...]:
        """The places where a model may be looked for; none if it may not be loaded, whether or not it exists."""
        name = name.strip()
        if name in self.named:
            return PLACES
        in_folder = self.may_read(str(ollama_folder()) if self.folders and name.startswith(OLLAMA) else name)
        on_hub = self.hub and (in_folder or _HUB_NAME.fullmatch(name) is not None)
        return tuple(place for place, may in zip(PLACES, (in_folder, on_hub), strict=True) if may)

    def may_read(self, path: str) -> bool:
        """Whether models may be loaded from this folder or file."""
        return self.folders is True or (bool(self.folders) and _is_inside(path, self.folders))


def _is_inside(name: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is inside one of the folders. By its name first: outside of them, not even a link is followed."""
    if name.startswith("~"):
        return False
    try:
        path = Path(os.path.abspath(name))
        return any(
            path.is_relative_to(os.path.abspath(folder))
            and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
            for folder in folders
        )
    except (OSError, ValueError):
        return False
