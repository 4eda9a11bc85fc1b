"""Number formats against ml_dtypes, gfloat and exact fractions."""

import bisect
import itertools
from fractions import Fraction
from functools import cache

import gfloat
import ml_dtypes
import numpy as np
import pytest
from _host_float import flushed_subnormals
from gfloat import formats as gf

import mfmamodels as mm
from mfmamodels.formats import FORMATS, Specials, is_inf, is_nan

SMALL = [f for f in FORMATS.values() if f.width <= 16]
EIGHT_BIT = [f for f in SMALL if f.width == 8]


def p_fnuz(precision):
    """The FNUZ formats as gfloat describes formats: no infinities, one NaN at the code of -0."""
    return gfloat.FormatInfo(
        name=f"fnuz{precision}",
        k=8,
        precision=precision,
        bias=1 << (8 - precision - 1),
        has_nz=False,
        domain=gfloat.Domain.Finite,
        num_high_nans=0,
        has_subnormals=True,
        is_signed=True,
        is_twos_complement=False,
    )


GFLOAT = {
    "bf16": gf.format_info_bfloat16,
    "fp16": gf.format_info_binary16,
    "e4m3fn": gf.format_info_ocp_e4m3,
    "e5m2": gf.format_info_ocp_e5m2,
    "e4m3fnuz": p_fnuz(4),
    "e5m2fnuz": p_fnuz(3),
}


def codes_of(fmt):
    return np.arange(1 << fmt.width, dtype=np.uint32).astype(fmt.code_dtype)


def same_values(x, y):
    """Equal as float64 bits, where every NaN is one."""
    x, y = (np.where(np.isnan(v), np.nan, v).view(np.uint64) for v in (x, y))
    np.testing.assert_array_equal(x, y)


# --- every code ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_code_decodes_as_ml_dtypes_does(fmt):
    codes = codes_of(fmt)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = codes.view(fmt.dtype).astype(np.float64)
    same_values(mm.decode(codes, fmt), expected)


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_code_decodes_as_gfloat_does(fmt):
    info = GFLOAT[fmt.name]
    assert info.k == fmt.width
    values = [gfloat.decode_float(info, int(code)).fval for code in codes_of(fmt)]
    same_values(mm.decode(codes_of(fmt), fmt), np.array(values))


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_code_encodes_to_itself(fmt):
    codes = codes_of(fmt)
    values = mm.decode(codes, fmt)
    nan = is_nan(codes, fmt)
    assert np.array_equal(nan, np.isnan(values))
    assert np.array_equal(is_inf(codes, fmt), np.isinf(values))
    again = mm.encode(values, fmt)
    assert again.dtype == codes.dtype
    assert np.array_equal(again[~nan], codes[~nan])
    assert (again[nan] == fmt.nan_code).all()


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_code_encodes_as_ml_dtypes_and_gfloat_do(fmt):
    values = mm.decode(codes_of(fmt), fmt)
    values = values[~np.isnan(values)]
    ours = mm.encode(values, fmt)
    assert np.array_equal(ours, values.astype(fmt.dtype).view(fmt.code_dtype))
    info = GFLOAT[fmt.name]
    theirs = [gfloat.encode_float(info, float(v)) for v in values]
    assert ours.tolist() == [int(code) for code in theirs]


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_derived_numbers_are_those_of_the_codes(fmt):
    values = mm.decode(codes_of(fmt), fmt)
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    assert (fmt.max, fmt.min_subnormal) == (positive.max(), positive.min())
    info = ml_dtypes.finfo(fmt.dtype)
    assert fmt.min_normal == float(info.smallest_normal)
    assert fmt.min_subnormal == float(info.smallest_subnormal)
    assert fmt.max == float(info.max)
    assert fmt.fraction_bits == info.nmant
    assert mm.decode(np.array(fmt.max_code, fmt.code_dtype), fmt) == fmt.max
    assert fmt.has_inf == bool(np.isinf(values).any())


