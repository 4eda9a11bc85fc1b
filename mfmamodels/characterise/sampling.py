"""Random inputs for validation (paper section 5), as codes, from independent streams.

Every draw is determined by (seed, formats, sampler, shard): shards can be drawn in any order, on
any machine, and cores with the same formats meet the same rows. Two samplers are the paper's,
exponent-mantissa (Algorithm 3, with the limits of 5.1.1 to 5.1.4) and independent bits (5.2).
They find rare features only rarely; the directed ones of :mod:`directed` look for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise import directed, structured
from mfmamodels.characterise.dimensions import default_k
from mfmamodels.formats import Format, Specials

Rows = tuple[NDArray, NDArray, NDArray]  # codes of a (rows, k), b (rows, k) and c (rows,)


class Limits(NamedTuple):
    """Lowest and highest exponent drawn, both included."""

    low: int
    high: int


# Exponents of a and b in Algorithm 3 where products must be kept finite (5.1.2, 5.1.3: CDNA3's
# limit is 2**128). Formats not listed span all their exponents.
_NORMAL = {name: Limits(-126, 63) for name in ("bf16", "xf32", "tf32", "fp32")}
_NORMAL["fp64"] = Limits(-1022, 511)


def exponent_limits(fmt: Format, *, subnormal: bool, addend: bool = False) -> Limits:
    """Exponents that Algorithm 3 draws for a format (5.1.1 to 5.1.4).

    Parameters
    ----------
    fmt : Format
    subnormal : bool
        The range between the smallest subnormal and the smallest normal number, instead of the
        range of normal numbers.
    addend : bool
        The limits of c, which may use all exponents.
    """
    if subnormal:
        return Limits(fmt.emin - fmt.fraction_bits, fmt.emin)
    if addend or fmt.name not in _NORMAL:
        return Limits(fmt.emin, fmt.emax)
    return _NORMAL[fmt.name]


def draw(
    core: Arithmetic, sampler: str, rows: int, seed: int, shard: int = 0, k: int | None = None
) -> Rows:
    """Draw input rows.

    Parameters
    ----------
    core : Arithmetic
        Its formats decide the stream; its kind and widths steer the directed samplers.
    sampler : str
        One of :data:`SAMPLERS`.
    rows : int
        Number of rows; the first ones of a shard do not depend on it for the paper's samplers.
    seed : int
        Root seed, not negative.
    shard : int
        Independent streams of one seed.
    k : int, optional
        Products in a row; the paper's number by default (:func:`dimensions.default_k`).

    Returns
    -------
    a, b, c : ndarray of unsigned int
        Codes of shapes (rows, k), (rows, k) and (rows,).

    Raises
    ------
    ValueError
        For an unknown sampler, or negative rows, seed, shard or k.
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"unknown sampler {sampler!r}; known: {', '.join(SAMPLERS)}")
    k = default_k(core) if k is None else k
    for name, value in {"rows": rows, "seed": seed, "shard": shard, "k": k}.items():
        if value < 0:
            raise ValueError(f"{name} is {value}; allowed: 0 and more")
    return SAMPLERS[sampler](core, rows, k, _Stream(core, sampler, seed, shard))


class _Stream:
    """Independent generators below (seed, formats, sampler, shard)."""

    def __init__(self, core: Arithmetic, sampler: str, seed: int, shard: int) -> None:
        label = f"{core.a}/{core.b}->{core.out} {sampler}"
        words = np.frombuffer(hashlib.sha256(label.encode()).digest()[:16], "<u4")
        self._seed, self._key = seed, (*map(int, words), shard)

    def generator(self, part: int) -> Generator:
        """A generator of its own for each part of a draw (a, b, c, or the whole)."""
        return Generator(Philox(SeedSequence(self._seed, spawn_key=(*self._key, part))))


# --- the paper's samplers -----------------------------------------------------------------------

_WORDS = 1 << 16  # random words at a time, which stay in the cache


def _filled(fill: Callable, fmt: Format, size: int, rng: Generator, limits: Limits) -> NDArray:
    """Codes computed from one random word each (two where 53 bits of significand need them)."""
    codes = np.empty(size, fmt.code_dtype)
    own_exponents = fmt.precision > 24
    for start in range(0, size, _WORDS):
        part = codes[start : start + _WORDS]
        words = rng.bit_generator.random_raw(part.size * (1 + own_exponents))
        exponents, significands = (words[::2], words[1::2]) if own_exponents else (words, words)
        # Exponents are made of the low 24 bits, which a shared word then withholds.
        drop = 0 if own_exponents else 24
        fill(part, exponents, significands, drop, *limits, *_layout(fmt))
    return codes


def _layout(fmt: Format) -> tuple[int, ...]:
    return (
        fmt.precision,
        fmt.emin,
        fmt.ignored_bits,
        fmt.max_code,
        fmt.sign_mask,
        fmt.specials is Specials.FNUZ,
    )


