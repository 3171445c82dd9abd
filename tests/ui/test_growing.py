"""An array that is computed piece by piece."""

import numpy as np
import pytest

from ui.progress import Growing


def test_what_has_come_is_kept_and_gone_on_with() -> None:
    asked = []

    def pieces():
        for place in (2, 1, 0):
            asked.append(place)
            yield place, lambda place=place: [place, 10 * place]

    growing = Growing((3, 2), pieces, nbytes=1, cost=lambda place: 3 - place)
    assert growing.go_on()
    assert (growing.done, growing.total) == (2, 6)
    assert growing.share == pytest.approx(1 / 6)
    np.testing.assert_array_equal(growing.values, [[np.nan] * 2, [np.nan] * 2, [2, 20]])
    assert asked == [2]
    assert growing.go_on()
    assert growing.go_on()
    assert not growing.go_on()
    assert growing.share == 1
    assert asked == [2, 1, 0]


def test_single_numbers_come_before_others_and_before_a_pause() -> None:
    numbers = np.arange(6.0).reshape(3, 2)
    places = [([2, 0], [1, 1]), ([1], [0]), 0, 1, 2]
    growing = Growing(
        (3, 2), lambda: ((place, lambda place=place: numbers[place]) for place in places), nbytes=1, first=2
    )
    assert growing.go_on()
    assert not growing.may_pause
    np.testing.assert_array_equal(growing.values, [[np.nan, 1], [np.nan, np.nan], [np.nan, 5]])
    np.testing.assert_array_equal(growing.known, np.isfinite(growing.values))
    assert growing.go_on()
    assert growing.may_pause
    assert (growing.done, growing.share) == (3, 0.5)
    while growing.done < growing.total:
        assert growing.go_on()
    np.testing.assert_array_equal(growing.values, numbers)


class Ended(BaseException):
    pass


@pytest.mark.parametrize("where", ["before the first piece", "in a piece"])
def test_what_ends_it_half_way_loses_nothing(where: str) -> None:
    """A page that is stopped, and the next one of somebody else who wants the same."""
    ends, computed = [True], []

    def pieces():
        if ends and where == "before the first piece":
            ends.pop()
            raise Ended
        for place in range(4):

            def compute(place: int = place) -> list[int]:
                if place == 2 and ends:
                    ends.pop()
                    raise Ended
                computed.append(place)
                return [place]

            yield [place], compute

    growing = Growing((4,), pieces, nbytes=1)
    with pytest.raises(Ended):
        all(iter(growing.go_on, False))
    all(iter(growing.go_on, False))
    assert growing.values.tolist() == computed == [0, 1, 2, 3]
