"""Copying a block of codes, of any strides, into a contiguous panel.

One compiled function serves all formats of one width.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.typing import signature
from numba.extending import intrinsic

from mfmamodels.kernels import emit
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.emit import Lanes, select
from mfmamodels.kernels.lanes import LANES, pointer_to, shifted

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
def _mover(width: int):
    """Intrinsic that copies one vector of codes, with zeros in place of all but ``count`` lanes."""
    kind = f"u{width}"

    @intrinsic
    def move(typingctx, source, panel, count):
        def codegen(context, builder, sig, args):
            source_at, panel_at, kept = args
            first, word = ir.IntType(64)(0), ir.IntType(32)
            codes = emit.load(builder, source_at, first, kind)
            lanes = ir.Constant(ir.VectorType(word, LANES), list(range(LANES)))
            limit = emit.spread(builder, builder.trunc(kept, word), "i32")
            inside = Lanes(builder, lanes, "i32") < limit
            emit.store(select(inside, codes, 0), panel_at, first)
            return context.get_dummy_value()

        return types.void(source, panel, types.intp), codegen

    return move


#: gather(source, sx, sy, nx, ny, panel, ld, px): addresses and counts; strides in elements.
GATHER_SIGNATURE = signature(types.void, *[types.intp] * 8)


@cache
def gatherer(width: int) -> int:
    """Address of a function (:data:`GATHER_SIGNATURE`) for codes of so many bits.

    It copies ``source[x * sx + y * sy]`` for nx by ny codes to ``panel[x * ld + y]`` and pads with
    zeros to px rows of ld codes.
    """
    side = 16 if width == 8 else 8  # registers of 128 or 256 bits
    tile, move, code_type = _tile(width, side), _mover(width), np.dtype(f"u{width // 8}").type

    def gather(source_at, sx, sy, nx, ny, panel_at, ld, px):
        source, panel = pointer_to(source_at, code_type), pointer_to(panel_at, code_type)
        whole = 0  # rows copied by whole vectors, which may reach into the next rows
        if sy == 1 and sx > 0:
            whole = min(nx, max(0, ((nx - 1) * sx + ny - ld) // sx + 1))
            for x in range(whole):
                for y in range(0, ld, LANES):
                    move(shifted(source, x * sx + y), shifted(panel, x * ld + y), ny - y)
        if ny < ld or nx < px:
            for i in range(whole * ld, px * ld):
                panel[i] = 0
        whole_x, whole_y = whole, 0
        if sx == 1 and sy != 1:
            whole_x, whole_y = nx // side * side, ny // side * side
            for y in range(0, whole_y, side):
                for x in range(0, whole_x, side):
                    tile(shifted(source, x + y * sy), sy, shifted(panel, x * ld + y), ld)
        for part in range(2):  # what neither covered: the last rows, and the last columns
            x, y = (0, whole_y) if part else (whole_x, 0)
            rows = (whole_x - whole) if part else nx - whole_x
            copy(shifted(source, x * sx + y * sy), sx, sy, rows, ny - y, shifted(panel, x * ld + y),
                 ld)  # fmt: skip

    return compile_callback(gather, GATHER_SIGNATURE, f"gather_{width}").address


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
