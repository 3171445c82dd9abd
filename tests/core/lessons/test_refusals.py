"""What the experiments of the lessons do not take: each refusal names its field."""

import numpy as np
import pytest

from core import attend, capture, load_model
from core.lessons import scaling
from core.lessons.blocks import in_blocks
from core.lessons.long_range import mean_distances, reach, rnn
from core.lessons.many_heads import fetch, split
from core.lessons.masking import fill
from core.lessons.query_key_value import read_moves
from core.lessons.self_and_cross import looks, other_keys
from core.lessons.softmax import in_formats, softmax_steps
from core.lessons.word_order import alibi_head, alibi_slopes, frequencies, rotate, shuffle, sinusoidal
from tests.core.tiny_models import tiny
from tests.refusals import refused

NAN, INFINITE = np.nan, np.inf


def head(mask=None):
    return attend(np.eye(2), np.eye(2), np.eye(2), mask=mask)


def reached(length=8, seeds=5):
    return reach(lambda: rnn(4), length=length, width=4, seeds=seeds)


def stacked(layers=2, around="nothing"):
    return scaling.stack_gradients(layers, scaled=True, around=around)


# What is asked for, what is given, the field that is named, and words of the message.
REFUSED = [
    *((lambda size: in_blocks(head(), size), size, "block", "block size") for size in (0, -1, 1.5, True)),
    *((lambda length: reached(length=length), length, "length", "has to be from 2 to 512") for length in (1, 513)),
    (lambda seeds: reached(seeds=seeds), 1, "seeds", "no spread"),
    (
        lambda kind: mean_distances(capture(load_model(tiny("T5")), input_ids=[5, 6]), kind),
        "cross",
        "kind",
        "no distance",
    ),
    *((fetch, share, "share", f"share is {share}") for share in (1.5, -0.1)),
    *(
        (lambda n: split(np.ones((2, 24)), n), n, "heads", f"24 columns cannot be split into {n} heads")
        for n in (0, -1, 5, 48)
    ),
    *((lambda score: fill(head(np.eye(2)), score), score, "fill", "forbidden pairs") for score in (NAN, INFINITE)),
    (lambda name: scaling.sweep(distribution=name), "cauchy", "distribution", "cauchy"),
    (lambda deviation: scaling.sweep(deviation=deviation), 0.0, "deviation", "0"),
    (scaling.sweep, (0,), "d_k", "from 1"),
    *((scaling.growing_product, n, "n", str(n)) for n in (0, 65)),
    *((scaling.random_head, d_k, "d_k", "from 1 to 512") for d_k in (0, 513)),
    (lambda divisor: scaling.divided([1, 2], divisor), 0, "divisor", "divisor is 0"),
    (lambda mask: scaling.row_statistics(head(mask)), np.zeros((2, 2)), "mask", "masked"),
    *((lambda d_k: scaling.example_row(d_k, scaled=False), d_k, "d_k", f"d_k is {d_k}") for d_k in (0, 5000)),
    *((stacked, layers, "layers", str(layers)) for layers in (0, 25)),
    (lambda around: stacked(around=around), "upside down", "around", "upside down"),
    *(
        (lambda texts: other_keys(*texts), texts, field, "blank")
        for texts, field in (((" ", "a", "b"), "read"), (("a", "", "b"), "instead"), (("a", "b", "\n"), "written"))
    ),
    (lambda queries: looks(np.ones((1, 2)) / 2, queries, ("a", "</s>")), ("<s>",), "target", "written nothing"),
    *((read_moves, text, "moved", "does not move a value") for text in ("street", "street 1", "dog 1 2", "street 1 4")),
    *((read_moves, text, "moved", "does not move a value") for text in ("street a b", "street nan 0", "it 1 2 3")),
    (softmax_steps, [800.0], "scores", "float64"),
    (lambda temperature: softmax_steps([1.0], temperature=temperature), 0, "temperature", "is 0"),
    *((softmax_steps, row, "scores", "finite") for row in ([], [NAN], [[1.0]], [-INFINITE])),
    *((in_formats, [score], "scores", "65,504") for score in (1e5, -1e5, NAN, INFINITE)),
    (lambda head: alibi_head(6, heads=8, head=head), 8, "head", "head 8"),
    (lambda width: sinusoidal(4, width), 7, "width", "even"),
    (lambda width: rotate(np.ones((1, width)), [0]), 3, "width", "even"),
    (lambda base: frequencies(4, base=base), 1, "base", "above 1"),
    (alibi_slopes, 0, "heads", "at least one"),
    (lambda name: shuffle("a b", name), "Weather", "order_from", "Weather"),
    (shuffle, "   ", "text", "blank"),
]


@pytest.mark.parametrize(("asked", "given", "field", "words"), REFUSED)
def test_what_an_experiment_does_not_take_is_named(asked, given, field, words):
    with refused(field, words):
        asked(given)
