"""Reaching far: operation counts against torch's own counter, gradients against finite differences, distances by hand."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from core import attend, capture, load_model
from core.attention.masks import causal, grid
from core.lessons.long_range import attention, compare_reach, costs, even_distance, lstm, mean_distances, reach, rnn
from tests.conftest import TEXTS, eager_attentions
from tests.core.tiny_models import tiny


def counted(run, x) -> int:
    with FlopCounterMode(display=False) as counter:
        run(x)
    return counter.get_total_flops()


@pytest.mark.parametrize("width", [16, 64])
def test_operations_grow_as_torch_counts_them(width):
    """Scores and averages of attention against the recurrent and input matrices of an RNN: both are twice the table's term."""
    lengths = (8, 16, width, 128)
    table = costs(lengths, width)
    state, matrix = torch.randn(1, width), torch.randn(width, width)

    def attend_to(x):
        return (x @ x.T) @ x

    def read_one_by_one(x):
        return [token[None] @ matrix + state @ matrix for token in x]

    for place, n in enumerate(lengths):
        x = torch.randn(n, width)
        # A multiplication and an addition are two operations, and there are two products on either side.
        assert counted(attend_to, x) == 4 * table.attention_operations[place]
        assert counted(read_one_by_one, x) == 4 * table.recurrent_operations[place]


def test_where_they_cross_and_how_many_steps():
    table = costs([63, 64, 65], 64)
    cheaper = table.attention_operations < table.recurrent_operations
    np.testing.assert_array_equal(cheaper, [True, False, False])
    assert table.attention_operations[1] == table.recurrent_operations[1]
    assert table.crossing == 64
    np.testing.assert_array_equal(table.recurrent_sequential, [63, 64, 65])
    np.testing.assert_array_equal(table.attention_sequential, [1, 1, 1])


@pytest.mark.parametrize("make", [rnn, lstm, attention])
def test_gradients_against_finite_differences(make):
    length, width, step = 6, 4, 1e-6
    found = reach(lambda: make(width), length=length, width=width, seeds=2)
    torch.manual_seed(1)
    layer = make(width)
    tokens = torch.randn(1, length, width, dtype=torch.float64)
    for position in range(length):
        columns = []
        for dimension in range(width):
            nudge = torch.zeros_like(tokens)
            nudge[0, position, dimension] = step
            with torch.no_grad():
                columns.append((layer(tokens + nudge) - layer(tokens - nudge))[0, -1] / (2 * step))
        expected = torch.stack(columns).norm()
        assert found.norms[1, length - 1 - position] == pytest.approx(float(expected), rel=1e-5)


@pytest.fixture(scope="module")
def opening():
    return compare_reach(64)


def test_what_the_page_says_of_the_opening_picture(opening):
    ends = {name: one.log10[-1] for name, one in opening.items()}
    assert ends["RNN"] < -15 < ends["LSTM"] < -8 < -2.5 < ends["attention"] < 0
    for one in opening.values():
        assert one.norms.shape == (5, 64)
        assert np.isfinite(one.log10_error).all()
        np.testing.assert_array_equal(one.distances, np.arange(64))


def test_large_recurrent_weights_and_an_open_forget_gate_reach_further(opening):
    plain, changed = opening, compare_reach(64, gain=4.0, forget_bias=3.0)
    assert changed["RNN"].log10[-1] > 0.5 > plain["RNN"].log10[-1]  # it grows: explodes
    assert changed["LSTM"].log10[-1] > -1.5 > plain["LSTM"].log10[-1]
    np.testing.assert_array_equal(changed["attention"].norms, plain["attention"].norms)


def test_the_same_seeds_give_the_same_numbers_and_leave_torch_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again = (reach(lambda: rnn(4), length=8, width=4, seeds=5).norms for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(first, again)
    assert len({tuple(row) for row in first}) == 5


@pytest.mark.parametrize("n", [9, 600])  # of 600 queries, 256 stand for all
def test_looking_evenly(n):
    matrices = np.random.default_rng(0).normal(size=(3, n, 4))
    causally = even_distance(attend(*matrices, mask=grid(causal, n, n)))
    assert causally == pytest.approx((n - 1) / 4, rel=0.001)
    assert even_distance(attend(*matrices)) == pytest.approx((n * n - 1) / (3 * n), rel=0.01)


def test_every_head_of_a_model(smollm):
    passed = capture(smollm, TEXTS[0])
    found = mean_distances(passed)
    assert found.shape == (30, 9)
    theirs = eager_attentions(smollm, passed).attentions
    places = np.arange(len(passed.input_ids))
    distance = np.abs(places[:, None] - places[None, :])
    for layer in (0, 11, 29):
        weights = theirs[layer][0].numpy()
        np.testing.assert_allclose(found[layer], (weights * distance).sum((1, 2)) / len(places), atol=1e-4)


@pytest.mark.parametrize(("name", "without_first"), [("BERT", False), ("T5", True)])
def test_evenly_spaced_queries_stand_for_all_of_a_long_text(name, without_first):
    passed = capture(load_model(tiny(name)), input_ids=np.arange(500) % 60)
    found = mean_distances(passed, without_first=without_first)
    queries, keys = np.linspace(0, 499, 256).round().astype(int), np.arange(int(without_first), 500)
    for layer, head in np.ndindex(found.shape):
        weights = passed.trace(layer, head).weights[np.ix_(queries, keys)].astype(float)
        expected = (weights * np.abs(queries[:, None] - keys)).sum() / weights.sum()
        assert found[layer, head] == pytest.approx(expected, rel=1e-6)


def test_a_token_alone_has_no_other_to_look_at():
    assert not mean_distances(capture(load_model(tiny("GPT-2")), input_ids=[5]), without_first=True).any()
