"""What several pages need for their tests."""

from collections.abc import Callable

import pytest

from core.claims import known
from core.claims.checking import ClaimCheck
from ui.cache import Memory, Store
from ui.requests import ModelChoice
from ui.views.claims import results

FEW = 12  # of how many texts that come along one is read


@pytest.fixture
def claims_of_few_texts(monkeypatch, tmp_path) -> Callable[[str], ClaimCheck]:
    """Nothing is known of any model yet, and the known claims are tested on a few texts; no other test finds them. Gives what
    lets the test of a model come to its end, however busy this machine is."""
    texts = known.included_texts()[::FEW]
    (tmp_path / "measured.json").write_text("{}")
    monkeypatch.setattr(known, "MEASURED", tmp_path / "measured.json")
    monkeypatch.setattr(results, "included_texts", lambda: texts)
    monkeypatch.setattr(results.checking, "store", Memory(1e9))
    for cached in (results.passages, results.by_head):
        monkeypatch.setattr(cached, "store", Store(2))

    return lambda model: results.checking(ModelChoice(model), known.known_claims(), results.Texts()).finished()
