"""Fast kernels of :class:`~mfmamodels.accumulation.AlignedSum`: the kernel of a record.

Layers: :mod:`~mfmamodels.kernels.aligned_recipe` says what is covered,
:mod:`~mfmamodels.kernels.aligned_blocks` walks over a panel and is what the driver calls,
:mod:`~mfmamodels.kernels.aligned_lanes` does the arithmetic of a vector of lanes, and
:mod:`~mfmamodels.kernels.aligned_exact` is for lanes outside the range in which that is right.
"""

from __future__ import annotations

import hashlib
from functools import cache, partial

from mfmamodels.accumulation import Arithmetic
from mfmamodels.kernels.aligned_blocks import block_function
from mfmamodels.kernels.aligned_recipe import Recipe, recipe
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, Kernel


def kernel(arith: Arithmetic, *, exact_only: bool = False) -> Kernel | None:
    """The fast kernel of a record, or None where it has no :class:`Recipe`.

    ``exact_only``: see :func:`~mfmamodels.kernels.aligned_blocks.block_function`.
    """
    found = recipe(arith)
    return None if found is None else _kernel(found, exact_only)


@cache
def _kernel(found: Recipe, exact_only: bool) -> Kernel:
    return Kernel(found.group, partial(_block, found, exact_only))


@cache
def _block(found: Recipe, exact_only: bool, dots: bool) -> int:
    fingerprint = hashlib.sha256(repr(found).encode()).hexdigest()[:20]
    name = f"aligned_{'exact_' * exact_only}{'dots' if dots else 'gemm'}_{fingerprint}"
    function = block_function(found, dots, exact_only=exact_only)
    return compile_callback(function, BLOCK_SIGNATURE, name).address
