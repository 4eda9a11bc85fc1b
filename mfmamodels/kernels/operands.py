"""From codes to panels of decoded values and back.

A *panel* is a small contiguous block ``[x][y]`` of an operand, row stride ``ld`` (a multiple of
:data:`~mfmamodels.kernels.lanes.LANES`), padded with zeros. Per element it holds the value, exact,
as float32 (float64 for fp64 operands), and where a kernel wants it the exponent:

========== =========== ============================ ======================
formats    exponents   exponent of a zero           exponent range
========== =========== ============================ ======================
narrow     int8        :data:`NARROW_ZERO`          -17 .. 15
wide       int16       :data:`WIDE_ZERO`            -126 .. 127
========== =========== ============================ ======================

Subnormals have their format's ``emin``. An Inf or NaN is decoded to the float of that kind, its
exponent says nothing, and the row or column that holds it is marked *hot*.

Values never pass through a float32 subnormal that they are not themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.typing import signature
from numba.extending import intrinsic

from mfmamodels.formats import Format, Specials
from mfmamodels.kernels import emit
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.emit import Lanes, maximum, minimum, select
from mfmamodels.kernels.lanes import LANES, pointer_to

#: Exponents of zeros: with any other exponent added, below every product of nonzero values.
NARROW_ZERO = -64
WIDE_ZERO = -1000

_INFINITY = 0x7F800000
_QUIET_NAN = 0x7FC00000
_MAGNITUDE = 0x7FFFFFFF
_SIGN = -1 << 31


def is_narrow(fmt: Format) -> bool:
    """Whether products of the format's values stay well inside float32's range."""
    return fmt.width <= 16 and fmt.emin > -20


def exponent_type(fmt: Format) -> type[np.signedinteger]:
    """Type of the exponents in a panel of this format."""
    return np.int8 if is_narrow(fmt) else np.int16


def value_type(fmt: Format) -> type[np.floating]:
    """Type of the values in a panel of this format."""
    return np.float64 if fmt.width == 64 else np.float32


# --- decoding one vector --------------------------------------------------------------------------


def _narrow(fmt: Format, code: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Decode codes with short exponents: bits of the value, its exponent, whether Inf or NaN."""
    fraction = fmt.fraction_bits
    magnitude = code & (fmt.sign_mask - 1)
    bits = (magnitude << (23 - fraction)) + ((127 - fmt.bias) << 23)
    # 2**emin * (1 + f) - 2**emin is the subnormal 2**emin * f, without float32 subnormals.
    tiny = ((bits + (1 << 23)).bits("f32") - fmt.min_normal).bits("i32")
    bits = select(magnitude < 1 << fraction, tiny, bits)
    exponent = maximum((magnitude >> fraction) - fmt.bias, fmt.emin)
    exponent = select(magnitude.equals(0), NARROW_ZERO, exponent)
    if fmt.specials is Specials.FNUZ:
        special = code.equals(fmt.nan_code)
        bits = select(special, _QUIET_NAN, bits)
    elif fmt.specials is Specials.FN:
        special = magnitude.equals(fmt.nan_code)
        bits = select(special, _QUIET_NAN, bits)
    else:
        special = magnitude >= fmt.inf_code
        infinite = select(magnitude.equals(fmt.inf_code), _INFINITY, bits.constant(_QUIET_NAN))
        bits = select(special, infinite, bits)
    return bits | ((code & fmt.sign_mask) << (32 - fmt.width)), exponent, special


