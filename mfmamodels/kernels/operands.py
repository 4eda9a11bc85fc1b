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

from functools import cache

import numpy as np
from numba import njit, types
from numba.core.typing import signature

from mfmamodels.formats import Format, Specials
from mfmamodels.kernels import lanes as v
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.lanes import LANES, load, pointer_to, select, store

#: Exponents of zeros: with any other exponent added, below every product of nonzero values.
NARROW_ZERO = -64
WIDE_ZERO = -1000

_INF_BITS = 0x7F800000
_QUIET_NAN = 0x7FC00000
_MAGNITUDE = 0x7FFFFFFF

jit = njit(error_model="numpy", forceinline=True)


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


def _narrow_lanes(fmt: Format):
    """Decode codes with short exponents: (codes as int32) -> (bits of value, exponent, special)."""
    fraction, bias, emin, sign = fmt.fraction_bits, fmt.bias, fmt.emin, fmt.sign_mask
    to_fraction, to_sign = 23 - fraction, 32 - fmt.width
    rebias = (127 - bias) << 23
    least_normal = 1 << fraction
    min_normal = np.float32(2.0**emin)
    ieee, fnuz = fmt.specials is Specials.IEEE, fmt.specials is Specials.FNUZ
    top = fmt.sign_mask if fnuz else fmt.inf_code if ieee else fmt.nan_code

    @jit
    def decode(code):
        magnitude = code & (sign - 1)
        bits = (magnitude << to_fraction) + rebias
        # 2**emin * (1 + f) - 2**emin is the subnormal 2**emin * f, without float32 subnormals.
        tiny = v.bits_i32(v.bits_f32(bits + (1 << 23)) - min_normal)
        bits = select(magnitude < least_normal, tiny, bits)
        exponent = v.maximum((magnitude >> fraction) - bias, emin)
        exponent = select(magnitude == 0, v.splat(np.int32(NARROW_ZERO)), exponent)
        special = code == top if fnuz else magnitude >= top
        infinity = special & (magnitude == top) if ieee else special & (magnitude != magnitude)
        bits = select(special, v.splat(np.int32(_QUIET_NAN)), bits)
        bits = select(infinity, v.splat(np.int32(_INF_BITS)), bits)
        return bits | ((code & sign) << to_sign), exponent, special

    return decode


def _wide_lanes(fmt: Format, flush: bool):
    """Decode codes that are the upper bits of float32's; results as in ``_narrow_lanes``."""
    shift = 32 - fmt.width
    kept = -1 << fmt.ignored_bits
    ignored = fmt.ignored_bits > 0

    @jit
    def decode(code):
        bits = code << shift
        magnitude = bits & _MAGNITUDE
        nan = magnitude > _INF_BITS
        special = magnitude >= _INF_BITS
        if ignored:  # a NaN whose payload lies in the ignored bits stays a NaN
            bits = select(nan, v.splat(np.int32(_QUIET_NAN)), bits & kept)
            magnitude = bits & _MAGNITUDE
        if flush:
            bits = select(magnitude < (1 << 23), bits & (-1 << 31), bits)
            magnitude = bits & _MAGNITUDE
        exponent = v.maximum(magnitude >> 23, 1) - 127
        exponent = select(magnitude == 0, v.splat(np.int32(WIDE_ZERO)), exponent)
        return bits, exponent, special

    return decode


def _lanes_decoder(fmt: Format, flush: bool):
    return _narrow_lanes(fmt) if is_narrow(fmt) else _wide_lanes(fmt, flush)


# --- gathering codes ------------------------------------------------------------------------------


