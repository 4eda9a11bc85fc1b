"""Number formats as data (Table 1 of the paper), their codes, and the one rounding function.

A format is one record; whatever follows from it (largest value, bias, number of fraction bits) is
derived. Adding a format is adding a record to :data:`FORMATS`.

*Codes* are the storage bit patterns as unsigned integers. They are what the kernels and the
reference take and give, so that NaN payloads and signed zeros are never at a conversion's mercy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfmamodels.fpenv import ieee_environment
from mfmamodels.interop import exact_float64


class Rounding(StrEnum):
    """Direction in which a value that a format cannot hold is rounded."""

    RNE = "rne"  #: to nearest, ties to even
    RTZ = "rtz"  #: toward zero (truncation)
    RD = "rd"  #: down, toward minus infinity
    RU = "ru"  #: up, toward plus infinity


class Overflow(StrEnum):
    """What becomes of a rounded value beyond the format's largest finite one."""

    INF = "inf"  #: infinity of the same sign
    NAN = "nan"  #: NaN
    SATURATE = "saturate"  #: largest finite value of the same sign


class Specials(StrEnum):
    """What the codes at the top of a format mean."""

    IEEE = "ieee"  #: top exponent holds Inf and NaN
    FN = "fn"  #: no Inf; all ones is NaN, the rest of the top exponent is finite
    FNUZ = "fnuz"  #: no Inf, no -0; the code of -0 is the only NaN


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes
    ----------
    name : str
        Short name, as in Table 1 of the paper and in ml_dtypes.
    precision : int
        Significand bits, the implicit one included (``f`` in Table 1).
    emin, emax : int
        Exponents of the smallest normal and of the largest finite value.
    width : int
        Bits of storage. xf32 and tf32 are stored as float32; their 13 low bits are not read.
    specials : Specials
        Meaning of the top codes.
    dtype_name : str
        numpy or ml_dtypes type with these codes.
    """

    name: str
    precision: int
    emin: int
    emax: int
    width: int
    specials: Specials
    dtype_name: str

    def __str__(self) -> str:
        return self.name

    @property
    def fraction_bits(self) -> int:
        """Explicit significand bits."""
        return self.precision - 1

    @property
    def ignored_bits(self) -> int:
        """Low storage bits the hardware does not read (13 in xf32 and tf32)."""
        return self.width - 1 - self.exponent_bits - self.fraction_bits

    @property
    def exponent_bits(self) -> int:
        """Width of the exponent field."""
        return (self.bias + self.emax).bit_length()

    @property
    def bias(self) -> int:
        """Exponent bias of the encoding."""
        return 1 - self.emin

    @property
    def max(self) -> float:
        """Largest finite value."""
        top = 2.0 - 2.0**-self.fraction_bits
        if self.specials is Specials.FN:  # the all-ones significand of the top exponent is NaN
            top -= 2.0**-self.fraction_bits
        return top * 2.0**self.emax

    @property
    def min_normal(self) -> float:
        """Smallest positive normal value."""
        return 2.0**self.emin

    @property
    def min_subnormal(self) -> float:
        """Smallest positive value."""
        return 2.0 ** (self.emin - self.fraction_bits)

    @property
    def has_inf(self) -> bool:
        """Whether the format can hold infinities."""
        return self.specials is Specials.IEEE

    @cached_property
    def dtype(self) -> np.dtype:
        """Numpy type of an array in this format."""
        if hasattr(np, self.dtype_name):
            return np.dtype(self.dtype_name)
        import ml_dtypes  # takes longer to import than all the rest of this package

        return np.dtype(getattr(ml_dtypes, self.dtype_name))

    def is_type(self, dtype: np.dtype) -> bool:
        """Whether arrays of this type are in this format: ``dtype == self.dtype``, but quick."""
        if "dtype" in self.__dict__:
            return dtype == self.dtype
        return dtype.isnative and dtype.name == self.dtype_name and dtype == self.dtype

    @cached_property
    def code_dtype(self) -> np.dtype:
        """Unsigned integer type of the codes."""
        return np.dtype(f"uint{self.width}")

    @property
    def sign_mask(self) -> int:
        """Code with only the sign bit set."""
        return 1 << (self.width - 1)

    @property
    def max_code(self) -> int:
        """Code of the largest finite value."""
        exponent = (self.emax + self.bias) << self.fraction_bits
        fraction = (1 << self.fraction_bits) - 1 - (self.specials is Specials.FN)
        return (exponent | fraction) << self.ignored_bits

    @property
    def inf_code(self) -> int:
        """Code of +Inf (only where :attr:`has_inf`)."""
        return (self.max_code | ((1 << self.ignored_bits) - 1)) + 1

    @property
    def nan_code(self) -> int:
        """Code of the quiet NaN that conversions give."""
        if self.specials is Specials.FNUZ:
            return self.sign_mask
        if self.specials is Specials.FN:
            return self.sign_mask - 1
        return self.inf_code | 1 << (self.width - 2 - self.exponent_bits)


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("fp64", 53, -1022, 1023, 64, Specials.IEEE, "float64"),
        Format("fp32", 24, -126, 127, 32, Specials.IEEE, "float32"),
        # AMD's xf32 and NVIDIA's tf32 hold the same values; the paper calls both tf19.
        Format("xf32", 11, -126, 127, 32, Specials.IEEE, "float32"),
        Format("tf32", 11, -126, 127, 32, Specials.IEEE, "float32"),
        Format("bf16", 8, -126, 127, 16, Specials.IEEE, "bfloat16"),
        Format("fp16", 11, -14, 15, 16, Specials.IEEE, "float16"),
        Format("e4m3fnuz", 4, -7, 7, 8, Specials.FNUZ, "float8_e4m3fnuz"),
        Format("e5m2fnuz", 3, -15, 15, 8, Specials.FNUZ, "float8_e5m2fnuz"),
        Format("e4m3fn", 4, -6, 8, 8, Specials.FN, "float8_e4m3fn"),
        Format("e5m2", 3, -14, 15, 8, Specials.IEEE, "float8_e5m2"),
    )
}

_AMBIGUOUS = {
    name: "the paper and AMD's own documents disagree on which 8-bit format that is: "
    "say e4m3fnuz or e5m2fnuz (AMD), e4m3fn or e5m2 (OCP, NVIDIA)"
    for name in ("fp8", "bf8")
}


def get_format(name: str | Format) -> Format:
    """Look a format up by name.

    Raises
    ------
    ValueError
        If the name is unknown, or is a bare ``fp8`` or ``bf8``.
    """
    if isinstance(name, Format):
        return name
    if name in _AMBIGUOUS:
        raise ValueError(f"{name!r} is ambiguous: {_AMBIGUOUS[name]}")
    try:
        return FORMATS[name]
    except (KeyError, TypeError):
        raise ValueError(f"unknown format {name!r}; known: {', '.join(FORMATS)}") from None


# --- decode and encode ----------------------------------------------------------------------


def decode(codes: ArrayLike, fmt: str | Format) -> NDArray[np.float64]:
    """Values of codes, exactly, as float64.

    Parameters
    ----------
    codes : array_like of unsigned int
        Bit patterns of the format. The 13 low bits of xf32 and tf32 are ignored, except that a NaN
        whose payload lies only there stays a NaN.
    fmt : str or Format

    Returns
    -------
    ndarray of float64
        Subnormals, signed zeros and infinities kept; every NaN becomes numpy's quiet NaN.
    """
    fmt = get_format(fmt)
    codes = np.asarray(codes)
    if codes.dtype.kind not in "ui":
        raise TypeError(f"codes are unsigned integers, not {codes.dtype}")
    if codes.dtype != fmt.code_dtype:
        _check_code_range(codes, fmt)
        codes = codes.astype(fmt.code_dtype)
    if fmt.width == 64:
        return np.where(is_nan(codes, fmt), np.nan, codes.view(np.float64))
    bits = codes.astype(np.int64)
    magnitude = (bits & (fmt.sign_mask - 1)) >> fmt.ignored_bits
    exponent = magnitude >> fmt.fraction_bits
    significand = magnitude & ((1 << fmt.fraction_bits) - 1)
    significand += (exponent > 0).astype(np.int64) << fmt.fraction_bits
    scale = np.maximum(exponent, 1) - fmt.bias - fmt.fraction_bits
    values = np.ldexp(significand.astype(np.float64), scale.astype(np.int32))
    values = np.where(is_inf(codes, fmt), np.inf, values)  # a single code is no array to write to
    values = np.where(bits & fmt.sign_mask, -values, values)
    return np.where(is_nan(codes, fmt), np.nan, values)


def _check_code_range(codes: NDArray, fmt: Format) -> None:
    if codes.size and (codes.min() < 0 or int(codes.max()) >> fmt.width):
        raise ValueError(
            f"a code of {fmt} has {fmt.width} bits; given {codes.min()}..{codes.max()}"
        )


def is_nan(codes: NDArray, fmt: Format) -> NDArray[np.bool_]:
    """Which codes are NaN."""
    if fmt.specials is Specials.FNUZ:
        return codes == fmt.nan_code
    magnitude = codes & codes.dtype.type(fmt.sign_mask - 1)
    if fmt.specials is Specials.FN:
        return magnitude == fmt.nan_code
    return magnitude > fmt.inf_code


def is_inf(codes: NDArray, fmt: Format) -> NDArray[np.bool_]:
    """Which codes are infinities (none in formats without them)."""
    if not fmt.has_inf:
        return np.zeros(codes.shape, bool)
    return (codes & codes.dtype.type(fmt.sign_mask - 1)) == fmt.inf_code


def encode(
    values: ArrayLike, fmt: str | Format, rounding: str = "rne", overflow: str | None = None
) -> NDArray:
    """Codes of values after one rounding; arguments as in :func:`round_to`.

    A NaN becomes the format's positive quiet NaN (0x80 in FNUZ formats); -0 becomes +0 in FNUZ.
    """
    fmt = get_format(fmt)
    return _encode_exact(_round(values, fmt, rounding, overflow), fmt)


def _encode_exact(values: NDArray[np.float64], fmt: Format) -> NDArray:
    """Codes of float64 values that the format can hold."""
    nan = np.isnan(values)
    if fmt.width == 64:
        return np.where(nan, np.uint64(fmt.nan_code), values.view(np.uint64))
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, fmt.emin)
    significand = np.ldexp(finite, fmt.fraction_bits - exponent).astype(np.int64)
    # A subnormal's significand lacks the implicit bit, which lowers the exponent field to zero.
    codes = ((exponent + fmt.bias - 1).astype(np.int64) << fmt.fraction_bits) + significand
    codes = np.where(finite == 0, 0, codes) << fmt.ignored_bits
    codes = np.where(np.isinf(values), fmt.inf_code, codes)
    negative = np.signbit(values) & ((codes != 0) | (fmt.specials is not Specials.FNUZ))
    codes = np.where(negative, codes | fmt.sign_mask, codes)
    return np.where(nan, fmt.nan_code, codes).astype(fmt.code_dtype)


# --- rounding ---------------------------------------------------------------------------------


def round_to(
    values: ArrayLike, fmt: str | Format, rounding: str = "rne", overflow: str | None = None
) -> NDArray:
    """Round values to a format, once.

    Parameters
    ----------
    values : array_like
        Numbers of any real numpy or ml_dtypes type.
    fmt : str or Format
        Target format.
    rounding : {"rne", "rtz", "rd", "ru"}
        Direction (:class:`Rounding`).
    overflow : {"inf", "nan", "saturate"}, optional
        What a value beyond the largest finite one *after rounding* becomes (:class:`Overflow`); an
        infinity given to a format without infinities counts as such a value. By default
        an overflow is an error: nothing is saturated silently.

    Returns
    -------
    ndarray of the format's type
        Same shape. NaN stays NaN, signs of zeros are kept where the format has -0, subnormals are
        kept. xf32 and tf32 come back as float32 with 13 zero bits.

    Raises
    ------
    ValueError
        On overflow when ``overflow`` is not given, or ``"inf"`` for a format without infinities.
    """
    fmt = get_format(fmt)
    return encode(values, fmt, rounding, overflow).view(fmt.dtype)


def _choice(kind: type[StrEnum], value: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(kind)
        raise ValueError(f"unknown {kind.__name__.lower()} {value!r}; known: {names}") from None


def _round(
    values: ArrayLike,
    fmt: Format,
    rounding: str,
    overflow: str | None,
) -> NDArray[np.float64]:
    direction = _choice(Rounding, rounding)
    beyond = None if overflow is None else _choice(Overflow, overflow)
    if beyond is Overflow.INF and not fmt.has_inf:
        raise ValueError(f"{fmt} has no infinities: overflow must be 'nan' or 'saturate'")
    with ieee_environment():
        x = exact_float64(values)
        rounded = round_significand(x, fmt, direction)
        too_large = np.abs(rounded) > fmt.max
        if fmt.has_inf:
            too_large &= ~np.isinf(x)
        if not too_large.any():
            return rounded
        if beyond is None:
            index = tuple(int(i) for i in np.argwhere(too_large)[0])
            way_out = "overflow='saturate', 'nan'" + (" or 'inf'" if fmt.has_inf else "")
            raise ValueError(
                f"element {index} ({x[index]!r}) overflows {fmt}, whose largest value "
                f"is {fmt.max!r}; pass {way_out}"
            )
        limits = {Overflow.INF: np.inf, Overflow.NAN: np.nan, Overflow.SATURATE: fmt.max}
        limit = limits[Overflow(beyond)]
        return np.where(too_large, np.copysign(limit, rounded), rounded)


def round_significand(x: NDArray[np.float64], fmt: Format, rounding: str) -> NDArray[np.float64]:
    """Round to the format's precision and lowest exponent, as if its exponents had no upper end.

    Every operation but the one rounding to an integer is exact: scaling by a power of two leaves at
    most ``precision`` bits before the point and cannot underflow for formats below fp64.
    """
    if fmt.precision == 53:
        return x
    exponent = np.maximum(np.frexp(x)[1] - 1, fmt.emin)
    quantum = exponent - fmt.fraction_bits
    steps = np.ldexp(x, -quantum)
    to_integer = {
        Rounding.RNE: np.rint,
        Rounding.RTZ: np.trunc,
        Rounding.RD: np.floor,
        Rounding.RU: np.ceil,
    }[Rounding(rounding)]
    return np.copysign(np.ldexp(to_integer(steps), quantum), x)
