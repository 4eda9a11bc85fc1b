"""Operations on polynomial matrices, against their definitions evaluated on the unit circle."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from applications._polynomial import (
    as_parahermitian,
    coefficient_energies,
    multiply,
    off_diagonal_squares,
    order_kept,
    paraconjugate,
    resize_centred,
    shift_row,
    shift_similarity,
    spectrum,
    symmetrise,
    taps_kept,
)


def random(shape, *, complex_=False, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    return a + 1j * rng.standard_normal(shape) if complex_ else a


def parahermitian(order, m, *, complex_=False, seed=1):
    return symmetrise(random((2 * order + 1, m, m), complex_=complex_, seed=seed))


def at(a, z, first):
    """A(z) by its definition, `first` being the lag of the first coefficient."""
    return sum(c * z ** -(first + t) for t, c in enumerate(a))


Z = 0.8 * np.exp(0.7j)  # off the unit circle: tells A~ from A^H
both_kinds = pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])


@both_kinds
@pytest.mark.parametrize(("na", "nb"), [(1, 1), (3, 5), (5, 3)])
def test_multiply_is_the_product_of_the_values(na, nb, complex_):
    a = random((na, 2, 3), complex_=complex_)
    b = random((nb, 3, 4), complex_=complex_, seed=2)
    product = multiply(a, b)
    assert product.shape == (na + nb - 1, 2, 4)
    assert_allclose(at(product, Z, 0), at(a, Z, 0) @ at(b, Z, 0), rtol=1e-13)


@both_kinds
def test_paraconjugate_conjugates_coefficients_and_inverts_z(complex_):
    a = random((4, 3, 3), complex_=complex_)
    expected = at(a, 1 / np.conj(Z), 0).conj().T
    assert_allclose(at(paraconjugate(a), Z, -3), expected, rtol=1e-13)


@both_kinds
def test_symmetrise_gives_exactly_parahermitian_and_keeps_those(complex_):
    r = symmetrise(random((5, 3, 3), complex_=complex_))
    assert_array_equal(r, paraconjugate(r))
    assert_array_equal(symmetrise(r), r)


@both_kinds
@pytest.mark.parametrize("lag", [-3, -1, 0, 2])
@pytest.mark.parametrize("column", [0, 2])
def test_shift_similarity_is_a_product_with_a_delay(lag, column, complex_):
    r = parahermitian(2, 3, complex_=complex_)
    shifted = shift_similarity(r, lag, column)
    delay = np.diag([Z**-lag if k == column else 1 for k in range(3)])
    inverse = np.diag([Z**lag if k == column else 1 for k in range(3)])
    expected = delay @ at(r, Z, -2) @ inverse
    assert_allclose(at(shifted, Z, -(len(shifted) // 2)), expected, rtol=1e-12)
    assert_array_equal(shifted, paraconjugate(shifted))
    centre = shifted[len(shifted) // 2]
    others = [m for m in range(3) if m != column]
    wanted = r[lag + 2, others, column] if abs(lag) <= 2 else 0
    assert_array_equal(centre[others, column], wanted)  # column `column` of that lag is at lag 0


def test_shift_similarity_only_moves_numbers():
    r = parahermitian(3, 4)
    assert sorted(shift_similarity(r, 5, 1)[shift_similarity(r, 5, 1) != 0]) == sorted(r.ravel())


@pytest.mark.parametrize("lag", [-2, 0, 3])
def test_shift_row_is_a_product_with_a_delay_up_to_a_common_one(lag):
    q = random((4, 3, 3))
    shifted = shift_row(q, lag, 1)
    assert len(shifted) == 4 + abs(lag)
    delay = np.diag([1, Z**-lag, 1]) * (Z**lag if lag < 0 else 1)
    assert_allclose(at(shifted, Z, 0), delay @ at(q, Z, 0), rtol=1e-12)


@pytest.mark.parametrize("lag", [-2, 3])
def test_both_shifts_belong_together(lag):
    q, r = random((3, 3, 3)), parahermitian(2, 3)
    whole = multiply(multiply(q, r), paraconjugate(q))
    after = multiply(multiply(shift_row(q, lag, 2), r), paraconjugate(shift_row(q, lag, 2)))
    assert_allclose(after, shift_similarity(whole, lag, 2), atol=1e-13)


def test_off_diagonal_squares_and_energies_by_hand():
    r = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    assert_array_equal(off_diagonal_squares(r), [[[0, 4], [9, 0]]])
    assert_array_equal(coefficient_energies(r), [30])
    assert_array_equal(coefficient_energies(1j * r), [30])


def with_energies(energies):
    return np.sqrt(np.array(energies, float))[:, None, None]


@pytest.mark.parametrize(
    ("mu", "order"),
    [(0.0, 2), (0.019, 2), (0.021, 1), (0.09, 1), (0.11, 0), (0.99, 0)],
)
def test_order_kept_cuts_pairs_from_outside_within_the_budget(mu, order):
    r = with_energies([0, 1, 4, 90, 4, 1, 0])  # shares of the pairs: 0, 0.02, 0.08
    assert order_kept(r, mu) == order


@pytest.mark.parametrize(
    ("mu", "kept"),
    [
        (0.0, (1, 6)),  # exact zeros only
        (0.015, (2, 6)),  # of the two ends with 1 the first goes first
        (0.025, (2, 5)),
        (0.07, (3, 5)),  # then 4 before 5: whichever end is smaller
        (0.999, (3, 4)),  # one tap stays
    ],
)
def test_taps_kept_takes_the_smaller_end_within_the_budget(mu, kept):
    assert taps_kept(with_energies([0, 1, 4, 89, 5, 1]), mu) == kept


def test_an_all_zero_matrix_is_trimmed_to_one_lag():
    zero = np.zeros((7, 2, 2))
    assert order_kept(zero, 1e-4) == 0
    first, stop = taps_kept(zero, 1e-4)
    assert stop - first == 1


def test_resize_centred_pads_and_crops_at_both_ends():
    r = parahermitian(2, 2)
    assert_array_equal(resize_centred(resize_centred(r, 4), 2), r)
    assert_array_equal(resize_centred(r, 4)[[0, 1, -2, -1]], 0)
    assert_array_equal(resize_centred(r, 1), r[1:4])


@both_kinds
@pytest.mark.parametrize("bins", [2, 4, 5, 8, 64])  # fewer than the 5 lags, and more
def test_spectrum_is_the_value_on_the_unit_circle(bins, complex_):
    r = parahermitian(2, 3, complex_=complex_)
    values = spectrum(r, bins)
    assert values.shape == (bins, 3, 3)
    for n in (0, 1, bins - 1):
        assert_allclose(values[n], at(r, np.exp(2j * np.pi * n / bins), -2), atol=1e-13)
    assert_allclose(values, values.conj().transpose(0, 2, 1), atol=1e-13)


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.zeros((4, 2, 2)), ValueError, "odd number of lags"),
        (np.zeros((3, 2, 3)), ValueError, "square"),
        (np.zeros((3, 2)), ValueError, "shape"),
        (np.zeros((3, 0, 0)), ValueError, "shape"),
        (np.full((1, 1, 1), np.nan), ValueError, r"\(0, 0, 0\).*finite"),
        (np.full((1, 1, 1), np.inf), ValueError, "finite"),
        (np.array([[["a"]]]), TypeError, "numbers"),
        (random((3, 2, 2)), ValueError, "not parahermitian"),
        (np.array([[[1.0 + 1e-3j]]]), ValueError, "not parahermitian"),
    ],
    ids=["even", "oblong", "flat", "empty", "nan", "inf", "text", "asymmetric", "imaginary"],
)
def test_as_parahermitian_refuses(matrix, error, message):
    with pytest.raises(error, match=message):
        as_parahermitian(matrix)


def test_as_parahermitian_takes_integers_extremes_and_rounding_errors():
    assert as_parahermitian([[[2]]]).dtype == np.float64
    r = parahermitian(2, 3, complex_=True)
    assert as_parahermitian(r * 1e200) is not None  # squares would overflow
    assert_array_equal(as_parahermitian(r * (1 + 1e-15)), r * (1 + 1e-15))
