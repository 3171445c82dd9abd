"""The tables of docs/architectures.md: what `bench.architectures` has found, by result and by reason."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import transformers

from bench.small_networks import MAPPINGS
from tools.docs import rows_of, write, written

Found = Mapping[str, Any]  # as bench.architectures.Found, which is written as JSON

RESULTS = {
    "wrong": "Wrong",
    "traceback": "Ends in an error that is not a refusal",
    "no reference": "Cannot be compared",
    "exact": "Exact",
    "weights only": "Weights only",
    "refused": "Refused",
    "cannot be built": "Cannot be built here",
}
BOUNDS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def tables(found: Sequence[Found]) -> str:
    """The section of the document: how many of each mapping, then each result."""
    kept = [result for result in RESULTS if any(one["result"] == result for one in found)]
    counts = [
        [
            mapping,
            *(str(sum(one["result"] == result and one["mappings"][0] == mapping for one in found)) for result in kept),
        ]
        for mapping in MAPPINGS
    ]
    total = ["all", *(str(sum(one["result"] == result for one in found)) for result in kept)]
    parts = [
        f"transformers {transformers.__version__}, {len(found)} classes. Each counts in the first mapping that has it.",
        rows_of(["mapping", *kept], [*counts, total]),
    ]
    for result in kept:
        of_result = sorted((one for one in found if one["result"] == result), key=lambda one: one["name"].lower())
        parts += [f"### {RESULTS[result]}", _table(result, of_result)]
    return "\n\n".join(parts)


def _table(result: str, found: Sequence[Found]) -> str:
    if result == "exact":
        return rows_of(
            ("class", "read", "layers × heads", "difference", "attribution", "not compared"), map(exact_row, found)
        )
    if result == "weights only":
        return rows_of(("class", "layers × heads"), ([one["name"], one["heads"]] for one in found))
    by_reason: dict[str, list[str]] = {}
    for one in found:
        by_reason.setdefault(reason(one), []).append(one["name"])
    ordered = sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return rows_of(("reason", "classes"), ([why, ", ".join(names)] for why, names in ordered))


def exact_row(one: Found) -> list[str]:
    """The cells of a class whose numbers are those of its own code."""
    notes = dict(one["notes"])
    attribution = notes.pop("attribution", "exact").partition("components: ")
    why_alone = notes.pop("picture", "").removesuffix(" Choose another model.")
    return [
        one["name"],
        _cell(f"{one['reads']}: {why_alone}" if why_alone else one["reads"]),
        one["heads"],
        bound(one),
        _cell(attribution[2] or attribution[0]),
        ", ".join(sorted(notes)) or "–",
    ]


def bound(one: Found) -> str:
    """The power of ten that the largest difference stays below, also on a machine that rounds otherwise."""
    worst = max(one["differences"].values(), default=0.0)
    return f"< {next((limit for limit in BOUNDS if 3 * worst <= limit), 1.0):.0e}".replace("e-0", "e-")


def reason(one: Found) -> str:
    """Why a class is refused, without its own name, so that classes with the same reason stand together."""
    why = one["why"].removesuffix(" Choose another model.").removesuffix(".")
    stem = re.sub(r"(For[A-Z]\w+|Model|LMHeadModel\w*)$", "", one["name"])
    return _cell(re.sub(rf"\b{re.escape(stem)}\w*", "…", why))


def _cell(words: str) -> str:
    return " ".join(words.replace("|", "\\|").replace("<", "‹").replace(">", "›").split())


def stated() -> dict[str, Sequence[str]]:
    """What the document says of each class: its result and the other cells of its row."""
    said: dict[str, Sequence[str]] = {}
    result = ""
    for line in written("architectures").splitlines():
        if line.startswith("### "):
            result = next(name for name, title in RESULTS.items() if title == line.removeprefix("### "))
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not result or not line.startswith("| ") or cells[0] in ("class", "reason", "---"):
            continue
        if result in ("exact", "weights only"):
            said[cells[0]] = [result, *cells[1:]]
        else:
            said |= {name.strip(): [result, cells[0]] for name in cells[1].split(",")}
    return said


def renew(found: Iterable[Found]) -> None:
    """Write the tables into the document."""
    write("architectures", tables(list(found)))
