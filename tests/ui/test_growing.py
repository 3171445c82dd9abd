"""An array that is computed piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

from ui.growing import Growing


def test_what_has_come_is_kept_and_gone_on_with() -> None:
    asked = []

    def pieces():
        for place in (2, 1, 0):
            asked.append(place)
            yield place, [place, 10 * place]

    growing = Growing((3, 2), pieces(), nbytes=1, cost=lambda place: 3 - place)
    assert growing.go_on()
    assert (growing.done, growing.total) == (1, 3)
    assert growing.share == pytest.approx(1 / 6)
    np.testing.assert_array_equal(growing.values, [[np.nan] * 2, [np.nan] * 2, [2, 20]])
    assert asked == [2]
    assert growing.go_on()
    assert growing.go_on()
    assert not growing.go_on()
    assert growing.share == 1
    assert asked == [2, 1, 0]
