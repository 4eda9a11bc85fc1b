"""Fast kernels of :class:`~mfmamodels.accumulation.FmaChain` with hardware fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir

from mfmamodels.accumulation import Arithmetic, FmaChain, Rounding
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, PANEL_K, Kernel
from mfmamodels.kernels.lanes import LANES, pointer_to, shifted
from mfmamodels.kernels.operands import value_type
from mfmamodels.kernels.tiles import (
    Operands,
    column_of_tiles,
    fused,
    has_fma,
    lane_sums,
    packer,
    stack_array,
)


def is_covered(arith: Arithmetic) -> bool:
    """Whether a chain of the host's instructions gives exactly this record's bits.

    The operands' values have to be exact in the type of the sums, whose instruction then is the
    record's step: one rounding to nearest, subnormals kept, zeros signed as in IEEE 754.
    """
    kind, out = arith.accumulation, arith.out
    if not isinstance(kind, FmaChain) or kind.rounding is not Rounding.RNE or not has_fma():
        return False
    if out.name == "fp64":  # narrower operands are decoded to float32 panels
        return arith.a.name == arith.b.name == "fp64"
    return out.name == "fp32"


def kernel(arith: Arithmetic) -> Kernel | None:
    """The fast kernel of a record, or None where :func:`is_covered` says no."""
    if not is_covered(arith):
        return None
    value = value_type(arith.out)

    @cache
    def block(dots: bool) -> int:
        function = _dots_block(value) if dots else _gemm_block(value)
        name = f"chain_{'dots' if dots else 'gemm'}_{value.__name__}"
        return compile_callback(function, BLOCK_SIGNATURE, name).address

    return Kernel(group=1, block=block, exponents=False)


def _step(builder: ir.IRBuilder, operands: Operands, sums: list[ir.Value]) -> list[ir.Value]:
    b = operands.b(0)
    return [fused(builder, operands.a(row, 0), b, d) for row, d in enumerate(sums)]


def _gemm_block(value: type[np.floating]) -> Callable:
    width = 64 // np.dtype(value).itemsize
    # Six rows by two AVX2 registers leave room for the operands in 16, and hide the latency.
    tiles = column_of_tiles((6, 2), width, 1, _step)
    strip, pack = stack_array(value, PANEL_K * width), packer(width)

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        packed = strip()
        for j in range(0, lanes, width):
            pack(shifted(pointer_to(b, value), j), ldb, groups, packed)
            tiles(
                pointer_to(a, value),
                lda,
                packed,
                shifted(pointer_to(acc, value), j),
                ldc,
                rows,
                groups,
            )

    return block


def _dots_block(value: type[np.floating]) -> Callable:
    run = lane_sums(1, _step)

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        x, y, sums = pointer_to(a, value), pointer_to(b, value), pointer_to(acc, value)
        for j in range(0, lanes, LANES):
            run(shifted(x, j), lda, shifted(y, j), ldb, shifted(sums, j), groups)

    return block
