"""Fast kernels of exact sums, pairwise sums and FMA chains, bit for bit.

The general kernel, which integers alone make, is the judge of random rows; the reference that of
directed ones.
"""

import numpy as np
import pytest
from _records import NAN, arithmetic, operands, random_codes

from mfmamodels import kernels, reference
from mfmamodels.accumulation import ExactSum, FmaChain, PairwiseSum
from mfmamodels.formats import decode, encode
from mfmamodels.kernels import chain, driver, exact, general, pairwise

RECORDS = {
    "exact-fp16": arithmetic("fp16", "fp16", "fp32", ExactSum(4)),
    "exact-bf16": arithmetic("bf16", "bf16", "fp32", ExactSum(2)),
    "exact-8bit": arithmetic("e4m3fn", "e5m2fnuz", "fp32", ExactSum(16)),
    "exact-fp32": arithmetic("fp32", "fp32", "fp32", ExactSum(2)),
    "exact-mixed": arithmetic("fp16", "bf16", "fp32", ExactSum(2)),
    "exact-single": arithmetic("bf16", "fp32", "fp32", ExactSum(1)),
    "pairwise-fp16": arithmetic("fp16", "fp16", "fp32", PairwiseSum(4)),
    "pairwise-bf16": arithmetic("bf16", "bf16", "fp32", PairwiseSum(2)),
    "pairwise-bf16_1k": arithmetic("bf16", "bf16", "fp32", PairwiseSum(4)),
    "pairwise-mixed": arithmetic("fp16", "xf32", "fp32", PairwiseSum(8)),
    "pairwise-unflushed": arithmetic("bf16", "fp32", "fp32", PairwiseSum(4, flush=False)),
    "pairwise-8bit": arithmetic("e5m2fnuz", "fp16", "fp32", PairwiseSum(1)),
    "chain-fp32": arithmetic("fp32", "fp32", "fp32", FmaChain()),
    "chain-fp64": arithmetic("fp64", "fp64", "fp64", FmaChain()),
    "chain-narrow": arithmetic("fp16", "e4m3fn", "fp32", FmaChain()),
}
# One product cannot be half an ulp and a small distance at once.
SUMS = [name for name in RECORDS if name.startswith("exact") and name != "exact-single"]
PAIRWISE = [name for name in RECORDS if name.startswith("pairwise")]
# Formats whose products can be subnormal.
FLUSHING = ["pairwise-bf16", "pairwise-bf16_1k", "pairwise-mixed"]


def assert_same(record, a, b, c, got, wanted):
    """Compare elements of a matrix (a by rows, b by columns) or of dot products."""
    wrong = np.argwhere(got != wanted)
    message = f"{len(wrong)} of {got.size} differ"
    for place in wrong[:3]:
        x, y = (a[place[0]], b[:, place[1]]) if got.ndim == 2 else (a[place[0]], b[place[0]])
        message += (
            f"\n{place}: a={[hex(v) for v in x]} b={[hex(v) for v in y]} "
            f"c={0 if c is None else int(c[tuple(place)]):#x} "
            f"expected={wanted[tuple(place)]:#x} got={got[tuple(place)]:#x}"
        )
    assert not len(wrong), f"{record}\n{message}"


def check_gemm(record, a, b, c):
    wanted = np.empty((a.shape[0], b.shape[1]), record.out.code_dtype)
    got = np.empty_like(wanted)
    general.gemm(record, a, b, c, wanted)
    kernels.gemm(record, a, b, c, got)
    assert_same(record, a, b, c, got, wanted)


def check_dots(record, a, b, c, judge=general):
    wanted = np.empty(len(a), record.out.code_dtype)
    got = np.empty_like(wanted)
    judge.dots(record, a, b, c, wanted)
    kernels.dots(record, a, b, c, got)
    assert_same(record, a, b, c, got, wanted)
    matrix = np.empty((len(a), 1), record.out.code_dtype)
    for i in range(min(len(a), 40)):  # the same rows as matrices of one element
        kernels.gemm(record, a[i : i + 1], b[i : i + 1].T, c[i : i + 1, None], matrix[i : i + 1])
    assert np.array_equal(matrix[:40, 0], wanted[:40])


