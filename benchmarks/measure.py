"""Timings of one process: products, dot products, and numpy's float32 product beside them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from mfmamodels import encode, kernels
from mfmamodels.core import Core

#: Seconds spent on one quantity, and repetitions at most.
BUDGET = 1.0
REPEAT = 30


def best(function: Callable[[], object], budget: float = BUDGET) -> float:
    """Shortest of many runs, in seconds; the first run only warms up."""
    function()
    shortest, end = np.inf, time.perf_counter() + budget
    for _ in range(REPEAT):
        start = time.perf_counter()
        function()
        now = time.perf_counter()
        shortest = min(shortest, now - start)
        if now > end:
            break
    return shortest


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run numba and the BLAS on ``count`` threads."""
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        numba.set_num_threads(before)


def operands(core: Core, *shapes: tuple[int, int]) -> list[NDArray]:
    """Codes of standard normal matrices, a first, then b."""
    rng = np.random.default_rng(1)
    formats = (core.a, core.b)
    return [
        encode(rng.standard_normal(shape), fmt, overflow="saturate")
        for shape, fmt in zip(shapes, formats, strict=True)
    ]


def gemm_seconds(core: Core, m: int, k: int, n: int) -> float:
    """Shortest time of one (m, k) by (k, n) product."""
    a, b = operands(core, (m, k), (k, n))
    out = np.empty((m, n), core.out.code_dtype)
    return best(lambda: kernels.gemm(core, a, b, None, out))


def blas_seconds(n: int) -> float:
    """Shortest time of numpy's float32 product of that order."""
    a, b = np.random.default_rng(2).standard_normal((2, n, n)).astype(np.float32)
    return best(lambda: a @ b)


def dots_seconds(core: Core, rows: int, k: int = 16) -> float:
    """Shortest time of ``rows`` dot products."""
    a, b = operands(core, (rows, k), (rows, k))
    out = np.empty(rows, core.out.code_dtype)
    return best(lambda: kernels.dots(core, a, b, None, out))


def blas_name() -> str:
    """The BLAS that numpy uses, and what may steer it from outside."""
    found = [x for x in threadpool_info() if x["user_api"] == "blas"]
    names = [f"{x['internal_api']} {x['version']} ({x.get('architecture', '?')})" for x in found]
    steered = [name for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
    return ", ".join(names) + (f", with {', '.join(steered)} set" if steered else "")


def measure(core: Core, orders: list[int], counts: list[int], rows: int) -> dict:
    """All timings of a core in this process.

    Returns
    -------
    dict
        ``gemm``: for each order and thread count GMAC/s (products per nanosecond) and the ratio to
        numpy's float32 product in the same minute; ``thin``: a 10 x n by n x 10 product;
        ``dots_ms``: of one million dot products with K = 16 on one thread.
    """
    result: dict = {"core": core.name, "gemm": []}
    for n in orders:
        for count in counts:
            with threads(count):
                ours, blas = gemm_seconds(core, n, n, n), blas_seconds(n)
            result["gemm"].append(
                {"n": n, "threads": count, "gmacs": n**3 / ours / 1e9, "ratio": ours / blas}
            )
    with threads(1):
        length = 200_000
        result["thin_gmacs"] = 100 * length / gemm_seconds(core, 10, length, 10) / 1e9
        result["dots_ms"] = dots_seconds(core, rows) * 1e3 * (1e6 / rows)
    return result
