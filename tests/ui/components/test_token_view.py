"""What the token view is not given to show."""

import numpy as np
import pytest

from ui.components.token_view import token_view


@pytest.mark.parametrize(
    ("shape", "given", "options", "words"),
    [
        ((3, 4), (3, 3), {}, r"\(3, 3\).*3 query tokens and 4 key tokens"),
        ((257, 257), (257, 257), {}, "257.*at most 256"),
        ((2, 2), (2, 2), {"direction": "both"}, "both"),
    ],
)
def test_what_cannot_be_shown_is_refused(shape, given, options, words):
    with pytest.raises(ValueError, match=words):
        token_view((["a"] * shape[0], ["b"] * shape[1]), *map(range, shape), np.zeros(given), **options)
