"""How many cases of a test the quick depth runs."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.depth import CASES, EVERY_CASE, spread


@pytest.mark.parametrize("number", [1, 4, 5, 6, 7, 125])
def test_cases_lie_evenly_from_the_first_to_the_last(number):
    places = sorted(spread(number))
    assert (places[0], places[-1], len(places)) == (0, number - 1, min(number, CASES))
    steps = [after - before for before, after in pairwise(places)]
    assert max(steps, default=1) - min(steps, default=1) <= 1


def test_no_test_has_more_quick_cases(request):
    quick = Counter(
        item.nodeid.partition("[")[0]
        for item in request.session.items
        if item.get_closest_marker("thorough") is None and not item.nodeid.startswith(EVERY_CASE)
    )
    assert {name: count for name, count in quick.items() if count > CASES} == {}
