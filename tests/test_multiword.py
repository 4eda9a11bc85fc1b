"""Splitting into words, products of words, references: against exact rational arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from _graded import exact_product, graded, normwise_error
from numpy.testing import assert_array_equal

import mfmamodels as mm
from applications._multiword_algorithm import (
    ORDERS,
    Engine,
    Way,
    exact_products,
    multiword_matmul,
    scaled_products,
    scales,
    split_pair,
    steps,
)
from applications._multiword_data import (
    independent_matrices,
)
from applications._multiword_reference import reference
from applications._multiword_split import (
    FP32_MAX,
    largest_magnitudes,
    scale_exponents,
    shifted,
    split,
    theta,
    word_values,
)
from mfmamodels.formats import decode, encode, get_format, round_to

FORMATS = ("fp16", "bf16", "e5m2")
TINY, HUGE = 5e-324, 1.7976931348623157e308


def words_bound(fmt, words, n):
    u = 2.0**-fmt.precision
    limit = theta(fmt, n)
    underflow = 4 * n**2 * (fmt.min_normal / limit + 2.0**-126 / limit**2)
    return (words + 1) * u**words + n * 2.0**-24 * words * (words + 1) / 2 + underflow


# --- scales ---


@pytest.mark.parametrize("limit", [65504.0, 57344.0, 1.5e16, 4.0])
def test_scaling_is_the_largest_power_of_two_within_the_limit(limit):
    near = [limit * 2.0**e for e in (-60, -3, 0, 5)]
    largest = [x for y in near for x in (np.nextafter(y, 0), y, np.nextafter(y, HUGE))]
    largest += [TINY, 3 * TINY, 2.0**-1022, HUGE, 1.0, 0.1]
    for x, exponent in zip(largest, scale_exponents(np.array(largest), limit), strict=True):
        scaled = Fraction(x) * Fraction(2) ** int(exponent)
        assert scaled <= limit < 2 * scaled, x


def test_scaling_leaves_zero_rows_alone():
    assert_array_equal(scale_exponents(np.zeros(3), 65504.0), [0, 0, 0])
    assert_array_equal(largest_magnitudes(np.empty((2, 0)), axis=1), [0, 0])


@pytest.mark.parametrize("n", [0, 1, 10, 10**6])
@pytest.mark.parametrize("name", FORMATS)
def test_theta_lets_no_sum_overflow(name, n):
    limit = theta(get_format(name), n)
    assert n * Fraction(limit) ** 2 <= Fraction(FP32_MAX) * (1 + Fraction(1, 2**50))
    assert limit <= get_format(name).max


# --- words ---


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("decades", [0, 5, 20])
@pytest.mark.parametrize("rounding", ["rne", "rtz"])
@pytest.mark.parametrize("name", FORMATS)
def test_words_and_residual_add_up_exactly(name, rounding, decades, columns):
    fmt, p = get_format(name), 3
    x = graded(3, 700, decades)  # longer than the kernel's chunks
    x[0, :9] = [0.0, -0.0, 1.0, -2.0, 1 + 2.0**-52, -(2 - 2.0**-52), 2.0**-11, 3e-9, 1e-30]
    x = x.T if columns else x
    exponents = scale_exponents(largest_magnitudes(x, 0 if columns else 1), theta(fmt, 700))
    codes = split(x, exponents, fmt, p, rounding, columns=columns)
    assert codes.shape == (p, *x.shape)
    rest = np.ldexp(x, exponents[None, :] if columns else exponents[:, None])
    for j in range(p):
        # The general rounding function is a second, independent way to the same words.
        expected = encode(np.ldexp(rest, fmt.precision * j), fmt, rounding)
        assert_array_equal(codes[j], expected)
        word = np.ldexp(decode(codes[j], fmt), -fmt.precision * j)
        exact = [
            Fraction(r) - Fraction(w) for r, w in zip(rest.flat[:50], word.flat[:50], strict=True)
        ]
        rest = rest - word
        assert exact == [Fraction(r) for r in rest.flat[:50]]
    last_place = 2.0 ** -(fmt.precision - 1) * np.maximum(np.abs(word), 2.0**fmt.emin)
    share = {"rne": 0.5, "rtz": 1.0}[rounding]
    # The last word's own place, unless an earlier word left nothing: then the residual is 0.
    bound = share * np.maximum(last_place, 2.0 ** (fmt.emin - fmt.precision * (p - 1)))
    assert (np.abs(rest) <= np.maximum(bound, last_place * 2.0**0)).all()


@pytest.mark.parametrize("name", FORMATS)
def test_words_stand_for_the_matrix_up_to_their_precision(name):
    fmt, p = get_format(name), 2
    x = graded(4, 50, 1)
    exponents = scale_exponents(largest_magnitudes(x, 1), theta(fmt, 50))
    for rounding, share in (("rne", 1.0), ("rtz", 2.0)):
        values = word_values(split(x, exponents, fmt, p, rounding), exponents, fmt)
        assert np.abs(values / x - 1).max() <= share**p * 2.0 ** (-fmt.precision * p)


def test_truncated_words_are_smaller_than_rounded_ones():
    fmt = get_format("fp16")
    x = np.array([[1 + 2.0**-11 + 2.0**-20, 1.0]])  # just above half way between two fp16 numbers
    zero = np.zeros(1, np.int64)
    assert decode(split(x, zero, fmt, 1, "rtz"), fmt)[0, 0, 0] == 1.0
    assert decode(split(x, zero, fmt, 1, "rne"), fmt)[0, 0, 0] == 1 + 2.0**-10


def test_an_unknown_rounding_of_words_is_refused():
    with pytest.raises(ValueError):
        split(np.ones((1, 1)), np.zeros(1, np.int64), get_format("fp16"), 1, "nearest")


@pytest.mark.parametrize("name", [*FORMATS, "e5m2fnuz"])
def test_shifting_every_code_rounds_as_the_rounding_function_does(name):
    fmt = get_format(name)
    codes = np.arange(1 << fmt.width, dtype=fmt.code_dtype)
    codes = codes[np.isfinite(decode(codes, fmt))]
    for shift in (0, 1, 2, fmt.precision, fmt.precision + 1, 2 * fmt.precision, 25, 60, 300):
        expected = encode(np.ldexp(decode(codes, fmt), -shift), fmt, "rne")
        assert_array_equal(shifted(codes, shift, fmt), expected)


# --- references ---


@pytest.mark.parametrize("decades", [0, 20])
@pytest.mark.parametrize("scale", [1.0, 1e290, 1e-290])
def test_the_reference_has_a_hundred_bits(decades, scale):
    a, b = graded(3, 130, decades) * scale, graded(130, 5, decades, seed=1)
    a[1, 65:] = -a[1, :65]  # one row cancels almost entirely
    b[65:] = b[:65] * (1 + 1e-12)
    left, right = scales(a, b, get_format("fp16"))
    ref = reference(a, b, left, right)
    for (i, row), j in itertools.product(enumerate(exact_product(a, b)), range(5)):
        power = Fraction(2) ** int(ref.exponents[i, j])
        error = abs(Fraction(ref.high[i, j]) + Fraction(ref.low[i, j]) - row[j] * power)
        assert error <= Fraction(float(ref.absolute[i, j])) / 2**100


def test_norms_beyond_the_range_of_binary64_do_not_hide_an_error():
    a, b = graded(3, 20, 2), graded(20, 3, 2, seed=1)
    errors = []
    for scale in (1.0, 2.0**1000, 2.0**-1000):
        x, y = a * scale, b * scale
        ref = reference(x, y, *scales(x, y, get_format("bf16")))
        errors.append(ref.normwise(ref.difference(ref.high * (1 + 2.0**-20))))
    assert errors[0] > 0
    assert errors[1:] == pytest.approx([errors[0]] * 2, rel=1e-12)


def test_errors_of_a_reference_are_measured_as_defined():
    a, b = graded(3, 20, 2), graded(20, 3, 2, seed=1)
    ref = reference(a, b, *scales(a, b, get_format("bf16")))
    off = np.arange(9.0).reshape(3, 3)
    difference = ref.difference(ref.high + np.ldexp(off, ref.exponents))
    norm = np.abs(a).sum(1).max() * np.abs(b).sum(1).max()
    assert ref.normwise(difference) == pytest.approx(off.sum(1).max() / norm, rel=1e-10)
    expected = (off / (np.abs(a) @ np.abs(b))).max()
    assert ref.componentwise(difference) == pytest.approx(expected, rel=1e-10)


# --- products of words ---


def test_products_are_made_in_the_published_order():
    assert steps(3) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    falling = [sum(step) for step in steps(4, "smallest first")]
    assert falling == sorted(falling, reverse=True)
    for p, order in itertools.product(range(1, 7), ORDERS):
        assert len(set(steps(p, order))) == p * (p + 1) // 2
    with pytest.raises(ValueError, match="known: largest first"):
        steps(2, "at random")


@pytest.mark.parametrize("order", ORDERS)
def test_numbers_of_words_computed_together_equal_those_computed_apart(order):
    core, fmt = mm.core("B200/fp16"), get_format("fp16")
    words = split_pair(*independent_matrices(1, "test", 100, 0, 20), fmt, 3)
    engines, way = [Engine("core", core.matmul, fmt)], Way(order)
    together = scaled_products(words, [1, 2, 3], engines, way)
    exact = exact_products(words, [1, 2, 3], order)
    for p in (1, 2, 3):
        assert_array_equal(together[p][0], scaled_products(words, [p], engines, way)[p][0])
        assert_array_equal(exact[p], exact_products(words, [p], order)[p])


@pytest.mark.parametrize(("name", "p"), [("fp16", 3), ("e5m2", 6), ("e5m2fnuz", 5)])
def test_exact_products_are_those_of_the_scaled_words(name, p):
    """Against Fractions of the words as a core gets them, over more than one strip."""
    fmt, n = get_format(name), 2100
    words = split_pair(*independent_matrices(1, "test", n, 0, 10), get_format(name[:4]), p)
    words = words.converted(fmt)
    row, column = 3, 7
    expected = sum(
        Fraction(x) * Fraction(y)
        for j, k in steps(p)
        for x, y in zip(
            decode(shifted(words.a[j], fmt.precision * (j + k), fmt)[row], fmt).tolist(),
            decode(words.b[k][:, column], fmt).tolist(),
            strict=True,
        )
    )
    size = abs(decode(words.a[0][row], fmt)) @ abs(decode(words.b[0][:, column], fmt))
    got = exact_products(words, [p])[p][row, column]
    assert abs(Fraction(got) - expected) < Fraction(1, 2**45) * Fraction(size)


@pytest.mark.parametrize(
    ("name", "fmt"),
    [("MI100/fp16", "fp16"), ("MI250/bf16_1k", "bf16"), ("MI300X/e5m2fnuz", "e5m2")],
)
def test_kernels_and_definition_give_the_same_multiword_product(name, fmt):
    core = mm.core(name)
    a, b = graded(3, 37, 20), graded(37, 2, 20, seed=1)
    got = multiword_matmul(a, b, core.matmul, fmt, 2, inputs=core.a)
    expected = multiword_matmul(a, b, core.reference.matmul, fmt, 2, inputs=core.a)
    assert_array_equal(got, expected)


def test_a_product_of_words_by_hand():
    """Two words, written out with the public functions only."""
    core = mm.core("MI300X/fp16")
    a, b = graded(2, 24, 3), graded(24, 2, 3, seed=1)
    left, right = scales(a, b, core.a)
    x, y = np.ldexp(a, left[:, None]), np.ldexp(b, right[None, :])
    x1, y1 = (round_to(z, "fp16").astype(np.float64) for z in (x, y))
    x2, y2 = (round_to((z - w) * 2.0**11, "fp16") for z, w in ((x, x1), (y, y1)))
    lower = round_to(x1 * 2.0**-11, "fp16")
    c = core.matmul(x1, y1)
    c = core.matmul(lower, y2, c)
    c = core.matmul(round_to(x2.astype(np.float64) * 2.0**-11, "fp16"), y1, c)
    expected = np.ldexp(c.astype(np.float64), -(left[:, None] + right[None, :]))
    assert_array_equal(multiword_matmul(a, b, core.matmul, "fp16", 2), expected)


def test_converted_words_are_scaled_in_the_format_of_the_core():
    """u W of the smallest e5m2 word: zero there (a tie), the smallest number in e5m2fnuz."""
    e5m2, fnuz = get_format("e5m2"), get_format("e5m2fnuz")
    words = split_pair(np.ones((1, 2)), np.ones((2, 1)), e5m2, 1)
    words.a[0] = encode(np.array([[-(2.0**-14), 2.0**-15]]), e5m2)
    converted = words.converted(fnuz)
    assert_array_equal(decode(converted.a, fnuz), decode(words.a, e5m2))
    assert_array_equal(decode(shifted(words.a, 3, e5m2), e5m2), [[[-0.0, 0.0]]])
    assert_array_equal(decode(shifted(converted.a, 3, fnuz), fnuz), [[[-(2.0**-17), 0.0]]])


def test_separate_accumulators_and_promotion_by_hand():
    core, fmt = mm.core("B200/fp16"), get_format("fp16")
    words = split_pair(*independent_matrices(1, "test", 50, 0, 10), fmt, 2)
    engine = Engine("core", core.matmul, fmt)

    def product(j, k, part=slice(None)):
        left = shifted(words.a[j], 11 * (j + k), fmt)[:, part].view(np.float16)
        return core.matmul(left, words.b[k][part].view(np.float16))

    separate = scaled_products(words, [2], [engine], Way("separate"))[2][0]
    assert_array_equal(separate, product(0, 1) + product(1, 0) + product(0, 0))
    promoted = scaled_products(words, [1], [engine], Way(promotion=16))[1][0]
    parts = [product(0, 0, slice(start, start + 16)) for start in (0, 16, 32, 48)]
    assert_array_equal(promoted, ((parts[0] + parts[1]) + parts[2]) + parts[3])
    assert not np.array_equal(promoted, product(0, 0))


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("decades", [0, 1, 5, 10, 20])
@pytest.mark.parametrize("kind", ["plain", "cancelling", "badly scaled"])
def test_graded_products_stay_within_the_bound(kind, decades, words):
    fmt, n = get_format("fp16"), 48
    a, b = graded(3, n, decades), graded(n, 3, decades, seed=1)
    if kind == "cancelling":
        a[:, n // 2 :] = -a[:, : n // 2]
        b[n // 2 :] = b[: n // 2]
    elif kind == "badly scaled":
        a *= 10.0 ** np.array([[-150], [0], [120]])
        b *= 10.0 ** np.array([[-90, 0, 100]])
    c = multiword_matmul(a, b, mm.core("MI300X/fp16").matmul, fmt, words)
    assert normwise_error(c, a, b) <= words_bound(fmt, words, n)
    # Every row and column on its own: the scales keep small ones from drowning beside large ones.
    for i, j in itertools.product(range(3), range(3)):
        row, column = a[i : i + 1], b[:, j : j + 1]
        error = abs(Fraction(float(c[i, j])) - exact_product(row, column)[0][0])
        size = Fraction(float(np.abs(row).sum())) * Fraction(float(np.abs(column).max()))
        assert error <= size * Fraction(words_bound(fmt, words, n))


def test_scales_do_not_matter():
    core = mm.core("B200/fp16")
    a, b = graded(3, 40, 10), graded(40, 3, 10, seed=1)
    plain = multiword_matmul(a, b, core.matmul, "fp16", 2)
    huge = multiword_matmul(a * 2.0**900, b * 2.0**-950, core.matmul, "fp16", 2)
    assert_array_equal(huge, plain * 2.0**-50)
    overflowing = multiword_matmul(a * 2.0**900, b * 2.0**900, core.matmul, "fp16", 2)
    assert_array_equal(overflowing, np.copysign(np.inf, plain))
    tiny = multiword_matmul(a * 2.0**-900, b * 2.0**-900, core.matmul, "fp16", 2)
    assert_array_equal(tiny, 0 * plain)


def test_subnormal_rows_are_split_exactly():
    b = np.array([[2.0**1000], [2.0**1000], [2.0**999]])
    matmul = mm.core("MI100/fp16").matmul
    for last, words in ((1025, 1), (4097, 2)):  # 1025 has 11 bits, 4097 has 13
        a = np.array([[TINY, 3 * TINY, last * TINY]])
        exact = float(exact_product(a, b)[0][0])
        assert multiword_matmul(a, b, matmul, "fp16", words)[0, 0] == exact
    assert multiword_matmul(a, b, matmul, "fp16", 1)[0, 0] != exact


def test_zero_rows_give_zeros():
    a, b = graded(3, 10, 2), graded(10, 3, 2, seed=1)
    a[1], b[:, 2] = 0, 0
    c = multiword_matmul(a, b, mm.core("MI300X/fp16").matmul, "fp16", 2)
    assert_array_equal(c[1], [0, 0, 0])
    assert_array_equal(c[:, 2], [0, 0, 0])
    assert (c[[0, 2]][:, :2] != 0).all()


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3), (2, 4, 0), (0, 0, 0)])
def test_empty_matrices_give_what_numpy_gives(shape):
    m, n, q = shape
    c = multiword_matmul(np.ones((m, n)), np.ones((n, q)), mm.core("B200/bf16").matmul, "bf16", 2)
    assert_array_equal(c, np.ones((m, n)) @ np.ones((n, q)))


def test_one_product_is_as_good_as_its_words():
    for words in (1, 2, 3):
        c = multiword_matmul([[1 / 3]], [[0.1]], mm.core("MI300X/bf16").matmul, "bf16", words)
        bound = (words + 1) * 2.0 ** (-8 * words) + 2.0**-23
        assert abs(c[0, 0] / (1 / 3 * 0.1) - 1) <= bound


def test_inf_and_nan_spoil_their_rows_and_columns_only():
    core = mm.core("MI300X/e5m2fnuz")
    a, b = graded(4, 20, 2), graded(20, 4, 2, seed=1)
    clean = multiword_matmul(a, b, core.matmul, "e5m2", 2, inputs=core.a)
    a[0, 3], a[1, 5], b[7, 2], b[0, 3] = np.inf, np.nan, -np.inf, 0.0
    with np.errstate(invalid="ignore"):
        expected = a @ b
    c = multiword_matmul(a, b, core.matmul, "e5m2", 2, inputs=core.a)
    assert_array_equal(np.isfinite(c), np.isfinite(expected))
    assert_array_equal(c[~np.isfinite(c)], expected[~np.isfinite(expected)])
    assert_array_equal(c[2:, :2], clean[2:, :2])


@pytest.mark.parametrize(
    ("a", "b", "words", "message"),
    [
        (np.ones((2, 3)), np.ones((4, 2)), 1, r"given shapes \(2, 3\) and \(4, 2\)"),
        (np.ones(3), np.ones((3, 2)), 1, r"\(m, n\) and B \(n, q\)"),
        (np.ones((2, 3)), np.ones((3, 2)), 0, "words is 0"),
    ],
)
def test_wrong_arguments_are_named(a, b, words, message):
    with pytest.raises(ValueError, match=message):
        multiword_matmul(a, b, mm.core("B200/fp16").matmul, "fp16", words)
