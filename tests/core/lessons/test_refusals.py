"""What the experiments of the lessons do not take: each refusal names its field."""

import numpy as np
import pytest

from core import attend, capture, load_model
from core.lessons import scaling
from core.lessons.long_range import mean_distances
from core.lessons.query_key_value import read_moves
from core.lessons.self_and_cross import looks, other_keys
from core.lessons.softmax import in_formats, softmax_steps
from core.lessons.word_order import alibi_head, shuffle
from tests.core.tiny_models import tiny
from tests.refusals import refused

NAN, INFINITE = np.nan, np.inf


def head(mask=None):
    return attend(np.eye(2), np.eye(2), np.eye(2), mask=mask)


# What is asked for, what is given, the field that is named, and words of the message.
REFUSED = [
    (
        lambda kind: mean_distances(capture(load_model(tiny("T5")), input_ids=[5, 6]), kind),
        "cross",
        "kind",
        "no distance",
    ),
    (lambda mask: scaling.row_statistics(head(mask)), np.zeros((2, 2)), "mask", "masked"),
    *(
        (lambda texts: other_keys(*texts), texts, field, "blank")
        for texts, field in (((" ", "a", "b"), "read"), (("a", "", "b"), "instead"), (("a", "b", "\n"), "written"))
    ),
    (lambda queries: looks(np.ones((1, 2)) / 2, queries, ("a", "</s>")), ("<s>",), "target", "written nothing"),
    *((read_moves, text, "moved", "does not move a value") for text in ("street", "street 1", "dog 1 2", "street 1 4")),
    *((read_moves, text, "moved", "does not move a value") for text in ("street a b", "street nan 0", "it 1 2 3")),
    (softmax_steps, [800.0], "scores", "float64"),
    *((in_formats, [score], "scores", "65,504") for score in (1e5, -1e5, NAN, INFINITE)),
    (lambda head: alibi_head(6, heads=8, head=head), 8, "head", "head 8"),
    (shuffle, "   ", "text", "blank"),
]


@pytest.mark.parametrize(("asked", "given", "field", "words"), REFUSED)
def test_what_an_experiment_does_not_take_is_named(asked, given, field, words):
    with refused(field, words):
        asked(given)