def _wide(fmt: Format, code: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Decode codes that are the upper bits of float32's; results as of ``_narrow``."""
    bits = code << (32 - fmt.width)
    magnitude = bits & _MAGNITUDE
    special = magnitude >= _INFINITY
    if fmt.ignored_bits:  # a NaN whose payload lies in the ignored bits stays a NaN
        kept = bits & -1 << fmt.ignored_bits
        bits = select(magnitude > _INFINITY, _QUIET_NAN, kept)
        magnitude = kept & _MAGNITUDE
    exponent = maximum(magnitude >> 23, 1) - 127
    return bits, select(magnitude.equals(0), WIDE_ZERO, exponent), special


def _flushed(fmt: Format, bits: Lanes) -> Lanes:
    """Bits of values whose subnormals (of their format) became zeros of their sign."""
    least = int(np.float32(fmt.min_normal).view(np.int32))
    return select((bits & _MAGNITUDE) < least, bits & _SIGN, bits)


@cache
def _vector_decoder(fmt: Format, exponents: bool, flush: bool):
    """Intrinsic that decodes and stores one vector of codes; nonzero where one is Inf or NaN."""
    code_kind = f"u{fmt.width}"
    exponent_kind = "i8" if is_narrow(fmt) else "i16"

    @intrinsic
    def decode(typingctx, codes, values, exponents_at, offset):
        def codegen(context, builder, sig, args):
            codes_at, values_at, powers_at, at = args
            code = emit.load(builder, codes_at, at, code_kind).to("u32").bits("i32")
            bits, exponent, special = (_narrow if is_narrow(fmt) else _wide)(fmt, code)
            if flush:
                bits = _flushed(fmt, bits)
            emit.store(bits, values_at, at)
            if not exponents:
                return ir.Constant(ir.IntType(64), 0)
            emit.store(exponent.to(exponent_kind), powers_at, at)
            return special.lane_bits()

        return types.int64(codes, values, exponents_at, types.intp), codegen

    return decode


# --- gathering codes ------------------------------------------------------------------------------

_lean = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_lean
def gather(source, sx, sy, nx, ny, panel, ld, px):
    """Copy codes ``source[x*sx + y*sy]`` to ``panel[x*ld + y]`` and pad with zeros to (px, ld)."""
    if ny < ld or nx < px:
        for i in range(px * ld):
            panel[i] = 0
    # Follow memory: the shorter stride in the inner loop.
    if abs(sy) <= abs(sx):
        for x in range(nx):
            for y in range(ny):
                panel[x * ld + y] = source[x * sx + y * sy]
    else:
        for y in range(ny):
            for x in range(nx):
                panel[x * ld + y] = source[x * sx + y * sy]


# --- compiled functions ---------------------------------------------------------------------------

#: decode(source, sx, sy, nx, ny, px, codes, values, exponents, ld, hot, hot_by_row): addresses and
#: counts; strides in elements. ``codes`` is room for px*ld codes. ``hot`` gets -1 for each row
#: (``hot_by_row`` != 0: px entries) or column (ld entries) with an Inf or NaN, 0 elsewhere.
DECODE_SIGNATURE = signature(types.void, *[types.intp] * 12)


@cache
def decoder(fmt: Format, *, exponents: bool, flush: bool = False) -> int:
    """Address of the function that fills a panel (:data:`DECODE_SIGNATURE`).

    Parameters
    ----------
    fmt : Format
        Format of the codes.
    exponents : bool
        Whether to write exponents and to mark hot rows or columns.
    flush : bool
        Whether subnormals become zeros of their sign (not for fp64).
    """
    name = f"decode_{fmt.name}{'_exponents' * exponents}{'_flush' * flush}"
    body = _decode_fp64 if fmt.width == 64 else _decode_body(fmt, exponents, flush)
    return compile_callback(body, DECODE_SIGNATURE, name).address


def _decode_body(fmt: Format, exponents: bool, flush: bool) -> Callable:
    vector = _vector_decoder(fmt, exponents, flush)
    code_type, exponent_kind = fmt.code_dtype.type, exponent_type(fmt)

    def decode(source, sx, sy, nx, ny, px, codes, values, exponents_at, ld, hot_at, by_row):
        panel = pointer_to(codes, code_type)
        gather(pointer_to(source, code_type), sx, sy, nx, ny, panel, ld, px)
        value, exponent = pointer_to(values, np.int32), pointer_to(exponents_at, exponent_kind)
        special = 0
        for i in range(0, px * ld, LANES):
            special |= vector(panel, value, exponent, i)
        if exponents:
            _mark_hot(value, px, ld, pointer_to(hot_at, np.int8), by_row, special != 0)

    return decode


@_lean
def _mark_hot(bits, px, ld, hot, by_row, any_special):
    for i in range(px if by_row else ld):
        hot[i] = 0
    if any_special:
        for x in range(px):
            for y in range(ld):
                if (bits[x * ld + y] & _MAGNITUDE) >= _INFINITY:
                    hot[x if by_row else y] = -1


def _decode_fp64(source, sx, sy, nx, ny, px, codes, values, exponents_at, ld, hot_at, by_row):
    gather(pointer_to(source, np.uint64), sx, sy, nx, ny, pointer_to(values, np.uint64), ld, px)


#: encode(values, ld, nx, ny, target, stride, nan): writes nx rows of ny codes; ``stride`` elements
#: from row to row. ``values`` may be overwritten.
ENCODE_SIGNATURE = signature(types.void, *[types.intp] * 7)


@cache
def encoder(fmt: Format) -> int:
    """Address of the function that turns values, which the format holds exactly, into codes.

    Every NaN becomes the code ``nan``; signs of zeros are kept (:data:`ENCODE_SIGNATURE`).
    """
    body = {"fp16": _encode_fp16, "fp32": _encode_fp32, "fp64": _encode_fp64}[fmt.name]
    return compile_callback(body, ENCODE_SIGNATURE, f"encode_{fmt.name}").address


def _encode_fp32(values, ld, nx, ny, target, stride, nan):
    source, out = pointer_to(values, np.int32), pointer_to(target, np.int32)
    for x in range(nx):
        for y in range(ny):
            bits = source[x * ld + y]
            out[x * stride + y] = np.int32(nan) if (bits & _MAGNITUDE) > _INFINITY else bits


def _encode_fp64(values, ld, nx, ny, target, stride, nan):
    source, out = pointer_to(values, np.int64), pointer_to(target, np.int64)
    for x in range(nx):
        for y in range(ny):
            bits = source[x * ld + y]
            magnitude = bits & 0x7FFFFFFFFFFFFFFF
            out[x * stride + y] = nan if magnitude > 0x7FF0000000000000 else bits


@intrinsic
def _halves(typingctx, values, offset):
    """Turn one vector of float32 values, which fp16 holds, into codes of fp16 in place; NaN: -1."""

    def codegen(context, builder, sig, args):
        bits = emit.load(builder, *args, "i32")
        magnitude = bits & _MAGNITUDE
        code = (magnitude - (112 << 23)) >> 13
        # A multiple of 2**-24 below 2**-14, added to 1/2, stands in the low bits of the sum.
        tiny = (magnitude.bits("f32") + 0.5).bits("i32") - (126 << 23)
        code = minimum(select(magnitude < 113 << 23, tiny, code), 0x7C00)
        code = select(magnitude > _INFINITY, -1, code | ((bits >> 16) & 0x8000))
        emit.store(code, *args)
        return context.get_dummy_value()

    return types.void(values, types.intp), codegen


def _encode_fp16(values, ld, nx, ny, target, stride, nan):
    source, out = pointer_to(values, np.int32), pointer_to(target, np.uint16)
    for x in range(nx):
        for y in range(0, ny, LANES):
            _halves(source, x * ld + y)
        for y in range(ny):
            code = source[x * ld + y]
            out[x * stride + y] = np.uint16(nan if code < 0 else code)
