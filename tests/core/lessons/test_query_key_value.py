"""Scores as lengths and angles, longer keys and swapped values, against closed forms of plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import attend, random_matrices
from core.lessons import query_key_value as lesson

ANGLES = st.floats(0, 360)
PLACES = st.integers(0, len(lesson.TOKENS) - 1)


def scores_at(angle, keys=lesson.KEYS):
    """|q| · |k| · cos(difference of the two directions)."""
    turns = [math.radians(angle) - math.atan2(up, across) for across, up in keys]
    return [lesson.LENGTH * math.hypot(*key) * math.cos(turn) for key, turn in zip(keys, turns, strict=True)]


def weights_at(angle, keys=lesson.KEYS):
    exponentials = [math.exp(score / math.sqrt(2)) for score in scores_at(angle, keys)]
    return [one / sum(exponentials) for one in exponentials]


@given(ANGLES)
def test_a_score_is_both_lengths_times_the_cosine_of_the_angle(angle):
    trace = lesson.example(angle)
    np.testing.assert_allclose(trace.raw[0], scores_at(angle), atol=1e-12)
    np.testing.assert_allclose(trace.weights[0], weights_at(angle), atol=1e-12)


@given(ANGLES, PLACES, st.floats(1.25, 4))
def test_a_longer_key_has_its_score_multiplied_and_the_others_keep_theirs(angle, key, factor):
    change = lesson.longer_key(lesson.example(angle), key, factor)
    assert change.after.raw[0, key] == pytest.approx(factor * scores_at(angle)[key], abs=1e-12)
    others = np.delete(np.arange(len(lesson.TOKENS)), key)
    np.testing.assert_array_equal(change.after.raw[0, others], change.before.raw[0, others])
    if abs(scores_at(angle)[key]) > 1e-3:  # more weight for a key that the query points to, less for one behind it
        grows = change.after.weights[0, key] > change.before.weights[0, key]
        assert grows == (scores_at(angle)[key] > 0)


@given(ANGLES, PLACES, PLACES)
def test_swapped_values_leave_every_weight_to_the_last_bit(angle, first, second):
    change = lesson.swapped_values(lesson.example(angle), first, second)
    np.testing.assert_array_equal(change.after.weights, change.before.weights)
    assert change.of_weights == 0
    weights, values = weights_at(angle), np.array(lesson.VALUES)
    moved = (weights[first] - weights[second]) * (values[second] - values[first])
    np.testing.assert_allclose(change.after.output[0] - change.before.output[0], moved, atol=1e-12)
    assert change.of_output == pytest.approx(math.hypot(*moved), abs=1e-12)


def a_head(*, queries=6, keys=9, mask=None):
    made = random_matrices(queries, keys, 16, 4, seed=3)
    return attend(*(matrix.astype(np.float32) for matrix in (made.query, made.key, made.value)), mask=mask)


def test_lengths_and_angles_of_a_head_with_more_numbers():
    """Against the law of cosines: |q - k|² = |q|² + |k|² - 2 |q| |k| cos."""
    trace = a_head()
    aligned = lesson.alignment(trace, 2)
    q, keys = trace.query[2].astype(float), trace.key.astype(float)
    squares = (keys**2).sum(axis=1)
    twice = (q**2).sum() + squares - ((q - keys) ** 2).sum(axis=1)
    cosines = twice / (2 * math.sqrt((q**2).sum()) * np.sqrt(squares))
    np.testing.assert_allclose(aligned.cosines, cosines, atol=1e-5)
    np.testing.assert_allclose(np.cos(np.radians(aligned.angles)), cosines, atol=1e-5)
    np.testing.assert_allclose(np.hypot(*aligned.turned.T), np.sqrt(squares))
    np.testing.assert_allclose(aligned.turned @ [aligned.length, 0], trace.raw[2], atol=1e-5)
    assert (aligned.turned[:, 1] >= 0).all()
    assert aligned.strongest(2) == sorted(range(9), key=lambda key: -trace.weights[2, key])[:2]


def test_only_keys_that_the_query_may_attend_to_are_aligned_the_strongest_first():
    mask = np.ones((6, 9), bool)
    mask[2, [0, 4]] = False
    mask[3] = False
    trace = a_head(mask=mask)
    assert lesson.alignment(trace, 2).places.tolist() == [1, 2, 3, 5, 6, 7, 8]
    strongest = sorted(sorted(range(9), key=lambda key: -trace.weights[2, key])[:3])
    assert lesson.alignment(trace, 2, most=3).places.tolist() == strongest
    assert lesson.alignment(trace, 3).places.size == 0


def test_a_key_of_zeros_has_no_direction():
    aligned = lesson.alignment(attend([[1.0, 1.0]], [[0.0, 0.0], [0.0, 2.0]], [[1.0], [2.0]]))
    assert np.isnan(aligned.cosines).tolist() == [True, False]
    assert aligned.angles[1] == pytest.approx(45)


def test_moved_values_change_the_output_alone_and_are_read_as_they_are_written():
    moves = {1: (1.0, -2.0), 2: (0.0, 0.5)}
    assert lesson.write_moves(moves) == "street 1 -2, it 0 0.5"
    assert lesson.read_moves(lesson.write_moves(moves)) == moves
    assert lesson.read_moves("") == {}
    change = lesson.moved_values(lesson.example(40), moves)
    values = np.array(lesson.VALUES)
    values[[1, 2]] = moves[1], moves[2]
    np.testing.assert_allclose(change.after.output[0], np.array(weights_at(40)) @ values)
    assert change.of_weights == 0