@jit
def gather(source, sx, sy, nx, ny, panel, ld, px):
    """Copy codes ``source[x*sx + y*sy]`` to ``panel[x*ld + y]`` and pad with zeros to (px, ld)."""
    for x in range(px):
        for y in range(ny if x < nx else 0, ld):
            panel[x * ld + y] = 0
    if sy == 1:
        for x in range(nx):
            for y in range(ny):
                panel[x * ld + y] = source[x * sx + y]
    elif abs(sx) <= abs(sy):  # follow memory: the short stride in the inner loop
        for y in range(ny):
            for x in range(nx):
                panel[x * ld + y] = source[x * sx + y * sy]
    else:
        for x in range(nx):
            for y in range(ny):
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
        Whether subnormals become zeros of their sign (wide formats; a narrow format's subnormals
        are kept unless ``flush``).
    """
    name = f"decode_{fmt.name}{'_exponents' * exponents}{'_flush' * flush}"
    body = _decode_fp64(flush) if fmt.width == 64 else _decode_body(fmt, exponents, flush)
    return compile_callback(body, DECODE_SIGNATURE, name).address


def _decode_body(fmt: Format, exponents: bool, flush: bool):
    lanes_of = _lanes_decoder(fmt, flush)
    narrow_flush = flush and is_narrow(fmt)
    min_normal = int(np.float32(fmt.min_normal).view(np.int32))
    code_type, exponent_kind = fmt.code_dtype.type, exponent_type(fmt)
    narrow = is_narrow(fmt)

    def decode(source, sx, sy, nx, ny, px, codes, values, exponents_at, ld, hot_at, by_row):
        panel = pointer_to(codes, code_type)
        gather(pointer_to(source, code_type), sx, sy, nx, ny, panel, ld, px)
        value, exponent = pointer_to(values, np.int32), pointer_to(exponents_at, exponent_kind)
        any_special = v.splat(np.int32(0)) != 0
        for i in range(0, px * ld, LANES):
            bits, power, special = lanes_of(v.to_i32(load(panel, i)))
            if narrow_flush:
                bits = select((bits & _MAGNITUDE) < min_normal, bits & (-1 << 31), bits)
            store(value, i, bits)
            if exponents:
                any_special = any_special | special
                store(exponent, i, v.to_i8(power) if narrow else v.to_i16(power))
        if exponents:
            _mark_hot(
                value, px, ld, pointer_to(hot_at, np.int8), by_row, v.lane_bits(any_special) != 0
            )

    return decode


@njit(error_model="numpy")
def _mark_hot(bits, px, ld, hot, by_row, any_special):
    for i in range(px if by_row else ld):
        hot[i] = 0
    if any_special:
        for x in range(px):
            for y in range(ld):
                if (bits[x * ld + y] & _MAGNITUDE) >= _INF_BITS:
                    hot[x if by_row else y] = -1


def _decode_fp64(flush: bool):
    if flush:
        raise ValueError("no kind flushes subnormals of fp64")

    def decode(source, sx, sy, nx, ny, px, codes, values, exponents_at, ld, hot_at, by_row):
        gather(pointer_to(source, np.uint64), sx, sy, nx, ny, pointer_to(values, np.uint64), ld, px)

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
            out[x * stride + y] = np.int32(nan) if (bits & _MAGNITUDE) > _INF_BITS else bits


def _encode_fp64(values, ld, nx, ny, target, stride, nan):
    source, out = pointer_to(values, np.int64), pointer_to(target, np.int64)
    for x in range(nx):
        for y in range(ny):
            bits = source[x * ld + y]
            magnitude = bits & 0x7FFFFFFFFFFFFFFF
            out[x * stride + y] = nan if magnitude > 0x7FF0000000000000 else bits


def _encode_fp16(values, ld, nx, ny, target, stride, nan):
    half = np.float32(0.5)
    source, out = pointer_to(values, np.int32), pointer_to(target, np.uint16)
    for x in range(nx):
        for y in range(0, ny, LANES):
            at = x * ld + y
            bits = load(source, at)
            magnitude = bits & _MAGNITUDE
            code = (magnitude - (112 << 23)) >> 13
            # A multiple of 2**-24 below 2**-14, added to 1/2, stands in the low bits of the sum.
            tiny = v.bits_i32(v.bits_f32(magnitude) + half) - (126 << 23)
            code = select(magnitude < (113 << 23), tiny, code)
            code = v.minimum(code, 0x7C00) | ((bits >> 16) & 0x8000)
            code = select(magnitude > _INF_BITS, v.splat(np.int32(nan)), code)
            store(source, at, code)
            for j in range(y, min(y + LANES, ny)):
                out[x * stride + j] = np.uint16(source[x * ld + j])
