"""Claims from the literature, the texts that come along to test them on, and what was measured for the included models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pandas as pd

from ..models.model import Model
from ..models.passages import Location, Passage, Relation, text_hash
from ..progress import OnProgress, step_counter
from .checking import ClaimCheck
from .claim import Claim, read_claims
from .shares import ClaimSums
from .verdicts import verdicts

PROSE = 72  # passages of prose
FOLDER = Path(__file__).parent
CLAIMS, MEASURED, TEXTS = FOLDER / "known.toml", FOLDER / "measured.json", FOLDER / "texts"

# What others have published of a model's heads, by the last part of its name: name of a claim -> heads, and their scores as far
# as they are given.
PUBLISHED = {
    "gpt2": {
        "induction": "5.5 .932, 6.9 .913, 7.10 .910, 5.1 .908, 7.2 .833 on 50 random tokens read twice",
        "previous token": "4.11 (Wang et al. 2023)",
        "duplicate token": "0.1 .537, 0.5 .531, 0.10 .244, 3.0 (Wang et al. 2023)",
    },
}
OURS = {
    "SmolLM2-135M-Instruct": "Nothing is published of these heads; the numbers are ours, of a 4-bit model that was unpacked.",
}


def published(model: str) -> dict[str, str]:
    """What others say of the heads of a model, by the names of known claims; under "" whose the numbers are, if nobody does."""
    name = model.rstrip("/").rpartition("/")[2]
    return PUBLISHED.get(name, {"": OURS.get(name, "Nothing is published of these heads; the numbers are ours.")})


@cache
def known_claims() -> tuple[Claim, ...]:
    """The claims of known.toml, each about any head."""
    return read_claims(CLAIMS.read_text("utf-8"))


def known_heads(
    model: Model, texts: Iterable[str | Passage] | None = None, *, on_progress: OnProgress | None = None
) -> pd.DataFrame:
    """Test every known claim for the head of a model that does it most: a row a claim.

    texts        None: those that come along (`included_texts`)
    on_progress  called after each passage

    Columns: name, and those of `check_claims`. Without annotated texts, claims about relations are left out. Raises InputError
    (field "model") for a model whose heads cannot be captured.
    """
    check, step = known_check(model, texts), step_counter(on_progress)
    while check.go_on():
        step()
    return named(check.table())


def known_check(model: Model, texts: Iterable[str | Passage] | None = None) -> ClaimCheck:
    """The test that `known_heads` makes, to be continued piece by piece."""
    texts = included_texts() if texts is None else list(texts)
    annotated = any(isinstance(text, Passage) and text.words for text in texts)
    return ClaimCheck(model, [claim for claim in known_claims() if annotated or not claim.needs_annotation], texts)


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Verdicts on known claims, about whichever heads, with their names in front."""
    names = {(claim.when, claim.keys): claim.name for claim in known_claims()}
    found = table.copy()
    found.insert(0, "name", [names[claim.when, claim.keys] for claim in map(Claim.read, table["claim"])])
    return found


def known_of_head(sums: ClaimSums, layer: int, head: int) -> pd.DataFrame:
    """Verdicts on every known claim for one head: the columns of `known_heads`.

    sums  of a `known_check`: they are counted for all heads, whichever a claim is about
    """
    of_head = copy(sums)
    of_head.claims = tuple(replace(claim, head=f"{layer}.{head}") for claim in sums.claims)
    of_head.require_heads()
    return named(verdicts(of_head))


def measured(revision: str) -> pd.DataFrame | None:
    """What `known_heads` gave for an included model with the texts that come along; None for other weights."""
    written = json.loads(MEASURED.read_text("utf-8"))
    return pd.DataFrame(written[revision]) if revision in written else None


# --- the texts


def included_texts() -> list[str | Passage]:
    """PROSE beginnings of topics of the documentation that comes with Python, and annotated sentences."""
    topics = sorted(documentation(), key=text_hash)
    return [*(text[:500] for text in islice(topics, PROSE)), *_annotated("sentences"), *_annotated("names")]


def documentation() -> Iterator[str]:
    """Topics of the language reference as `pydoc` shows it, in a fixed order, under the licence of Python itself (PSF License
    2.0, https://docs.python.org/3/license.html)."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))


def _annotated(name: str) -> Iterator[Passage]:
    """The sentences of a file in texts/."""
    blocks = (TEXTS / f"{name}.conllu").read_text("utf-8").split("\n\n")
    for row, block in enumerate(filter(None, map(str.strip, blocks)), start=1):
        words, relations, tags, text = [], [], [], ""
        for number, line in enumerate(block.splitlines()):
            _, form, _, tag, _, _, head, relation, _, joined = line.split("\t")
            words.append((len(text), len(text) + len(form)))
            text += form if joined == "SpaceAfter=No" else f"{form} "
            tags.append(tag)
            if head != "0":
                relations.append(Relation(number, int(head) - 1, relation))
        yield Passage(Location(f"{name}.conllu", row), 0, text.rstrip(), tuple(words), tuple(relations), tuple(tags))
