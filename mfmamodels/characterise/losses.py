"""Products of which nothing reaches the result: flushed, or cut off by the alignment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import UNLIMITED, AlignedSum, EarlyC, LastC, PairwiseSum
from mfmamodels.core import Core

# Elements of a result looked at; more would say the same and take longer.
_MOST_RESULTS = 4096


def lost_products(core: Core, a: NDArray, b: NDArray) -> tuple[int, int]:
    """Count products, and those that are lost whole.

    Parameters
    ----------
    core : Core
    a, b : ndarray
        Shapes (m, k) and (k, n), in the core's formats. Of a large result a sample of rows is
        looked at, and the counts are those of the sample.

    Returns
    -------
    products, lost : int
        Nonzero products, and how many of them were flushed (pairwise sums) or had no bit left
        after alignment (aligned sums; where c is added last, alignment to the running sum of an
        instruction is not followed). Exact sums and chains lose none whole.
    """
    rows = max(1, min(len(a), _MOST_RESULTS // max(1, b.shape[1])))
    a = a[:: -(-len(a) // rows)]
    x, y = a.astype(np.float64), b.astype(np.float64)
    kind = core.accumulation
    if isinstance(kind, PairwiseSum) and kind.flush:
        x = np.where(np.abs(x) < core.a.min_normal, 0, x)
        y = np.where(np.abs(y) < core.b.min_normal, 0, y)
        return _count(x, y, lambda p, _: np.abs(p) < core.out.min_normal, core, a, b)
    if isinstance(kind, AlignedSum):
        a, b = _in_order(kind, a, b)
        x, y = a.astype(np.float64), b.astype(np.float64)
        return _count(x, y, _cut(core, kind, a, b), core, a, b)
    return _count(x, y, lambda p, _: np.zeros(p.shape, bool), core, a, b)


def _count(x, y, is_lost, core: Core, a: NDArray, b: NDArray) -> tuple[int, int]:
    """Sum over blocks of K; ``is_lost(products, block)`` marks the lost ones of a block."""
    kind = core.accumulation
    # Only aligned sums look at a block as a whole; for the others any cut of K will do.
    n_fma = kind.n_fma if isinstance(kind, AlignedSum) else 64
    total = lost = 0
    given = (a.astype(np.float64), b.astype(np.float64))
    for start in range(0, a.shape[1], n_fma):
        block = slice(start, start + n_fma)
        nonzero = (given[0][:, None, block] * given[1].T[None, :, block]) != 0
        products = x[:, None, block] * y.T[None, :, block]
        gone = (products == 0) | is_lost(products, block)
        total += int(nonzero.sum())
        lost += int((nonzero & gone).sum())
    return total, lost


def _cut(core: Core, kind: AlignedSum, a: NDArray, b: NDArray):
    """Mark products below the last fraction bit kept, following the sum block by block."""
    exponents = [_exponents(z, fmt) for z, fmt in ((a, core.a), (b, core.b))]
    partial = np.zeros((len(a), b.shape[1]), core.out.dtype)

    def is_lost(products: NDArray, block: slice) -> NDArray:
        nonlocal partial
        e = exponents[0][:, None, block] + exponents[1].T[None, :, block]
        e = np.where(products != 0, e, -5000)
        lost = np.zeros(products.shape, bool)
        for group in range(kind.interleave):
            part = slice(group, None, kind.interleave)
            top = e[..., part].max(-1, initial=-5000)
            if isinstance(kind.c, EarlyC):
                top = np.maximum(top, np.where(partial != 0, _exponents(partial, core.out), -5000))
            if kind.e_min != UNLIMITED:
                top = np.maximum(top, kind.e_min)
            quantum = np.ldexp(1.0, np.clip(top - kind.frac_bits, -1074, 1023))
            lost[..., part] = np.abs(products[..., part]) < quantum[..., None]
        if not isinstance(kind.c, LastC):
            partial = core.matmul(a[:, block], b[block], partial)
        return lost

    return is_lost


def _in_order(kind: AlignedSum, a: NDArray, b: NDArray) -> tuple[NDArray, NDArray]:
    """Put the products in the order in which blocks take them, padded with zeros."""
    if not kind.order:
        return a, b
    pad = -a.shape[1] % len(kind.order)
    a, b = np.pad(a, ((0, 0), (0, pad))), np.pad(b, ((0, pad), (0, 0)))
    starts = np.arange(0, a.shape[1], len(kind.order))
    order = (starts[:, None] + np.array(kind.order)).ravel()
    return a[:, order], b[order]


def _exponents(x: NDArray, fmt) -> NDArray:
    """Exponents of un-normalised significands: subnormals have the format's smallest."""
    return np.maximum(np.frexp(x.astype(np.float64))[1] - 1, fmt.emin)