@pytest.mark.parametrize("name", RECORDS)
def test_these_records_have_a_fast_kernel(name):
    assert kernels.fast_kernel(RECORDS[name]) is not None


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("seed", range(3))
def test_random_matrices_equal_the_general_kernel(name, seed):
    record = RECORDS[name]
    rng = np.random.default_rng(seed)
    for _ in range(6):
        m, k, n = (int(x) for x in rng.integers(1, 40, 3))
        if rng.random() < 0.3:
            k += 250  # several panels
        a, b, _ = operands(rng, record, max(m, n), k)
        c = operands(rng, record, m * n, 1)[2].reshape(m, n)
        check_gemm(record, a[:m], b[:n].T, c if rng.random() < 0.7 else None)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("seed", range(3))
def test_random_dots_equal_the_general_kernel(name, seed):
    record = RECORDS[name]
    rng = np.random.default_rng([7, seed])
    for k in (1, 3, 16, 37, 150):
        check_dots(record, *operands(rng, record, 130, k))


def values(rng, record, m, k, n, scale=1.0):
    """Normal deviates: what sums look like in practice, all ways of a kernel among them."""
    a = encode(rng.standard_normal((m, k)) * scale, record.a, overflow="saturate")
    return a, encode(rng.standard_normal((k, n)), record.b, overflow="saturate")


@pytest.mark.parametrize("name", RECORDS)
def test_matrices_of_ordinary_numbers(name):
    """Large enough that whole tiles, rows and columns of a panel go every way there is."""
    record = RECORDS[name]
    rng = np.random.default_rng(11)
    for scale in (1.0, 2.0**-14, 2.0**12):
        a, b = values(rng, record, 71, 260, 75, scale)
        a[::13] = random_codes(rng, record.a, a[::13].shape, 12.0, 0.0)
        check_gemm(record, a, b, None)
        c = encode(rng.standard_normal((71, 75)) * 2.0**-20, record.out)
        check_gemm(record, a, b, c)


def special_pairs(record):
    """Every pair of two special or extreme codes, with every c."""
    codes = []
    for fmt in (record.a, record.b, record.out):
        least_normal = 1 << (fmt.fraction_bits + fmt.ignored_bits)
        unit = 1 << fmt.ignored_bits
        magnitudes = [0, unit, least_normal - unit, least_normal, fmt.max_code]
        one = int(encode(np.ones(1), fmt)[0])
        magnitudes += [one, one + unit, fmt.nan_code & (fmt.sign_mask - 1)]
        magnitudes += [fmt.inf_code] if fmt.has_inf else []
        both = magnitudes + [m | fmt.sign_mask for m in magnitudes]
        codes.append(np.array(both, np.uint64).astype(fmt.code_dtype))
    grid = np.meshgrid(*codes, indexing="ij")
    return [x.ravel() for x in grid]


@pytest.mark.parametrize("name", RECORDS)
def test_specials_and_extremes_equal_the_reference(name):
    record = RECORDS[name]
    rng = np.random.default_rng(3)
    a, b, c = special_pairs(record)
    chosen = rng.permutation(len(a))[:400]
    others = rng.permutation(len(a))[:400]
    rows = [np.stack([x[chosen], x[others], x[chosen[::-1]]], 1) for x in (a, b)]
    check_dots(record, *rows, c[chosen], judge=reference)


