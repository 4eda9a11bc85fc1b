"""Data of the multi-word study, and Ozaki's scheme beside it."""

import itertools

import numpy as np
from _graded import graded, normwise_error
from numpy.testing import assert_array_equal

from applications._multiword_data import (
    PublishedStream,
    independent_matrices,
    published_points,
)
from applications._ozaki import INT32_BLOCK, ozaki_matmul, slices


def test_data_depend_on_their_point_only():
    first = independent_matrices(1, "x", 30, 0, 20)
    independent_matrices(1, "x", 31, 5, 20)
    again = independent_matrices(1, "x", 30, 0, 20)
    assert all(map(np.array_equal, first, again))
    for other in ((2, "x", 30, 0), (1, "y", 30, 0), (1, "x", 30, 1)):
        assert not np.array_equal(first[0], independent_matrices(*other, 20)[0])


def test_data_are_spread_as_asked():
    a, b = independent_matrices(1, "x", 5000, 0, 6)
    assert a.shape == (10, 5000) and b.shape == (5000, 10)
    for x in (a, b):
        exponents = np.log10(np.abs(x))
        assert -3 <= exponents.min() < -2.99 and 2.99 < exponents.max() <= 3
        assert abs((x < 0).mean() - 0.5) < 0.01
    assert (np.abs(independent_matrices(1, "x", 50, 0, 0)[0]) == 1).all()


def test_skipped_sizes_leave_the_published_stream_in_place():
    def left_operands(*sizes):
        points = published_points(PublishedStream(), (1,), frozenset(sizes))
        return {n: a for _, n, (a, _) in points}

    assert list(left_operands(33)) == [33]
    assert_array_equal(left_operands(33)[33], left_operands(10, 18, 33)[33])


# --- Ozaki's scheme ---


def test_slices_add_up():
    x = graded(3, 200, 3)
    exponents = np.frexp(np.abs(x).max(axis=1))[1].astype(np.int64)
    parts = slices(x, exponents, 6)
    assert np.abs(parts.astype(int)).max() <= 64
    total = sum(np.ldexp(parts[s].astype(float), -6 - 7 * s) for s in range(6))
    assert np.abs(total - np.ldexp(x, -exponents[:, None])).max() <= 2.0 ** (-6 - 7 * 5 - 1)


def test_ozaki_is_exact_for_small_integers_across_blocks():
    n = INT32_BLOCK + 17
    rng = np.random.default_rng(5)
    a, b = rng.integers(-50, 50, (2, n)).astype(float), rng.integers(-50, 50, (n, 3)).astype(float)
    a[0, 0] = 0.0
    product, exponents = ozaki_matmul(a, b, [2])[2]
    assert_array_equal(np.ldexp(product, exponents), a @ b)


def test_an_int32_block_cannot_overflow():
    assert INT32_BLOCK * 64 * 64 < 2**31


def test_more_slices_give_smaller_errors():
    a, b = graded(3, 60, 4), graded(60, 3, 4, seed=1)
    errors = [
        normwise_error(np.ldexp(*ozaki_matmul(a, b, [q])[q]), a, b) for q in (1, 2, 3, 4, 5, 6)
    ]
    assert all(small < 0.05 * large for large, small in itertools.pairwise(errors))


def test_ozaki_takes_zeros_and_nothing():
    product, exponents = ozaki_matmul(np.zeros((2, 3)), np.zeros((3, 2)), [2])[2]
    assert_array_equal(np.ldexp(product, exponents), np.zeros((2, 2)))
    product, exponents = ozaki_matmul(np.empty((2, 0)), np.empty((0, 2)), [2])[2]
    assert_array_equal(np.ldexp(product, exponents), np.zeros((2, 2)))
