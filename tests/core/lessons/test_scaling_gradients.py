"""Gradients through attention: against the closed form, finite differences through our own core, and what the page claims."""

import numpy as np
import pytest
import torch

from core.attention.trace import attend, softmax
from core.errors import InputError
from core.lessons.scaling import (
    AROUND,
    D_MODEL,
    ROUNDING,
    TOKENS,
    WIDTHS,
    autograd_jacobian,
    autograd_norm,
    head_gradients,
    jacobian_norm,
    log_mean_and_error,
    mean_and_error,
    softmax_jacobian,
    stack_gradients,
)


def test_autograd_agrees_with_the_closed_form():
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(scale=3, size=64)
        np.testing.assert_allclose(autograd_jacobian(scores), softmax_jacobian(softmax(scores)), atol=1e-14)
        assert autograd_norm(scores) == pytest.approx(float(jacobian_norm(softmax(scores))), rel=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_head_is_our_attention(scaled):
    """The same draw through `attend`, its gradient written out: ∂L/∂q = scale · (J g) K, row by row."""
    d_k = 16
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(TOKENS, D_MODEL, generator=rng, dtype=torch.float64).numpy()
    W_V, W_Q, W_K = (
        torch.randn(D_MODEL, size, generator=rng, dtype=torch.float64).numpy() / np.sqrt(D_MODEL)
        for size in (64, 16, 16)
    )
    arriving = torch.randn(TOKENS, 64, generator=rng, dtype=torch.float64).numpy()
    trace = attend(x @ W_Q, x @ W_K, x @ W_V, scale=None if scaled else 1.0)
    by_weight = arriving @ trace.value.T
    by_score = np.stack([softmax_jacobian(row) @ g for row, g in zip(trace.weights, by_weight, strict=True)])
    to_query, to_key = trace.scale * by_score @ trace.key, trace.scale * by_score.T @ trace.query

    found = head_gradients((d_k,), repeats=1)
    one = found.scaled if scaled else found.unscaled
    rows, columns = np.linalg.norm(to_query, axis=1), np.linalg.norm(to_key, axis=1)
    assert one.query.item() == pytest.approx(rows.mean(), rel=1e-9)
    assert one.median_query.item() == pytest.approx(np.sort(rows)[31], rel=1e-9)  # torch's median: the lower of two
    assert one.key.item() == pytest.approx(columns.mean(), rel=1e-9)
    assert one.median_key.item() == pytest.approx(np.sort(columns)[31], rel=1e-9)
    assert one.W_Q.item() == pytest.approx(np.linalg.norm(x.T @ to_query), rel=1e-9)


@pytest.fixture(scope="module")
def growing():
    return head_gradients()


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


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("scaled", [False, True])
def test_the_stack_is_our_attention(around, scaled):
    """Two layers through `attend`; the gradient of one entry of W_Q of either layer by finite differences."""
    width, tokens = 16, 32
    rng = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(1, *shape, generator=rng, dtype=torch.float64).numpy()[0]  # noqa: E731
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

    found = stack_gradients(2, scaled=scaled, width=width, around=around, repeats=1)
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("around", ["normalise before", "normalise after"])
def test_with_normalisation_unscaled_gradients_are_larger_and_grow_faster(width, around):
    for layers in (1, 6, 12, 24):
        unscaled, scaled = (stack_gradients(layers, scaled=s, width=width, around=around) for s in (False, True))
        (more, more_error), (less, less_error) = log_mean_and_error(unscaled.W_Q), log_mean_and_error(scaled.W_Q)
        assert np.all(more - more_error > less + less_error)
        if layers > 1:
            more, less = log_mean_and_error(unscaled.inputs)[0], log_mean_and_error(scaled.inputs)[0]
            assert more[0] - more[-1] > less[0] - less[-1] + 0.1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scaled", [False, True])
def test_without_residual_and_normalisation_later_layers_receive_none(width, scaled):
    found = stack_gradients(24, scaled=scaled, width=width, around="nothing")
    mean, _ = log_mean_and_error(found.W_Q)
    assert mean[0] > -2
    assert np.all(mean[16:] < -14)
    assert found.W_Q.min() >= ROUNDING


def test_a_stack_that_cannot_be_is_named():
    for layers in (0, 25):
        with pytest.raises(InputError, match=str(layers)) as caught:
            stack_gradients(layers, scaled=True)
        assert caught.value.field == "layers"
    with pytest.raises(InputError, match="upside down") as caught:
        stack_gradients(2, scaled=True, around="upside down")  # type: ignore[arg-type]
    assert caught.value.field == "around"
