"""Register tiles: matrix products whose sums stay in registers while k advances.

A *tile* is a few rows by a few vectors of sums. Every product takes one operand from a row of a,
spread over a vector, and one from a strip of b that was packed to the tile's width; both are
reused for all rows and columns of the tile. What happens to the sums in a group of products is the
kind's affair (``emit``); the loop around it is the same for all kinds that use tiles.

The loop is written in LLVM's language, since the sums have to be so many separate variables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, config
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from mfmamodels.kernels.lanes import LANES, shifted

#: Functions of kernels that are compiled in no other way than as a part of them.
jit = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@cache
def has_fma() -> bool:
    """Whether compiled code multiplies and adds in one instruction.

    Elsewhere LLVM calls the C library, which gives the same bits, slowly.
    """
    if "x86" not in llvm.get_default_triple() and "amd64" not in llvm.get_default_triple():
        return True
    if config.CPU_FEATURES:
        return "+fma" in config.CPU_FEATURES.split(",")
    return bool(llvm.get_host_cpu_features().get("fma", False))


# --- small pieces -----------------------------------------------------------------------------


def fused(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """Emit ``x*y + z`` with one rounding, on vectors."""
    vector = x.type
    bits = 32 if vector.element == ir.FloatType() else 64
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector] * 3),
        f"llvm.fma.v{vector.count}f{bits}",
    )
    return builder.call(function, [x, y, z])


def stack_array(dtype: type[np.generic], count: int) -> Callable:
    """Function that gives a pointer to ``count`` elements on the caller's stack."""
    element = from_dtype(np.dtype(dtype))

    @intrinsic
    def room(typingctx):
        def codegen(context, builder, sig, args):
            elements = ir.ArrayType(context.get_value_type(element), count)
            with builder.goto_entry_block():  # once per call, not once per turn of a loop
                slot = builder.alloca(elements)
            slot.align = 64
            return builder.bitcast(slot, context.get_value_type(sig.return_type))

        return types.CPointer(element)(), codegen

    return room


def spread(builder: ir.IRBuilder, value: ir.Value, width: int) -> ir.Value:
    """Emit a vector with the scalar in every element."""
    i32 = ir.IntType(32)
    undefined = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(undefined, value, i32(0))
    return builder.shuffle_vector(
        first, undefined, ir.Constant(ir.VectorType(i32, width), [0] * width)
    )


# --- tiles ------------------------------------------------------------------------------------


class Operands:
    """Operands of one group for a kind's ``emit``: emits a load where a value is asked for."""

    def __init__(self, builder, a, lda, b, first, width, pitch):
        self.builder, self.width, self._pitch = builder, width, pitch
        self._a, self._lda, self._b, self._first = a, lda, b, first

    def a(self, row: int, k: int) -> ir.Value:
        """Operand of a row at the group's k-th product, in every lane."""
        word = ir.IntType(64)
        at = self.builder.add(self.builder.mul(self._lda, word(row)), self._first)
        address = self.builder.gep(self._a, [self.builder.add(at, word(k))])
        return spread(self.builder, self.builder.load(address), self.width)

    def b(self, k: int) -> ir.Value:
        """Operands of the tile's columns at the group's k-th product."""
        word = ir.IntType(64)
        at = self.builder.mul(self.builder.add(self._first, word(k)), word(self._pitch))
        vector = ir.VectorType(self._b.type.pointee, self.width)
        address = self.builder.bitcast(self.builder.gep(self._b, [at]), vector.as_pointer())
        return self.builder.load(address, align=16)


Emit = Callable[[ir.IRBuilder, Operands, list[ir.Value]], list[ir.Value]]


def tile(rows: int, width: int, group: int, emit: Emit, pitch: int = 0) -> Callable:
    """Make a function that adds groups of products to a tile of sums.

    Parameters
    ----------
    rows, width : int
        Size of the tile.
    group : int
        Products in one group.
    emit : callable
        ``emit(builder, operands, sums) -> sums``: code for one group; one vector per row.
    pitch : int, optional
        Elements from one product to the next in the packed b; by default the width.

    Returns
    -------
    callable
        ``run(a, lda, b, acc, ldc, groups)`` for numba. a and the packed b have the type in which
        sums are held; acc may be float32 with float64 sums.
    """

    @intrinsic
    def run(typingctx, a, lda, b, acc, ldc, groups):
        def codegen(context, builder, sig, args):
            pointer_a, lda, pointer_b, pointer_acc, ldc, groups = args
            held = ir.VectorType(pointer_b.type.pointee, width)
            places = [
                builder.gep(pointer_acc, [builder.mul(ldc, ldc.type(row))]) for row in range(rows)
            ]
            slots = [_sums_from(builder, place, held) for place in places]
            with cgutils.for_range(builder, groups, intp=ldc.type) as loop:
                first = builder.mul(loop.index, ldc.type(group))
                operands = Operands(
                    builder, pointer_a, lda, pointer_b, first, width, pitch or width
                )
                sums = emit(builder, operands, [builder.load(slot) for slot in slots])
                for value, slot in zip(sums, slots, strict=True):
                    builder.store(value, slot)
            for slot, place in zip(slots, places, strict=True):
                _sums_to(builder, slot, place)
            return context.get_dummy_value()

        return types.void(a, types.intp, b, acc, types.intp, types.intp), codegen

    return run