@pytest.mark.parametrize(
    ("name", "precision", "smallest_normal", "largest"),
    [  # Table 1 of the paper
        ("fp64", 53, 2.0**-1022, 1.797e308),
        ("fp32", 24, 2.0**-126, 3.402e38),
        ("xf32", 11, 2.0**-126, 3.401e38),
        ("tf32", 11, 2.0**-126, 3.401e38),
        ("bf16", 8, 2.0**-126, 3.389e38),
        ("fp16", 11, 2.0**-14, 65504.0),
        ("e4m3fnuz", 4, 2.0**-7, 240.0),
        ("e4m3fn", 4, 2.0**-6, 448.0),
        ("e5m2fnuz", 3, 2.0**-15, 57344.0),
        ("e5m2", 3, 2.0**-14, 57344.0),
    ],
)
def test_table_1(name, precision, smallest_normal, largest):
    fmt = mm.get_format(name)
    assert (fmt.precision, fmt.min_normal) == (precision, smallest_normal)
    assert fmt.max == pytest.approx(largest, rel=1e-3)


# --- one rounding -------------------------------------------------------------------------------

#: What a value past the largest one becomes, for the direction that rounds to it.
DIRECTIONS = ["rne", "rtz", "rd", "ru"]


def rounded_exactly(x, values, direction):
    """Round a fraction to a sorted list of fractions, the next power of two appended."""
    i = bisect.bisect_left(values, x)
    if i < len(values) and values[i] == x:
        return values[i]
    below, above = values[i - 1], values[i]
    if direction == "rd":
        return below
    if direction == "ru":
        return above
    if direction == "rtz":
        return below if x > 0 else above
    if x - below != above - x:
        return below if x - below < above - x else above
    # The tie goes to the neighbour with an even significand: every other one of the list.
    zero = len(values) // 2
    return below if (i - 1 - zero) % 2 == 0 else above


@cache
def all_values(fmt):
    """All finite values as fractions, and the first ones past the largest."""
    values = mm.decode(codes_of(fmt), fmt)
    finite = sorted({Fraction(v) for v in values[np.isfinite(values)].tolist()})
    beyond = finite[-1] + (finite[-1] - finite[-2])
    return [-beyond, *finite, beyond]


def around(values):
    """Values, midpoints of neighbours, and points a little to either side of both."""
    found = []
    for x, y in itertools.pairwise(values):
        for point in (x, (x + y) / 2):
            step = (y - x) / 2**20
            found += [point - step, point, point + step]
    return [x for x in found if Fraction(float(x)) == x]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("fmt", EIGHT_BIT, ids=str)
