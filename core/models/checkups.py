"""What the check-up of a model has found, and the files that keep it, so that it is made once on a machine.

    <cache folder>/checkups/checkup-2-<hash>.json      {name of a check: {"holds", "detail"}}

The hash is that of all that decides what is found: the model with its revision, dtype, devices, and the sizes and times of its
files, the versions that compute it, and the machine. Only a check-up that is whole and that holds is kept: what failed is
looked at anew.
"""

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import pandas as pd
from torch import nn

from ..errors import InputError
from ..installed import versions
from .conversion import cache_folder
from .fields import Fields, read_object
from .model import Model, RecordedModel

FINITE = "finite numbers"  # the check without which there is nothing to check
OWN_CODE = "own code"  # the check that decides where another does not know the network
MAX_FILES, MAX_BYTES, MAX_ENTRIES = 64, 10**5, 1_000
OVER = "The {:g} seconds of the check-up were over."
_PREFIX = "checkup-2-"  # 2: with the comparison with the own code, and with all weights of the files


@dataclass(frozen=True)
class Finding:
    """What one check found.

    holds   None if the check could not be made
    detail  what was compared and what came of it, or why it was not, in sentences
    is_cut  whether the time was over before all was looked at
    """

    holds: bool | None
    detail: str
    is_cut: bool = False

    @classmethod
    def of(cls, failures: Iterable[str], passed: str) -> "Finding":
        """Of sentences that each tell of a failure: the first one, and how many more there are; `passed` without any."""
        first, *more = [*failures, passed]
        others = f" And {len(more) - 1} more like this." if len(more) > 1 else ""
        return cls(not more, f"{first}{others}")


@dataclass(frozen=True)
class Checkup:
    """What was checked of a model, on one device with these versions.

    findings  by the name of the check
    skipped   the names of the checks for which there was no time
    devices   as `Model.devices`
    versions  of Headlight, Python, torch and transformers
    """

    model: str
    revision: str
    dtype: str
    devices: tuple[str, ...]
    versions: dict[str, str]
    findings: dict[str, Finding]
    skipped: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Model, findings: dict[str, Finding], skipped: tuple[str, ...] = ()) -> "Checkup":
        """With what is known of the model and of the versions that are here."""
        computed_by = versions("torch", "transformers")
        return cls(model.name, model.revision, model.dtype, model.devices, computed_by, findings, skipped)

    @property
    def is_whole(self) -> bool:
        """Whether the model could be read, and there was time for all checks."""
        return self.findings[FINITE].holds is not None and not self.skipped

    @property
    def holds(self) -> bool:
        """Whether no check failed. A check that could not be made does not count as failed; the table says why."""
        return all(finding.holds is not False for finding in self.findings.values())

    @property
    def table(self) -> pd.DataFrame:
        """One row for each check: `check`, `holds` (True, False, or None if it could not be made) and `detail`."""
        rows = [(name, finding.holds, finding.detail) for name, finding in self.findings.items()]
        return pd.DataFrame(rows, columns=["check", "holds", "detail"]).astype({"holds": object})

    @property
    def summary(self) -> str:
        """One sentence: how many checks passed, or the names of those that failed."""
        made = [finding.holds for finding in self.findings.values() if finding.holds is not None]
        if failed := [name for name, finding in self.findings.items() if finding.holds is False]:
            return f"{len(failed)} of {len(made)} checks failed on this machine: {', '.join(failed)}."
        how_far = "Checked" if self.is_whole else "Partly checked" if made else "Not checked"
        could_not = len(self.findings) - len(made)
        return f"{how_far} on this machine: {len(made)} checks passed, {could_not} could not be made."

    def __str__(self) -> str:
        words = {True: "holds", False: "FAILS", None: "not checked"}
        lines = [f"{name}: {words[finding.holds]}. {finding.detail}" for name, finding in self.findings.items()]
        computed = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        where = " and ".join(self.devices)
        return "\n".join([f"{self.model}, {self.dtype} on {where}, {computed}", self.summary, *lines])


MADE: WeakKeyDictionary[nn.Module, Checkup] = WeakKeyDictionary()  # the latest one in this process, by the network


def known_checkup(model: Model) -> Checkup | None:
    """The latest check-up of a model in this process, or the one that is kept on this disk."""
    if model.network not in MADE and (kept := _read(model)) is not None:
        MADE[model.network] = kept
    return MADE.get(model.network)


def fault_of(model: Model) -> str:
    """What the latest check-up found wrong with a model, in a sentence; "" if it holds, or if nothing is known."""
    if isinstance(model, RecordedModel):
        return model.checkup if model.failed else ""
    return fault_in(model.network)


def fault_in(network: nn.Module | None) -> str:
    """As `fault_of`. What is kept on a disk holds, so only this process knows of a fault."""
    made = None if network is None else MADE.get(network)
    return "" if made is None or made.holds else made.summary


def outcome(model: Model) -> str:
    """What is known of a model's check-up: a sentence for a file, which may be opened elsewhere; "" if nothing is known."""
    if isinstance(model, RecordedModel):
        return model.checkup
    return "" if (known := known_checkup(model)) is None else known.summary.replace(" on this machine", "")


def keep(model: Model, checkup: Checkup) -> None:
    """Keep it on this disk, if it is whole and holds, and if the folder can be written. The model must be as it was read."""
    findings = {name: {"holds": one.holds, "detail": one.detail} for name, one in checkup.findings.items()}
    text = json.dumps(findings)
    if (path := _path(model)) is None or len(text) > MAX_BYTES or not (checkup.is_whole and checkup.holds):
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", prefix=_PREFIX, dir=path.parent, delete=False) as part:
            part.write(text)
        os.replace(part.name, path)
        for old in sorted(path.parent.glob(f"{_PREFIX}*"), key=lambda file: file.stat().st_mtime)[:-MAX_FILES]:
            old.unlink()


def _read(model: Model) -> Checkup | None:
    """What is kept of a model; None if that is nothing, or damaged."""
    if (path := _path(model)) is None:
        return None
    try:
        content = Fields(read_object(path, MAX_BYTES, MAX_ENTRIES))
        parts = {name: content.part(name) for name in (FINITE, *content.values)}
        holds = {name: None if part.values.get("holds") is None else part.flag("holds") for name, part in parts.items()}
        return Checkup.of(model, {name: Finding(holds[name], part.text("detail")) for name, part in parts.items()})
    except (OSError, ValueError, InputError):
        return None


def _path(model: Model) -> Path | None:
    """The file of a check-up, named by all that decides what is found; None for a model that is not that of its files."""
    if model.folder is None or not model.folder.is_dir():
        return None
    files = [(file.name, (of := file.stat()).st_size, of.st_mtime_ns) for file in sorted(model.folder.iterdir())]
    where = (*model.devices, platform.node(), *versions("torch", "transformers").items())
    key = hashlib.sha256(repr((model.name, model.revision, model.dtype, where, files)).encode()).hexdigest()
    return cache_folder() / "checkups" / f"{_PREFIX}{key}.json"
