"""LU factorisation with trailing updates on a given multiplier, and refinement in double.

The scheme is that of the HPL-MxP benchmark: panels and triangular solves in float32, the trailing
update ``A22 - L21 @ U12`` as one product with the addend carried in float32, the refinement in
float64. With ``matmul`` from a core, the update's operands are rounded to its input format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse.linalg import LinearOperator, gmres

#: ``matmul(A, B, C)`` gives ``A @ B + C`` in float32 for float32 operands of any value.
MatMul = Callable[[NDArray, NDArray, NDArray], NDArray]

CONVERGED, LIMIT, STAGNATED, NOT_FINITE = 0, 1, 2, 3
STATUS = ("converged", "iteration limit", "stagnated", "not finite")

# An iteration that gains less than this factor twice in a row will not arrive.
_STAGNATION = 0.9


@dataclass(frozen=True)
class Factors:
    """``A[permutation] = L @ U`` up to rounding, both in one float32 matrix."""

    lu: NDArray[np.float32]
    permutation: NDArray[np.intp]

    @property
    def finite(self) -> bool:
        """Whether the factors can be used."""
        return bool(np.isfinite(self.lu).all() and np.diagonal(self.lu).all())

    def solve(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Solve with the factors in float64."""
        lu = self.lu.astype(np.float64)
        y = solve_triangular(lu, b[self.permutation], lower=True, unit_diagonal=True)
        return solve_triangular(lu, y)

    def backward_error(self, a: NDArray[np.float64]) -> float:
        """``max|A[p] - L U| / max|A|``."""
        lower = np.tril(self.lu, -1).astype(np.float64) + np.eye(len(a))
        residual = a[self.permutation] - lower @ np.triu(self.lu).astype(np.float64)
        return float(np.abs(residual).max() / np.abs(a).max())


def factorise(a: NDArray[np.float32], matmul: MatMul, block: int) -> Factors:
    """Blocked right-looking LU with partial pivoting (first largest entry on ties).

    Parameters
    ----------
    a : ndarray of float32, shape (n, n)
    matmul : callable
        Multiplier of the trailing updates.
    block : int
        Columns per panel, and K of the products.

    Returns
    -------
    Factors
        Possibly with infinities or NaN, if the updates overflowed; ask ``finite``.
    """
    lu = np.array(a, np.float32)
    n = len(lu)
    permutation = np.arange(n)
    with np.errstate(all="ignore"):  # a breakdown shows in the factors and is reported from there
        for start in range(0, n, block):
            stop = min(start + block, n)
            _factorise_panel(lu, permutation, start, stop)
            if stop == n:
                break
            panel, right = lu[start:stop, start:stop], lu[start:stop, stop:]
            lu[start:stop, stop:] = _solve_unit_lower(panel, right)
            lu[stop:, stop:] = matmul(-lu[stop:, start:stop], right, lu[stop:, stop:])
    return Factors(lu, permutation)


def _factorise_panel(lu: NDArray, permutation: NDArray, start: int, stop: int) -> None:
    """Unblocked elimination of columns start..stop, exchanging whole rows."""
    for j in range(start, stop):
        pivot = j + int(np.argmax(np.abs(lu[j:, j])))
        if pivot != j:
            lu[[j, pivot]] = lu[[pivot, j]]
            permutation[[j, pivot]] = permutation[[pivot, j]]
        lu[j + 1 :, j] /= lu[j, j]
        lu[j + 1 :, j + 1 : stop] -= np.outer(lu[j + 1 :, j], lu[j, j + 1 : stop])


def _solve_unit_lower(panel: NDArray, right: NDArray) -> NDArray:
    """Forward substitution row by row in float32, in an order no library can change."""
    right = right.copy()
    for i in range(1, len(right)):
        for k in range(i):
            right[i] -= panel[i, k] * right[k]
    return right


@dataclass(frozen=True)
class Solution:
    """Outcome of a refinement."""

    x: NDArray[np.float64]
    status: int
    iterations: int
    inner_iterations: int
    history: list[float]  #: normwise backward error before each correction and at the end


def backward_error(a: NDArray, x: NDArray, b: NDArray) -> float:
    """Normwise ``|b - A x| / (|A| |x| + |b|)``, in the infinity norm."""
    scale = np.abs(a).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max()
    return float(np.abs(b - a @ x).max() / scale) if scale else 0.0


Correction = Callable[[NDArray], tuple[NDArray, int]]


def refine(a: NDArray, b: NDArray, factors: Factors, *, tolerance: float, limit: int,
           correct: Correction | None = None) -> Solution:  # fmt: skip
    """Iterative refinement in float64.

    Parameters
    ----------
    a, b : ndarray of float64, shapes (n, n) and (n,)
    factors : Factors
    tolerance : float
        Backward error at which to stop.
    limit : int
        Most corrections.
    correct : callable, optional
        Maps a residual to (correction, inner iterations); by default a solve with the factors.

    Returns
    -------
    Solution
        ``converged``; ``iteration limit``; ``stagnated`` when two corrections in a row gained
        less than a tenth; ``not finite`` when factors or an iterate are no numbers.
    """
    x = np.zeros(len(b))
    if not factors.finite:
        return Solution(x, NOT_FINITE, 0, 0, [])
    correct = correct or (lambda residual: (factors.solve(residual), 0))
    history: list[float] = []
    inner, poor = 0, 0
    for iteration in range(limit + 1):
        error = backward_error(a, x, b) if iteration else 1.0
        poor = poor + 1 if history and error > _STAGNATION * history[-1] else 0
        history.append(error)
        if not np.isfinite(error):
            return Solution(x, NOT_FINITE, iteration, inner, history)
        if error <= tolerance:
            return Solution(x, CONVERGED, iteration, inner, history)
        if poor == 2:
            return Solution(x, STAGNATED, iteration, inner, history)
        if iteration < limit:
            correction, steps = correct(b - a @ x)
            x, inner = x + correction, inner + steps
    return Solution(x, LIMIT, limit, inner, history)


def gmres_correction(a: NDArray, factors: Factors, *, tolerance: float, limit: int) -> Correction:
    """Corrections by GMRES in float64, preconditioned from the left by the factors."""
    operator = LinearOperator(a.shape, matvec=lambda v: factors.solve(a @ v), dtype=np.float64)

    def correct(residual: NDArray) -> tuple[NDArray, int]:
        steps = 0

        def count(_: float) -> None:
            nonlocal steps
            steps += 1

        preconditioned = factors.solve(residual)
        if not np.isfinite(preconditioned).all():
            return preconditioned, 0
        correction, _ = gmres(
            operator, preconditioned, rtol=tolerance, restart=limit, maxiter=1,
            callback=count, callback_type="pr_norm",
        )  # fmt: skip
        return correction, steps

    return correct
