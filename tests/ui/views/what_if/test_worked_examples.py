"""The worked examples on a page: a menu, a short text and a table with the numbers that were measured."""

import pytest

from core.heads.examples import Induction, OneHead, Repetition
from tests.pages.app import part
from ui import state
from ui.cache import Store
from ui.requests import ModelChoice
from ui.views.sources import models
from ui.views.what_if import results


def page():
    from ui.views.what_if.worked_examples import show_examples

    show_examples()


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    """Empty stores, which nothing that is made up here outlives."""
    for example in (results.paris, results.induction, results.pronoun):
        monkeypatch.setattr(example, "store", Store(1))


def shown(example=None):
    return [one.value for one in part(page, **({} if example is None else {state.EXAMPLE: example})).markdown]


def repeated(name, *muted, score=0.8, loss=2.0):
    return Repetition(name, muted, (score, score / 2), loss)


def test_paris_is_measured_once(keep, smollm):
    keep(models.loaded, smollm, ModelChoice(smollm.name))
    words, table = shown()
    assert "probability **0.77" in words
    assert "| head 23.4 muted | 0.14" in table.replace("\N{NO-BREAK SPACE}", " ")
    assert results.paris.is_known()
    before = results.paris()
    assert shown() == [words, table]
    assert results.paris() is before


def test_induction(keep):
    heads = (OneHead(8, 1), OneHead(9, 2))
    cut, other = OneHead(3, 0), OneHead(3, 5)
    found = Induction(
        heads,
        (cut, OneHead(2, 2)),
        (0.9, 0.75),
        plain=repeated("as it is"),
        by_rival=(repeated("3.0 muted", cut, score=0.125, loss=7.5), repeated("2.2 muted", OneHead(2, 2))),
        all_rivals=repeated("all three muted", cut, OneHead(2, 2), score=0.1, loss=7.75),
        by_control=(repeated("3.5 muted", other, loss=2.25),),
        all_controls=repeated("all five muted", other, loss=1.5),
        itself=repeated("8.1 itself muted", heads[0], loss=4.0),
        shuffled=13.0,
        shuffled_cut=13.25,
    )
    keep(results.induction, found)
    words, table = shown("induction")
    for said in ("Head 8.1", "head 3.0", "from **0.80** to **0.12**", "**5.50** nats", "cost **−0.50**"):
        assert said in words
    rows = [line.strip("| ").split(" | ") for line in table.replace("\N{NO-BREAK SPACE}", " ").splitlines()[2:]]
    assert rows[1] == ["3.0 muted, previous 0.90", "0.12", "0.06", "7.500", "5.500"]
    assert [row[0] for row in rows[4:7]] == ["3.5 muted, control", "all five muted", "8.1 itself muted"]
    assert rows[8] == ["shuffled, 3.0 muted", "–", "–", "13.250", "0.250"]
    assert rows[5][-1] == "−0.500"
