"""The experiments behind 1/√d_k against closed forms, torch and transformers' own eager attention."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core import attend, capture, softmax
from core.averages import log_mean_and_error, mean_and_error
from core.capturing.calls.rows import row_blocks
from core.lessons import scaling as lesson
from tests.conftest import eager_attentions

SCORES = arrays(np.float64, st.integers(1, 20), elements=st.integers(-2000, 2000).map(lambda n: n / 100))


def test_dot_products_grow():
    terms, totals = lesson.growing_product(64)
    assert [totals[n - 1] for n in (2, 4, 6)] == [11, 50, 133]
    n = np.arange(1, 65)
    np.testing.assert_array_equal(totals, n * (n + 1) * (2 * n + 7) / 6)
    np.testing.assert_array_equal(totals, np.cumsum(terms))


def test_a_random_head_grows_and_only_unscaled_one_key_takes_the_row():
    small, large = lesson.random_head(4), lesson.random_head(256)
    np.testing.assert_array_equal(large.scaled.query[:, :4], small.scaled.query)  # the same vectors, only longer
    scores = torch.tensor(large.scaled.query) @ torch.tensor(large.scaled.key).T
    heads = (large.unscaled, large.scaled)
    for trace, factor, spread, largest in zip(heads, (1, 1 / 16), large.spreads, large.largest, strict=True):
        np.testing.assert_allclose(trace.scaled, scores * factor)
        np.testing.assert_allclose(trace.weights, torch.softmax(scores * factor, dim=1), atol=1e-12)
        assert spread == pytest.approx(float((scores * factor).std(correction=0)))
        assert largest == pytest.approx(float(torch.softmax(scores * factor, dim=1).max(dim=1).values.mean()))
    assert large.largest[0] > 0.9 > 0.4 > large.largest[1]
    found = large.distribution()
    near_0 = (scores.abs() < 0.5).double().mean()
    assert found.unscaled[list(found.scores).index(0)] == pytest.approx(float(near_0))
    assert found.scaled.sum() == pytest.approx(1)


@pytest.fixture(scope="module")
def random_heads():
    return lesson.sweep(queries=500, keys=64, repeats=8)


@pytest.mark.parametrize("distribution", ["normal", "uniform", "sign"])
def test_the_spread_follows_the_square_root_of_d_k(distribution):
    found = lesson.sweep(distribution=distribution, repeats=12)
    assert tuple(found.d_k) == lesson.POWERS_OF_TWO == tuple(2**power for power in range(13))
    for statistics, theory in ((found.unscaled, np.sqrt(found.d_k)), (found.scaled, np.ones(13))):
        mean, error = mean_and_error(statistics.spread)
        assert np.all(np.abs(mean - theory) < 4 * error + 0.01 * theory)
        assert np.all(np.abs(mean[1:] / theory[1:] - 1) < 0.06)
    np.testing.assert_allclose(found.unscaled.spread, found.scaled.spread * np.sqrt(found.d_k), rtol=1e-9)
    assert found.at_last("spread") == pytest.approx((64, 1), rel=0.06)


# d_k: unscaled spread, largest weight, entropy, norm of J, rows above .99; 64 keys, 4,000 rows of independent code.
TABLE = {
    1: (0.998, 0.0987, 3.741, 0.172, 0.0),
    4: (1.997, 0.277, 2.804, 0.256, 0.001),
    16: (3.985, 0.579, 1.380, 0.293, 0.022),
    64: (7.981, 0.789, 0.592, 0.211, 0.194),
    128: (11.325, 0.850, 0.399, 0.169, 0.332),
    256: (16.01, 0.898, 0.262, 0.123, 0.474),
    512: (22.66, 0.925, 0.186, 0.095, 0.592),
    1024: (32.01, 0.950, 0.125, 0.067, 0.704),
}


@pytest.mark.thorough
@pytest.mark.parametrize("d_k", TABLE)
def test_saturation_of_random_heads(random_heads, d_k):
    place = lesson.POWERS_OF_TWO.index(d_k)
    names = ("spread", "largest", "entropy", "jacobian", "near_one")
    for name, reference in zip(names, TABLE[d_k], strict=True):
        mean, error = mean_and_error(getattr(random_heads.unscaled, name)[:, place])
        assert mean == pytest.approx(reference, abs=4 * error + 0.005 * reference + 0.001)


def test_scaled_random_heads_stay_as_they_are(random_heads):
    scaled = random_heads.scaled
    np.testing.assert_allclose(scaled.largest[:, 2:].mean(axis=0), 0.107, atol=0.008)
    np.testing.assert_allclose(scaled.entropy[:, 2:].mean(axis=0), 3.688, atol=0.04)
    np.testing.assert_allclose(scaled.jacobian[:, 2:].mean(axis=0), 0.183, atol=0.005)
    assert not scaled.near_one.any()


@given(SCORES)
def test_the_jacobian(scores):
    weights = softmax(scores)
    jacobian = lesson.softmax_jacobian(weights)
    theirs = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, 0), torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(jacobian, theirs, atol=1e-12)
    # It is the square root of a difference near 0.
    np.testing.assert_allclose(lesson.jacobian_norm(weights), np.linalg.norm(theirs), atol=1e-7)
    assert lesson.autograd_norm(scores) == pytest.approx(np.linalg.norm(theirs), abs=1e-12)
    np.testing.assert_allclose(jacobian.sum(axis=1), 0, atol=1e-12)
    eigenvalues = np.linalg.eigvalsh(jacobian)
    assert eigenvalues.min() > -1e-12
    assert eigenvalues.max() <= 0.5 + 1e-12
    assert np.linalg.norm(jacobian) <= np.sqrt(0.5) + 1e-12


@given(SCORES)
def test_entropy(scores):
    weights = softmax(scores)
    assert -1e-12 <= lesson.entropy(weights) <= np.log(scores.size) + 1e-12
    theirs = torch.distributions.Categorical(logits=torch.from_numpy(scores)).entropy()
    assert lesson.entropy(weights) == pytest.approx(float(theirs), abs=1e-9)


def test_masked_pairs_and_empty_rows_are_left_out():
    mask = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 0]])
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    whole = lesson.row_statistics(attend(query, key, value, mask=mask))
    part = lesson.row_statistics(attend(query[[0, 2]], key[:2], value[:2]))
    np.testing.assert_allclose(whole, part, atol=1e-12)


def test_the_example_row_keeps_its_first_dimensions():
    assert lesson.example_row(64, scaled=True) == pytest.approx(lesson.example_row(64, scaled=False) / 8)
    numbers = np.random.default_rng(0).standard_normal((7, 4096))
    np.testing.assert_allclose(lesson.example_row(4, scaled=False), numbers[1:, :4] @ numbers[0, :4], atol=1e-12)


# Medians of the spread, mean entropy and share of rows above .99, as independent code measured them on other sentences of
# the same kind and length: (unscaled, scaled) of each, and d_k.
ON_SENTENCES = {
    "minilm": ((8.15, 1.44), (0.384, 2.675), 0.510, 32),
    "smollm": ((19.55, 2.44), (0.234, 1.557), 0.583, 64),
}
SENTENCES = (
    "The quick brown fox jumps over the lazy dog while the children watch from the window. Scientists have discovered a new "
    "species of frog in the rain forest of Brazil, and they believe that many more are waiting to be found. She opened the "
    "letter slowly, read it twice, and then put it back into the drawer without saying a word to anyone."
)


@pytest.mark.parametrize("name", ON_SENTENCES)
def test_every_head_of_a_model(name, request, monkeypatch):
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", 10_000)  # several blocks of rows
    model = request.getfixturevalue(name)
    spreads, entropies, near_one, d_k = ON_SENTENCES[name]
    passed = capture(model, SENTENCES)
    found = lesson.model_scores(passed)
    assert (found.d_k, found.scale, found.theory) == (d_k, pytest.approx(d_k**-0.5), pytest.approx(d_k**0.5))
    assert found.with_scale.spread.shape == (passed.layers(), passed.heads())
    with_scale, without = lesson.over_heads(found.with_scale), lesson.over_heads(found.without_scale)
    assert (without.spread, with_scale.spread) == pytest.approx(spreads, rel=0.12)
    assert (without.entropy, with_scale.entropy) == pytest.approx(entropies, rel=0.1)
    assert without.near_one == pytest.approx(near_one, abs=0.05)
    assert np.all(found.without_scale.entropy <= found.with_scale.entropy + 1e-9)

    for layer, head in np.ndindex(found.with_scale.spread.shape):
        trace = passed.trace(layer, head)
        spread = trace.raw[trace.mask].astype(np.float64).std()
        assert found.without_scale.spread[layer, head] == pytest.approx(spread, rel=1e-5)
        assert found.with_scale.spread[layer, head] == pytest.approx(spread / d_k**0.5, rel=1e-5)
        above = softmax(np.where(trace.mask, trace.raw, -np.inf)).max(axis=1) > 0.99
        # A row that has 0.99 may be rounded to either side.
        assert found.without_scale.near_one[layer, head] == pytest.approx(above.mean(), abs=1.01 / len(above))

    reference = eager_attentions(model, passed).attentions
    theirs = torch.stack(reference)[:, 0].double()  # [layers, heads, queries, keys]
    np.testing.assert_allclose(found.with_scale.entropy, torch.special.entr(theirs).sum(-1).mean(-1), atol=2e-4)
    np.testing.assert_allclose(found.with_scale.largest, theirs.amax(-1).mean(-1), atol=2e-4)


def drawing():
    """Draws arrays of a shape as the lesson does, beginning with the same seed."""
    rng = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=rng, dtype=torch.float64).numpy()


@pytest.mark.parametrize("scaled", [False, True])
def test_the_head_is_our_attention(scaled):
    """The same draw through `attend`, its gradient written out: ∂L/∂q = scale · (J g) K, row by row."""
    d_k = 16
    draw = drawing()
    x = draw(lesson.TOKENS, lesson.D_MODEL)
    W_V, W_Q, W_K = (draw(lesson.D_MODEL, size) / np.sqrt(lesson.D_MODEL) for size in (64, 16, 16))
    arriving = draw(lesson.TOKENS, 64)
    trace = attend(x @ W_Q, x @ W_K, x @ W_V, scale=None if scaled else 1.0)
    by_weight = arriving @ trace.value.T
    by_score = np.stack([lesson.softmax_jacobian(row) @ g for row, g in zip(trace.weights, by_weight, strict=True)])
    to_query, to_key = trace.scale * by_score @ trace.key, trace.scale * by_score.T @ trace.query

    found = lesson.head_gradients((d_k,), repeats=1)
    one = found.scaled if scaled else found.unscaled
    rows, columns = np.linalg.norm(to_query, axis=1), np.linalg.norm(to_key, axis=1)
    assert one.query.item() == pytest.approx(rows.mean(), rel=1e-9)
    assert one.median_query.item() == pytest.approx(np.sort(rows)[31], rel=1e-9)  # torch's median: the lower of two
    assert one.key.item() == pytest.approx(columns.mean(), rel=1e-9)
    assert one.median_key.item() == pytest.approx(np.sort(columns)[31], rel=1e-9)
    assert one.W_Q.item() == pytest.approx(np.linalg.norm(x.T @ to_query), rel=1e-9)


@pytest.fixture(scope="module")
def growing():
    return lesson.head_gradients()


def test_unscaled_the_middle_row_fades_while_the_mean_stays_large(growing):
    mean, error = mean_and_error(growing.unscaled.query)
    middle, _ = mean_and_error(growing.unscaled.median_query)
    at = dict(zip(growing.d_k.tolist(), range(len(mean)), strict=True))
    assert mean[at[1024]] > 5 * mean[at[1]]
    assert middle[at[1024]] < 0.1 < 4 < middle[at[32]]
    W_Q, _ = mean_and_error(growing.unscaled.W_Q)
    assert W_Q[at[1024]] > 10 * W_Q[at[1]]
    assert np.all(error < 0.2 * mean)


def test_scaled_the_gradient_does_not_depend_on_d_k(growing):
    for name in ("query", "median_query", "key", "median_key", "W_Q"):
        mean, _ = mean_and_error(getattr(growing.scaled, name)[:, 4:])  # d_k from 16
        assert mean.max() < 1.4 * mean.min()
    # With d_k = 1 the scale is 1.
    np.testing.assert_array_equal([one[:, 0] for one in growing.unscaled], [one[:, 0] for one in growing.scaled])


@pytest.mark.parametrize(
    ("around", "scaled"), [*zip(get_args(lesson.Around), (True, False, True, False), strict=False)]
)
def test_the_stack_is_our_attention(around, scaled):
    """Two layers through `attend`; the gradient of one entry of W_Q of either layer by finite differences."""
    width, tokens = 16, 32
    draw = drawing()
    x, arriving = draw(tokens, width), draw(tokens, width)
    arriving = arriving / np.linalg.norm(arriving)
    weights = [[draw(width, width) / 4 for _ in range(4)] for _ in range(2)]

    def norm(rows):
        return (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)

    def loss():
        h = x
        for W_Q, W_K, W_V, W_O in weights:
            read = norm(h) if around == "normalise before" else h
            attended = attend(read @ W_Q, read @ W_K, read @ W_V, scale=None if scaled else 1.0).output @ W_O
            h = attended if around == "nothing" else h + attended
            h = norm(h) if around == "normalise after" else h
        return float((h * arriving).sum())

    found = lesson.stack_gradients(2, scaled=scaled, width=width, around=around, repeats=1)
    for layer in range(2):
        slopes = np.zeros((width, width))
        for place in np.ndindex(width, width):
            before = weights[layer][0][place]
            ends = []
            for step in (1e-5, -1e-5):
                weights[layer][0][place] = before + step
                ends.append(loss())
            weights[layer][0][place] = before
            slopes[place] = (ends[0] - ends[1]) / 2e-5
        assert found.W_Q[0, layer] == pytest.approx(np.linalg.norm(slopes), rel=1e-4)


@pytest.mark.parametrize("width", lesson.WIDTHS)
@pytest.mark.parametrize("around", ["normalise before", "normalise after"])
def test_with_normalisation_unscaled_gradients_are_larger_and_grow_faster(width, around):
    for layers in (1, 6, 24):
        unscaled, scaled = (lesson.stack_gradients(layers, scaled=s, width=width, around=around) for s in (False, True))
        (more, more_error), (less, less_error) = log_mean_and_error(unscaled.W_Q), log_mean_and_error(scaled.W_Q)
        assert np.all(more - more_error > less + less_error)
        if layers > 1:
            more, less = log_mean_and_error(unscaled.inputs)[0], log_mean_and_error(scaled.inputs)[0]
            assert more[0] - more[-1] > less[0] - less[-1] + 0.1


@pytest.mark.parametrize("width", lesson.WIDTHS)
@pytest.mark.parametrize("scaled", [False, True])
def test_without_residual_and_normalisation_later_layers_receive_none(width, scaled):
    found = lesson.stack_gradients(24, scaled=scaled, width=width, around="nothing")
    mean, _ = log_mean_and_error(found.W_Q)
    assert mean[0] > -2
    assert np.all(mean[16:] < -14)
    assert found.W_Q.min() >= lesson.ROUNDING