@njit(cache=True, nogil=True)
def _exponent_mantissa_codes(
    out, exponents, significands, drop, low, high, precision, emin, ignored, max_code, sign, fnuz
):
    """Round ``s * 2**e`` to nearest for uniform e and s, with abs(s) <= 2 - 2**(1 - precision)."""
    bits = 63 - drop  # s is an integer of so many bits, the first of weight 1
    largest = ((1 << precision) - 1) << (bits - precision)
    span = high - low + 1
    for i in range(out.size):
        word = significands[i]
        e = low + np.int64(
            ((exponents[i] & np.uint64(0xFFFFFF)) * np.uint64(span)) >> np.uint64(24)
        )
        m = np.int64((word & np.uint64(0x7FFFFFFFFFFFFFFF)) >> np.uint64(drop))
        m = min(m, largest)
        code = np.int64(0)
        if m != 0:
            # The exponent of m as a float64, which rounding may have raised by one.
            lead = (np.float64(m).view(np.int64) >> 52) - 1023
            lead -= m >> lead == 0
            exponent = max(e + lead - (bits - 1), emin)
            shift = exponent - precision + bits - e  # of the format's quantum above that of m
            if shift <= 0:
                code = m << -shift
            elif shift <= 63:
                half = np.int64(1) << (shift - 1)
                code = m >> shift
                rest = m & ((half << 1) - 1) if shift < 63 else m
                if rest > half or (rest == half and code & 1):
                    code += 1
            if code != 0:
                # The leading bit of a normal significand raises the exponent field by one.
                code = ((exponent - emin) << (precision - 1)) + code
                code = min(code << ignored, max_code)
        if word >> np.uint64(63) and (code != 0 or not fnuz):
            out[i] = np.uint64(code) | np.uint64(sign)
        else:
            out[i] = code


@njit(cache=True, nogil=True)
def _bit_codes(out, spares, words, drop, low, high, precision, emin, ignored, max_code, sign, fnuz):
    """Keep random bits, but redraw the exponent (uniformly in low..high) of an Inf or NaN."""
    width_mask = np.uint64(sign) | np.uint64(sign - 1)
    fraction = precision - 1 + ignored
    fraction_mask = (np.uint64(1) << np.uint64(fraction)) - np.uint64(1)
    span = high - low + 1
    for i in range(out.size):
        code = (words[i] >> np.uint64(drop)) & width_mask
        magnitude = code & np.uint64(sign - 1)
        # The bits that xf32 and tf32 do not read can still make a NaN of an infinity.
        special = (magnitude >> np.uint64(ignored)) > np.uint64(max_code >> ignored)
        if special or (fnuz and code == np.uint64(sign)):
            field = (spares[i] & np.uint64(0xFFFFFF)) * np.uint64(span) >> np.uint64(24)
            field += np.uint64(low - emin + 1)
            code = (code & (np.uint64(sign) | fraction_mask)) | (field << np.uint64(fraction))
        out[i] = code


def _three(
    fill: Callable, core: Arithmetic, rows: int, k: int, stream: _Stream, limits: Callable
) -> Rows:
    a, b, c = (
        _filled(fill, fmt, size, stream.generator(part), limits(fmt, part == 2))
        for part, (fmt, size) in enumerate(
            [(core.a, rows * k), (core.b, rows * k), (core.out, rows)]
        )
    )
    return a.reshape(rows, k), b.reshape(rows, k), c


def _exponent_mantissa(core: Arithmetic, rows: int, k: int, stream: _Stream) -> Rows:
    """Algorithm 3 in the range of normal numbers."""

    def limits(fmt: Format, addend: bool) -> Limits:
        return exponent_limits(fmt, subnormal=False, addend=addend)

    return _three(_exponent_mantissa_codes, core, rows, k, stream, limits)


def _exponent_mantissa_subnormal(core: Arithmetic, rows: int, k: int, stream: _Stream) -> Rows:
    """Algorithm 3 between the smallest subnormal and the smallest normal number."""

    def limits(fmt: Format, addend: bool) -> Limits:
        return exponent_limits(fmt, subnormal=True, addend=addend)

    return _three(_exponent_mantissa_codes, core, rows, k, stream, limits)


def _bits(core: Arithmetic, rows: int, k: int, stream: _Stream) -> Rows:
    """Independent bits (5.2); never Inf or NaN."""
    return _three(_bit_codes, core, rows, k, stream, _redrawn)


def _redrawn(fmt: Format, addend: bool) -> Limits:
    """Exponents, as in the field, among which that of an Inf or NaN is redrawn."""
    lowest = fmt.emin - 1  # field 0
    if fmt.specials is Specials.FNUZ:
        return Limits(fmt.emin, fmt.emax)  # NaN is the field 0 with a sign and no fraction
    if fmt.specials is Specials.FN:
        return Limits(lowest, fmt.emax - 1)  # NaN is the highest field, otherwise finite
    return Limits(lowest, fmt.emax)


def _directed(sampler: Callable) -> Callable[..., Rows]:
    def drawn(core: Arithmetic, rows: int, k: int, stream: _Stream) -> Rows:
        return sampler(core, rows, k, stream.generator(0))

    drawn.__doc__ = sampler.__doc__
    return drawn


#: Samplers by name.
SAMPLERS: dict[str, Callable[..., Rows]] = {
    "exponent_mantissa": _exponent_mantissa,
    "exponent_mantissa_subnormal": _exponent_mantissa_subnormal,
    "bits": _bits,
    "near_tie": _directed(directed.near_tie),
    "cancellation": _directed(structured.cancellation),
    "structured": _directed(structured.structured),
    "specials": _directed(structured.specials),
}
