"""Settings of this host: what it allows, read once from a file beside app.py and from the environment.

The command `headlight` looks for that file in the folder in which it is started.

Without any setting, Headlight is a program on a person's own computer and allows everything. `headlight.public.toml` holds what
a public address needs.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("HEADLIGHT_FOLDER") or Path(__file__).parent.parent)
FILE = ROOT / "headlight.toml"
PREFIX = "HEADLIGHT_"
WHICH_FILE = "HEADLIGHT_SETTINGS"
# Variables that are not settings.
_OTHERS = {WHICH_FILE, *(f"HEADLIGHT_{name}" for name in ("ADDRESS", "BROWSER", "CACHE", "CHROMIUM", "FILE", "FOLDER"))}
DTYPES = ("float32", "bfloat16", "float16")
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}


class SettingsError(Exception):
    """A setting that cannot be used. The message says which one, where it is, and what is allowed."""


# --- readers of values, as TOML or the environment gives them


def _yes_or_no(given: object) -> bool:
    answers = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    answer = answers.get(str(given).strip().lower())
    if answer is None:
        raise ValueError("true or false")
    return answer


def _whole(least: int, most: int) -> Callable[[object], int]:
    def read(given: object) -> int:
        number = None
        with suppress(ValueError):
            number = None if isinstance(given, bool | float) else int(str(given))
        if number is None or not least <= number <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return number

    return read


def _or_none(read: Callable[[object], Any]) -> Callable[[object], Any]:
    def either(given: object) -> Any:
        if str(given).strip().lower() == "none":
            return None
        try:
            return read(given)
        except ValueError as error:
            raise ValueError(f'{error}, or "none"') from None

    return either


def _size(given: object) -> int:
    """Bytes from a number or from words such as "2 GB"; 1 GB is 10⁹ bytes."""
    text = str(given).strip().lower().replace(" ", "")
    number = text.rstrip("bkmg")
    try:
        count = int(float(number) * _UNITS[text[len(number) :]])
    except (KeyError, ValueError, OverflowError):
        count = 0
    if isinstance(given, bool) or count < 10**8:
        raise ValueError('at least 100 MB, such as 2000000000 or "2 GB"')
    return count


def _several(given: object) -> tuple[str, ...]:
    """Texts from a list, or from one text with commas."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError("a list of texts; in the environment, with commas between them")
    return tuple(part.strip() for part in parts if part.strip())


def _dtypes(given: object) -> tuple[str, ...]:
    listed = _several(given)
    if not listed or not set(listed) <= set(DTYPES):
        raise ValueError(f"a list of {', '.join(DTYPES)}")
    return listed


def _folders(given: object) -> bool | tuple[str, ...]:
    with suppress(ValueError):
        return _yes_or_no(given)
    with suppress(ValueError):
        if (listed := _several(given)) and all(map(os.path.isabs, listed)):
            return listed
    raise ValueError("true, false, or a list of folders, each with its whole path")


def _folder(given: object) -> str:
    """A path; "none" becomes ""."""
    text = str(given).strip()
    if not isinstance(given, str) or not text:
        raise ValueError('the path of a folder, or "none"')
    return "" if text.lower() == "none" else text


def _setting(default: Any, read: Callable[[object], Any], words: str) -> Any:
    return field(default=default, metadata={"read": read, "words": words})


@dataclass(frozen=True)
class Settings:
    """Settings of a host. The defaults are those of a person's own computer."""

    hub: bool = _setting(True, _yes_or_no, "Whether any model of the Hugging Face hub may be loaded by its name.")
    folders: bool | tuple[str, ...] = _setting(
        True,
        _folders,
        "Whether models may be loaded from folders and GGUF files, and those on this disk are listed: all, none, or those in "
        "a list and what is inside them.",
    )
    models: tuple[str, ...] = _setting(
        (), _several, "Further models, by name or folder, that may be loaded whatever the two lines above say."
    )
    dtypes: tuple[str, ...] = _setting(
        DTYPES,
        _dtypes,
        "In which precisions models may be loaded. Two models are held at once; each precision makes another one.",
    )
    tokens: int | None = _setting(
        None, _or_none(_whole(8, 10**6)), "The longest text in tokens; none: as long as the model and the page allow."
    )
    corpora: str = _setting(
        "corpora",
        _folder,
        "The folder of finished corpus runs, beside app.py or with its whole path; visitors read passages of the texts in "
        "it. none: there is no such folder.",
    )
    upload_mb: int = _setting(200, _whole(1, 1_000), "The largest file that may be uploaded, in megabytes.")
    seconds: int | None = _setting(
        None,
        _or_none(_whole(1, 86_400)),
        "The longest computation in seconds, without waiting. A computation in steps can be continued.",
    )
    sessions: int | None = _setting(
        None, _or_none(_whole(1, 100_000)), "How many visitors there may be at once; others are asked to come back."
    )
    memory: int = _setting(
        4 * 10**9, _size, "Bytes for everything that is kept and everything that runs, above the models themselves."
    )


def read(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings in a TOML file and in the environment, which takes precedence.

    file  None: the file that HEADLIGHT_SETTINGS names, otherwise headlight.toml beside app.py if it exists

    Raises SettingsError for a named file that cannot be read, an unknown name, and a value that is not allowed.
    """
    if file is None:
        file = Path(environment[WHICH_FILE]) if environment.get(WHICH_FILE) else FILE if FILE.is_file() else None
    known = {setting.name: setting for setting in fields(Settings)}
    values: dict[str, Any] = {}
    for where, name, given in (*_in_file(file), *_in_environment(environment)):
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(known)}."
            raise SettingsError(f"{where}: there is no setting {name!r}.{meant}")
        try:
            values[name] = known[name].metadata["read"](given)
        except ValueError as error:
            raise SettingsError(f"{where}: {name} cannot be {given!r}. It has to be {error}.") from None
    return Settings(**values)


def _in_file(file: Path | None) -> list[tuple[str, str, object]]:
    if file is None:
        return []
    try:
        return [(str(file), name, given) for name, given in tomllib.loads(file.read_text("utf-8")).items()]
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}. {WHICH_FILE} names it.") from None
    except ValueError as error:  # no TOML, no UTF-8
        raise SettingsError(f"{file}: is not a TOML file: {error}.") from None


def _in_environment(environment: Mapping[str, str]) -> list[tuple[str, str, object]]:
    """The settings among the variables, as (variable, setting, value). Empty variables are left out."""
    return [
        (variable, variable.removeprefix(PREFIX).lower(), given)
        for variable, given in sorted(environment.items())
        if variable.startswith(PREFIX) and variable not in _OTHERS and given.strip()
    ]


@cache
def current() -> Settings:
    """The settings of this process: read on the first call, and then the same for as long as it runs."""
    return read()