def _sums_from(builder: ir.IRBuilder, place: ir.Value, held: ir.VectorType) -> ir.Value:
    """Emit a variable of type ``held`` with the sums at a place, widened where it is wider."""
    stored = ir.VectorType(place.type.pointee, held.count)
    value = builder.load(builder.bitcast(place, stored.as_pointer()), align=4)
    slot = cgutils.alloca_once(builder, held)
    builder.store(value if stored == held else builder.fpext(value, held), slot)
    return slot


def _sums_to(builder: ir.IRBuilder, slot: ir.Value, place: ir.Value) -> None:
    """Emit the way back: the sums fit the type they came in."""
    value = builder.load(slot)
    stored = ir.VectorType(place.type.pointee, value.type.count)
    value = value if stored == value.type else builder.fptrunc(value, stored)
    builder.store(value, builder.bitcast(place, stored.as_pointer()), align=4)


def column_of_tiles(heights: tuple[int, int], width: int, group: int, emit: Emit) -> Callable:
    """Make ``run(a, lda, b, acc, ldc, rows, groups)``: tiles below each other, any number of rows.

    ``heights`` are those of the tall tile and of the one for the rest (then rows one by one).
    """
    tall, low = heights
    tall_tile, low_tile, row_tile = (tile(rows, width, group, emit) for rows in (tall, low, 1))

    @jit
    def run(a, lda, b, acc, ldc, rows, groups):
        row = 0
        while row + tall <= rows and rows - row != 2 * low:  # rather two low ones than 1 row left
            tall_tile(shifted(a, row * lda), lda, b, shifted(acc, row * ldc), ldc, groups)
            row += tall
        while row + low <= rows:
            low_tile(shifted(a, row * lda), lda, b, shifted(acc, row * ldc), ldc, groups)
            row += low
        while row < rows:
            row_tile(shifted(a, row * lda), lda, b, shifted(acc, row * ldc), ldc, groups)
            row += 1

    return run


class _LaneOperands:
    """Operands of one group in independent dot products: both are vectors of lanes."""

    def __init__(self, builder, a, lda, b, ldb):
        self._builder, self._a, self._lda, self._b, self._ldb = builder, a, lda, b, ldb

    def _load(self, pointer, ld, k):
        address = self._builder.gep(pointer, [self._builder.mul(ld, ld.type(k))])
        vector = ir.VectorType(pointer.type.pointee, LANES)
        return self._builder.load(self._builder.bitcast(address, vector.as_pointer()), align=4)

    def a(self, row: int, k: int) -> ir.Value:
        return self._load(self._a, self._lda, k)

    def b(self, k: int) -> ir.Value:
        return self._load(self._b, self._ldb, k)


def lane_sums(group: int, emit: Emit) -> Callable:
    """Make ``run(a, lda, b, ldb, acc, groups)`` for a vector of independent dot products.

    The same ``emit`` as in :func:`tile`; ``a``, ``b`` and ``acc`` point to the first lane of the
    first product, and of the sums.
    """

    @intrinsic
    def run(typingctx, a, lda, b, ldb, acc, groups):
        def codegen(context, builder, sig, args):
            pointer_a, lda, pointer_b, ldb, pointer_acc, groups = args
            held = ir.VectorType(pointer_acc.type.pointee, LANES)
            place = builder.bitcast(pointer_acc, held.as_pointer())
            slot = cgutils.alloca_once(builder, held)
            builder.store(builder.load(place, align=4), slot)
            with cgutils.for_range(builder, groups, intp=lda.type) as loop:
                first = builder.mul(loop.index, lda.type(group))
                at_a = builder.gep(pointer_a, [builder.mul(first, lda)])
                at_b = builder.gep(pointer_b, [builder.mul(first, ldb)])
                operands = _LaneOperands(builder, at_a, lda, at_b, ldb)
                builder.store(emit(builder, operands, [builder.load(slot)])[0], slot)
            builder.store(builder.load(slot), place, align=4)
            return context.get_dummy_value()

        return types.void(a, types.intp, b, types.intp, acc, types.intp), codegen

    return run


def packer(width: int) -> Callable:
    """Make ``pack(source, ld, products, target)``: copy a strip of b to the width of a tile."""

    @intrinsic
    def move(typingctx, source, target):
        def codegen(context, builder, sig, args):
            vector = ir.VectorType(args[0].type.pointee, width).as_pointer()
            row = builder.load(builder.bitcast(args[0], vector), align=4)
            builder.store(row, builder.bitcast(args[1], vector), align=4)
            return context.get_dummy_value()

        return types.void(source, target), codegen

    @jit
    def pack(source, ld, products, target):
        for k in range(products):
            move(shifted(source, k * ld), shifted(target, k * width))

    return pack