@pytest.mark.parametrize("name", RECORDS)
def test_specials_in_a_matrix_stay_in_their_row_and_column(name):
    record = RECORDS[name]
    rng = np.random.default_rng(4)
    a, b = values(rng, record, 20, 40, 33)
    c = encode(rng.standard_normal((20, 33)), record.out)
    nan = record.a.nan_code
    a[3, 5], a[7, 0], a[7, 39] = nan, record.a.max_code, record.a.sign_mask - 1
    b[2, 8] = record.b.nan_code
    c[0, 0], c[19, 32] = NAN[record.out.name], record.out.inf_code
    check_gemm(record, a, b, c)


@pytest.mark.parametrize("name", SUMS)
def test_exact_sums_beside_rounding_boundaries(name):
    """A sum half an ulp from c, but for a product up to 2**-60 of it or its opposite."""
    record = RECORDS[name]
    n = record.accumulation.n_fma
    rng = np.random.default_rng(21)
    rows = 3000
    exponent = rng.integers(-6, 7, rows)
    significand = rng.integers(1 << 23, 1 << 24, rows)
    c = np.ldexp(significand.astype(float), exponent) * rng.choice([-1, 1], rows)
    a, b = np.zeros((2, rows, n))
    a[:, 0], b[:, 0] = rng.choice([-1, 1], rows), np.ldexp(0.5, exponent)
    # The smallest products that the formats leave, and larger ones.
    lowest = record.a.emin + record.b.emin
    size = rng.integers(max(lowest + 2, -60), 0, rows)
    half = np.clip(size // 2, record.a.emin, 0)
    other = np.clip(size - half, record.b.emin, 0)
    a[:, 1] = np.ldexp(rng.choice([-1.0, 1.0, 1.5, -1.25], rows), half)
    b[:, 1] = np.ldexp(1.0, other)
    order = rng.permutation(n)
    codes = [encode(x[:, order], fmt) for x, fmt in ((a, record.a), (b, record.b))]
    check_dots(record, *codes, encode(c, record.out))
    check_dots(record, *(x[:60] for x in codes), encode(c, record.out)[:60], judge=reference)


def test_float64_alone_would_fail_the_rows_beside_boundaries():
    """Such rows tell a plain float64 sum from an exact one, so the test above means something."""
    record = RECORDS["exact-fp16"]
    a = encode(np.array([[2.0**10, 2.0**-24, 0, 0]]), record.a)
    b = encode(np.array([[0.5, 2.0**-24, 0, 0]]), record.b)
    c = encode(np.array([2.0**33]), record.out)
    out = np.empty(1, np.uint32)
    kernels.dots(record, a, b, c, out)
    products = decode(a, record.a) * decode(b, record.b)
    assert out.view(np.float32)[0] == np.float32(2.0**33 + 2.0**10)
    assert np.float32(products.sum() + 2.0**33) == np.float32(2.0**33)


@pytest.mark.parametrize("name", FLUSHING)
def test_flushes_happen_after_rounding(name):
    """A result that rounds up to the smallest normal number is not subnormal."""
    record = RECORDS[name]
    least = record.out.min_normal
    x = 2.0 ** max(record.a.emin, -100)
    rows = []
    for factor in (1 - 2.0**-7, 1.0, 1 + 2.0**-7, 1 - 2.0**-10):
        for c in (0.0, least, -least, 1.5 * least, least * (1 - 2.0**-23)):
            rows.append((factor, c))
            rows.append((-factor, c))
    factor, c = np.array(rows).T
    a = np.zeros((len(rows), record.accumulation.n_fma))
    b = a.copy()
    a[:, 0] = x
    b[:, 0] = encode(factor * least / x, record.b).view(record.b.dtype).astype(float)
    a, b = encode(a, record.a), encode(b, record.b)
    check_dots(record, a, b, encode(c, record.out), judge=reference)


@pytest.mark.parametrize("name", PAIRWISE)
def test_small_numbers_are_flushed_as_the_general_kernel_does(name):
    record = RECORDS[name]
    rng = np.random.default_rng(17)
    at = max(-64, record.a.emin + 2)
    for spread in (1.0, 3.0):
        a = random_codes(rng, record.a, (40, 30), spread, 0.0, at)
        b = random_codes(rng, record.b, (30, 40), spread, 0.0, max(-62, record.b.emin + 2))
        c = random_codes(rng, record.out, (40, 40), 2 * spread, 0.0, -125)
        check_gemm(record, a, b, c)


def test_fp32_chain_is_fused():
    """Separate rounding of the product would give 0."""
    record = RECORDS["chain-fp32"]
    x = encode(np.full((1, 1), 1 + 2.0**-12), record.a)
    c = encode(np.array([-(1 + 2.0**-11)]), record.out)
    out = np.empty(1, np.uint32)
    kernels.dots(record, x, x, c, out)
    assert out.view(np.float32)[0] == 2.0**-24


@pytest.mark.parametrize("name", RECORDS)
def test_a_sum_of_ones_is_k(name):
    record = RECORDS[name]
    for k in (33, 100, 1000):
        one = encode(np.ones((k, k)), record.a)[:70], encode(np.ones((k, k)), record.b)[:, :50]
        out = np.empty((one[0].shape[0], one[1].shape[1]), record.out.code_dtype)
        kernels.gemm(record, *one, None, out)
        assert (decode(out, record.out) == k).all()


@pytest.mark.parametrize(
    "record",
    [
        arithmetic("fp16", "fp16", "fp32", ExactSum(4, "rtz")),
        arithmetic("fp16", "fp16", "fp16", ExactSum(4)),
        arithmetic("bf16", "bf16", "fp32", ExactSum(4)),
        arithmetic("fp16", "fp16", "fp32", PairwiseSum(4, rounding="rd")),
        arithmetic("fp16", "fp16", "fp16", PairwiseSum(4)),
        arithmetic("fp32", "fp32", "fp32", FmaChain("ru")),
        arithmetic("fp16", "fp16", "fp16", FmaChain()),
        arithmetic("fp32", "fp64", "fp64", FmaChain()),
    ],
    ids=str,
)
def test_other_records_are_left_to_the_general_kernel(record):
    """What float instructions cannot do exactly must not be tried."""
    assert kernels.fast_kernel(record) is None
    rng = np.random.default_rng(2)
    a, b, c = operands(rng, record, 20, 9)
    wanted = np.empty(20, record.out.code_dtype)
    got = np.empty_like(wanted)
    reference.dots(record, a, b, c, wanted)
    kernels.dots(record, a, b, c, got)
    assert np.array_equal(got, wanted)


def test_hosts_without_fma_get_the_same_bits(monkeypatch):
    """There the chain is left to the general kernel, and exact sums multiply and add apart."""
    rng = np.random.default_rng(6)
    for module in (chain, exact):
        monkeypatch.setattr(module, "has_fma", lambda: False)
    assert chain.kernel(RECORDS["chain-fp32"]) is None
    record = RECORDS["exact-bf16"]
    a, b = values(rng, record, 20, 60, 30)
    wanted, got = np.empty((2, 20, 30), np.uint32)
    general.gemm(record, a, b, None, wanted)
    driver.gemm(record, exact.kernel(record), a, b, None, got)
    assert np.array_equal(got, wanted)


def test_a_look_at_exponents_decides_nothing_but_speed():
    """Rows on both sides of every bound of the quick way of pairwise and exact sums."""
    rng = np.random.default_rng(12)
    for name in ("exact-fp16", "exact-bf16", "pairwise-bf16_1k"):
        record = RECORDS[name]
        for low in range(-60, 0, 3):
            a = random_codes(rng, record.a, (13, 20), 1.0, 0.0, max(low, record.a.emin + 1))
            b = random_codes(rng, record.b, (20, 17), 1.0, 0.0, max(low, record.b.emin + 1))
            a[:, 3], b[3] = encode(np.ones(13), record.a), encode(np.ones(17), record.b)
            check_gemm(record, a, b, None)
    assert pairwise.is_covered(record)
