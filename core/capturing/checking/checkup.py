"""The check-up: whether this machine computes a model as its files and its configuration say.

The certificate of a head begins with the queries, keys and values that the model itself made. So it stays green if every
projection is wrong by one percent, if positions begin at 1, or if the mask lets a query see later tokens. The check-up looks at
these: it runs the model over a short fixed text and compares chosen layers with float64 on the CPU, from the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from ...errors import InputError, first_line
from ...models.model import Model, require_model
from ...progress import OnProgress
from ...threads import processor_time
from ...versions import versions
from ..capture import not_captured
from ..finite import NotFiniteError
from .finding import Finding
from .from_files import beginning_of_text, leftovers, tokens_of_the_file, weights_of_the_file
from .from_passes import cache_of_keys, later_tokens, padding
from .from_weights import absolute_positions, matrix_products, projections, rotary_positions
from .heads import attention_of_heads, masks, scales, soft_caps, windows
from .reading import Reading, read_fixed

FINITE = "finite numbers"
# Those that cost least and find most come first: the time may not suffice for all.
CHECKS: dict[str, Callable[[Reading], Finding]] = {
    FINITE: lambda _: Finding(True, "The pass gives neither NaN nor infinity."),  # or there would be no reading
    "attention": attention_of_heads,
    "mask": masks,
    "scale": scales,
    "soft cap": soft_caps,
    "window": windows,
    "matrix products": matrix_products,
    "projections": projections,
    "rotary positions": rotary_positions,
    "absolute positions": absolute_positions,
    "beginning and end": beginning_of_text,
    "tokens": tokens_of_the_file,
    "leftovers": leftovers,
    "weights": weights_of_the_file,
    "later tokens": later_tokens,
    "padding": padding,
    "cache": cache_of_keys,
}


@dataclass(frozen=True)
class Checkup:
    """What was checked of a model, on one device with these versions.

    findings  by the name of the check, in the order of `CHECKS`
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
        table = pd.DataFrame(rows, columns=["check", "holds", "detail"])
        return table.astype({"holds": object})

    @property
    def summary(self) -> str:
        """One sentence: how many checks passed, or the names of those that failed."""
        made = [finding.holds for finding in self.findings.values() if finding.holds is not None]
        if failed := [name for name, finding in self.findings.items() if finding.holds is False]:
            return f"{len(failed)} of {len(made)} checks failed on this machine: {', '.join(failed)}."
        how_far = "Checked" if self.is_whole else "Partly checked" if made else "Not checked"
        return (
            f"{how_far} on this machine: {len(made)} checks passed, {len(self.findings) - len(made)} could not be made."
        )

    def __str__(self) -> str:
        words = {True: "holds", False: "FAILS", None: "not checked"}
        lines = [f"{name}: {words[finding.holds]}. {finding.detail}" for name, finding in self.findings.items()]
        computed = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        where = " and ".join(self.devices)
        return "\n".join([f"{self.model}, {self.dtype} on {where}, {computed}", self.summary, *lines])


def check_model(model: Model, *, seconds: float = 2.0, on_progress: OnProgress | None = None) -> Checkup:
    """Check a model on this machine: its projections, attention, masks, positions, cache, tokens and files.

    seconds      of this thread's processor time, which is less than that on the clock on a busy machine: no check is begun
                 after it, and those that are left say so
    on_progress  called with the number of checks that are done; an error that it raises ends the check-up

    Raises InputError (field "model") for a model that only a file describes, and for one whose queries, keys and values cannot
    be captured.
    """
    require_model(model, "The check-up")
    if not model.captures:
        raise not_captured(model)
    begun = processor_time()
    findings: dict[str, Finding] = {}
    skipped: list[str] = []
    try:
        reading = read_fixed(model)
    except InputError as error:
        reading, is_finite = None, not isinstance(error, NotFiniteError)
        findings[FINITE] = Finding(None if is_finite else False, str(error))
    for number, (name, check) in enumerate(CHECKS.items()):
        if reading is None:
            findings.setdefault(name, Finding(None, "The pass gives no numbers to check."))
        elif processor_time() - begun > seconds:
            findings[name] = Finding(None, f"The {seconds:g} seconds of the check-up were over.")
            skipped.append(name)
        else:
            findings[name] = _made(check, reading)
        if on_progress is not None:
            on_progress(number + 1)
    computed_by = versions("torch", "transformers")
    return Checkup(model.name, model.revision, model.dtype, model.devices, computed_by, findings, tuple(skipped))


def _made(check: Callable[[Reading], Finding], reading: Reading) -> Finding:
    """What a check found. Architectures fail in ways of their own where a check gives them what they do not expect."""
    try:
        return check(reading)
    except (InputError, RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        return Finding(None, f"The check could not be made: {first_line(error)}.")
