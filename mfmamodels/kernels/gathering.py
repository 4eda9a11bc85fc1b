"""Copying a block of codes, of any strides, into a contiguous panel."""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from mfmamodels.kernels import emit
from mfmamodels.kernels.emit import Lanes
from mfmamodels.kernels.lanes import shifted

_lean = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _interleaved(x: Lanes, y: Lanes, start: int) -> Lanes:
    """x[start], y[start], x[start + 1], ... for half of the lanes."""
    count = x.count
    picks = [start + i // 2 + (i % 2) * count for i in range(count)]
    mask = ir.Constant(ir.VectorType(ir.IntType(32), count), picks)
    return x.like(x.builder.shuffle_vector(x.value, y.value, mask))


def _transposed(rows: list[Lanes]) -> list[Lanes]:
    """Transpose a square of lanes: interleaving log2(n) times rotates row and lane indices."""
    half = len(rows) // 2
    for _ in range(half.bit_length()):
        pairs = list(zip(rows[:half], rows[half:], strict=True))
        rows = [_interleaved(x, y, start) for x, y in pairs for start in (0, half)]
    return rows


@cache
def _tile(width: int, side: int):
    """Intrinsic that copies a square: panel[x * ld + y] = source[x + y * stride]."""
    kind = f"u{width}"

    @intrinsic
    def tile(typingctx, source, stride, panel, ld):
        def codegen(context, builder, sig, args):
            source_at, stride_, panel_at, ld_ = args
            word = ir.IntType(64)
            rows = [
                emit.load(builder, source_at, builder.mul(word(i), stride_), kind, side)
                for i in range(side)
            ]
            for i, row in enumerate(_transposed(rows)):
                emit.store(row, panel_at, builder.mul(word(i), ld_))
            return context.get_dummy_value()

        return types.void(source, types.intp, panel, types.intp), codegen

    return tile


@cache
def gatherer(code_type: type[np.unsignedinteger]):
    """Compiled-in function ``gather(source, sx, sy, nx, ny, panel, ld, px)``.

    Copies codes ``source[x * sx + y * sy]`` to ``panel[x * ld + y]`` and pads with zeros to px rows
    of ld codes.
    """
    width = 8 * np.dtype(code_type).itemsize
    side = 16 if width == 8 else 8  # registers of 128 or 256 bits
    tile = _tile(width, side)

    @_lean
    def gather(source, sx, sy, nx, ny, panel, ld, px):
        if ny < ld or nx < px:
            for i in range(px * ld):
                panel[i] = 0
        whole_x = whole_y = 0
        if sx == 1:
            whole_x, whole_y = nx // side * side, ny // side * side
        for y in range(0, whole_y, side):
            for x in range(0, whole_x, side):
                tile(shifted(source, x + y * sy), sy, shifted(panel, x * ld + y), ld)
        for part in range(2):  # what no square covers: the last rows, and the last columns
            x, y = (0, whole_y) if part else (whole_x, 0)
            rows = whole_x if part else nx - whole_x
            copy(shifted(source, x * sx + y * sy), sx, sy, rows, ny - y, shifted(panel, x * ld + y),
                 ld)  # fmt: skip

    return gather


@_lean
def copy(source, sx, sy, nx, ny, panel, ld):
    """Copy element by element, along the shorter stride of the source."""
    if abs(sy) <= abs(sx):
        for x in range(nx):
            for y in range(ny):
                panel[x * ld + y] = source[x * sx + y * sy]
    else:
        for y in range(ny):
            for x in range(nx):
                panel[x * ld + y] = source[x * sx + y * sy]