def test_rounding_is_exact_between_all_neighbours(fmt, direction):
    values = all_values(fmt)
    points = [x for x in around(values) if abs(x) < values[-1]]
    assert len(points) > 1000
    got = mm.round_to(np.array([float(x) for x in points]), fmt, direction, "nan")
    for x, d in zip(points, got.astype(np.float64).tolist(), strict=True):
        wanted = rounded_exactly(x, values, direction)
        if abs(wanted) == values[-1]:
            assert np.isnan(d), float(x)
        else:
            assert Fraction(d) == wanted, (float(x), d)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_rounding_of_16_bit_formats_is_exact(name, direction):
    fmt = mm.get_format(name)
    values = all_values(fmt)
    rng = np.random.default_rng(8)
    ends = [*range(3), *range(len(values) // 2 - 3, len(values) // 2 + 3)]
    chosen = sorted({*ends, *rng.integers(0, len(values) - 1, 150).tolist()})
    points = [x for i in chosen for x in around(values[i : i + 2]) if abs(x) < values[-1]]
    got = mm.round_to(np.array([float(x) for x in points]), fmt, direction, "inf")
    for x, d in zip(points, got.astype(np.float64).tolist(), strict=True):
        wanted = rounded_exactly(x, values, direction)
        if abs(wanted) == values[-1]:
            assert d == (np.inf if x > 0 else -np.inf), float(x)
        else:
            assert Fraction(d) == wanted, (float(x), d)


@pytest.mark.parametrize("name", ["xf32", "tf32", "fp32"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rounding_to_32_bit_storage_is_exact(name, direction):
    fmt = mm.get_format(name)
    rng = np.random.default_rng(9)
    x = np.ldexp(rng.uniform(1, 2, 400), rng.integers(-150, 127, 400)) * rng.choice([-1, 1], 400)
    got = mm.round_to(x, fmt, direction)
    assert got.dtype == np.float32
    assert not (got.view(np.uint32) & ((1 << fmt.ignored_bits) - 1)).any()
    for value, d in zip(x.tolist(), got.astype(np.float64).tolist(), strict=True):
        exponent = max(int(np.frexp(value)[1]) - 1, fmt.emin)
        quantum = Fraction(2) ** (exponent - fmt.fraction_bits)
        error = (Fraction(d) - Fraction(value)) / quantum
        assert (Fraction(d) / quantum).denominator == 1
        allowed = {
            "rne": abs(error) <= Fraction(1, 2),
            "rtz": abs(d) <= abs(value) and abs(error) < 1,
            "rd": -1 < error <= 0,
            "ru": 0 <= error < 1,
        }
        assert allowed[direction], (value, d)


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_rounding_to_nearest_is_that_of_ml_dtypes(fmt):
    rng = np.random.default_rng(10)
    low, high = fmt.emin - fmt.precision - 1, fmt.emax + 2
    x = np.ldexp(rng.uniform(1, 2, 20000), rng.integers(low, high, 20000))
    x[::3] = np.round(x[::3] * 2.0**12) * 2.0**-12
    x *= rng.choice([-1, 1], x.size)
    ours = mm.encode(x, fmt, "rne", "inf" if fmt.has_inf else "nan")
    with np.errstate(over="ignore"):
        theirs = x.astype(fmt.dtype).view(fmt.code_dtype)
    nan = is_nan(theirs, fmt)
    assert np.array_equal(is_nan(ours, fmt), nan)
    assert np.array_equal(ours[~nan], theirs[~nan])


def test_rounding_is_done_once():
    x = 1 + 2.0**-8 + 2.0**-40
    assert float(mm.round_to(x, "bf16")) == 1.0078125
    # By way of float32 the tie of 1 and 1.0078125 would go to the even one.
    assert float(mm.round_to(np.float32(x), "bf16")) == 1.0
    assert float(mm.round_to(1 + 2.0**-11 + 2.0**-40, "fp16")) == 1 + 2.0**-10


@pytest.mark.parametrize(
    ("name", "x", "overflow", "expected"),
    [
        ("fp16", 65519.99, None, 65504.0),
        ("fp16", 65520.0, "inf", np.inf),
        ("fp16", -1e9, "inf", -np.inf),
        ("fp16", 1e9, "saturate", 65504.0),
        ("fp16", 1e9, "nan", np.nan),
        ("e4m3fn", 464.0, None, 448.0),
        ("e4m3fn", 464.1, "nan", np.nan),
        ("e4m3fn", np.inf, "saturate", 448.0),
        ("e4m3fnuz", -500.0, "saturate", -240.0),
        ("e5m2fnuz", 1e9, "nan", np.nan),
        ("e5m2", np.inf, None, np.inf),
        ("fp32", 1e39, "inf", np.inf),
    ],
)
def test_overflow(name, x, overflow, expected):
    same_values(mm.round_to([x], name, "rne", overflow).astype(np.float64), np.array([expected]))


@pytest.mark.parametrize(
    ("name", "x", "overflow", "complaint"),
    [
        ("fp16", 65520.0, None, r"element \(0,\) .* overflows fp16, whose largest value is 65504"),
        ("e4m3fn", 1e9, None, "overflow='saturate', 'nan'$"),
        ("e4m3fn", np.inf, None, "overflows e4m3fn"),
        ("e4m3fnuz", 1.0, "inf", "has no infinities"),
        ("fp16", 1.0, "wrap", "unknown overflow 'wrap'; known: inf"),
    ],
)
def test_overflow_is_never_silent(name, x, overflow, complaint):
    with pytest.raises(ValueError, match=complaint):
        mm.round_to([x], name, "rne", overflow)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_a_single_number_is_no_special_case(fmt):
    one = mm.encode(1.0, fmt)
    assert one.shape == ()
    assert mm.decode(one, fmt) == 1.0
    assert np.isnan(mm.decode(mm.encode(np.nan, fmt), fmt))
    if fmt.has_inf:
        assert mm.decode(mm.encode(-np.inf, fmt), fmt) == -np.inf
    assert float(mm.round_to(1.0, fmt)) == 1.0


def test_signs_of_zeros():
    x = np.array([-0.0, -1e-30, 1e-30])
    assert mm.encode(x, "fp16").tolist() == [0x8000, 0x8000, 0x0000]
    # There is no -0 in FNUZ formats: its code is the NaN.
    assert mm.encode(x, "e4m3fnuz").tolist() == [0, 0, 0]
    assert mm.encode([np.nan], "e4m3fnuz").tolist() == [0x80]


def test_nan_that_lies_only_in_ignored_bits_stays_a_nan():
    codes = np.array([0x7F800001, 0x7F800000, 0x3F801FFF], np.uint32)
    for name in ("xf32", "tf32"):
        values = mm.decode(codes, name)
        assert np.isnan(values[0])
        assert values[1:].tolist() == [np.inf, 1.0]


# --- the host's float unit ----------------------------------------------------------------------


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_codes_do_not_change_when_the_host_flushes_subnormals(fmt):
    codes = codes_of(fmt)
    values = mm.decode(codes, fmt)
    with flushed_subnormals():
        flushed_values = mm.decode(codes, fmt)
        again = mm.encode(values, fmt)
    same_values(flushed_values, values)
    nan = is_nan(codes, fmt)
    assert np.array_equal(again[~nan], codes[~nan])


@pytest.mark.parametrize("name", ["fp32", "fp64"])
def test_subnormals_survive_when_the_host_flushes_them(name):
    fmt = mm.get_format(name)
    codes = np.array([1, 3, 1 << (fmt.fraction_bits - 1), fmt.sign_mask | 1], fmt.code_dtype)
    values = mm.decode(codes, fmt)
    with flushed_subnormals():
        assert np.array_equal(mm.encode(values, fmt), codes)
        decoded = mm.decode(codes, fmt)
    same_values(decoded, values)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_a_bare_8_bit_name_is_an_error_that_lists_both(name):
    with pytest.raises(ValueError, match=r"ambiguous.*e4m3fnuz or e5m2fnuz.*e4m3fn or e5m2"):
        mm.get_format(name)


def test_other_refusals():
    with pytest.raises(ValueError, match="unknown format 'fp17'; known: fp64, fp32"):
        mm.get_format("fp17")
    with pytest.raises(ValueError, match="unknown rounding 'up'; known: rne, rtz, rd, ru"):
        mm.round_to([1.0], "fp16", "up")
    with pytest.raises(ValueError, match="a code of e5m2 has 8 bits"):
        mm.decode([256], "e5m2")
    with pytest.raises(TypeError, match="codes are unsigned integers"):
        mm.decode([1.0], "e5m2")
    with pytest.raises(TypeError, match="real numbers"):
        mm.round_to([1j], "fp16")
    with pytest.raises(ValueError, match="does not fit float64"):
        mm.round_to([2**53 + 1], "fp16", overflow="inf")


def test_formats_are_found_by_name():
    for name, fmt in FORMATS.items():
        assert mm.get_format(name) is fmt
        assert str(fmt) == name
        assert fmt.specials in Specials
