"""Which models may be loaded: decided by the name alone, before a folder is looked at or a hub is asked. Then nothing in a
folder may lead out of it, by a link or by the name of another model."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from .catalogue import CATALOGUE
from .on_disk import OLLAMA, ollama_files, ollama_folder, read_of

# Where models that are not in the catalogue are searched, in this order.
Place = Literal["folder", "hub"]
PLACES: tuple[Place, ...] = get_args(Place)

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

    def beside(self, name: str) -> "Allowed":
        """What is allowed of the files and of the further model that a model by this name leads to: everything where the name
        itself is allowed, because whoever runs this program has chosen it."""
        return Allowed(hub=True, folders=True) if name.strip() in self.named else self

    def way_out(self, name: str) -> Path | None:
        """The first of the files of a model that is a link to a place from which nothing may be read; None if there is none."""
        if self.folders is True:
            return None
        of_ollama = (*ollama_files(name), *ollama_files(name, "params")) if name.startswith(OLLAMA) else None
        files = read_of(Path(name)) if of_ollama is None else of_ollama
        return next((file for file in files if not self.may_read(str(file))), None)


def _is_inside(name: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is inside one of the folders, and what it links to is inside one too. By its name first: outside of
    them, not even a link is followed. Where ".." leads, after a link, no name says."""
    if name.startswith("~") or ".." in Path(name).parts:
        return False
    try:
        path = Path(os.path.abspath(name))
        return any(path.is_relative_to(os.path.abspath(folder)) for folder in folders) and any(
            Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)) for folder in folders
        )
    except (OSError, ValueError):
        return False
