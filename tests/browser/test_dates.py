"""A date that somebody types, what the model writes, and where each row of its cross-attention looks meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from core.lessons.self_and_cross import ALIGNING_HEAD
from ui import state


@pytest.mark.parametrize(
    ("address", "field", "picture"),
    [
        ("/self_and_cross?part=date", state.DATE, "alignment"),
        (f"/heads?model=written-dates&kind=cross&head={ALIGNING_HEAD[1]}&version=2", state.TEXT, "head"),
    ],
)
def test_the_year_is_read_off_its_own_digits(go, address, field, picture):
    """The rows that decide 2026, one before each digit, look at its four characters in the text."""
    app = go(address)
    app.write(field, "Sat 21 Nov 2026").idle()
    app.until(lambda: "2026-11-21" in app.page.get_by_test_id("stMain").inner_text(), "the answer is not said")
    weights = app.picture(picture).values
    read = len("Sat 21 Nov 2026")
    assert weights.shape[1] == read + 1
    assert weights[:4].argmax(axis=1).tolist() == [*range(read - 4, read)]
    assert np.diag(weights[:4, read - 4 : read]).min() > 0.9
    assert not app.alerts()
