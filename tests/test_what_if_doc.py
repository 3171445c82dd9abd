"""The tables of docs/what-if.md are what the page shows. `python -m tests.test_what_if_doc --write` measures and writes them.

Measuring all takes half a minute or more; so here what an induction head needs is measured in two of its rows alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from core import Edits, load_model
from core.capturing.edits.kinds import EDIT_KINDS
from core.capturing.edits.lines import VERBS, edits_of
from core.capturing.losses import pass_with_losses
from core.heads.examples import (
    LANGUAGE_MODEL,
    LENGTH,
    SEEDS,
    SENTENCE_MODEL,
    knows_paris,
    needs_previous,
    patch_pronoun,
)
from core.heads.probing import probe_heads, random_texts
from ui.views.what_if.worked_examples import EXAMPLES

DOC = Path(__file__).parent.parent / "docs" / "what-if.md"
CLOSE = 0.011  # another machine rounds differently, and a cell has two or three decimals


def section(name: str, found: object) -> str:
    headings, rows = EXAMPLES[name].table(found)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join([EXAMPLES[name].words(found), "", *(f"| {' | '.join(cells)} |" for cells in lines)])


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"


def written(name: str) -> str:
    begin, end = marks(name)
    return DOC.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]


def assert_same_but_for_rounding(ours: str, theirs: str) -> None:
    """The same words, and numbers that are close."""
    number = r"−?\d+\.\d+"
    assert re.sub(number, "#", ours) == re.sub(number, "#", theirs)
    both = [[float(found.replace("−", "-")) for found in re.findall(number, text)] for text in (ours, theirs)]
    np.testing.assert_allclose(*both, atol=CLOSE)


def test_paris(smollm):
    assert_same_but_for_rounding(written("paris"), section("paris", knows_paris(smollm)))


def test_pronoun(minilm):
    assert_same_but_for_rounding(written("pronoun"), section("pronoun", patch_pronoun(minilm)))


@pytest.mark.parametrize("row", ["as it is", "16.0 muted"])
def test_induction(smollm, row):
    (line,) = re.findall(rf"^\| {row}.*$", written("induction"), re.MULTILINE)
    *_, loss, _ = line.strip("| ").split(" | ")
    edits = Edits() if row == "as it is" else Edits(mute_heads={(16, 0)})
    texts = [random_texts(smollm, LENGTH, seed)[0] for seed in SEEDS]
    losses = [pass_with_losses(smollm, text.ids, edits=edits, start=text.second + 1)[1] for text in texts]
    assert float(loss) == pytest.approx(np.mean(losses), abs=CLOSE)


def test_every_text_is_short():
    for name in EXAMPLES:
        words = written(name).partition("\n")[0]
        assert 20 < len(words.split()) < 60, name


def write() -> None:
    language, sentences = load_model(LANGUAGE_MODEL), load_model(SENTENCE_MODEL)
    found = {
        "paris": knows_paris(language),
        "induction": needs_previous(language, probe_heads(language, LENGTH, SEEDS)),
        "pronoun": patch_pronoun(sentences),
    }
    text = DOC.read_text(encoding="utf-8")
    for name, measured in found.items():
        begin, end = marks(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{section(name, measured)}{end}{rest.partition(end)[2]}"
    DOC.write_text(text, encoding="utf-8")


def test_every_line_of_the_table_says_the_edits_beside_it():
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", DOC.read_text(encoding="utf-8"), flags=re.M)
    verbs = {line.split()[0] for line, _ in rows}
    assert verbs == {*VERBS}
    assert {type(edit) for line, _ in rows for edit in edits_of(line).each} == {*EDIT_KINDS}
    for line, python in rows:
        assert repr(edits_of(line)).replace("'", '"') == f"Edits({python})"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
