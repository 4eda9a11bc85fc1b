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

Decoding needs the default floating-point environment, which chunks of work set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
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

_lean = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


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


def _code_kind(fmt: Format) -> str:
    return f"i{fmt.width}"


def _signed(fmt: Format, code: int) -> int:
    """A code as the signed integer with its bits."""
    return code - (1 << fmt.width) if code & fmt.sign_mask else code


def _value(fmt: Format, code: Lanes) -> Lanes:
    """float32 bits of finite codes; Inf and NaN give rubbish (but not in 32-bit formats)."""
    if fmt.width == 32:
        return code & -1 << fmt.ignored_bits
    if not is_narrow(fmt):
        return code.bits("u16").to("u32").bits("i32") << 16
    # Sign and magnitude in their places, the exponent still with the format's bias. A subnormal is
    # a float32 subnormal here, which is why decoding needs the default environment.
    shift = 23 - fmt.fraction_bits
    places = _SIGN | (fmt.sign_mask - 1) << shift
    unscaled = ((code.to("i32") << shift) & places).bits("f32")
    return (unscaled * 2.0 ** (127 - fmt.bias)).bits("i32")


def _exponent(fmt: Format, magnitude: Lanes) -> Lanes:
    """Exponents as a panel holds them."""
    biased = magnitude >> (fmt.fraction_bits + fmt.ignored_bits)
    exponent = maximum(biased, 1) - fmt.bias
    kind = "i8" if is_narrow(fmt) else "i16"
    # A zero in the bits that are read.
    zero = magnitude < 1 << fmt.ignored_bits
    return select(zero, NARROW_ZERO if is_narrow(fmt) else WIDE_ZERO, exponent).to(kind)


def _is_special(fmt: Format, code: Lanes, magnitude: Lanes) -> Lanes:
    """Whether Inf or NaN."""
    if fmt.specials is Specials.FNUZ:
        return code.equals(_signed(fmt, fmt.nan_code))
    if fmt.specials is Specials.FN:
        return magnitude.equals(fmt.nan_code)
    return magnitude >= fmt.inf_code


def _flushed(fmt: Format, bits: Lanes) -> Lanes:
    """Bits of values whose subnormals (of their format) became zeros of their sign."""
    least = int(np.float32(fmt.min_normal).view(np.int32))
    return select((bits & _MAGNITUDE) < least, bits & _SIGN, bits)


@cache
def _vector_decoder(fmt: Format, exponents: bool, flush: bool):
    """Intrinsic that decodes and stores one vector of codes; nonzero where one is Inf or NaN."""

    @intrinsic
    def decode(typingctx, codes, values, exponents_at, offset):
        def codegen(context, builder, sig, args):
            codes_at, values_at, powers_at, at = args
            code = emit.load(builder, codes_at, at, _code_kind(fmt))
            magnitude = code & (fmt.sign_mask - 1)
            bits = _value(fmt, code)
            emit.store(_flushed(fmt, bits) if flush else bits, values_at, at)
            if exponents:
                emit.store(_exponent(fmt, magnitude), powers_at, at)
            return _is_special(fmt, code, magnitude).lane_bits()

        return types.int64(codes, values, exponents_at, types.intp), codegen

    return decode


@cache
def _specials_decoder(fmt: Format):
    """Function that writes the values of all Inf and NaN of a panel and marks it hot there."""
    fnuz, ieee = fmt.specials is Specials.FNUZ, fmt.specials is Specials.IEEE
    sign, to_sign = fmt.sign_mask, 32 - fmt.width
    top = fmt.nan_code if not ieee else fmt.inf_code

    @_lean
    def decode(codes, bits, px, ld, hot, by_row, mark):
        for x in range(px):
            for y in range(ld):
                code = np.int64(codes[x * ld + y])
                magnitude = code & (sign - 1)
                if code == top if fnuz else magnitude >= top:
                    infinite = ieee and magnitude == top
                    value = (_INFINITY if infinite else _QUIET_NAN) | (code & sign) << to_sign
                    bits[x * ld + y] = np.int32(np.uint32(value))
                    if mark:
                        hot[x if by_row else y] = -1

    return decode


# --- compiled functions ---------------------------------------------------------------------------

#: decode(codes, values, exponents, px, ld, hot, hot_by_row): addresses and counts, for px rows of
#: ld codes. ``hot`` gets -1 for each row (``hot_by_row`` != 0: px entries) or column (ld entries)
#: with an Inf or NaN, 0 elsewhere.
DECODE_SIGNATURE = signature(types.void, *[types.intp] * 7)


@cache
def decoder(fmt: Format, *, exponents: bool, flush: bool = False) -> int:
    """Address of the function that decodes a panel of codes (:data:`DECODE_SIGNATURE`).

    Parameters
    ----------
    fmt : Format
        Format of the codes.
    exponents : bool
        Whether to write exponents and to mark hot rows or columns.
    flush : bool
        Whether subnormals become zeros of their sign (not for fp64).

    Returns
    -------
    int
        0 where the codes are the values already.
    """
    if fmt.width == 64 or (fmt.name == "fp32" and not (exponents or flush)):
        return 0
    name = f"decode_{fmt.name}{'_exponents' * exponents}{'_flush' * flush}"
    body = _decode_body(fmt, exponents, flush)
    return compile_callback(body, DECODE_SIGNATURE, name).address


def _decode_body(fmt: Format, exponents: bool, flush: bool) -> Callable:
    vector, specials = _vector_decoder(fmt, exponents, flush), _specials_decoder(fmt)
    code_type, exponent_kind = fmt.code_dtype.type, exponent_type(fmt)

    def decode(codes, values, exponents_at, px, ld, hot_at, by_row):
        panel = pointer_to(codes, code_type)
        value, exponent = pointer_to(values, np.int32), pointer_to(exponents_at, exponent_kind)
        hot = pointer_to(hot_at, np.int8)
        special = 0
        for i in range(0, px * ld, LANES):
            special |= vector(panel, value, exponent, i)
        if exponents:
            for i in range(px if by_row else ld):
                hot[i] = 0
        if special != 0:
            specials(panel, value, px, ld, hot, by_row, exponents)

    return decode


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
