"""Claims from the literature, the texts that come along to test them on, and what was measured for the included models."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from ..models.model import Model
from ..models.passages import Location, Passage, Relation, text_hash
from ..progress import OnProgress
from .checking import ClaimCheck
from .claim import Claim, read_claims
from .shares import ClaimSums
from .verdicts import LEAST_PASSAGES, LEAST_QUERIES, of_every_head

PROSE = 72  # passages of prose
FOLDER = Path(__file__).parent
CLAIMS, MEASURED, TEXTS = FOLDER / "known.toml", FOLDER / "measured.json", FOLDER / "texts"

OF_HEADS = ("name", "claim", "head", "queries", "passages", "share", "low", "high", "null", "verdict")

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
    return named(known_check(model, texts).finished(on_progress).table())


def known_check(model: Model, texts: Iterable[str | Passage] | None = None) -> ClaimCheck:
    """The test that `known_heads` makes, to be continued piece by piece."""
    texts = included_texts() if texts is None else list(texts)
    annotated = any(isinstance(text, Passage) and text.words for text in texts)
    return ClaimCheck(model, [claim for claim in known_claims() if annotated or not claim.needs_annotation], texts)


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Verdicts on claims, about whichever heads, with their names in front; one that is not known is named by its keys."""
    names = {(claim.when, claim.keys): claim.name for claim in known_claims()}
    lines = {line: Claim.read(line) for line in table["claim"].unique()}
    found = table.copy()
    found.insert(0, "name", [names.get((of.when, of.keys), of.keys) for of in map(lines.__getitem__, table["claim"])])
    return found


def by_head(sums: ClaimSums) -> pd.DataFrame:
    """What every head does: a row for each claim that holds for it, and for the claim that it follows most.

    Sums are counted for all heads, whichever a claim is about. Columns `OF_HEADS`. The heads are in their order; of a head, the
    claims that hold come first, the clearest of them first. Claims of which too few passages speak are left out.
    """
    of_head: dict[str, list[dict[Any, Any]]] = {".".join(map(str, head)): [] for head in sums.heads.tolist()}
    for row in named(of_every_head(sums)).filter(OF_HEADS).to_dict("records"):
        if row["queries"] >= LEAST_QUERIES and row["passages"] >= LEAST_PASSAGES:
            of_head[row["head"]].append(row)
    kept = []
    for rows in filter(None, of_head.values()):
        holds = [row for row in rows if row["verdict"] == "holds"]
        most = max(rows, key=lambda row: row["share"])
        kept += sorted(holds, key=lambda row: row["null"] - row["share"]) + [most] * (most not in holds)
    return pd.DataFrame(kept, columns=pd.Index(OF_HEADS))


def measured(revision: str) -> pd.DataFrame | None:
    """What `by_head` gave for an included model with the texts that come along; None for other weights."""
    written = json.loads(MEASURED.read_text("utf-8"))
    return pd.DataFrame(written[revision]) if revision in written else None


def followed_most(table: pd.DataFrame) -> pd.DataFrame:
    """Of a table of `by_head`, a row for each known claim that holds, for the head that gives its keys most, in their order."""
    holding = table.query("verdict == 'holds'").sort_values("share")
    best = holding.drop_duplicates("name", keep="last").set_index("name")
    return best.loc[[claim.name for claim in known_claims() if claim.name in best.index]].reset_index()


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
