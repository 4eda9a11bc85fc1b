"""Arrays whose products run on a core."""

import ml_dtypes
import numpy as np
import pytest

import mfmamodels as mm

CORE = mm.core("MI300X/fp16")
RNG = np.random.default_rng(3)


def _expected(a, b):
    return CORE.matmul(mm.round_to(a, "fp16"), mm.round_to(b, "fp16"))


def _pair(*shapes):
    return [RNG.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("operation", [lambda a, b: a @ b, np.matmul, np.dot])
def test_products_run_on_the_core(operation):
    a, b = _pair((4, 20), (20, 3))
    expected = _expected(a, b)
    assert not np.array_equal(expected, a @ b)
    for x, y in [
        (mm.wrap(a, CORE), mm.wrap(b, CORE)),
        (mm.wrap(a, CORE), b),
        (a, mm.wrap(b, CORE)),
    ]:
        result = operation(x, y)
        assert isinstance(result, mm.CoreArray)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_methods_and_in_place_products():
    a, b = _pair((4, 4), (4, 4))
    wrapped = mm.wrap(a.copy(), CORE)
    np.testing.assert_array_equal(wrapped.dot(b), _expected(a, b))
    out = np.empty((4, 4))
    assert np.matmul(wrapped, b, out=out) is out
    np.testing.assert_array_equal(out, _expected(a, b))
    wrapped @= b
    np.testing.assert_array_equal(wrapped, _expected(a, b))
    assert isinstance(wrapped, mm.CoreArray)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (np.inner, [(3, 8), (5, 8)]),
        (np.vdot, [(3, 8), (3, 8)]),
        (lambda a, b: np.tensordot(a, b, 1), [(3, 4, 8), (8, 5)]),
        (lambda a, b: np.tensordot(a, b, ([0, 2], [1, 0])), [(3, 4, 8), (8, 3, 2)]),
        (np.dot, [(2, 3, 8), (4, 8, 5)]),
        (np.dot, [(2, 3, 8), (8,)]),
        (np.dot, [(8,), (8,)]),
        (np.matmul, [(2, 3, 8), (2, 8, 5)]),
        (np.tensordot, [(3, 0, 2), (0, 2, 4)]),
    ],
)
def test_other_products_have_numpys_meaning(function, shapes):
    # Small integers: every core and numpy agree to the bit, so only the meaning is at stake.
    a, b = (RNG.integers(-4, 5, s).astype(float) for s in shapes)
    result = function(mm.wrap(a, CORE), mm.wrap(b, CORE))
    expected = function(a, b)
    np.testing.assert_array_equal(np.asarray(result), expected)
    assert np.shape(result) == np.shape(expected)


def test_all_else_stays_numpys():
    a, b = _pair((5, 5), (5, 5))
    w = mm.wrap(a, CORE)
    for function in (np.exp, np.add.reduce, np.sort, np.linalg.norm, np.transpose, np.sum):
        np.testing.assert_array_equal(np.asarray(function(w)), function(a))
    np.testing.assert_array_equal(np.asarray(w + b), a + b)
    np.testing.assert_array_equal(np.asarray(np.linalg.solve(w, b)), np.linalg.solve(a, b))
    assert isinstance(w + b, mm.CoreArray)
    assert isinstance(w[1:, ::2].T, mm.CoreArray)
    assert (w + b).core is CORE
    assert not isinstance(w > 0, mm.CoreArray)
    w[0] = 7.0
    np.testing.assert_array_equal(np.asarray(w[0]), np.full(5, 7.0))


def test_existing_code_becomes_a_study():
    def power_method(matrix, steps=30):
        x = np.ones(matrix.shape[0])
        for _ in range(steps):
            x = matrix @ x
            x = x / np.sqrt(x @ x)
        return x @ (matrix @ x)

    matrix = np.diag([4.0, 1.0, 0.5]) + 0.1
    exact = power_method(matrix)
    modelled = power_method(mm.wrap(matrix, "MI300X/bf16"))
    assert 0 < abs(modelled - exact) < 0.05


def test_results_keep_the_wider_type():
    half = mm.wrap(np.ones((2, 2), np.float16), CORE)
    assert (half @ half).dtype == np.float32
    brain = mm.wrap(np.ones((2, 2), ml_dtypes.bfloat16), "MI300X/bf16")
    assert (brain @ brain).dtype == np.float32
    assert (mm.wrap(np.ones((2, 2), np.int64), CORE) @ np.ones((2, 2))).dtype == np.float64


def test_contradictions_and_what_no_core_does_are_refused():
    a = mm.wrap(np.ones((2, 2)), CORE)
    with pytest.raises(ValueError, match="different cores: MI300X/fp16 and B200/fp16"):
        a @ mm.wrap(np.ones((2, 2)), "B200/fp16")
    with pytest.raises(TypeError, match=r"einsum .*write the product with @"):
        np.einsum("ij,jk", a, a)
    with pytest.raises(TypeError, match="real numbers"):
        mm.wrap(np.ones(2, complex), CORE)
    with pytest.raises(ValueError, match="overflows fp16"):
        mm.wrap(np.full((1, 1), 1e6), CORE) @ np.ones((1, 1))
    saturated = mm.wrap(np.full((1, 1), 1e6), CORE, overflow="saturate") @ np.ones((1, 1))
    assert saturated[0, 0] == 65504
