"""The LU study: factorisation, refinement, control on integers."""

import numpy as np
import pytest

from applications import _lu_solver as solver
from applications import lu

RNG = np.random.default_rng(8)


def _float32(a, b, c):
    return c + a @ b


def _config(**changes):
    config = {name: spec["default"] for name, spec in lu.SCHEMA["properties"].items()}
    return {**config, "order": 40, "block": 16, "draws": 2, "log10_conditions": [1, 6], **changes}


@pytest.mark.parametrize("order", [1, 2, 15, 16, 17, 40])
def test_factors_multiply_to_the_permuted_matrix(order):
    a = RNG.standard_normal((order, order))
    factors = solver.factorise(a.astype(np.float32), _float32, 16)
    assert sorted(factors.permutation) == list(range(order))
    assert np.abs(np.tril(factors.lu, -1)).max(initial=0) <= 1
    assert factors.backward_error(a) < 1e-6
    x = factors.solve(np.ones(order))
    np.testing.assert_allclose(a @ x, 1, atol=1e-3)


def test_blocks_do_not_change_exact_factors():
    a = np.tril(RNG.integers(-1, 2, (30, 30)), -1) + np.eye(30)
    a = (a @ (np.triu(RNG.integers(-1, 2, (30, 30)), 1) + np.eye(30))).astype(np.float32)
    whole = solver.factorise(a, _float32, 64)
    blocked = solver.factorise(a, _float32, 7)
    np.testing.assert_array_equal(whole.permutation, blocked.permutation)


def test_refinement_reaches_double_precision():
    a, b = lu._problem(40, 3, seed=1, draw=0)
    factors = solver.factorise(a.astype(np.float32), _float32, 16)
    solution = solver.refine(a, b, factors, tolerance=1e-15, limit=20)
    assert solution.status == solver.CONVERGED
    assert solution.history[-1] <= 1e-15
    np.testing.assert_allclose(a @ solution.x, b, atol=1e-11)


def test_gmres_rescues_what_plain_refinement_cannot_do():
    a, b = lu._problem(40, 6, seed=1, draw=0)
    factors = solver.factorise(a.astype(np.float32), lu._multiplier("MI300X/bf16"), 16)
    plain = solver.refine(a, b, factors, tolerance=1e-15, limit=60)
    correct = solver.gmres_correction(a, factors, tolerance=1e-6, limit=40)
    krylov = solver.refine(a, b, factors, tolerance=1e-15, limit=10, correct=correct)
    assert plain.status != solver.CONVERGED
    assert krylov.status == solver.CONVERGED
    assert krylov.inner_iterations > 0


def test_breakdowns_have_names():
    singular = solver.factorise(np.zeros((4, 4), np.float32), _float32, 2)
    assert not singular.finite
    outcome = solver.refine(np.zeros((4, 4)), np.ones(4), singular, tolerance=1e-15, limit=5)
    assert solver.STATUS[outcome.status] == "not finite"
    a, b = lu._problem(20, 2, seed=1, draw=0)
    useless = solver.Factors(np.eye(20, dtype=np.float32) * 1e6, np.arange(20))
    outcome = solver.refine(a, b, useless, tolerance=1e-15, limit=50)
    assert solver.STATUS[outcome.status] == "stagnated"


def test_problems_have_the_condition_asked_for_and_do_not_depend_on_the_core():
    a, b = lu._problem(30, 4, seed=5, draw=1)
    assert np.linalg.cond(a) == pytest.approx(1e4, rel=1e-6)
    assert 1 <= np.abs(a).max() < 2
    again, b_again = lu._problem(30, 4, seed=5, draw=1)
    np.testing.assert_array_equal(a, again)
    np.testing.assert_array_equal(b, b_again)
    assert not np.array_equal(a, lu._problem(30, 4, seed=5, draw=0)[0])


def test_all_cores_agree_on_small_integers_and_differ_elsewhere():
    names = ["single", "MI100/fp16", "MI250/bf16", "MI300X/e5m2fnuz", "H100/e4m3fn", "B200/fp16"]
    results = {name: lu.run(name, _config(), 1) for name in names}
    assert len({r.attrs["integer_control"] for r in results.values()}) == 1
    errors = {float(r.factor_error[0, 0]) for r in results.values()}
    assert len(errors) > 3
    verdicts = {c["id"]: c["verdict"] for c in lu.claims(results, _config())}
    assert verdicts["lu-integers"] == "holds"
    assert verdicts["lu-single-status"] == "holds"
    spoiled = results["single"].assign_attrs(integer_control="0")
    verdicts = {c["id"]: c["verdict"] for c in lu.claims({**results, "s": spoiled}, _config())}
    assert verdicts["lu-integers"] == "does not hold"


def test_limit_of_convergence_is_read_from_the_grid():
    dataset = lu.run("single", _config(), 1)
    dataset["status"][:] = [[0, 0], [2, 2]]
    assert lu.convergent_limit(dataset) == 10
    dataset["status"][:] = [[0, 1], [0, 0]]
    assert lu.convergent_limit(dataset) == 1e6
    dataset["status"][:] = [[3, 1], [0, 0]]
    assert lu.convergent_limit(dataset) == 0


def test_figure_has_its_name():
    import matplotlib as mpl

    mpl.use("Agg")
    names = ["single", "MI300X/fp16", "MI300X/e5m2fnuz"]
    results = {name: lu.run(name, _config(), 1) for name in names}
    assert set(lu.plot(results, _config())) == set(lu.figures(_config()))
