"""The tables of docs/what-if.md are what the page shows. `python -m tools.docs paris induction pronoun` renews them.

Measuring all takes half a minute or more; so here what an induction head needs is measured in two of its rows alone.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from core import Edits
from core.capturing.answers import pass_with_losses
from core.capturing.edits.kinds import EDIT_KINDS
from core.capturing.edits.lines import VERBS, edits_of
from core.heads.examples import LENGTH, SEEDS, knows_paris, patch_pronoun
from core.heads.probing import random_texts
from tools.docs import document, example, written
from ui.views.what_if.worked_examples import EXAMPLES

CLOSE = 0.011  # another machine rounds differently, and a cell has two or three decimals


def assert_same_but_for_rounding(ours: str, theirs: str) -> None:
    """The same words, and numbers that are close."""
    number = r"−?\d+\.\d+"
    assert re.sub(number, "#", ours) == re.sub(number, "#", theirs)
    both = [[float(found.replace("−", "-")) for found in re.findall(number, text)] for text in (ours, theirs)]
    np.testing.assert_allclose(*both, atol=CLOSE)


def test_paris(smollm):
    assert_same_but_for_rounding(written("paris"), example("paris", knows_paris(smollm)))


def test_pronoun(minilm):
    assert_same_but_for_rounding(written("pronoun"), example("pronoun", patch_pronoun(minilm)))


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


def test_every_line_of_the_table_says_the_edits_beside_it():
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", document("paris").read_text("utf-8"), flags=re.M)
    verbs = {line.split()[0] for line, _ in rows}
    assert verbs == {*VERBS}
    assert {type(edit) for line, _ in rows for edit in edits_of(line).each} == {*EDIT_KINDS}
    for line, python in rows:
        assert repr(edits_of(line)).replace("'", '"') == f"Edits({python})"
