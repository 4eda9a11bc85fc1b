"""Fast kernels, and the general one for whatever they do not cover.

:func:`gemm` and :func:`dots` take and give *codes* (unsigned integers of the formats' widths); the
reference has functions of the same names and arguments. Which kernel runs is decided by the
fields of the record alone.

========== ======================= ===========================================================
a, b       gemm: (M, K), (K, N)    codes of ``arith.a`` and ``arith.b``, any strides
..         dots: (rows, K)
c          gemm: (M, N)            codes of ``arith.out``, any strides; None means zero
..         dots: (rows,)
out        as c                    written; C-contiguous, no overlap with the inputs
========== ======================= ===========================================================

K = 0 gives c. Results do not depend on the number of threads, on strides, on other rows and
columns, nor on the state of the host's floating-point unit.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from mfmamodels.accumulation import AlignedSum, Arithmetic, ExactSum, FmaChain, PairwiseSum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mfmamodels.kernels.driver import Kernel

# Modules with a factory ``kernel(arith) -> Kernel | None``, imported when first needed.
_FACTORIES = {
    AlignedSum: "aligned",
    ExactSum: "exact",
    FmaChain: "chain",
    PairwiseSum: "pairwise",
}


@lru_cache(maxsize=256)
def fast_kernel(arith: Arithmetic) -> Kernel | None:
    """The fast kernel that serves a record, or None where the general one does."""
    name = _FACTORIES.get(type(arith.accumulation))
    if name is None:
        return None
    return import_module(f"{__name__}.{name}").kernel(arith)


def gemm(arith: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """Compute ``out = a @ b + c`` bit for bit as the record says."""
    _run("gemm", arith, a, b, c, out)


def dots(arith: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """Compute ``out[i] = sum over k of a[i, k] * b[i, k], plus c[i]`` for every row."""
    _run("dots", arith, a, b, c, out)


def _run(name: str, arith: Arithmetic, a, b, c, out) -> None:
    kernel = fast_kernel(arith)
    if kernel is None:
        general = import_module(f"{__name__}.general")
        getattr(general, name)(arith, a, b, c, out)
    else:
        driver = import_module(f"{__name__}.driver")
        getattr(driver, name)(arith, kernel, a, b, c, out)
