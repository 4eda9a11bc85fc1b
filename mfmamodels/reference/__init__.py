"""The definition of every matrix core, in exact arithmetic, to be read beside the paper.

One module per kind of accumulation, each with ``dot(arithmetic, pairs, c) -> code``. Nothing here
is fast, and nothing here shares code with the kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import AlignedSum, Arithmetic, ExactSum, FmaChain, PairwiseSum
from mfmamodels.reference import aligned, chain, exact, pairwise
from mfmamodels.reference.numbers import operands

_KINDS: dict[type, Callable] = {
    FmaChain: chain.dot,
    ExactSum: exact.dot,
    PairwiseSum: pairwise.dot,
    AlignedSum: aligned.dot,
}


def dot(arithmetic: Arithmetic, a: list[int], b: list[int], c: int = 0) -> int:
    """One dot product on codes.

    Parameters
    ----------
    arithmetic : Arithmetic
    a, b : list of int
        K codes of the operand formats.
    c : int
        Code of the output format; 0 (that is +0) where absent.

    Returns
    -------
    int
        Code of the result; with K = 0 that of c, unchanged.
    """
    if not a and not b:
        return c
    return _KINDS[type(arithmetic.accumulation)](arithmetic, operands(arithmetic, a, b), c)


def gemm(arithmetic: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """``out = a @ b + c`` on codes: (M, K), (K, N), (M, N) or None, (M, N)."""
    rows, columns = a.tolist(), b.T.tolist()
    for i, j in np.ndindex(out.shape):
        out[i, j] = dot(arithmetic, rows[i], columns[j], 0 if c is None else int(c[i, j]))


def dots(arithmetic: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """Independent dot products on codes: (rows, K), (rows, K), (rows,) or None, (rows,)."""
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        out[i] = dot(arithmetic, x, y, 0 if c is None else int(c[i]))
