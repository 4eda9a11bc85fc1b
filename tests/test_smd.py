"""Sequential matrix diagonalisation: invariants in double, the known numbers, failures by name."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from applications._polynomial import (
    multiply,
    paraconjugate,
    resize_centred,
    spectrum,
)
from applications._smd_algorithm import Options, rotation, smd
from applications._smd_examples import FAMILIES, RandomProduct

EXACT = Options(mu=0.0, max_iterations=25)


def random_matrix(m, *, complex_=False, seed=3):
    return RandomProduct(taps=3, channels=m, complex=complex_).matrix(seed)


def relative(difference, of):
    return np.linalg.norm(difference) / np.linalg.norm(of)


def reconstruction_error(result, r):
    rebuilt = multiply(multiply(paraconjugate(result.q), result.d), result.q)
    order = max(len(rebuilt), len(r)) // 2
    return relative(resize_centred(rebuilt, order) - resize_centred(r, order), r)


def paraunitarity_error(q):
    product = multiply(q, paraconjugate(q))
    product[len(product) // 2] -= np.eye(q.shape[1])
    return np.linalg.norm(product) / np.sqrt(q.shape[1])


def to_half(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float64)


def half_matmul(a, b):
    """A crude matrix core: fp16 inputs, float64 sums, one rounding to fp32."""
    if np.iscomplexobj(a) or np.iscomplexobj(b):
        raise TypeError("real only")
    return (to_half(a) @ to_half(b)).astype(np.float32).astype(np.float64)


# --- invariants in double, nothing trimmed ---


@pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_without_trimming_everything_is_kept(m, complex_):
    r = random_matrix(m, complex_=complex_)
    result = smd(r, options=EXACT)
    d, q = result.d, result.q
    assert reconstruction_error(result, r) < 1e-12
    assert paraunitarity_error(q) < 1e-12
    assert_array_equal(d, paraconjugate(d))
    assert_allclose(np.linalg.norm(d), np.linalg.norm(r), rtol=1e-12)
    assert_allclose(np.trace(d[len(d) // 2]).real, np.trace(r[len(r) // 2]).real, rtol=1e-12)
    if m == 1:
        assert (result.status, result.iterations) == ("converged", 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_eigenvalues_are_those_of_the_given_matrix_at_every_frequency(family):
    r = FAMILIES[family].matrix(1)
    result = smd(r, options=Options(mu=0.0, max_iterations=8))
    bins = max(64, len(result.d))
    assert_allclose(
        np.linalg.eigvalsh(spectrum(result.d, bins)),
        np.linalg.eigvalsh(spectrum(r, bins)),
        rtol=0,
        atol=1e-12 * np.trace(r[len(r) // 2]).real,
    )


def test_off_diagonal_energy_falls_and_the_spectrum_is_majorised():
    result = smd(FAMILIES["sources-20dB"].matrix(0), options=Options(epsilon=1e-9, mu=1e-12))
    off = np.array(result.history.off_diagonal)
    assert result.status == "converged"
    assert off[-1] < 1e-9 < off[-2]
    assert (np.diff(off) < 0).all()
    diagonal = spectrum(result.d, 512)[:, range(8), range(8)].real
    assert (np.diff(diagonal, axis=1) <= 0).all()


def test_each_iteration_moves_twice_the_column_energy_onto_the_diagonal_of_lag_0():
    r = random_matrix(4)
    energies = []
    for iterations in range(7):
        result = smd(r, options=Options(mu=0.0, epsilon=0.0, max_iterations=iterations))
        centre = resize_centred(result.d, 0)[0]
        assert_allclose(centre, np.diag(np.diag(centre)), atol=1e-14)
        energies.append(np.linalg.norm(centre) ** 2)
    # Lag 0 is diagonal before the delay, and a column and a row arrive there.
    column_norms = np.array(result.history.column_norm[:-1])
    assert_allclose(np.diff(energies), 2 * column_norms**2, rtol=1e-10)


# --- special matrices ---


@pytest.mark.parametrize("stop", ["energy", "column", "relative-column", "element"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4])
def test_zero_identity_and_diagonal_matrices_are_done_at_once(stop, epsilon):
    options = Options(stop=stop, epsilon=epsilon)
    diagonal = np.zeros((3, 3, 3))
    diagonal[:, range(3), range(3)] = [[0.1, 0.2, 0.3], [3, 2, 1], [0.1, 0.2, 0.3]]
    for r in (np.zeros((3, 2, 2)), np.eye(4)[None], diagonal):
        result = smd(r, options=options)
        assert (result.status, result.iterations, result.path) == ("converged", 0, [])
        assert_array_equal(result.d, r)
        assert_array_equal(result.q, np.eye(r.shape[1])[None])


def test_a_diagonal_matrix_is_only_sorted():
    result = smd(np.diag([1.0, 5.0, 3.0])[None])
    assert_array_equal(result.d[0], np.diag([5.0, 3.0, 1.0]))


def test_two_channels_by_hand():
    # R = [[2, z^-1], [z, 2]]: one delay and one rotation by 45 degrees give diag(3, 1).
    r = np.array([[[0, 0], [1, 0]], [[2, 0], [0, 2]], [[0, 1], [0, 0]]], float)
    result = smd(r)
    assert (result.status, result.iterations) == ("converged", 1)
    assert_allclose(resize_centred(result.d, 0)[0], np.diag([3, 1]), atol=1e-15)
    assert len(result.d) == 1
    assert result.path == [(-1, 0)]  # (-1, 0) and (1, 1) tie: the first lag wins


def test_ties_go_to_the_first_lag_then_to_the_first_column():
    r = np.zeros((5, 4, 4))
    r[2] = np.eye(4)
    r[3, 0, 1] = r[3, 2, 3] = 0.25  # columns 1 and 3 of lag 1, columns 0 and 2 of lag -1
    r[1] = r[3].T
    first = smd(r, options=Options(max_iterations=0)).history
    assert (first.lag, first.column) == ([-1], [0])
    r[4, 0, 2] = r[0, 2, 0] = 0.25  # an equal column at lag -2, though a later one than 0
    r[4, 1, 3] = r[0, 3, 1] = 0.25
    assert smd(r, options=Options(max_iterations=0)).history.lag == [-2]


def test_rotation_pins_signs_and_orders_eigenvalues():
    r0 = random_matrix(5, complex_=True)[2]
    v = rotation(r0)
    values = np.diag(v.conj().T @ r0 @ v).real
    assert (np.diff(values) < 0).all()
    pivots = v[np.abs(v).argmax(axis=0), range(5)]
    assert (pivots.real > 0).all()
    assert_allclose(pivots.imag, 0, atol=1e-16)


def test_complex_matrices_without_imaginary_part_give_the_real_result():
    r = random_matrix(4)
    real, complex_ = smd(r, options=EXACT), smd(r.astype(complex), options=EXACT)
    assert real.path == complex_.path
    assert_allclose(complex_.d, real.d, atol=1e-12)
    assert complex_.history.macs == [4 * n for n in real.history.macs]


# --- scaling ---


@pytest.mark.parametrize("exponent", [-300, -10, 10, 300])
def test_scaling_by_a_power_of_two_scales_the_result_exactly(exponent):
    r = FAMILIES["random"].matrix(0)
    options = Options(max_iterations=30)
    plain, scaled = smd(r, options=options), smd(np.ldexp(r, exponent), options=options)
    assert scaled.path == plain.path
    assert_array_equal(scaled.d, np.ldexp(plain.d, exponent))
    assert_array_equal(scaled.q, plain.q)


# --- the measured numbers ---


@pytest.mark.parametrize(
    ("mu", "status", "iterations", "off_diagonal", "bias", "lags", "taps"),
    [
        (1e-4, "converged", 136, 9.9e-5, 4.7e-2, 17, 46),
        (1e-5, "converged", 218, 9.8e-5, 1.4e-2, 29, 62),
        (1e-6, "iteration limit", 250, 3.4e-4, 2.1e-3, 95, 80),
        (1e-8, "iteration limit", 250, 4.7e-4, 8.8e-4, 145, 124),
    ],
)
def test_random_matrix_0_over_mu(mu, status, iterations, off_diagonal, bias, lags, taps):
    r = FAMILIES["random"].matrix(0)
    result = smd(r, options=Options(mu=mu))
    assert result.status == status
    assert abs(result.iterations - iterations) <= 2  # another LAPACK may turn a near tie
    assert_allclose(result.history.off_diagonal[-1], off_diagonal, rtol=0.02)
    true = np.linalg.eigvalsh(spectrum(r, 1024))[:, -1]
    assert_allclose(true.max(), 4.46, atol=5e-3)
    found = spectrum(result.d, 1024)[:, 0, 0].real
    assert_allclose(np.abs(found - true).max(), bias, rtol=0.05)
    assert abs(len(result.d) - lags) <= 4
    assert abs(len(result.q) - taps) <= 4


def test_random_matrix_0_trimming_sets_the_error():
    r = FAMILIES["random"].matrix(0)
    result = smd(r)
    assert_allclose(reconstruction_error(result, r), 9.5e-2, rtol=0.02)
    assert_allclose(paraunitarity_error(result.q), 8.3e-2, rtol=0.02)
    assert_allclose(spectrum(result.d, 1024)[:, range(8), range(8)].real.min(), -1.2e-3, rtol=0.1)
    history = result.history
    assert (max(history.lags), max(history.taps)) == (57, 53)
    assert len(history.macs) == result.iterations + 1 == len(result.decisions)


@pytest.mark.parametrize(
    ("family", "count", "low", "median", "high"),
    [
        ("random", 24, 130, 152, 182),
        ("random-complex", 8, 161, 177, 209),
        ("sources-10dB", 12, 5, 14, 30),
        ("sources-20dB", 12, 6, 14, 26),
        ("sources-40dB", 12, 6, 12, 19),
        ("sources-20dB-crossing", 12, 17, 83, 164),
    ],
)
def test_iterations_of_the_families(family, count, low, median, high):
    results = [smd(FAMILIES[family].matrix(seed)) for seed in range(count)]
    iterations = [result.iterations for result in results]
    assert {result.status for result in results} == {"converged"}
    assert min(iterations) >= low - 2
    assert max(iterations) <= high + 2
    assert abs(np.median(iterations) - median) <= 0.15 * median


@pytest.mark.parametrize(
    ("stop", "converged"),
    [
        ("column", {0: 236, 6: 220}),
        ("relative-column", {0: 197, 1: 245, 3: 230, 4: 221, 6: 193}),
        ("element", {0: 234, 6: 216}),
    ],
)
def test_stricter_stopping_rules_mostly_run_into_the_limit(stop, converged):
    for seed in range(10):
        result = smd(FAMILIES["random"].matrix(seed), options=Options(stop=stop))
        expected = "converged" if seed in converged else "iteration limit"
        assert result.status == expected
        assert abs(result.iterations - converged.get(seed, 250)) <= 4


# --- low precision, failures ---


def test_replaying_the_decisions_of_a_run_repeats_it():
    r = FAMILIES["sources-20dB"].matrix(2)
    first = smd(r)
    again = smd(r, replay=first.decisions)
    assert again.status == "replayed"
    assert again.path == first.path
    assert_array_equal(again.d, first.d)
    assert_array_equal(again.q, first.q)
    assert first.digest(to_half) == again.digest(to_half)


def test_replay_uses_the_decisions_given_and_not_its_own():
    r = FAMILIES["random"].matrix(0)
    double = smd(r)
    free = smd(r * 256, half_matmul)
    replayed = smd(r * 256, half_matmul, replay=double.decisions)
    assert free.path != double.path
    assert replayed.path == double.path
    for mine, given in zip(replayed.decisions, double.decisions, strict=True):
        assert_array_equal(mine.rotation, given.rotation)
    assert 0 < relative(replayed.d / 256 - double.d, double.d) < 2e-2


def test_replay_trims_as_the_decisions_say():
    r = FAMILIES["random"].matrix(0)
    untrimmed = smd(r, options=Options(mu=0.0, max_iterations=10))
    replayed = smd(r, half_matmul, Options(mu=0.1), replay=untrimmed.decisions)
    assert replayed.history.lags == untrimmed.history.lags
    assert replayed.history.taps == untrimmed.history.taps


def test_low_precision_is_off_by_the_order_of_its_unit_roundoff():
    r = FAMILIES["random"].matrix(0)
    reference = spectrum(smd(r).d, 1024)[:, 0, 0].real
    rounded = spectrum(smd(r * 256, half_matmul).d, 1024)[:, 0, 0].real / 256
    error = np.abs(rounded - reference).max() / reference.max()
    assert 1e-3 < error < 3e-2


def test_symmetrisation_keeps_a_rounded_matrix_parahermitian():
    r = 256 * FAMILIES["random"].matrix(0)
    with_it = smd(r, half_matmul, Options(max_iterations=30)).d
    without = smd(r, half_matmul, Options(max_iterations=30, symmetrise=False)).d
    assert_array_equal(with_it, paraconjugate(with_it))
    assert relative(without - paraconjugate(without), without) > 1e-5


def test_the_initial_decomposition_can_run_in_another_arithmetic():
    r = 256 * FAMILIES["random"].matrix(0)
    calls = []

    def counted(a, b):
        calls.append(1)
        return half_matmul(a, b)

    options = Options(max_iterations=2)
    mixed = smd(r, counted, options, initial_matmul=np.matmul)
    assert len(calls) == 2 * 3
    assert not np.array_equal(mixed.d, smd(r, counted, options).d)


def test_the_state_can_be_rounded_between_iterations():
    r = 256 * FAMILIES["random"].matrix(0)
    result = smd(r, half_matmul, Options(max_iterations=3), round_state=to_half)
    assert_array_equal(result.d, to_half(result.d))
    assert_array_equal(result.q, to_half(result.q))


@pytest.mark.parametrize(("scale", "iteration"), [(2.0**15, 1), (2.0**40, 0)])
def test_overflow_is_a_status_with_its_iteration(scale, iteration):
    r = FAMILIES["random"].matrix(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = smd(scale * r, half_matmul)
    assert (result.status, result.iterations) == ("non-finite", iteration)
    assert np.isfinite(result.d).all()


def test_overflow_in_a_later_iteration_is_reported_with_that_iteration():
    calls = []

    def fails_late(a, b):
        calls.append(1)
        product = a @ b
        return product * np.inf if len(calls) == 3 * 4 + 2 else product  # within update 4

    result = smd(FAMILIES["random"].matrix(0), fails_late)
    assert (result.status, result.iterations) == ("non-finite", 4)
    assert len(result.decisions) == 4
    assert np.isfinite(result.d).all()


def test_energies_beyond_double_are_reported_too():
    result = smd(1e200 * FAMILIES["random"].matrix(0))
    assert result.status == "non-finite"


@pytest.mark.parametrize(
    "r",
    [np.full((3, 2, 2), np.nan), np.zeros((2, 2, 2)), np.zeros((3, 2, 3)), np.ones((4, 4))],
    ids=["nan", "even", "oblong", "one-coefficient"],
)
def test_wrong_matrices_are_refused(r):
    with pytest.raises(ValueError, match=r"must be finite|has shape"):
        smd(r)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stop": "enrgy"}, "energy, column"),
        ({"mu": 1.0}, "below 1"),
        ({"mu": -1e-9}, "below 1"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"max_iterations": -1}, "max_iterations"),
    ],
)
def test_wrong_options_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Options(**wrong)
